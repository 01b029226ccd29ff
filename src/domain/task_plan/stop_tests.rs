//! The rules for tasks that a stop parks, a later task interrupts, or a jump of the clock leaves alone.

use chrono::TimeDelta;
use uuid::Uuid;

use super::tests::{
    agent_api, ago, claimed, ends, facts, given, message, now, runner, sending, taken, task, turn,
};
use super::*;
use crate::domain::app::{Speaker, TurnEnd, TurnSeen};
use crate::domain::id::TaskId;
use crate::domain::task::{CONTINUE_MESSAGE, Cancel, CancelCause, ClaimKind, TaskOrigin};

#[test]
fn a_stopped_workspace_parks_what_our_runner_has_and_ends_what_nothing_can_go_on_with() {
    let down = |task: &Task| {
        let app = AppSeen::Unasked;
        plan(&Facts { reach: Reach::Down, app: &app, ..facts(task, &app) })
    };
    assert_eq!(down(&given()), TaskStep::Wait);
    assert_eq!(down(&sending(Channel::Runner, 5)), TaskStep::Wait, "the runner's journal tells later");
    assert_eq!(down(&taken(Channel::Runner)), TaskStep::Wait, "the next start goes on with it");
    let ended = Some((EndState::Canceled, "the workspace was stopped", Escalation::Stop));
    assert_eq!(ends(&down(&sending(Channel::AgentApi, 5))), ended);
    assert_eq!(ends(&down(&taken(Channel::AgentApi))), ended);
    let mut canceled = taken(Channel::Runner);
    canceled.work.cancel = Some(Cancel { cause: CancelCause::Request, at: ago(1), may_stop: true });
    assert_eq!(ends(&down(&canceled)), ended);
    let claimed = claimed(ClaimKind::Complete, "did it", 5);
    assert_eq!(ends(&down(&claimed)), Some((EndState::Done, "did it", Escalation::None)));
}

#[test]
fn a_failed_start_ends_the_task_of_a_runner_that_no_build_stopped_and_keeps_a_parked_one() {
    let task = taken(Channel::Runner);
    let broken = |generation, unstopped_since| {
        let app = AppSeen::Unasked;
        let facts = facts(&task, &app);
        plan(&Facts { reach: Reach::Broken, generation, unstopped_since, ..facts })
    };
    let died = "the agent's runner ended during the task; it is not run again";
    for generation in 2..6 {
        let ended = Some((EndState::Failed, died, Escalation::None));
        assert_eq!(ends(&broken(generation, 1)), ended, "{generation} starts in a row");
        for since in 2..=generation {
            assert_eq!(broken(generation, since), TaskStep::Wait, "a stop before start {since}");
        }
    }
    assert_eq!(broken(1, 1), TaskStep::Wait, "the task's own start");
}

#[test]
fn a_parked_task_goes_on_in_its_session_and_keeps_the_time_it_took() {
    let mut task = taken(Channel::Runner);
    task.work.worked = TimeDelta::seconds(7);
    let parked = |task: &Task| runner(true, vec![turn(task, TurnState::Ended(TurnEnd::Parked))]);
    let go_on = TaskStep::Resume {
        reason: "the workspace was stopped during the task",
        redelivery: Redelivery::Continue,
    };
    assert_eq!(plan(&facts(&task, &parked(&task))), go_on);
    let mut canceled = task.clone();
    canceled.work.cancel = Some(Cancel { cause: CancelCause::Request, at: ago(1), may_stop: false });
    let step = plan(&facts(&canceled, &parked(&canceled)));
    assert_eq!(
        ends(&step).map(|end| (end.0, end.1)),
        Some((EndState::Canceled, "it was interrupted on request"))
    );
    let seen = parked(&task);
    task.resume(Redelivery::Continue);
    assert_eq!((task.message_text(), task.work.worked), (CONTINUE_MESSAGE, TimeDelta::seconds(7)));
    assert_eq!(plan(&facts(&task, &seen)), TaskStep::Send { channel: Channel::Runner, base: None });
    task.resume(Redelivery::FullText);
    assert_eq!((task.message_text(), task.work.worked), ("do  it\nnow", TimeDelta::zero()));
}

