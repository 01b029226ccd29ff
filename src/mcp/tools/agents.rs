//! The tools that create, show, change, await and delete agents.

use super::{About, Effect, Entry};
use crate::app::agents::WaitResult;
use crate::app::error::Error;
use crate::domain::access::Action;
use crate::mcp::call::Call;
use crate::view::agent::{
    AgentChanged, AgentDeleted, AgentDetail, AgentList, AgentShown, AgentsWaited, MetadataSet, metadata_of,
};
use crate::view::request::{
    ChangeAgentInput, CreateAgentInput, DeleteAgentInput, ListAgentsInput, SetMetadataInput, ShowAgentInput,
    WaitInput,
};

/// Changes per result; with the cursor, the next call returns the others.
const MAX_CHANGES: usize = 40;

pub(super) fn tools() -> Vec<Entry> {
    [reading(), making(), moving()].into_iter().flatten().collect()
}

fn reading() -> Vec<Entry> {
    let list = About {
        action: Action::AgentList,
        title: "List agents",
        description: "Lists the agents of the fleet, in pages: status, role, project, pull request, and \
            current and last task in short. Filters by status, project and role. Returns the last known \
            state at once. To follow agents use wait_for_agents instead of polling this tool.",
        effect: Effect::Reads,
    };
    let show = About {
        action: Action::AgentShow,
        title: "Show an agent",
        description: "Shows all details of one agent: status and reason, full spec, current and last task, \
            metadata, git state, usage, pull request and links.",
        effect: Effect::Reads,
    };
    let wait = About {
        action: Action::AgentWait,
        title: "Wait for agents",
        description: "Waits until an agent changes, until all agents are idle, or until all have ended \
            their tasks, for at most 45 seconds. Returns the changed agents; with until idle or done also \
            the other agents you named (at most 100). Pass the cursor of the previous answer, or of the \
            call that made a change, so that no change is missed. If timed_out is true, call again with the \
            new cursor.",
        effect: Effect::Reads,
    };
    vec![Entry::new(list, list_agents), Entry::new(show, show_agent), Entry::new(wait, wait_for_agents)]
}

fn making() -> Vec<Entry> {
    let create = About {
        action: Action::AgentCreate,
        title: "Create an agent",
        description: "Creates an agent in a project, with the spec as its first task. Returns at once with \
            the agent's name while the workspace is built; with wait_seconds it waits until the agent is \
            ready. Pass request_key if you may have to repeat the call.",
        effect: Effect::Adds,
    };
    let delete = About {
        action: Action::AgentDelete,
        title: "Delete an agent",
        description: "Deletes an agent and its workspace permanently, even while it works. Tries to save \
            unpushed work first, unless keep_work is false. The history stays readable. To pause an agent \
            use stop_agent.",
        effect: Effect::Ends,
    };
    vec![Entry::new(create, create_agent), Entry::new(delete, delete_agent)]
}

fn moving() -> Vec<Entry> {
    let start = About {
        action: Action::AgentStart,
        title: "Start an agent",
        description: "Starts the workspace of a stopped agent, or repairs a failed or unreachable agent by a \
            stop and a start, then resumes its task and queue. No effect on a running, reachable agent.",
        effect: Effect::Sets,
    };
    let stop = About {
        action: Action::AgentStop,
        title: "Stop an agent",
        description: "Stops an agent's workspace and parks its task. Files, spec and history stay; \
            start_agent resumes the task and the queue. No effect on a stopped agent.",
        effect: Effect::Ends,
    };
    let restart = About {
        action: Action::AgentRestart,
        title: "Restart an agent",
        description: "Stops and starts an agent's workspace, then resumes its task. Use it for an agent \
            that hangs or is unreachable.",
        effect: Effect::Interrupts,
    };
    let metadata = About {
        action: Action::AgentMetadataSet,
        title: "Set agent metadata",
        description: "Sets one fleet_mcp_* value of an agent, such as the address of its pull request, and \
            returns all values. An agent may omit agent_name to set its own metadata.",
        effect: Effect::Sets,
    };
    vec![
        Entry::new(start, start_agent),
        Entry::new(stop, stop_agent),
        Entry::new(restart, restart_agent),
        Entry::new(metadata, set_agent_metadata),
    ]
}

async fn list_agents(call: Call, input: ListAgentsInput) -> Result<AgentList, Error> {
    let page = call.fleet.agent_list(&call.caller, input.into_command()?).await?;
    Ok(AgentList::from(&page))
}

async fn show_agent(call: Call, input: ShowAgentInput) -> Result<AgentShown, Error> {
    let state = call.fleet.agent_show(&call.caller, &input.agent_name).await?;
    Ok(AgentShown { agent: AgentDetail::from(&*state) })
}

async fn wait_for_agents(call: Call, input: WaitInput) -> Result<AgentsWaited, Error> {
    let request = input.into_command()?;
    let most = request.names.len().max(MAX_CHANGES);
    let waited = call.reporting(request.timeout, call.fleet.agent_wait(&call.caller, request)).await?;
    Ok(AgentsWaited::from(&first_of(waited, most)))
}

async fn create_agent(call: Call, input: CreateAgentInput) -> Result<AgentChanged, Error> {
    let request = input.into_command()?;
    let mutation = call.reporting(request.wait, call.fleet.agent_create(&call.caller, request)).await?;
    Ok(AgentChanged::from(&mutation))
}

async fn delete_agent(call: Call, input: DeleteAgentInput) -> Result<AgentDeleted, Error> {
    let request = input.into_command()?;
    let deletion = call.reporting(request.wait, call.fleet.agent_delete(&call.caller, request)).await?;
    Ok(AgentDeleted::from(&deletion))
}

async fn start_agent(call: Call, input: ChangeAgentInput) -> Result<AgentChanged, Error> {
    let request = input.into_command()?;
    let mutation = call.reporting(request.wait, call.fleet.agent_start(&call.caller, request)).await?;
    Ok(AgentChanged::from(&mutation))
}

async fn stop_agent(call: Call, input: ChangeAgentInput) -> Result<AgentChanged, Error> {
    let request = input.into_command()?;
    let mutation = call.reporting(request.wait, call.fleet.agent_stop(&call.caller, request)).await?;
    Ok(AgentChanged::from(&mutation))
}

async fn restart_agent(call: Call, input: ChangeAgentInput) -> Result<AgentChanged, Error> {
    let request = input.into_command()?;
    let mutation = call.reporting(request.wait, call.fleet.agent_restart(&call.caller, request)).await?;
    Ok(AgentChanged::from(&mutation))
}

async fn set_agent_metadata(call: Call, input: SetMetadataInput) -> Result<MetadataSet, Error> {
    let state = call.fleet.agent_metadata_set(&call.caller, input.into_command()?).await?;
    Ok(MetadataSet { agent_name: state.agent.name.to_string(), metadata: metadata_of(&state) })
}

/// Keeps the first rows and moves the cursor to just before the first omitted change. Rows without a change are
/// those of named agents, all of which fit.
fn first_of(mut waited: WaitResult, most: usize) -> WaitResult {
    let later = waited.changed.split_off(waited.changed.len().min(most));
    let earliest = later.iter().map(|changed| changed.agent.agent.sighting.revision).min();
    if let Some(revision) = earliest {
        waited.cursor = waited.cursor.min(revision - 1);
    }
    waited
}
