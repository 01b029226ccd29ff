//! Turns the lines of Claude Code into events and the outcome of a run.

use serde_json::Value;

use super::live::Live;
use super::wire::{Block, Line, Message, Outcome, StreamEvent, System};
use crate::domain::text;
use crate::engine::{Count, End, Event, Exit, FailureKind, Reader, Spending, Spent, failure};

const SESSION_LOST: &str = "No conversation found with session ID";
/// Enough to see what a tool is about to do.
const MAX_ACTION: usize = 160;

#[derive(Debug)]
pub(super) struct ClaudeReader {
    /// What the conversation had used before this run.
    before: Count,
    live: Live,
    /// What people have been told last.
    last: String,
    outcome: Option<Box<Outcome>>,
}

impl ClaudeReader {
    pub(super) fn new(before: Count) -> Self {
        Self { before, live: Live::default(), last: String::new(), outcome: None }
    }

    fn assistant(&mut self, message: Message) -> Vec<Event> {
        message.content.into_iter().filter_map(|block| self.block(block)).collect()
    }

    /// A whole message tells what it read, and of what it wrote at least a part.
    fn used(&mut self, message: &Message) -> Vec<Event> {
        let before = self.live.spending();
        if !message.id.is_empty() {
            self.live.begin(message);
        }
        if self.live.spending() == before { Vec::new() } else { vec![self.seen()] }
    }

    fn seen(&self) -> Event {
        let seen = self.live.spending();
        Event::Spent(Spent { run: seen.usage(), session: self.before.with(&seen) })
    }

    fn block(&mut self, block: Block) -> Option<Event> {
        match block {
            Block::Text { text } => {
                self.last.clone_from(&text);
                Some(Event::Text(text))
            }
            Block::ToolUse { name, input } => Some(Event::Text(action(&name, &input))),
            Block::Other => None,
        }
    }

    fn stream(&mut self, event: StreamEvent) -> Vec<Event> {
        match event {
            StreamEvent::MessageStart { message } => self.live.begin(&message),
            StreamEvent::MessageDelta { usage } => self.live.update(usage),
            StreamEvent::Other => return Vec::new(),
        }
        vec![self.seen()]
    }

    fn outcome(&mut self, outcome: Box<Outcome>) -> Vec<Event> {
        if is_lost(&outcome) {
            self.outcome = Some(outcome);
            return Vec::new();
        }
        let mut events: Vec<Event> = outcome.session_id.clone().map(Event::Session).into_iter().collect();
        let total = outcome.spending();
        let run = self.before.share(&total, &self.live.spending());
        let session = Count { told: total, unsettled: Spending::default() };
        events.push(Event::Spent(Spent { run: run.usage(), session }));
        events.extend(denials(&outcome).map(Event::Text));
        let text = last_words(&outcome);
        if !text.is_empty() && text != self.last {
            self.last.clone_from(&text);
            events.push(Event::Text(text));
        }
        self.outcome = Some(outcome);
        events
    }
}

impl Reader for ClaudeReader {
    fn line(&mut self, line: &str) -> Vec<Event> {
        match serde_json::from_str(line) {
            Ok(Line::System(system)) => started(&system),
            Ok(Line::Assistant { message, parent_tool_use_id }) => {
                let mut events = self.used(&message);
                // What helpers of the agent say among themselves is not its answer.
                if parent_tool_use_id.is_none() {
                    events.extend(self.assistant(message));
                }
                events
            }
            Ok(Line::StreamEvent { event }) => self.stream(event),
            Ok(Line::Result(outcome)) => self.outcome(outcome),
            Ok(Line::Other) | Err(_) => Vec::new(),
        }
    }

    fn is_over(&self) -> bool {
        self.outcome.is_some()
    }

    fn end(self: Box<Self>, exit: &Exit) -> End {
        match &self.outcome {
            Some(outcome) if is_lost(outcome) => End::SessionLost,
            Some(outcome) => end_of(outcome),
            None if exit.stderr.contains(SESSION_LOST) => End::SessionLost,
            None => failure::without_outcome(exit),
        }
    }
}

/// Told as a result where results are told line by line, else on standard error alone.
fn is_lost(outcome: &Outcome) -> bool {
    outcome.errors.iter().any(|error| error.contains(SESSION_LOST))
}

/// The first line: the conversation's id, and whether the fleet could be reached.
fn started(system: &System) -> Vec<Event> {
    if system.subtype != "init" {
        return Vec::new();
    }
    let broken = system.mcp_servers.iter().filter(|server| server.status == "failed");
    let told =
        broken.map(|server| Event::Text(format!("[the tools of '{}' cannot be reached]", server.name)));
    system.session_id.clone().map(Event::Session).into_iter().chain(told).collect()
}

/// One line about what a tool is about to do: the command, the file, or whatever comes first.
fn action(name: &str, input: &Value) -> String {
    let told = ["command", "file_path", "pattern"].iter().find_map(|key| input.get(key)?.as_str());
    let first = || input.as_object()?.values().find_map(Value::as_str);
    let told = told.or_else(first).unwrap_or_default();
    text::cut(format!("[{name}] {}", text::one_line(told)).trim_end(), MAX_ACTION)
}

fn denials(outcome: &Outcome) -> Option<String> {
    let mut tools: Vec<&str> =
        outcome.permission_denials.iter().map(|denial| denial.tool_name.as_str()).collect();
    tools.sort_unstable();
    tools.dedup();
    (!tools.is_empty()).then(|| format!("[not permitted: {}]", tools.join(", ")))
}

/// Errors of the API call themselves a success; only `is_error` tells.
fn end_of(outcome: &Outcome) -> End {
    let text = last_words(outcome);
    if !outcome.is_error {
        return End::Complete { text };
    }
    let is_budget = outcome.terminal_reason.as_deref() == Some("budget_exhausted")
        || outcome.subtype == "error_max_budget_usd";
    let kind = match outcome.api_error_status {
        _ if is_budget => FailureKind::Budget,
        Some(401 | 403) => FailureKind::Auth,
        Some(429) => FailureKind::UsageLimit,
        Some(_) | None => failure::kind_of(&text),
    };
    End::Failed { kind, text }
}

fn last_words(outcome: &Outcome) -> String {
    match &outcome.result {
        Some(text) => text.clone(),
        None if outcome.errors.is_empty() => outcome.subtype.clone(),
        None => outcome.errors.join("; "),
    }
}
