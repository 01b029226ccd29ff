//! Bad arguments: always an answer the model can read, naming the field, and never an effect.

use serde_json::{Value, json};

use super::client::{Era, Http};
use super::server::McpServer;
use crate::harness::{CoderStub, Pace};

fn n_writes(coder: &CoderStub) -> usize {
    coder.calls().iter().filter(|(call, _)| !call.starts_with("GET")).map(|(_, n)| n).sum()
}

/// Good arguments as far as types go; the agent they name does not exist.
fn well_typed(schema: &Value) -> Value {
    let mut arguments = json!({});
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().unwrap();
        let property = &schema["properties"][name];
        let is_list = property["type"] == "array";
        arguments[name] =
            if is_list { json!([well_typed(&property["items"])]) } else { json!("fleet_mcp_x") };
    }
    arguments
}

/// Values of other types than the property's own.
fn mistyped(property: &Value) -> Vec<Value> {
    let types = property["type"].to_string();
    let all = [
        ("string", json!("x")),
        ("integer", json!(1)),
        ("boolean", json!(true)),
        ("array", json!([1])),
        ("object", json!({ "a": 1 })),
    ];
    all.into_iter().filter(|(name, _)| !types.contains(name)).map(|(_, value)| value).collect()
}

#[tokio::test]
async fn each_wrong_argument_of_each_tool_is_named() {
    let server = McpServer::start(Pace::Instant).await;
    let client = Http::new(&server.url, "operator", Era::Stateless);
    let tools = client.ask("tools/list", json!({})).await["result"]["tools"].clone();
    let mut bad: Vec<(String, Value, String)> = Vec::new();
    for tool in tools.as_array().unwrap() {
        let (name, schema) = (tool["name"].as_str().unwrap(), &tool["inputSchema"]);
        let mut with = |field: &str, value: Value| {
            let mut arguments = well_typed(schema);
            arguments[field] = value;
            bad.push((name.to_owned(), arguments, field.to_owned()));
        };
        with("colour", json!("red"));
        for (field, property) in schema["properties"].as_object().unwrap() {
            mistyped(property).into_iter().for_each(|value| with(field, value));
        }
        for field in schema["required"].as_array().into_iter().flatten() {
            let mut arguments = well_typed(schema);
            arguments.as_object_mut().unwrap().remove(field.as_str().unwrap());
            bad.push((name.to_owned(), arguments, field.as_str().unwrap().to_owned()));
        }
    }
    for (tool, arguments, field) in bad {
        let told = client.call(&tool, arguments.clone()).await;
        let found = (&told["error"]["code"], told["error"]["details"]["field"].as_str().unwrap_or_default());
        assert_eq!(found.0, "INVALID_INPUT", "{tool} {arguments}: {told}");
        assert!(found.1 == field || found.1.starts_with(&format!("{field}[")), "{tool} {arguments}: {told}");
        assert_eq!(told["error"]["tool_name"], tool);
    }
    assert_eq!(n_writes(&server.scene.coder), 0);
}

#[tokio::test]
async fn arguments_that_are_no_object_are_refused_in_band_too() {
    let server = McpServer::start(Pace::Instant).await;
    for era in [Era::Sessions, Era::Stateless] {
        let client = Http::new(&server.url, "operator", era);
        for arguments in [json!([]), json!("x"), json!(3), json!(true)] {
            let told = client.call("list_agents", arguments).await;
            assert_eq!(told["error"]["code"], "INVALID_INPUT");
            assert_eq!(told["error"]["details"]["field"], "arguments");
        }
        assert!(client.call("list_agents", Value::Null).await["agents"].is_array());
    }
}
