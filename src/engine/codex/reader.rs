//! Turns the lines of Codex into events and the outcome of a run.

use std::path::PathBuf;

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::Value;

use super::wire::{CodexLine, Item, Recorded};
use crate::domain::text;
use crate::engine::price::{self, PRICES};
use crate::engine::{
    ConversationUsage, EngineEnd, EngineEvent, Exit, Reader, RunUsage, Session, SessionLog, Spending, failure,
};

const SESSION_LOST: &str = "no rollout found for thread id";
/// Enough to identify a command.
const MAX_ACTION: usize = 160;

#[derive(Debug)]
pub(super) struct CodexReader {
    sessions: PathBuf,
    /// The conversation's usage before this run, as we counted it.
    before: ConversationUsage,
    /// The same by Codex's own count, known once the log reaches the start of this run. For killed runs it may lack
    /// some or all of their usage.
    base: Option<Spending>,
    /// The last count of an earlier run in the log.
    earlier: Spending,
    /// Older lines of the log belong to earlier runs.
    since: Option<DateTime<Utc>>,
    /// The usage of this run so far.
    seen: Spending,
    model: String,
    thread: Option<String>,
    last: String,
    end: Option<TurnResult>,
}

/// The end of a turn. Errors before it may be temporary and do not count.
#[derive(Debug)]
enum TurnResult {
    Completed { total: Spending },
    Failed(String),
}

impl CodexReader {
    /// The output names no model: `model` applies until the log names another.
    pub(super) fn new(sessions: PathBuf, session: &Session, model: Option<&str>) -> Self {
        let bare = Self {
            model: model.unwrap_or_default().to_owned(),
            ..Self::bare(sessions, session.usage_before())
        };
        match session {
            Session::Unnamed | Session::Fresh { .. } | Session::Created { .. } => {
                Self { base: Some(Spending::default()), ..bare }
            }
            Session::Resume { .. } => Self { since: Some(Utc::now()), ..bare },
        }
    }

    /// Reads only the session log of a thread, from `since` on.
    pub(super) fn of_record(sessions: PathBuf, thread: &str, since: DateTime<Utc>) -> Self {
        let bare = Self::bare(sessions, ConversationUsage::default());
        Self { thread: Some(thread.to_owned()), since: Some(since), ..bare }
    }

    fn bare(sessions: PathBuf, before: ConversationUsage) -> Self {
        Self {
            sessions,
            before,
            base: None,
            earlier: Spending::default(),
            since: None,
            seen: Spending::default(),
            model: String::new(),
            thread: None,
            last: String::new(),
            end: None,
        }
    }

    fn see(&mut self, seen: Spending) -> EngineEvent {
        self.seen = seen;
        let seen = self.priced(seen);
        EngineEvent::Usage(RunUsage { run: seen.usage(), session: self.before.with(&seen) })
    }

    fn count(&self, total: Spending) -> EngineEvent {
        let before = self.base.map_or(self.before, ConversationUsage::settled);
        let run = self.priced(before.share(&total, &self.seen));
        EngineEvent::Usage(RunUsage { run: run.usage(), session: ConversationUsage::settled(total) })
    }

    /// The log has reached this run. If the turn was completed before, its share of the total is known only now.
    fn begin(&mut self) -> Vec<EngineEvent> {
        if self.base.is_some() {
            return Vec::new();
        }
        self.base = Some(self.earlier);
        match self.end {
            Some(TurnResult::Completed { total }) => vec![self.count(total)],
            Some(TurnResult::Failed(_)) | None => Vec::new(),
        }
    }

    fn recorded(&mut self, recorded: &Recorded, total: Option<Spending>) -> Vec<EngineEvent> {
        // The total of a completed turn is final.
        if matches!(self.end, Some(TurnResult::Completed { .. })) {
            return Vec::new();
        }
        let grown = || Some(total?.since(&self.base.unwrap_or_default()));
        match recorded.run().map(|run| run.spending()).or_else(grown) {
            Some(seen) if seen.usage().tokens() > self.seen.usage().tokens() => vec![self.see(seen)],
            Some(_) | None => Vec::new(),
        }
    }

    fn priced(&self, spent: Spending) -> Spending {
        Spending { cost_usd: price::cost(PRICES, &self.model, &spent), ..spent }
    }

