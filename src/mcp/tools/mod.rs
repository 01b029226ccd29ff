//! The table of tools: name, description, arguments, handler and result of each.

mod agents;
mod catalog;
mod fleet;
mod history;
mod lengths;
mod operations;
mod squads;
mod tasks;

use std::future::ready;
use std::sync::{Arc, LazyLock};

use futures_util::future::BoxFuture;
use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error as ThisError;

use super::call::Call;
use super::error;
use super::fit::{self, Fit, Plan};
use super::schema;
use super::source::ToolSource;
use crate::app::Fleet;
use crate::app::error::Error;
use crate::domain::access::{Action, Principal};
use crate::domain::squad::StateMode;
use crate::view::request;

static TOOLS: LazyLock<Vec<(Toolset, Entry)>> = LazyLock::new(|| {
    let fleet = [fleet::tools(), agents::tools(), tasks::tools(), history::tools(), catalog::tools()];
    let fleet = fleet.into_iter().chain([operations::tools()]);
    let fleet = fleet.into_iter().flatten().map(|entry| (Toolset::Fleet, entry));
    fleet.chain(squads::tools().into_iter().map(|entry| (Toolset::Squads, entry))).collect()
});

/// The name of conversations in arguments and results.
const CHAT: &str = "chatId";

/// Tools that are enabled and disabled together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Toolset {
    Fleet,
    Squads,
    Spawner,
    Reviews,
    Router,
}

/// The enabled toolsets of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolsets(Vec<Toolset>);

#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
#[error(
    "'{0}' is not a toolset; there are: fleet, squads; spawner, reviews and router are accepted and have no tools yet"
)]
pub struct UnknownToolset(String);

/// The enabled tools of the fleet's own.
#[derive(Debug)]
pub(super) struct BuiltIn {
    fleet: Fleet,
    toolsets: Toolsets,
}

/// The description of a tool.
#[derive(Debug, Clone, Copy)]
pub(super) struct About {
    action: Action,
    title: &'static str,
    description: &'static str,
    effect: Effect,
}

/// The effect of a call; clients decide by it which calls require approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Reads,
    /// Adds something with each call.
    Adds,
    /// Sets a state; idempotent.
    Sets,
    /// Ends work or data; idempotent.
    Ends,
    /// Ends work with each call.
    Interrupts,
}

/// One tool.
struct Entry {
    action: Action,
    tool: Tool,
    plan: Plan,
    run: Run,
}

type Run = Box<dyn Fn(Call, JsonObject) -> BoxFuture<'static, Result<Value, Error>> + Send + Sync>;

impl Toolset {
    const ALL: [Self; 5] = [Self::Fleet, Self::Squads, Self::Spawner, Self::Reviews, Self::Router];

    fn word(self) -> &'static str {
        match self {
            Self::Fleet => "fleet",
            Self::Squads => "squads",
            Self::Spawner => "spawner",
            Self::Reviews => "reviews",
            Self::Router => "router",
        }
    }
}

impl Toolsets {
    pub fn all() -> Self {
        Self(Toolset::ALL.to_vec())
    }

    /// The named toolsets; an empty list means all.
    pub fn parse(words: &[String]) -> Result<Self, UnknownToolset> {
        if words.is_empty() {
            return Ok(Self::all());
        }
        let named = |word: &String| {
            let found = Toolset::ALL.into_iter().find(|toolset| toolset.word() == word);
            found.ok_or_else(|| UnknownToolset(word.clone()))
        };
        words.iter().map(named).collect::<Result<_, _>>().map(Self)
    }

    fn tools(&self) -> impl Iterator<Item = &'static Entry> {
        TOOLS.iter().filter(|(toolset, _)| self.0.contains(toolset)).map(|(_, entry)| entry)
    }
}

/// Whether this is one of our tools, enabled or not.
pub(super) fn is_tool(name: &str) -> bool {
    TOOLS.iter().any(|(_, entry)| entry.tool.name == name)
}

