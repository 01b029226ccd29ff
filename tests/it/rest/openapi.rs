//! The document and the server say the same: every operation is there, guarded, and answers as described.

use std::collections::BTreeSet;

use fleet_mcp::web;
use reqwest::Method;
use serde_json::{Value, json};

use super::Server;
use crate::harness::read;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi/fleet.json");
/// A way to say that the file is to follow the code.
const UPDATE: &str = "FLEET_UPDATE_OPENAPI";

struct Operation {
    method: Method,
    path: String,
    id: String,
    is_open: bool,
    /// The schema of the answer when all is well; none for what is not JSON.
    answer: Option<Value>,
}

fn operations(document: &Value) -> Vec<Operation> {
    let paths = document["paths"].as_object().unwrap().iter();
    let methods =
        paths.flat_map(|(path, item)| item.as_object().unwrap().iter().map(move |entry| (path, entry)));
    methods.map(|(path, (method, operation))| operation_of(path, method, operation)).collect()
}

fn operation_of(path: &str, method: &str, operation: &Value) -> Operation {
    let responses = operation["responses"].as_object().unwrap();
    let well = responses.iter().find(|(status, _)| status.starts_with('2')).unwrap().1;
    Operation {
        method: method.to_uppercase().parse().unwrap(),
        path: path.to_owned(),
        id: operation["operationId"].as_str().unwrap().to_owned(),
        is_open: operation.get("security").is_some_and(|security| *security == json!([{}])),
        answer: well.pointer("/content/application~1json/schema").cloned(),
    }
}

#[test]
fn the_document_in_the_repository_is_what_the_code_says() {
    let text = serde_json::to_string_pretty(&web::openapi()).unwrap() + "\n";
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(FILE, &text).unwrap();
    }
    let written = std::fs::read_to_string(FILE).unwrap_or_default();
    assert!(written == text, "openapi/fleet.json is not what the code says; run the tests with {UPDATE}=1");
}

#[test]
fn every_operation_has_one_name() {
    let document = json!(web::openapi());
    let lines = operations(&document).into_iter().map(|op| format!("{} {} {}", op.id, op.method, op.path));
    let lines: BTreeSet<String> = lines.collect();
    insta::assert_snapshot!("operations", lines.into_iter().collect::<Vec<_>>().join("\n"));
}

#[tokio::test]
async fn every_operation_is_served_under_its_name_and_needs_a_token() {
    let server = Server::start().await;
    // An unknown argument ends every call before any effect.
    let wrong = json!({ "no_such_argument": true });
    for operation in operations(&json!(web::openapi())) {
        let path = operation.path.replace("{name}", "nobody").replace("{id}", "7");
        let bare = read(server.bare(operation.method.clone(), &path)).await.unwrap();
        if operation.is_open {
            assert_eq!((bare.status, bare.body), (200, json!("ok")), "{}", operation.id);
            continue;
        }
        assert_eq!((bare.status, &bare.body["error"]), (401, &json!("missing_token")), "{}", operation.id);
        let request = server.request(operation.method.clone(), &path);
        let request =
            if operation.method == Method::POST { request.json(&wrong) } else { request.query(&wrong) };
        let reply = read(request).await.unwrap();
        let told = (reply.status, &reply.body["tool_name"], &reply.body["details"]["field"]);
        assert_eq!(told, (400, &json!(operation.id), &json!("no_such_argument")));
    }
}

#[tokio::test]
async fn answers_fit_their_schemas() {
    let server = Server::start().await;
    server.agent("otter").await;
    server.agent("heron").await;
    server.delete("/api/v1/agents/heron?wait_seconds=45").await;
    let rescues = server.get("/api/v1/rescues").await.body;
    let rescue = rescues["rescues"][0]["id"].as_str().unwrap();
    let document = json!(web::openapi());
    let mut n_checked = 0;
    for operation in operations(&document).iter().filter(|operation| operation.method == Method::GET) {
        let Some(schema) = &operation.answer else { continue };
        let reply = server.get(&operation.path.replace("{name}", "otter").replace("{id}", rescue)).await;
        assert_fits(&document, schema, &reply.body);
        n_checked += 1;
    }
    let problem = server.get("/api/v1/agents/nobody").await.body;
    assert_fits(&document, &json!({ "$ref": "#/components/schemas/ProblemBody" }), &problem);
    assert_eq!(n_checked, 16);
}

fn assert_fits(document: &Value, schema: &Value, value: &Value) {
    let mut schema = schema.clone();
    schema["components"] = document["components"].clone();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let faults: Vec<String> = validator.iter_errors(value).map(|fault| fault.to_string()).collect();
    assert_eq!(faults, Vec::<String>::new(), "{value}");
}

#[test]
fn an_agents_name_stands_in_the_path_alone() {
    let document = json!(web::openapi());
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let inputs = schemas.iter().filter(|(name, _)| name.ends_with("Input"));
    let named: Vec<_> =
        inputs.filter(|(_, schema)| schema["properties"].get("agent_name").is_some()).collect();
    assert_eq!(named, Vec::new());
    assert!(!document["paths"].to_string().contains("agent_name\""));
}
