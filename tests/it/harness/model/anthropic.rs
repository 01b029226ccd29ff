//! The script as Claude Code hears it: the events of `/v1/messages`.

use serde_json::{Value, json};

use super::{Act, fresh_id, text_of};

pub(super) fn events(act: Act, model: &Value) -> Vec<Value> {
    let (block, delta, stop) = match act {
        Act::Say(text) => {
            (json!({ "type": "text", "text": "" }), json!({ "type": "text_delta", "text": text }), "end_turn")
        }
        Act::Shell(command) => {
            call("Bash", &json!({ "command": command, "description": "as the script says" }))
        }
        Act::Fleet { server, tool, arguments } => call(&format!("{server}__{tool}"), &arguments),
    };
    let usage = json!({ "input_tokens": 10, "output_tokens": 1 });
    let message = json!({
        "id": fresh_id("msg"), "type": "message", "role": "assistant", "model": model, "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage,
    });
    vec![
        json!({ "type": "message_start", "message": message }),
        json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": stop, "stop_sequence": null },
            "usage": { "output_tokens": 5 } }),
        json!({ "type": "message_stop" }),
    ]
}

fn call(tool: &str, arguments: &Value) -> (Value, Value, &'static str) {
    let block = json!({ "type": "tool_use", "id": fresh_id("toolu"), "name": tool, "input": {} });
    (block, json!({ "type": "input_json_delta", "partial_json": arguments.to_string() }), "tool_use")
}

pub(super) fn results(messages: &Value) -> Vec<String> {
    let contents =
        messages.as_array().into_iter().flatten().filter_map(|message| message["content"].as_array());
    let blocks = contents.flatten().filter(|block| block["type"] == "tool_result");
    blocks.map(|block| text_of(&block["content"])).collect()
}
