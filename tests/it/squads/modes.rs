//! At once or one after the other, as the settings say.

use chrono::TimeDelta;
use serde_json::json;

use super::{SCRIPT, Squads, member};

#[tokio::test]
async fn members_at_once_overlap() {
    let squads = Squads::scripted().await;
    // Each waits for the other to have begun, so neither ends alone.
    let (one, other) = (squads.sign("one"), squads.sign("other"));
    let task = |own: &std::path::Path, awaited: &std::path::Path| {
        format!("touch {}; until [ -e {} ]; do sleep 0.02; done; echo met", own.display(), awaited.display())
    };
    let members = json!([member("coder", &task(&one, &other)), member("coder", &task(&other, &one))]);
    let run = squads.run(&members).await;
    assert_eq!(super::told(&run["members"]), vec![("completed".to_owned(), "met\n".to_owned()); 2]);
    let [one, other]: [_; 2] = squads.recorded(&run).await.try_into().unwrap();
    assert!(one.0 < other.1 && other.0 < one.1, "{one:?} {other:?}");
}

#[tokio::test]
async fn members_in_turn_do_not_overlap_and_keep_the_delay() {
    let variables = [("EXECUTION_MODE", "sequential"), ("SEQUENTIAL_DELAY_MS", "300")];
    let squads = Squads::with(SCRIPT, &variables).await;
    let clock = "read -r up rest </proc/uptime; echo $up; sleep 0.1; read -r up rest </proc/uptime; echo $up";
    let run =
        squads.run(&json!([member("coder", clock), member("coder", clock), member("coder", clock)])).await;
    let intervals: Vec<Vec<f64>> = super::told(&run["members"])
        .iter()
        .map(|(_, text)| text.lines().map(|line| line.parse().unwrap()).collect())
        .collect();
    for pair in intervals.windows(2) {
        // The clock counts hundredths.
        assert!(pair[1][0] - pair[0][1] >= 0.29, "{intervals:?}");
    }
    let recorded = squads.recorded(&run).await;
    for pair in recorded.windows(2) {
        assert!(pair[1].0 - pair[0].1 >= TimeDelta::milliseconds(300), "{recorded:?}");
    }
}
