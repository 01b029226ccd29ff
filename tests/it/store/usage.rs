//! What agents have used: told twice it counts once, by the UTC day, and a deleted agent keeps its part.

use fleet_mcp::domain::agent::Agent;
use fleet_mcp::domain::usage::{Figures, Mark, Spender};
use fleet_mcp::store::UsageReport;

use super::{Home, at};

/// The first second of a UTC day; [`at`] counts from 22:13:20 of the day before.
const MIDNIGHT: i64 = 6_400;

fn told(agent: &Agent, source: &str, tokens: u64) -> UsageReport {
    let highest = Figures { input_tokens: tokens, cost_micros: Some(tokens), ..Figures::default() };
    let mark = Mark { generation: 1, highest };
    UsageReport { agent: agent.id, source: source.to_owned(), spender: Spender::Agent, mark }
}

#[tokio::test]
async fn a_day_ends_at_midnight_in_utc_and_has_what_was_added_on_it() {
    let home = Home::new().await;
    let (one, two) = (home.agent("one").await, home.agent("two").await);
    let count = async |told: UsageReport, second| home.store.usage_count(&[told], at(second)).await.unwrap();
    count(told(&one, "agent", 100), MIDNIGHT - 1).await;
    count(told(&two, "agent", 7), MIDNIGHT - 1).await;
    count(told(&one, "agent", 130), MIDNIGHT).await;
    let again = count(told(&one, "agent", 130), MIDNIGHT + 1).await;
    assert!(again.changed.is_empty(), "{again:?}");
    home.store.agent_delete(two.id, at(MIDNIGHT)).await.unwrap();
    let tokens = async |second| home.store.usage_on(at(second)).await.unwrap().all.tokens();
    assert_eq!((tokens(0).await, tokens(MIDNIGHT + 80_000).await), (107, 30));
    assert_eq!(home.store.usage_of(one.id).await.unwrap().all.tokens(), 130);
}

#[tokio::test]
async fn figures_that_cannot_be_true_hinder_those_of_no_other_agent() {
    let home = Home::new().await;
    let (liar, honest) = (home.agent("liar").await, home.agent("honest").await);
    let batch = [told(&liar, "agent", u64::MAX), told(&honest, "agent", 5)];
    let counted = home.store.usage_count(&batch, at(1)).await.unwrap();
    assert_eq!(counted.rejected, [liar.id]);
    assert_eq!(home.store.usage_on(at(1)).await.unwrap().all.tokens(), 5);
}

#[tokio::test]
async fn a_run_of_an_old_agent_counts_on_the_day_it_ended_and_its_first_record_on_that_of_its_creation() {
    let home = Home::new().await;
    let agent = home.agent("old").await;
    let week_later = MIDNIGHT + 7 * 86_400;
    for (source, tokens) in [("run 1", 5), ("run 2", 7), ("agent", 100)] {
        home.store.usage_count(&[told(&agent, source, tokens)], at(week_later)).await.unwrap();
    }
    let tokens = async |second| home.store.usage_on(at(second)).await.unwrap().all.tokens();
    assert_eq!((tokens(0).await, tokens(week_later).await), (100, 12));
}
