//! The HTTP headers of a message, by its protocol version.

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// From this version on, headers repeat method and name; versions are dates and compare as text.
const NAMED_IN_HEADERS: &str = "2026-07-28";

/// The headers of a message; `negotiated` is the version from an earlier `initialize`.
pub(super) fn of(message: &Value, negotiated: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let method = message["method"].as_str().unwrap_or_default();
    let own = message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str();
    // An `initialize` offers a version in its body; a header would claim that it is settled.
    let version = own.or(negotiated.filter(|_| method != "initialize"));
    let Some(version) = version else { return headers };
    insert(&mut headers, VERSION, version);
    if version >= NAMED_IN_HEADERS {
        insert(&mut headers, METHOD, method);
        if let Some(name) = name_of(method, &message["params"]) {
            insert(&mut headers, NAME, name);
        }
    }
    headers
}

/// The name of the called tool, prompt or resource, where the protocol requires it.
fn name_of<'a>(method: &str, params: &'a Value) -> Option<&'a str> {
    let key = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => "uri",
        _ => return None,
    };
    params[key].as_str()
}

/// A value that no header can carry is omitted: the server then reports what is missing.
fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sent(message: &Value, negotiated: Option<&str>) -> Vec<(String, String)> {
        let headers = of(message, negotiated);
        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            (name.to_string(), value.to_str().unwrap().to_owned())
        };
        let mut sent: Vec<_> = headers.iter().map(text).collect();
        sent.sort();
        sent
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_first_message_of_the_older_era_claims_no_version_and_the_others_the_agreed_one() {
        let initialize = json!({"method": "initialize", "params": {"protocolVersion": "2025-06-18"}});
        assert_eq!(sent(&initialize, Some("2025-06-18")), pairs(&[]));
        let call = json!({"method": "tools/call", "params": {"name": "list_agents"}});
        assert_eq!(sent(&call, None), pairs(&[]));
        assert_eq!(sent(&call, Some("2025-06-18")), pairs(&[("mcp-protocol-version", "2025-06-18")]));
    }

    #[test]
    fn the_newer_era_tells_version_method_and_name_with_each_message() {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
        let call = json!({"method": "tools/call", "params": {"name": "list_agents", "_meta": meta}});
        let expected = [
            ("mcp-method", "tools/call"),
            ("mcp-name", "list_agents"),
            ("mcp-protocol-version", "2026-07-28"),
        ];
        assert_eq!(sent(&call, None), pairs(&expected));
    }
}
