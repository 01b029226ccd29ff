//! Turns whose answer ends with a question.

use super::tests::{agent_api, claimed, ends, facts, message, runner, taken, turn};
use super::*;
use crate::domain::app::{Speaker, TurnEnd};
use crate::domain::task::ClaimKind;

#[test]
fn a_claim_takes_precedence_over_a_question_at_the_end_of_the_answer() {
    let ended = |task: &Task, end: TurnEnd| {
        let step = plan(&facts(task, &runner(true, vec![turn(task, TurnState::Ended(end))])));
        let needs_answer = matches!(step, TaskStep::End(Ending { needs_answer: true, .. }));
        ends(&step).map(|end| (end.0, end.1.to_owned(), needs_answer))
    };
    let reports = [
        (ClaimKind::Complete, EndState::Done, false),
        (ClaimKind::Failure, EndState::Failed, false),
        (ClaimKind::Question, EndState::Done, true),
    ];
    for (kind, state, needs_answer) in reports {
        let task = claimed(kind, "reported", 3);
        for end in [TurnEnd::Complete { text: "More?".into() }, TurnEnd::Question { text: "More?".into() }] {
            assert_eq!(ended(&task, end), Some((state, "reported".to_owned(), needs_answer)), "{kind:?}");
        }
    }
}

#[test]
fn an_answer_over_agent_api_that_ends_with_a_question_needs_one() {
    let task = taken(Channel::AgentApi);
    let answer = |text: &str| {
        let app =
            agent_api(true, vec![message(5, Speaker::User, "do it now"), message(6, Speaker::Agent, text)]);
        matches!(plan(&facts(&task, &app)), TaskStep::End(Ending { needs_answer: true, .. }))
    };
    assert_eq!((answer("Both.\nWhich one?"), answer("Done.")), (true, false));
}