fn interrupted(mut task: Task) -> Task {
    let by = TaskId(Uuid::from_u128(9));
    task.work.cancel = Some(Cancel { cause: CancelCause::Interrupt(by), at: ago(1), may_stop: false });
    task
}

const BY: &str = "interrupted by task 00000000-0000-0000-0000-000000000009";

#[test]
fn a_spec_that_is_interrupted_is_delivered_first_and_any_other_task_is_withdrawn() {
    let (spec, other) = (interrupted(task(TaskOrigin::Spec)), interrupted(given()));
    let away = |task: &Task| {
        plan(&Facts { reach: Reach::Away, app: &AppSeen::Unasked, ..facts(task, &AppSeen::Unasked) })
    };
    assert_eq!(away(&spec), TaskStep::Wait);
    let unsent = format!("{BY}; it had not been delivered yet");
    assert_eq!(ends(&away(&other)), Some((EndState::Canceled, unsent.as_str(), Escalation::None)));
    let prompt = TurnSeen { key: None, is_prompt: true, accepted_at: ago(9), state: TurnState::Working };
    let shown = runner(false, vec![prompt.clone()]);
    assert_eq!(plan(&facts(&spec, &shown)), TaskStep::MarkDelivered { channel: Channel::Runner, base: None });
    let mut taken = spec;
    taken.mark_delivered(Channel::Runner, None, (1, now()));
    assert_eq!(plan(&facts(&taken, &shown)), TaskStep::Interrupt);
    assert_eq!(interrupt_key(&taken, &shown).as_deref(), Some("prompt"));
    let over = runner(true, vec![TurnSeen { state: TurnState::Ended(TurnEnd::Interrupted), ..prompt }]);
    assert_eq!(ends(&plan(&facts(&taken, &over))), Some((EndState::Canceled, BY, Escalation::Interrupt)));
}

#[test]
fn a_message_on_its_way_is_withdrawn_before_its_task_ends() {
    let task = interrupted(sending(Channel::Runner, 1));
    let nothing = runner(true, vec![]);
    let asked = |seconds| Facts { interrupting_since: Some(ago(seconds)), ..facts(&task, &nothing) };
    assert_eq!(plan(&asked(9)), TaskStep::Interrupt);
    assert_eq!(interrupt_key(&task, &nothing), Some(task.key()));
    let ended = ends(&plan(&asked(10))).map(|end| (end.0, end.1.to_owned()));
    let expected = (EndState::Canceled, format!("{BY}; it had not been delivered yet"));
    assert_eq!(ended, Some(expected), "an older runner takes no such word");
    let withdrawn = runner(true, vec![turn(&task, TurnState::Ended(TurnEnd::Interrupted))]);
    assert_eq!(
        plan(&facts(&task, &withdrawn)),
        TaskStep::MarkDelivered { channel: Channel::Runner, base: None }
    );
}

#[test]
fn a_clock_that_jumps_a_day_forward_expires_nothing_that_runs() {
    let mut clock = Clock::at(now());
    let jump = |clock: &mut Clock| clock.read(now() + TimeDelta::days(1), TimeDelta::seconds(1));
    let mut timed = taken(Channel::Runner);
    (timed.work.timeout, timed.work.worked) = (Some(TimeDelta::minutes(10)), TimeDelta::seconds(20));
    let claimed = claimed(ClaimKind::Complete, "claimed", 5);
    let sent = sending(Channel::AgentApi, 5);
    jump(&mut clock);
    let working = |task: &Task| runner(false, vec![turn(task, TurnState::Working)]);
    for task in [&timed, &claimed] {
        assert_eq!(plan(&Facts { clock: &clock, ..facts(task, &working(task)) }), TaskStep::Wait);
    }
    let quiet = agent_api(true, vec![message(4, Speaker::Agent, "hello")]);
    assert_eq!(plan(&Facts { clock: &clock, ..facts(&sent, &quiet) }), TaskStep::Wait);
}
