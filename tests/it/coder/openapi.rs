//! `openapi/coder.json` and the client say the same, in both directions.

use std::collections::{BTreeMap, BTreeSet};

use fleet_mcp::coder::{AppRequest, OPERATIONS};
use serde_json::{Value, json};
use wiremock::{Request, ResponseTemplate};

use super::calls::{app_request, call};
use super::fixtures::{matched, recorded_calls};
use super::{AGENT_TOKEN, TOKEN, app, client, server};

/// The method name, HTTP method and path of one way to ask.
type Asked = (String, String, String);

fn document() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi/coder.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Every documented operation with the client methods that use it.
fn documented() -> BTreeMap<Asked, Value> {
    let mut all = BTreeMap::new();
    for (path, methods) in document()["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let own = json!([operation["operationId"]]);
            let names = operation.get("x-client-methods").unwrap_or(&own).as_array().unwrap();
            for name in names {
                let asked = (name.as_str().unwrap().to_owned(), method.to_uppercase(), path.clone());
                all.insert(asked, operation.clone());
            }
        }
    }
    all
}

/// Calls everything once and returns what the server saw, by operation.
async fn asked() -> BTreeMap<Asked, Request> {
    let server = server(ResponseTemplate::new(404).set_body_raw("<!doctype html>", "text/html")).await;
    let client = client(&server.uri());
    let mut all = BTreeMap::new();
    for operation in OPERATIONS {
        call(&client, operation.name, &[]).await.unwrap_err();
        if operation.name == "app_request" {
            app_request(&client, &app(), AppRequest::post("message", json!({}))).await.unwrap_err();
        }
        let requests = server.received_requests().await.unwrap();
        for request in requests.into_iter().skip(all.len()) {
            assert!(matched(operation.path, request.url.path()).is_some(), "{}", request.url);
            let asked = (operation.name.to_owned(), request.method.to_string(), operation.path.to_owned());
            assert!(all.insert(asked, request).is_none());
        }
    }
    all
}

#[tokio::test]
async fn the_document_lists_exactly_what_the_client_asks() {
    let documented: Vec<_> = documented().into_keys().collect();
    let listed = OPERATIONS.iter().flat_map(|operation| {
        let asked =
            |method: &http::Method| (operation.name.into(), method.to_string(), operation.path.into());
        operation.methods.iter().map(asked)
    });
    assert_eq!(documented, listed.collect::<BTreeSet<Asked>>().into_iter().collect::<Vec<_>>());
    assert_eq!(documented, asked().await.into_keys().collect::<Vec<_>>());
}

#[tokio::test]
async fn the_document_lists_exactly_the_parameters_and_bodies_we_send() {
    let document = document();
    let documented = documented();
    for (asked, request) in asked().await {
        let operation = &documented[&asked];
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        let in_query = parameters.iter().filter(|parameter| parameter["in"] == "query");
        let expected: BTreeSet<_> =
            in_query.map(|parameter| parameter["name"].as_str().unwrap().to_owned()).collect();
        let sent: BTreeSet<_> = request.url.query_pairs().map(|(key, _)| key.into_owned()).collect();
        assert_eq!(sent, expected, "{asked:?}");

        let schema = operation.pointer("/requestBody/content/application~1json/schema");
        assert_eq!(schema.is_some(), !request.body.is_empty(), "{asked:?}");
        if let Some(schema) = schema {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            assert_valid(&document, schema, &body, &asked.0);
            assert_eq!(keys(&body), properties(&document, schema), "{asked:?}");
        }
    }
}

#[tokio::test]
async fn tokens_travel_where_the_document_says_and_nowhere_else() {
    let documented = documented();
    for (asked, request) in asked().await {
        let header = |name| request.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        let found = (header("coder-session-token"), header("cookie"), header("authorization"));
        let expected = match documented[&asked]["security"].to_string().as_str() {
            "[]" => (None, None, None),
            r#"[{"sessionHeader":[]}]"# => (Some(TOKEN.to_owned()), None, None),
            r#"[{"sessionCookie":[]}]"# => (None, Some(format!("coder_session_token={TOKEN}")), None),
            r#"[{"agentHeader":[]}]"# => (Some(AGENT_TOKEN.to_owned()), None, None),
            other => panic!("{other} is no security we know"),
        };
        assert_eq!(found, expected, "{asked:?}");
        assert!(!request.url.as_str().contains(TOKEN) && !request.url.as_str().contains(AGENT_TOKEN));
    }
}

/// Recorded answers fit the schemas, and the fields that wire types read are exactly the documented ones.
#[tokio::test]
async fn the_document_lists_exactly_the_fields_we_read() {
    let document = document();
    let documented = documented();
    let mut seen = BTreeMap::new();
    for (operation, sent, read) in recorded_calls().await {
        let get = (operation.name.to_owned(), operation.methods[0].to_string(), operation.path.to_owned());
        let Some(schema) = response_schema(&documented[&get]) else { continue };
        assert_valid(&document, schema, &sent, operation.name);
        collect_keys(&document, schema, &read, &mut seen);
    }
    for (schema, keys) in seen {
        let expected = properties(&document, &json!({"$ref": format!("#/components/schemas/{schema}")}));
        let unread: BTreeSet<_> =
            UNRECORDED.iter().filter(|(of, _)| *of == schema).map(|(_, key)| (*key).to_owned()).collect();
        assert_eq!(keys.union(&unread).cloned().collect::<BTreeSet<_>>(), expected, "{schema}");
    }
}

/// Fields that we read but that no recording happens to contain.
const UNRECORDED: [(&str, &str); 2] = [("Job", "error_code"), ("App", "subdomain_name")];

fn response_schema(operation: &Value) -> Option<&Value> {
    let responses = operation["responses"].as_object().unwrap();
    let content = responses.iter().find(|(status, _)| status.starts_with('2'))?.1.get("content")?;
    content.as_object()?.values().next()?.get("schema").filter(|schema| schema.get("description").is_none())
}

fn assert_valid(document: &Value, schema: &Value, value: &Value, place: &str) {
    let mut whole = schema.as_object().unwrap().clone();
    whole.insert("components".to_owned(), document["components"].clone());
    let validator = jsonschema::validator_for(&Value::Object(whole)).unwrap();
    let problems: Vec<_> =
        validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert_eq!(problems, Vec::<String>::new(), "{place}");
}

/// Notes for every named schema which of its fields the value has.
fn collect_keys(
    document: &Value,
    schema: &Value,
    value: &Value,
    seen: &mut BTreeMap<String, BTreeSet<String>>,
) {
    if let (Some(options), false) = (schema.get("anyOf"), value.is_null()) {
        return collect_keys(document, &options[0], value, seen);
    }
    if let Some(items) = value.as_array() {
        return items.iter().for_each(|item| collect_keys(document, &schema["items"], item, seen));
    }
    let (Some(name), Some(fields)) = (schema_name(schema), value.as_object()) else { return };
    seen.entry(name.to_owned()).or_default().extend(keys(value));
    for (key, field) in fields {
        collect_keys(document, &document["components"]["schemas"][name]["properties"][key], field, seen);
    }
}

fn properties(document: &Value, schema: &Value) -> BTreeSet<String> {
    schema_name(schema)
        .map_or_else(BTreeSet::new, |name| keys(&document["components"]["schemas"][name]["properties"]))
}

fn schema_name(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix("#/components/schemas/")
}

fn keys(value: &Value) -> BTreeSet<String> {
    value.as_object().map(|fields| fields.keys().cloned().collect()).unwrap_or_default()
}
