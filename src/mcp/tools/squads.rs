//! The tools for squads: roles, running members, and their results.

use super::{About, Effect, Entry};
use crate::app::error::Error;
use crate::domain::access::Action;
use crate::domain::id::SquadId;
use crate::domain::squad::SquadProgress;
use crate::mcp::call::Call;
use crate::mcp::fit::{ANSWER_CHARS, MARGIN};
use crate::view::request::{NoInput, SquadQuery, SquadStatusInput, StartSquadInput};
use crate::view::squad::{SquadResult, SquadRoles, SquadStatus};

/// The limit on results about members.
const CHARS: usize = ANSWER_CHARS - MARGIN;
/// A page of an output leaves room for its description.
const PAGE_CHARS: usize = CHARS - 500;
/// After this many notifications without news, progress is shown halfway to the next end.
const QUIET_HALFWAY: f64 = 20.0;

pub(super) fn tools() -> Vec<Entry> {
    let roles = About {
        action: Action::SquadRoleList,
        title: "List squad roles",
        description: "Lists the roles of squad members, with the id for start_squad_members. Role files \
            that are not valid are listed with the reason.",
        effect: Effect::Reads,
    };
    let start = About {
        action: Action::SquadRun,
        title: "Run a squad",
        description: "Runs members with different roles, each once on its own task, inside workspaces, and \
            returns their output when all have ended. For work that needs no agent of its own. A failed \
            member does not affect the others. With async it returns at once: follow the squad with \
            squad_status. If you stop waiting, the squad continues; squad_status finds it again.",
        effect: Effect::Adds,
    };
    let status = About {
        action: Action::SquadStatus,
        title: "Squad status",
        description: "With squadId: the squad's members, their progress and output. With memberId and \
            stream as well: the rest of a long output, in pages from offset to next_offset. Without \
            squadId: busy agents, queued tasks, and your squads of the last 24 hours.",
        effect: Effect::Reads,
    };
    vec![
        Entry::new(roles, list_roles),
        Entry::new(start, start_squad_members),
        Entry::new(status, squad_status),
    ]
}

async fn list_roles(call: Call, _: NoInput) -> Result<SquadRoles, Error> {
    let (roles, problems) = call.fleet.squad_roles(&call.caller).await?;
    Ok(SquadRoles::of(&roles, problems))
}

async fn start_squad_members(call: Call, input: StartSquadInput) -> Result<SquadResult, Error> {
    let is_async = input.is_async;
    let command = input.into_command(call.fleet.squad_state_mode())?;
    let id = call.fleet.squad_start(&call.caller, command).await?;
    if !is_async {
        until_over(&call, id).await?;
    }
    let shown = call.fleet.squad_show(&call.caller, id, CHARS as u64).await?;
    Ok(SquadResult::from(&shown))
}

async fn squad_status(call: Call, input: SquadStatusInput) -> Result<SquadStatus, Error> {
    let (fleet, caller) = (&call.fleet, &call.caller);
    match input.into_query()? {
        SquadQuery::Overview => Ok(SquadStatus::from(&fleet.squad_overview(caller).await?)),
        SquadQuery::One { squad, wait } => {
            call.reporting(wait, fleet.squad_await_change(caller, squad, wait)).await?;
            Ok(SquadStatus::from(&fleet.squad_show(caller, squad, CHARS as u64).await?))
        }
        SquadQuery::Output(request) => {
            Ok(SquadStatus::of_output(&fleet.squad_output(caller, request).await?, PAGE_CHARS))
        }
    }
}

/// The first notification carries the id, so that a disconnected client can continue.
async fn until_over(call: &Call, id: SquadId) -> Result<(), Error> {
    let (mut last, mut n_quiet) = (None, 0);
    let mut wait = call.fleet.squad_wait(&call.caller, id);
    while let Some(now) = wait.next().await? {
        n_quiet = if last.replace(now) == Some(now) { n_quiet + 1 } else { 0 };
        call.notify(shown(now, n_quiet), now.n_members as f64, &progress_text(id, now)).await;
    }
    Ok(())
}

/// Progress must grow with every notification, even while no member ends: it approaches the next end and reaches it
/// with that.
fn shown(seen: SquadProgress, n_quiet: u32) -> f64 {
    let n_quiet = f64::from(n_quiet);
    seen.n_ended as f64 + n_quiet / (n_quiet + QUIET_HALFWAY)
}

fn progress_text(id: SquadId, seen: SquadProgress) -> String {
    format!("squad {id}: {} of {} members have ended", seen.n_ended, seen.n_members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_grows_with_every_message_whether_members_end_or_not() {
        let at = |n_ended, n_quiet| shown(SquadProgress { n_ended, n_members: 2 }, n_quiet);
        let progress_text =
            [at(0, 0), at(0, 1), at(0, 2), at(0, 20), at(0, 1_000_000), at(1, 0), at(1, 1), at(2, 0)];
        assert!(progress_text.is_sorted_by(|one, next| one < next), "{progress_text:?}");
        assert_eq!(
            (progress_text[0], progress_text[3], progress_text[5], progress_text[7]),
            (0.0, 0.5, 1.0, 2.0)
        );
    }
}
