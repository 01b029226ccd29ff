//! Who and what is let in: no principal, unknown tools.

use serde_json::json;

use super::client::{Era, Http};
use super::server::McpServer;
use crate::harness::Pace;

const ERAS: [Era; 2] = [Era::Sessions, Era::Stateless];

#[tokio::test]
async fn without_a_principal_nothing_is_listed_or_called() {
    let server = McpServer::start(Pace::Instant).await;
    for era in ERAS {
        let client = Http::new(&server.url, "ghost", era);
        for (method, params) in [
            ("tools/list", json!({})),
            ("tools/call", json!({ "name": "list_agents", "arguments": {} })),
            ("tools/call", json!({ "name": "list_agents", "arguments": [] })),
        ] {
            assert_eq!(client.ask(method, params).await["error"]["code"], -32603, "{method}");
        }
    }
}

#[tokio::test]
async fn only_an_unknown_tool_is_a_protocol_error() {
    let server = McpServer::start(Pace::Instant).await;
    for era in ERAS {
        let client = Http::new(&server.url, "operator", era);
        for arguments in [json!({}), json!([])] {
            let answer = client.ask("tools/call", json!({ "name": "fly", "arguments": arguments })).await;
            let expected = json!({ "code": -32602, "message": "there is no tool 'fly'" });
            assert_eq!(answer["error"], expected);
        }
    }
}

#[tokio::test]
async fn a_refused_call_is_audited_and_has_no_effect() {
    let server = McpServer::start(Pace::Instant).await;
    server.scene.running.create("one").await.unwrap();
    let client = Http::new(&server.url, "coding", Era::Sessions);
    let told = client.call("delete_agent", json!({ "agent_name": "one", "nonsense": 1 })).await;
    assert_eq!(told["error"]["code"], "FORBIDDEN");
    let page = fleet_mcp::domain::page::PageRequest::parse(1, 1).unwrap();
    let newest = server.scene.running.store.audit_page(page).await.unwrap().items.remove(0);
    let row = (newest.principal, newest.surface, newest.action, newest.target, newest.code);
    let text = |word: &str| word.to_owned();
    let expected =
        (text("coding"), text("mcp"), text("delete_agent"), Some(text("one")), Some(text("FORBIDDEN")));
    assert_eq!(row, expected);
    assert!(server.scene.running.status("one").is_some());
}

#[tokio::test]
async fn a_name_that_may_be_a_secret_or_a_flood_is_not_kept_in_the_trail() {
    let server = McpServer::start(Pace::Instant).await;
    let token = format!("fleet_{}", "0123456789abcdef".repeat(4));
    for (kind, code) in [("coding", "FORBIDDEN"), ("operator", "NOT_FOUND")] {
        let client = Http::new(&server.url, kind, Era::Stateless);
        for name in [token.clone(), "x".repeat(900_000), "another-agent".to_owned()] {
            let told = client.call("delete_agent", json!({ "agent_name": name })).await;
            assert_eq!(told["error"]["code"], code, "{told}");
        }
    }
    let page = fleet_mcp::domain::page::PageRequest::parse(1, 6).unwrap();
    let rows = server.scene.running.store.audit_page(page).await.unwrap().items;
    let rows: Vec<(String, Option<String>)> = rows.into_iter().map(|row| (row.action, row.target)).collect();
    let row = |target: Option<&str>| ("delete_agent".to_owned(), target.map(str::to_owned));
    let of_one = [row(Some("another-agent")), row(None), row(None)];
    assert_eq!(rows, of_one.clone().into_iter().chain(of_one).collect::<Vec<_>>());
}