impl BuiltIn {
    pub(super) fn new(fleet: Fleet, toolsets: Toolsets) -> Self {
        Self { fleet, toolsets }
    }
}

impl ToolSource for BuiltIn {
    fn list<'a>(&'a self, principal: &'a Principal) -> BoxFuture<'a, Vec<Tool>> {
        let mode = self.fleet.squad_state_mode();
        let offered = self.toolsets.tools().filter(|entry| entry.action.is_offered_to(principal));
        Box::pin(ready(offered.map(|entry| entry.shown(mode)).collect()))
    }

    fn call<'a>(
        &'a self,
        name: &'a str,
        arguments: Value,
        call: Call,
    ) -> BoxFuture<'a, Option<CallToolResult>> {
        Box::pin(async move {
            let entry = self.toolsets.tools().find(|entry| entry.tool.name == name)?;
            Some(entry.answer(call, arguments).await)
        })
    }
}

impl Entry {
    fn new<I, O, F, W>(about: About, handler: F) -> Self
    where
        I: DeserializeOwned + JsonSchema + Send + 'static,
        O: Fit + Send + 'static,
        F: Fn(Call, I) -> W + Send + Sync + Copy + 'static,
        W: Future<Output = Result<O, Error>> + Send + 'static,
    {
        let run = move |call: Call, arguments: JsonObject| -> BoxFuture<'static, _> {
            Box::pin(async move {
                let answer = handler(call, request::parse(Value::Object(arguments))?).await?;
                // Results have only string keys, so serializing is infallible.
                Ok(serde_json::to_value(answer).unwrap_or_default())
            })
        };
        let schema = Arc::new(O::PLAN.input_schema::<I>());
        let tool = Tool::new(about.action.name(), about.description, schema)
            .with_title(about.title)
            .with_raw_output_schema(fit::output_schema::<O>())
            .with_annotations(about.effect.annotations(about.title));
        Self { action: about.action, tool, plan: O::PLAN, run: Box::new(run) }
    }

    /// The tool as shown to clients; for stateless members without conversations.
    fn shown(&self, mode: StateMode) -> Tool {
        match (self.action, mode) {
            (Action::SquadRun | Action::SquadStatus, StateMode::Stateless) => {
                let without = |schema: &Arc<JsonObject>| Arc::new(schema::without(CHAT, schema));
                let mut tool = self.tool.clone();
                tool.input_schema = without(&tool.input_schema);
                tool.output_schema = tool.output_schema.as_ref().map(without);
                tool
            }
            (_, StateMode::Stateless | StateMode::Stateful) => self.tool.clone(),
        }
    }

    /// The result of a call or its error, for the model.
    async fn answer(&self, call: Call, arguments: Value) -> CallToolResult {
        match self.result(call, arguments).await {
            Ok(value) => CallToolResult::structured(value),
            Err(refusal) => error::answer(&refusal, &self.tool.name),
        }
    }

    /// A caller without permission gets only that error, before any check of its arguments.
    async fn result(&self, call: Call, arguments: Value) -> Result<Value, Error> {
        let Value::Object(mut arguments) = arguments else {
            return Err(Error::invalid("arguments", "arguments must be an object"));
        };
        let target = arguments.get("agent_name").and_then(Value::as_str);
        call.fleet.action_offered(&call.caller, self.action, target).await?;
        let offset = self.plan.take_offset(&mut arguments)?;
        let answer = (self.run)(call, arguments.clone()).await?;
        Ok(self.plan.fitted(answer, arguments, offset))
    }
}

impl Effect {
    fn annotations(self, title: &str) -> ToolAnnotations {
        let (read_only, destructive, idempotent) = match self {
            Self::Reads => (true, false, true),
            Self::Adds => (false, false, false),
            Self::Sets => (false, false, true),
            Self::Ends => (false, true, true),
            Self::Interrupts => (false, true, false),
        };
        // The tools act only on the fleet, even if its agents can reach other systems.
        let annotations = ToolAnnotations::with_title(title).read_only(read_only).destructive(destructive);
        annotations.idempotent(idempotent).open_world(false)
    }
}
