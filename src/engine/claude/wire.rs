//! The lines Claude Code prints, as far as we read them; whatever is missing or new does no harm.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::engine::Spending;

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ClaudeLine {
    System(System),
    Assistant {
        message: Message,
        parent_tool_use_id: Option<String>,
    },
    StreamEvent {
        event: StreamEvent,
    },
    Result(Box<Outcome>),
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
pub(super) struct System {
    pub(super) subtype: String,
    pub(super) session_id: Option<String>,
    #[serde(default)]
    pub(super) mcp_servers: Vec<Server>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Server {
    pub(super) name: String,
    pub(super) status: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Message {
    #[serde(default)]
    pub(super) id: String,
    #[serde(default)]
    pub(super) model: String,
    #[serde(default)]
    pub(super) content: Vec<Block>,
    #[serde(default)]
    pub(super) usage: MessageTokens,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block {
    Text {
        text: String,
    },
    ToolUse {
        name: String,
        #[serde(default)]
        input: Value,
    },
    #[serde(other)]
    Other,
}

/// Parts of a message that the model is still writing.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum StreamEvent {
    MessageStart {
        message: Message,
    },
    MessageDelta {
        #[serde(default)]
        usage: MessageTokens,
    },
    #[serde(other)]
    Other,
}

/// Absent counts are unchanged: a later part of a message has only changed counts.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(super) struct MessageTokens {
    pub(super) input_tokens: Option<u64>,
    pub(super) cache_creation_input_tokens: Option<u64>,
    pub(super) cache_read_input_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Outcome {
    #[serde(default)]
    pub(super) subtype: String,
    #[serde(default)]
    pub(super) is_error: bool,
    pub(super) terminal_reason: Option<String>,
    pub(super) api_error_status: Option<u16>,
    pub(super) result: Option<String>,
    #[serde(default)]
    pub(super) errors: Vec<String>,
    pub(super) session_id: Option<String>,
    pub(super) total_cost_usd: Option<f64>,
    #[serde(default, rename = "modelUsage")]
    pub(super) model_usage: BTreeMap<String, ModelUsage>,
    #[serde(default)]
    pub(super) permission_denials: Vec<Denial>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ModelUsage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    #[serde(default)]
    cache_read_input_tokens: u64,
    #[serde(default)]
    cache_creation_input_tokens: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Denial {
    #[serde(default)]
    pub(super) tool_name: String,
}

impl Outcome {
    /// Usage of the whole conversation, over all its models and runs.
    pub(super) fn spending(&self) -> Spending {
        let models = self.model_usage.values().map(|model| Spending {
            input: model.input_tokens,
            cache_write: model.cache_creation_input_tokens,
            cache_read: model.cache_read_input_tokens,
            output: model.output_tokens,
            cost_usd: None,
        });
        let tokens = models.fold(Spending::default(), |sum, model| sum.plus(&model));
        Spending { cost_usd: self.total_cost_usd, ..tokens }
    }
}
