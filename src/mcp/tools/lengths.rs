//! Declares which parts of each result may be long, and what is dropped first from a result that is too long.

use crate::domain::metadata::AGENT_SPEC;
use crate::domain::text::cut;
use crate::mcp::fit::{Fit, LIST_CHARS};
use crate::view::agent::{
    AgentChanged, AgentDeleted, AgentDetail, AgentList, AgentRow, AgentShown, AgentsWaited, MetadataSet,
};
use crate::view::catalog::{AgentProjects, AgentRoles};
use crate::view::fleet::FleetStatus;
use crate::view::history::TaskHistory;
use crate::view::log::LogPage;
use crate::view::operation::{OperationCanceled, OperationList};
use crate::view::squad::{SquadMember, SquadResult, SquadRoles, SquadStatus};
use crate::view::task::{CanceledTask, ReportedStatus, StartedTask, TaskSummary};

/// How much is kept of a text that the result contains in full elsewhere.
const REPEAT_CHARS: usize = 120;
/// Longer addresses and values are useless in a list.
const LISTED_VALUE_CHARS: usize = 200;
const MAX_NOTICES: usize = 80;
const MAX_METADATA: usize = 100;
/// Longer values that the caller itself set are omitted if space is short.
const METADATA_CHARS: usize = 2_000;

impl Fit for AgentShown {
    const READS_ON: bool = true;

    fn texts(&mut self) -> Vec<&mut String> {
        texts_of_detail(&mut self.agent)
    }

    fn drop_repeats(&mut self) {
        drop_repeats_of_detail(&mut self.agent);
    }

    fn drop_extras(&mut self, _round: usize) {
        drop_extras_of_detail(&mut self.agent);
    }
}

impl Fit for AgentChanged {
    fn texts(&mut self) -> Vec<&mut String> {
        texts_of_row(&mut self.agent)
    }

    fn drop_extras(&mut self, round: usize) {
        drop_extras_of_row(&mut self.agent, round);
    }

    fn agent_name(&self) -> Option<&str> {
        Some(&self.agent.name)
    }
}

impl Fit for AgentDeleted {
    fn texts(&mut self) -> Vec<&mut String> {
        vec![&mut self.message]
    }
}

impl Fit for MetadataSet {
    fn texts(&mut self) -> Vec<&mut String> {
        self.metadata.values_mut().collect()
    }

    fn drop_extras(&mut self, _round: usize) {
        self.metadata = std::mem::take(&mut self.metadata).into_iter().take(MAX_METADATA).collect();
    }

    fn agent_name(&self) -> Option<&str> {
        Some(&self.agent_name)
    }
}

impl Fit for AgentList {
    const BUDGET: usize = LIST_CHARS;

    fn texts(&mut self) -> Vec<&mut String> {
        self.agents.iter_mut().flat_map(texts_of_row).collect()
    }

    fn drop_extras(&mut self, round: usize) {
        self.agents.iter_mut().for_each(|row| drop_extras_of_row(row, round));
    }
}

impl Fit for AgentsWaited {
    const BUDGET: usize = LIST_CHARS;

    fn texts(&mut self) -> Vec<&mut String> {
        self.changed.iter_mut().flat_map(|changed| texts_of_row(&mut changed.agent)).collect()
    }

    fn drop_extras(&mut self, round: usize) {
        self.changed.iter_mut().for_each(|changed| drop_extras_of_row(&mut changed.agent, round));
    }
}

impl Fit for TaskHistory {
    const BUDGET: usize = LIST_CHARS;
    const READS_ON: bool = true;

    fn texts(&mut self) -> Vec<&mut String> {
        let texts = self.tasks.iter_mut().flat_map(|row| [Some(&mut row.message), row.outcome.as_mut()]);
        texts.flatten().collect()
    }

    /// The outcome repeats how a task came to its state.
    fn drop_repeats(&mut self) {
        self.tasks.iter_mut().for_each(|row| row.states.clear());
    }

    fn drop_extras(&mut self, _round: usize) {
        self.tasks.iter_mut().for_each(|row| drop_long(&mut row.uri));
    }
}

impl Fit for OperationList {
    const BUDGET: usize = LIST_CHARS;

