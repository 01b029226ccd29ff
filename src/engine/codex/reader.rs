//! Turns the lines of Codex into events and the outcome of a run.

use std::path::PathBuf;

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::Value;

use super::wire::{Item, Line, Recorded};
use crate::domain::text;
use crate::engine::price::{self, PRICES};
use crate::engine::{Count, End, Event, Exit, Reader, Session, SideFile, Spending, Spent, failure};

const SESSION_LOST: &str = "no rollout found for thread id";
/// Enough to see what a command is about to do.
const MAX_ACTION: usize = 160;

#[derive(Debug)]
pub(super) struct CodexReader {
    sessions: PathBuf,
    /// What the conversation had used before this run, as we counted.
    before: Count,
    /// The same as Codex counts, known once its record shows where this run begins. Of runs that were killed it
    /// has what was written down in time, which may be all, a part or nothing.
    base: Option<Spending>,
    /// The last count of earlier runs in the record.
    earlier: Spending,
    /// Lines of the record from before this are about earlier runs.
    since: Option<DateTime<Utc>>,
    /// What this run was seen to use.
    seen: Spending,
    model: String,
    thread: Option<String>,
    last: String,
    end: Option<Told>,
}

/// What Codex says about the end. Errors before it may be passing ones, and do not count.
#[derive(Debug)]
enum Told {
    Completed { total: Spending },
    Failed(String),
}

impl CodexReader {
    /// Its lines name no model: the one it was called with counts until its record tells another.
    pub(super) fn new(sessions: PathBuf, session: &Session, model: Option<&str>) -> Self {
        let bare =
            Self { model: model.unwrap_or_default().to_owned(), ..Self::bare(sessions, session.spent()) };
        match session {
            Session::Unnamed | Session::Fresh { .. } | Session::Opened { .. } => {
                Self { base: Some(Spending::default()), ..bare }
            }
            Session::Resume { .. } => Self { since: Some(Utc::now()), ..bare },
        }
    }

    /// Reads the record alone, of a run that began then in this thread.
    pub(super) fn of_record(sessions: PathBuf, thread: &str, since: DateTime<Utc>) -> Self {
        let bare = Self::bare(sessions, Count::default());
        Self { thread: Some(thread.to_owned()), since: Some(since), ..bare }
    }

    fn bare(sessions: PathBuf, before: Count) -> Self {
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

    fn see(&mut self, seen: Spending) -> Event {
        self.seen = seen;
        let seen = self.priced(seen);
        Event::Spent(Spent { run: seen.usage(), session: self.before.with(&seen) })
    }

    fn count(&self, total: Spending) -> Event {
        let before = self.base.map_or(self.before, Count::settled);
        let run = self.priced(before.share(&total, &self.seen));
        Event::Spent(Spent { run: run.usage(), session: Count::settled(total) })
    }

    /// The record has come to this run. Where the whole was told before that, its share is known only now.
    fn begin(&mut self) -> Vec<Event> {
        if self.base.is_some() {
            return Vec::new();
        }
        self.base = Some(self.earlier);
        match self.end {
            Some(Told::Completed { total }) => vec![self.count(total)],
            Some(Told::Failed(_)) | None => Vec::new(),
        }
    }

    fn recorded(&mut self, recorded: &Recorded, total: Option<Spending>) -> Vec<Event> {
        // Once the count of the whole is told, nothing here can add to it.
        if matches!(self.end, Some(Told::Completed { .. })) {
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

    fn completed(&mut self, item: Item) -> Vec<Event> {
        let told = match item {
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
        told.map(Event::Text).into_iter().collect()
    }

    fn failed(&mut self, message: &str) -> Vec<Event> {
        let text = plain(message);
        let told = Event::Text(text.clone());
        self.end = Some(Told::Failed(text));
        vec![told]
    }
}

impl Reader for CodexReader {
    fn line(&mut self, line: &str) -> Vec<Event> {
        match serde_json::from_str(line) {
            Ok(Line::ThreadStarted { thread_id }) => {
                self.thread = Some(thread_id.clone());
                vec![Event::Session(thread_id)]
            }
            Ok(Line::ItemStarted { item }) => begun(&item).map(Event::Text).into_iter().collect(),
            Ok(Line::ItemCompleted { item }) => self.completed(item),
            Ok(Line::TurnCompleted { usage }) => {
                let total = usage.spending();
                self.end = Some(Told::Completed { total });
                vec![self.count(total)]
            }
            Ok(Line::TurnFailed { error }) => self.failed(&error.message),
            Ok(Line::Other) | Err(_) => Vec::new(),
        }
    }

    fn is_over(&self) -> bool {
        self.end.is_some()
    }

    fn end(self: Box<Self>, exit: &Exit) -> End {
        match self.end {
            Some(Told::Completed { .. }) => End::Complete { text: self.last },
            Some(Told::Failed(text)) => End::Failed { kind: failure::kind_of(&text), text },
            None if exit.stderr.contains(SESSION_LOST) => End::SessionLost,
            None => failure::without_outcome(exit),
        }
    }

    /// Its lines tell nothing of usage before the end, but the record it keeps does after every step.
    fn side_file(&self) -> Option<SideFile> {
        let thread = self.thread.as_ref()?;
        Some(SideFile { root: self.sessions.clone(), ending: format!("{thread}.jsonl") })
    }

    fn side_line(&mut self, line: &str) -> Vec<Event> {
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

fn action(name: &str, told: &str) -> String {
    text::cut(format!("[{name}] {}", text::one_line(told)).trim_end(), MAX_ACTION)
}

/// The words inside an error that came as JSON, and when a limit ends.
fn plain(message: &str) -> String {
    let parsed: Option<Value> = serde_json::from_str(message).ok();
    let error = parsed.as_ref().and_then(|parsed| parsed.get("error"));
    let Some((error, told)) = error.and_then(|error| Some((error, error.get("message")?.as_str()?))) else {
        return message.to_owned();
    };
    let resets = error.get("resets_at").and_then(Value::as_i64);
    match resets.and_then(|seconds| DateTime::from_timestamp(seconds, 0)) {
        Some(time) => format!("{told}; resets at {}", time.to_rfc3339_opts(SecondsFormat::Secs, true)),
        None => told.to_owned(),
    }
}