    fn completed(&mut self, item: Item) -> Vec<EngineEvent> {
        let text = match item {
            Item::AgentMessage { text } => {
                self.last.clone_from(&text);
                Some(text)
            }
            Item::FileChange { changes } => {
                let paths: Vec<String> = changes.into_iter().map(|change| change.path).collect();
                Some(action("edit", &paths.join(" ")))
            }
            Item::McpToolCall { tool, error: Some(error), .. } => Some(action(&tool, &error.message)),
            Item::McpToolCall { .. } | Item::CommandExecution { .. } | Item::Other => None,
        };
        text.map(EngineEvent::Text).into_iter().collect()
    }

    fn failed(&mut self, message: &str) -> Vec<EngineEvent> {
        let text = plain(message);
        let event = EngineEvent::Text(text.clone());
        self.end = Some(TurnResult::Failed(text));
        vec![event]
    }
}

impl Reader for CodexReader {
    fn line(&mut self, line: &str) -> Vec<EngineEvent> {
        match serde_json::from_str(line) {
            Ok(CodexLine::ThreadStarted { thread_id }) => {
                self.thread = Some(thread_id.clone());
                vec![EngineEvent::Session(thread_id)]
            }
            Ok(CodexLine::ItemStarted { item }) => begun(&item).map(EngineEvent::Text).into_iter().collect(),
            Ok(CodexLine::ItemCompleted { item }) => self.completed(item),
            Ok(CodexLine::TurnCompleted { usage }) => {
                let total = usage.spending();
                self.end = Some(TurnResult::Completed { total });
                vec![self.count(total)]
            }
            Ok(CodexLine::TurnFailed { error }) => self.failed(&error.message),
            Ok(CodexLine::Other) | Err(_) => Vec::new(),
        }
    }

    fn is_over(&self) -> bool {
        self.end.is_some()
    }

    fn end(self: Box<Self>, exit: &Exit) -> EngineEnd {
        match self.end {
            Some(TurnResult::Completed { .. }) => EngineEnd::Complete { text: self.last },
            Some(TurnResult::Failed(text)) => EngineEnd::Failed { kind: failure::kind_of(&text), text },
            None if exit.stderr.contains(SESSION_LOST) => EngineEnd::SessionLost,
            None => failure::without_outcome(exit),
        }
    }

    /// The output has usage only at the end of a turn; the session log has it after each step.
    fn session_log(&self) -> Option<SessionLog> {
        let thread = self.thread.as_ref()?;
        Some(SessionLog { root: self.sessions.clone(), ending: format!("{thread}.jsonl") })
    }

    fn session_log_line(&mut self, line: &str) -> Vec<EngineEvent> {
        let Ok(recorded) = serde_json::from_str::<Recorded>(line) else { return Vec::new() };
        if let Some(model) = recorded.model() {
            model.clone_into(&mut self.model);
        }
        let total = recorded.total().map(|total| total.spending());
        if self.since.is_some_and(|since| recorded.timestamp < since) {
            self.earlier = total.unwrap_or(self.earlier);
            return Vec::new();
        }
        let mut events = self.begin();
        events.extend(self.recorded(&recorded, total));
        events
    }
}

fn begun(item: &Item) -> Option<String> {
    match item {
        Item::CommandExecution { command } => Some(action("shell", command)),
        Item::McpToolCall { server, tool, .. } => Some(action(server, tool)),
        Item::AgentMessage { .. } | Item::FileChange { .. } | Item::Other => None,
    }
}

fn action(name: &str, text: &str) -> String {
    text::cut(format!("[{name}] {}", text::one_line(text)).trim_end(), MAX_ACTION)
}

/// The message in a JSON error, and the time when a limit resets.
fn plain(message: &str) -> String {
    let parsed: Option<Value> = serde_json::from_str(message).ok();
    let error = parsed.as_ref().and_then(|parsed| parsed.get("error"));
    let Some((error, text)) = error.and_then(|error| Some((error, error.get("message")?.as_str()?))) else {
        return message.to_owned();
    };
    let resets = error.get("resets_at").and_then(Value::as_i64);
    match resets.and_then(|seconds| DateTime::from_timestamp(seconds, 0)) {
        Some(time) => format!("{text}; resets at {}", time.to_rfc3339_opts(SecondsFormat::Secs, true)),
        None => text.to_owned(),
    }
}