    fn texts(&mut self) -> Vec<&mut String> {
        self.operations.iter_mut().filter_map(|row| row.message.as_mut()).collect()
    }
}

impl Fit for OperationCanceled {
    fn texts(&mut self) -> Vec<&mut String> {
        self.operation.message.iter_mut().chain([&mut self.message]).collect()
    }

    fn agent_name(&self) -> Option<&str> {
        Some(&self.operation.agent_name)
    }
}

impl Fit for SquadRoles {
    const BUDGET: usize = LIST_CHARS;

    fn texts(&mut self) -> Vec<&mut String> {
        self.roles.iter_mut().map(|role| &mut role.description).chain(&mut self.problems).collect()
    }
}

/// Members' outputs are cut before this, where the offset to continue is known.
impl Fit for SquadResult {
    fn texts(&mut self) -> Vec<&mut String> {
        self.members.iter_mut().flat_map(texts_of_member).collect()
    }

    /// Callers know their own inputs.
    fn drop_repeats(&mut self) {
        drop_long_metadata(&mut self.metadata);
    }

    fn drop_extras(&mut self, round: usize) {
        self.members.iter_mut().for_each(|member| drop_extras_of_member(member, round));
    }
}

impl Fit for SquadStatus {
    fn texts(&mut self) -> Vec<&mut String> {
        let current = self.active_agents.iter_mut().flatten().filter_map(|agent| agent.current_task.as_mut());
        let pending = self.pending_tasks.iter_mut().flatten().map(|task| &mut task.message);
        let members = self.members.iter_mut().flatten().flat_map(texts_of_member);
        current.chain(pending).chain(members).collect()
    }

    fn drop_repeats(&mut self) {
        drop_long_metadata(&mut self.metadata);
    }

    fn drop_extras(&mut self, round: usize) {
        self.members.iter_mut().flatten().for_each(|member| drop_extras_of_member(member, round));
        let squads = self.squads.iter_mut().flatten();
        squads.filter(|squad| squad.done || round > 0).for_each(|squad| squad.members.clear());
        let most = MAX_NOTICES >> round;
        self.pending_tasks.iter_mut().for_each(|tasks| tasks.truncate(most));
        self.active_agents.iter_mut().for_each(|agents| agents.truncate(most));
    }
}

impl Fit for LogPage {
    const BUDGET: usize = LIST_CHARS;
    const READS_ON: bool = true;

    fn texts(&mut self) -> Vec<&mut String> {
        self.logs.iter_mut().map(|row| &mut row.content).collect()
    }
}

impl Fit for StartedTask {
    fn texts(&mut self) -> Vec<&mut String> {
        let mut texts = texts_of_task(&mut self.task);
        texts.push(&mut self.task_description);
        texts
    }
}

impl Fit for CanceledTask {
    fn texts(&mut self) -> Vec<&mut String> {
        self.task.iter_mut().flat_map(texts_of_task).collect()
    }
}

impl Fit for ReportedStatus {
    fn texts(&mut self) -> Vec<&mut String> {
        vec![&mut self.message]
    }
}

impl Fit for AgentRoles {
    const BUDGET: usize = LIST_CHARS;

    fn texts(&mut self) -> Vec<&mut String> {
        self.roles.iter_mut().map(|role| &mut role.description).collect()
    }
}

impl Fit for AgentProjects {
    const BUDGET: usize = LIST_CHARS;

    fn texts(&mut self) -> Vec<&mut String> {
        let descriptions = self.projects.iter_mut().map(|project| &mut project.description);
        descriptions.chain(&mut self.problems).collect()
    }
}

impl Fit for FleetStatus {
    fn texts(&mut self) -> Vec<&mut String> {
        let reasons = self.attention.iter_mut().map(|notice| &mut notice.reason);
        reasons.chain(&mut self.coder.error).collect()
    }

    fn drop_extras(&mut self, _round: usize) {
        self.attention.truncate(MAX_NOTICES);
    }
}

fn texts_of_detail(agent: &mut AgentDetail) -> Vec<&mut String> {
    let mut texts = vec![&mut agent.reason, &mut agent.spec];
    texts.extend(&mut agent.current_task);
    if let Some(task) = &mut agent.last_task {
        texts.push(&mut task.message);
        texts.extend(&mut task.outcome);
    }
    texts.extend(agent.metadata.values_mut());
    texts
}

