//! The tools that start and cancel tasks, show conversations, and let agents report.

use std::time::Duration;

use super::{About, Effect, Entry};
use crate::app::error::Error;
use crate::domain::access::Action;
use crate::mcp::call::Call;
use crate::view::log::LogPage;
use crate::view::request::{CancelTaskInput, LogInput, ReportInput, StartTaskInput};
use crate::view::task::{CanceledTask, ReportedStatus, StartedTask};

/// The longest duration of a cancel; the client is notified meanwhile.
const CANCEL_LIMIT: Duration = Duration::from_secs(40);

pub(super) fn tools() -> Vec<Entry> {
    let start = About {
        action: Action::TaskStart,
        title: "Give an agent a task",
        description: "Gives an agent that is there its next piece of work. Returns at once; the task is brought \
            to the agent whatever happens, and held while the agent starts. If it has a task already: \
            when_busy reject (AGENT_BUSY), queue, or interrupt, which ends all before it. Follow it with wait_for_agents until done. \
            Also the way to answer an agent's question.",
        effect: Effect::Adds,
    };
    let cancel = About {
        action: Action::TaskCancel,
        title: "Cancel an agent's task",
        description: "Ends what an agent is working on and leaves the agent itself up; those that wait go on \
            unless all is true. Interrupts it first, then harder; with escalate its workspace is stopped if \
            nothing else helps. The answer says in reached how far it had to go.",
        effect: Effect::Ends,
    };
    let log = About {
        action: Action::AgentLog,
        title: "Show an agent's log",
        description: "The conversation with an agent, newest first: what it was told (input) and what it \
            answered (output). Also of stopped and deleted agents, from the copy kept here. For tasks and \
            their outcomes use show_agent_task_history.",
        effect: Effect::Reads,
    };
    let report = About {
        action: Action::StatusReport,
        title: "Report your status",
        description: "For agents, about themselves: say that you are working, idle, through with your task \
            (complete) or cannot do it (failure), in one sentence. complete and failure end your task. With \
            question you ask your manager, and the answer comes as a new task.",
        effect: Effect::Adds,
    };
    vec![
        Entry::new(start, start_agent_task),
        Entry::new(cancel, cancel_agent_task),
        Entry::new(log, show_agent_log),
        Entry::new(report, report_status),
    ]
}

async fn start_agent_task(call: Call, input: StartTaskInput) -> Result<StartedTask, Error> {
    let started = call.fleet.task_start(&call.caller, input.into_command()?).await?;
    Ok(StartedTask::from(&started))
}

async fn cancel_agent_task(call: Call, input: CancelTaskInput) -> Result<CanceledTask, Error> {
    let request = input.into_command()?;
    let canceled = call.reporting(CANCEL_LIMIT, call.fleet.task_cancel(&call.caller, request)).await?;
    Ok(CanceledTask::from(&canceled))
}

async fn show_agent_log(call: Call, input: LogInput) -> Result<LogPage, Error> {
    let log = call.fleet.agent_log(&call.caller, input.into_command()?).await?;
    Ok(LogPage::from(&log))
}

async fn report_status(call: Call, input: ReportInput) -> Result<ReportedStatus, Error> {
    let reported = call.fleet.status_report(&call.caller, input.into_command()?).await?;
    Ok(ReportedStatus::from(&reported))
}
