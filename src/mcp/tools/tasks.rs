//! The tools that start and cancel tasks, show messages, and let agents report.

use super::{About, Effect, Entry};
use crate::app::error::Error;
use crate::domain::access::Action;
use crate::mcp::call::Call;
use crate::view::log::LogPage;
use crate::view::request::{CancelTaskInput, LogInput, ReportInput, StartTaskInput};
use crate::view::task::{CanceledTask, ReportedStatus, StartedTask};

pub(super) fn tools() -> Vec<Entry> {
    let start = About {
        action: Action::TaskStart,
        title: "Assign a task to an agent",
        description: "Assigns a task to an existing agent. Returns at once; delivery is retried, and held \
            while the agent starts. If the agent already has a task: when_busy reject (AGENT_BUSY), queue, \
            or interrupt, which ends all earlier tasks. Follow the task with wait_for_agents until done. \
            Use it also to answer an agent's question.",
        effect: Effect::Adds,
    };
    let cancel = About {
        action: Action::TaskCancel,
        title: "Cancel an agent's task",
        description: "Cancels the task an agent is working on; the agent keeps running. Queued tasks \
            continue unless all is true. The steps are interrupt, then signals; with escalate also a stop \
            of the workspace. reached in the answer is the step that ended the work.",
        effect: Effect::Ends,
    };
    let log = About {
        action: Action::AgentLog,
        title: "Show an agent's log",
        description: "Shows the messages of an agent, newest first: those to it (input) and its answers \
            (output). Also of stopped and deleted agents, from the stored copy. For tasks and their \
            outcomes use show_agent_task_history.",
        effect: Effect::Reads,
    };
    let report = About {
        action: Action::StatusReport,
        title: "Report your status",
        description: "For agents, about themselves: report that you are working, idle, finished with your \
            task (complete) or unable to do it (failure), in one sentence. complete and failure end your \
            task. With question you ask your manager, and the answer arrives as a new task.",
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
    let canceling = call.fleet.task_cancel(&call.caller, request);
    let canceled = call.reporting(call.fleet.task_cancel_longest(), canceling).await?;
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
