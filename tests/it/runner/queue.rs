//! Tasks that wait: how many, how to ask about one, how to take one back.

use serde_json::json;

use super::workspace::Workspace;

#[tokio::test]
async fn only_so_much_may_wait_and_the_rest_is_sent_back_clearly() {
    let workspace = Workspace::new();
    let runner = workspace.start().await;
    runner.task("running", "sleep 600").await;
    for number in 0..256 {
        runner.task(&format!("waiting-{number}"), "say x").await;
    }
    let surplus = json!({ "content": "say x", "type": "user", "task_id": "surplus" });
    let refused = runner.post(&surplus).await;
    let said = "the queue of this agent is full; send the message again later";
    assert_eq!((refused.status, &refused.body["detail"]), (429, &json!(said)));
    runner.task("waiting-7", "one that is known is no surplus").await;
    runner
        .taken(&json!({ "content": "\u{1b}", "type": "raw", "task_id": "waiting-7", "cancel": true }))
        .await;
    crate::harness::eventually("there is room again", async || runner.post(&surplus).await.status == 200)
        .await;
}

#[tokio::test]
async fn a_task_can_be_taken_back_while_it_waits_and_while_it_runs() {
    let workspace = Workspace::new();
    let runner = workspace.start().await;
    runner.task("first", "sleep 600").await;
    runner.task("second", "commit never").await;
    runner.task("third", "say done").await;
    let cancel = |task: &str| json!({ "content": "\u{1b}", "type": "raw", "task_id": task, "cancel": true });
    runner.taken(&cancel("second")).await;
    runner.taken(&cancel("unknown")).await;
    runner.taken(&cancel("first")).await;
    runner.stable().await;
    runner.taken(&cancel("third")).await;
    let interrupted = json!({ "outcome": "interrupted", "by": "request" });
    let expected = [
        (json!("first"), interrupted.clone()),
        (json!("second"), interrupted.clone()),
        (json!("third"), json!({ "outcome": "complete", "text": "done" })),
        // Noted, so that the task is not taken when it comes late.
        (json!("unknown"), interrupted),
    ];
    assert_eq!(runner.outcomes().await, expected);
    runner.kill().await;
    let runner = workspace.start().await;
    runner.stable().await;
    assert_eq!(runner.outcomes().await, expected);
    assert_eq!(workspace.commits(), Vec::<String>::new());
    for body in [
        json!({ "content": "\u{1b}", "type": "raw", "cancel": true }),
        json!({ "content": "\u{1b}", "type": "raw", "task_id": "x", "cancel": "yes" }),
    ] {
        assert_eq!(runner.post(&body).await.status, 422, "{body}");
    }
}

#[tokio::test]
async fn one_task_is_asked_about_without_the_whole_conversation() {
    let workspace = Workspace::new();
    let runner = workspace.start().await;
    runner.task("first", "say one").await;
    runner.stable().await;
    let shown = runner.get("/fleet/state?task=first").await;
    let turn = runner.state().await["turns"][0].clone();
    assert_eq!(
        shown,
        json!({ "version": 1, "workspace": "ann", "engine": "demo", "generation": 7, "status": "stable", "task": turn })
    );
    assert_eq!(turn["outcome"], json!({ "outcome": "complete", "text": "one" }));
    assert_eq!(runner.get("/fleet/state?task=other").await["task"], json!(null));
}