/// The spec stays; the metadata that repeats it is replaced by a hint.
fn drop_repeats_of_detail(agent: &mut AgentDetail) {
    if let Some(text) = agent.metadata.get_mut(AGENT_SPEC) {
        *text = cut(text, REPEAT_CHARS);
    }
    agent.git = agent.git.take().filter(|git| git.to_string().len() <= LISTED_VALUE_CHARS);
}

fn drop_extras_of_detail(agent: &mut AgentDetail) {
    agent.metadata = std::mem::take(&mut agent.metadata).into_iter().take(MAX_METADATA).collect();
    drop_long(&mut agent.links.pull_request);
}

fn texts_of_task(task: &mut TaskSummary) -> Vec<&mut String> {
    [Some(&mut task.message), task.outcome.as_mut()].into_iter().flatten().collect()
}

fn texts_of_row(row: &mut AgentRow) -> Vec<&mut String> {
    let mut texts = vec![&mut row.reason];
    texts.extend(&mut row.current_task);
    texts.extend(&mut row.start_note);
    if let Some(task) = &mut row.last_task {
        texts.push(&mut task.message);
        texts.extend(&mut task.outcome);
    }
    texts
}

/// Drops tasks first, then the state of the pull request, its address last: lists are read for that.
fn drop_extras_of_row(row: &mut AgentRow, round: usize) {
    match round {
        0 => row.last_task = None,
        1 => {
            row.pull_request_status = None;
            row.pull_request_check_status = None;
        }
        _ => {
            row.current_task = None;
            row.start_note = None;
            row.directory = None;
            drop_long(&mut row.pull_request_url);
        }
    }
}

fn texts_of_member(member: &mut SquadMember) -> impl Iterator<Item = &mut String> {
    std::iter::once(&mut member.cwd).chain(&mut member.reason)
}

/// The failure reason repeats the error output; the output can be read in pages.
fn drop_extras_of_member(member: &mut SquadMember, round: usize) {
    match round {
        0 => member.reason = None,
        1 => {
            member.truncated |= !member.raw_stdout.is_empty() || !member.raw_stderr.is_empty();
            member.raw_stdout.clear();
            member.raw_stderr.clear();
        }
        _ => {
            member.cwd.clear();
            drop_long(&mut member.chat_id);
        }
    }
}

fn drop_long_metadata(metadata: &mut Option<serde_json::Value>) {
    *metadata = metadata.take().filter(|value| value.to_string().chars().count() <= METADATA_CHARS);
}

fn drop_long(value: &mut Option<String>) {
    *value = value.take().filter(|text| text.len() <= LISTED_VALUE_CHARS);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::fit::{ANSWER_CHARS, fitted};
    use crate::view::squad::{ActiveAgent, MemberSummary, PendingTask, SquadSummary};

    #[test]
    fn the_fullest_overview_of_squads_fits_and_names_every_squad() {
        let id = "019d0000-0000-7000-8000-000000000000".to_owned();
        let name = "an-agent-with-quite-a-long-name-".repeat(2);
        let status = "completed".to_owned();
        let member = MemberSummary { member_id: id.clone(), role_id: "backend-developer".to_owned(), status };
        let created_at = "2026-01-01T00:00:00.000Z".to_owned();
        let squad = SquadSummary {
            squad_id: id.clone(),
            done: true,
            created_at: created_at.clone(),
            members: vec![member; 50],
        };
        let message = "Mend it. ".repeat(100);
        let active =
            ActiveAgent { name: name.clone(), role: "coder".to_owned(), current_task: Some(message.clone()) };
        let pending = PendingTask { id, agent_name: name, message, created_at };
        let overview = SquadStatus {
            active_agents: Some(vec![active; 200]),
            pending_tasks: Some(vec![pending; 100]),
            squads: Some(vec![squad; 50]),
            ..SquadStatus::default()
        };
        let from_the_beginning = 0;
        let told = fitted(overview, serde_json::Map::new(), from_the_beginning);
        assert!(told.to_string().chars().count() <= ANSWER_CHARS, "{}", told.to_string().len());
        assert_eq!((told["squads"].as_array().map(Vec::len), &told["truncated"]), (Some(50), &true.into()));
    }
}
