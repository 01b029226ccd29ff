//! The effect of an agent's claim on its task.

use chrono::TimeDelta;

use super::tests::{ago, claimed, ends, facts, now, runner, turn};
use super::*;
use crate::domain::app::TurnEnd;
use crate::domain::task::{Cancel, CancelCause, ClaimKind};

#[test]
fn a_claim_ends_the_task_with_its_turn_and_a_turn_that_goes_on_is_interrupted_first() {
    let fresh = claimed(ClaimKind::Complete, "claimed", 29);
    let working = runner(false, vec![turn(&fresh, TurnState::Working)]);
    assert_eq!(plan(&facts(&fresh, &working)), TaskStep::Wait);
    let over = |end| runner(true, vec![turn(&fresh, TurnState::Ended(end))]);
    let done = Some((EndState::Done, "claimed", Escalation::None));
    let ends_as =
        |end| ends(&plan(&facts(&fresh, &over(end)))).map(|(state, text, _)| (state, text.to_owned()));
    let claimed_end = Some((EndState::Done, "claimed".to_owned()));
    for end in [TurnEnd::Complete { text: "last words".into() }, TurnEnd::Interrupted, TurnEnd::Stopped] {
        assert_eq!(ends_as(end), claimed_end);
    }
    let broke = TurnEnd::Failed { text: "broke".into() };
    assert_eq!(ends_as(broke), Some((EndState::Failed, "broke".to_owned())), "the engine knows better");

    let old = claimed(ClaimKind::Complete, "claimed", 30);
    let unasked = Facts { interrupting_since: None, ..facts(&old, &working) };
    assert_eq!(plan(&unasked), TaskStep::Interrupt);
    let asked = |seconds| Facts { interrupting_since: Some(ago(seconds)), ..facts(&old, &working) };
    assert_eq!(plan(&asked(0)), TaskStep::Interrupt);
    let old = claimed(ClaimKind::Complete, "claimed", 60);
    let asked = |seconds| Facts { interrupting_since: Some(ago(seconds)), ..facts(&old, &working) };
    assert_eq!(plan(&asked(10)), TaskStep::Signal);
    let signaled = |seconds, are_gone| {
        let signaling = Some(Signaling { since: ago(seconds), are_gone });
        plan(&Facts { signaling, ..asked(20) })
    };
    assert_eq!(signaled(9, false), TaskStep::Signal);
    assert_eq!(ends(&signaled(10, false)), done, "nothing helped, and what it said is all that is known");
    let mut canceled = claimed(ClaimKind::Complete, "claimed", 60);
    canceled.work.cancel = Some(Cancel { cause: CancelCause::Request, at: ago(5), may_stop: false });
    let step = plan(&facts(&canceled, &over(TurnEnd::Interrupted)));
    assert_eq!(ends(&step).map(|end| end.0), Some(EndState::Canceled));
}

#[test]
fn a_claimed_usage_limit_parks_only_after_the_turn_and_ends_with_its_attempt() {
    let text = "usage limit reached, try again in 5 seconds";
    let mut task = claimed(ClaimKind::Failure, text, 60);
    let working = runner(false, vec![turn(&task, TurnState::Working)]);
    let unasked = Facts { interrupting_since: None, ..facts(&task, &working) };
    assert_eq!(plan(&unasked), TaskStep::Interrupt, "what runs is not parked");
    let signaling = Some(Signaling { since: ago(10), are_gone: false });
    let given_up = Facts { signaling, interrupting_since: Some(ago(20)), ..facts(&task, &working) };
    assert_eq!(ends(&plan(&given_up)), Some((EndState::Failed, text, Escalation::None)));
    let over = runner(true, vec![turn(&task, TurnState::Ended(TurnEnd::Interrupted))]);
    let park = TaskStep::Park { until: now() + TimeDelta::seconds(5), reason: text.to_owned() };
    assert_eq!(plan(&facts(&task, &over)), park);

    task.work.reached = Escalation::Signals;
    (task.work.timeout, task.work.worked) = (Some(TimeDelta::seconds(8)), TimeDelta::seconds(8));
    task.resume(Redelivery::FullText);
    assert_eq!(
        (&task.work.claim, task.work.reached, task.has_exceeded_timeout()),
        (&None, Escalation::None, false)
    );
    task.mark_delivered(Channel::Runner, None, (1, ago(1)));
    let done = TurnState::Ended(TurnEnd::Complete { text: "did it".into() });
    let step = plan(&facts(&task, &runner(true, vec![turn(&task, done)])));
    assert_eq!(ends(&step), Some((EndState::Done, "did it", Escalation::None)));
    let working = runner(false, vec![turn(&task, TurnState::Working)]);
    assert_eq!(plan(&facts(&task, &working)), TaskStep::Wait, "the time before the limit does not count");
}
