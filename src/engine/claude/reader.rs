//! Turns the lines of Claude Code into events and the outcome of a run.

use serde_json::Value;

use super::live::LiveUsage;
use super::wire::{Block, ClaudeLine, Message, Outcome, StreamEvent, System};
use crate::domain::text;
use crate::engine::{
    ConversationUsage, EngineEnd, EngineEvent, Exit, FailureKind, Reader, RunUsage, Spending, failure,
};

const SESSION_LOST: &str = "No conversation found with session ID";
/// Enough to identify the effect of a tool call.
const MAX_ACTION: usize = 160;

#[derive(Debug)]
pub(super) struct ClaudeReader {
    /// The conversation's usage before this run.
    before: ConversationUsage,
    live: LiveUsage,
    /// The last text shown to the user.
    last: String,
    outcome: Option<Box<Outcome>>,
}

impl ClaudeReader {
    pub(super) fn new(before: ConversationUsage) -> Self {
        Self { before, live: LiveUsage::default(), last: String::new(), outcome: None }
    }

    fn assistant(&mut self, message: Message) -> Vec<EngineEvent> {
        message.content.into_iter().filter_map(|block| self.block(block)).collect()
    }

    /// A complete message has its input tokens and at least a part of its output tokens.
    fn count_message(&mut self, message: &Message) -> Vec<EngineEvent> {
        let before = self.live.spending();
        if !message.id.is_empty() {
            self.live.begin(message);
        }
        if self.live.spending() == before { Vec::new() } else { vec![self.usage_so_far()] }
    }

    fn usage_so_far(&self) -> EngineEvent {
        let spending = self.live.spending();
        EngineEvent::Usage(RunUsage { run: spending.usage(), session: self.before.with(&spending) })
    }

    fn block(&mut self, block: Block) -> Option<EngineEvent> {
        match block {
            Block::Text { text } => {
                self.last.clone_from(&text);
                Some(EngineEvent::Text(text))
            }
            Block::ToolUse { name, input } => Some(EngineEvent::Text(action(&name, &input))),
            Block::Other => None,
        }
    }

    fn stream(&mut self, event: StreamEvent) -> Vec<EngineEvent> {
        match event {
            StreamEvent::MessageStart { message } => self.live.begin(&message),
            StreamEvent::MessageDelta { usage } => self.live.update(usage),
            StreamEvent::Other => return Vec::new(),
        }
        vec![self.usage_so_far()]
    }

    fn outcome(&mut self, outcome: Box<Outcome>) -> Vec<EngineEvent> {
        if is_lost(&outcome) {
            self.outcome = Some(outcome);
            return Vec::new();
        }
        let mut events: Vec<EngineEvent> =
            outcome.session_id.clone().map(EngineEvent::Session).into_iter().collect();
        let total = outcome.spending();
        let run = self.before.share(&total, &self.live.spending());
        let session = ConversationUsage { reported: total, unsettled: Spending::default() };
        events.push(EngineEvent::Usage(RunUsage { run: run.usage(), session }));
        events.extend(denials(&outcome).map(EngineEvent::Text));
        let text = answer_text(&outcome);
        if !text.is_empty() && text != self.last {
            self.last.clone_from(&text);
            events.push(EngineEvent::Text(text));
        }
        self.outcome = Some(outcome);
        events
    }
}

impl Reader for ClaudeReader {
    fn line(&mut self, line: &str) -> Vec<EngineEvent> {
        match serde_json::from_str(line) {
            Ok(ClaudeLine::System(system)) => started(&system),
            Ok(ClaudeLine::Assistant { message, parent_tool_use_id }) => {
                let mut events = self.count_message(&message);
                // Text of subagents is not part of the answer.
                if parent_tool_use_id.is_none() {
                    events.extend(self.assistant(message));
                }
                events
            }
            Ok(ClaudeLine::StreamEvent { event }) => self.stream(event),
            Ok(ClaudeLine::Result(outcome)) => self.outcome(outcome),
            Ok(ClaudeLine::Other) | Err(_) => Vec::new(),
        }
    }

    fn is_over(&self) -> bool {
        self.outcome.is_some()
    }

    fn end(self: Box<Self>, exit: &Exit) -> EngineEnd {
        match &self.outcome {
            Some(outcome) if is_lost(outcome) => EngineEnd::SessionLost,
            Some(outcome) => end_of(outcome),
            None if exit.stderr.contains(SESSION_LOST) => EngineEnd::SessionLost,
            None => failure::without_outcome(exit),
        }
    }
}

/// In stream format the result has the error; in text format only standard error does.
fn is_lost(outcome: &Outcome) -> bool {
    outcome.errors.iter().any(|error| error.contains(SESSION_LOST))
}

/// The first line has the conversation's id and the status of each MCP server.
fn started(system: &System) -> Vec<EngineEvent> {
    if system.subtype != "init" {
        return Vec::new();
    }
    let broken = system.mcp_servers.iter().filter(|server| server.status == "failed");
    let shown =
        broken.map(|server| EngineEvent::Text(format!("[the tools of '{}' cannot be reached]", server.name)));
    system.session_id.clone().map(EngineEvent::Session).into_iter().chain(shown).collect()
}

/// One line about a tool call: the command, the file, or else the first text argument.
fn action(name: &str, input: &Value) -> String {
    let shown = ["command", "file_path", "pattern"].iter().find_map(|key| input.get(key)?.as_str());
    let first = || input.as_object()?.values().find_map(Value::as_str);
    let shown = shown.or_else(first).unwrap_or_default();
    text::cut(format!("[{name}] {}", text::one_line(shown)).trim_end(), MAX_ACTION)
}

fn denials(outcome: &Outcome) -> Option<String> {
    let mut tools: Vec<&str> =
        outcome.permission_denials.iter().map(|denial| denial.tool_name.as_str()).collect();
    tools.sort_unstable();
    tools.dedup();
    (!tools.is_empty()).then(|| format!("[not permitted: {}]", tools.join(", ")))
}

/// After an API error `subtype` is still "success"; only `is_error` is reliable.
fn end_of(outcome: &Outcome) -> EngineEnd {
    let text = answer_text(outcome);
    if !outcome.is_error {
        return EngineEnd::Complete { text };
    }
    let is_budget = outcome.terminal_reason.as_deref() == Some("budget_exhausted")
        || outcome.subtype == "error_max_budget_usd";
    let kind = match outcome.api_error_status {
        _ if is_budget => FailureKind::Budget,
        Some(401 | 403) => FailureKind::Auth,
        Some(429) => FailureKind::UsageLimit,
        Some(_) | None => failure::kind_of(&text),
    };
    EngineEnd::Failed { kind, text }
}

fn answer_text(outcome: &Outcome) -> String {
    match &outcome.result {
        Some(text) => text.clone(),
        None if outcome.errors.is_empty() => outcome.subtype.clone(),
        None => outcome.errors.join("; "),
    }
}
