//! The script as Codex hears it: the events of `/v1/responses`.

use serde_json::{Value, json};

use super::{Act, fresh_id, text_of};

pub(super) fn events(act: Act) -> Vec<Value> {
    let item = match act {
        Act::Say(text) => json!({
            "type": "message", "role": "assistant", "id": fresh_id("msg"),
            "content": [{ "type": "output_text", "text": text }],
        }),
        Act::Shell(command) => call("exec_command", &json!({ "cmd": command })),
        Act::Fleet { server, tool, arguments } => {
            let mut item = call(tool, &arguments);
            item["namespace"] = json!(server);
            item
        }
    };
    let id = fresh_id("resp");
    let usage = json!({
        "input_tokens": 10, "input_tokens_details": { "cached_tokens": 0 },
        "output_tokens": 5, "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": 15,
    });
    vec![
        json!({ "type": "response.created", "response": { "id": id } }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
        json!({ "type": "response.completed", "response": { "id": id, "usage": usage } }),
    ]
}

fn call(tool: &str, arguments: &Value) -> Value {
    json!({
        "type": "function_call", "id": fresh_id("fc"), "call_id": fresh_id("call"), "name": tool,
        "arguments": arguments.to_string(),
    })
}

pub(super) fn results(items: &[Value]) -> Vec<String> {
    let outputs = items.iter().filter(|item| item["type"] == "function_call_output");
    outputs.map(|item| text_of(&item["output"])).collect()
}
