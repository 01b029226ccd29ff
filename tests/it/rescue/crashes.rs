//! Kill -9 around the rescue: the next server saves the work or says that it did not, and the agent goes.

#[cfg(feature = "test-hooks")]
mod with_hooks {
    use serde_json::{Value, json};

    use super::super::{git, make_work};
    use crate::harness::{Program, Up, eventually};

    const POINTS: [&str; 3] = ["rescue.begun", "rescue.tried", "rescue.recorded"];

    #[tokio::test]
    async fn a_kill_at_any_point_of_the_rescue_loses_neither_the_work_nor_the_delete() {
        for point in POINTS {
            let program = Program::without_coder();
            let doomed = Up::start(&program.clone().variable("FLEET_KILL_POINT", point)).await;
            doomed.agent("otter").await;
            make_work(&doomed.workspace("otter").join("repo"));
            program.run(&["agents", "delete", "otter", "-y"]).await;
            doomed.died().await;
            let up = Up::start(&program).await;
            eventually("the workspace is gone", async || !up.workspace("otter").exists()).await;
            eventually("the rescue is over", async || state(&up).await == json!("saved")).await;
            let rows = up.get("/api/v1/rescues").await;
            assert_eq!(rows["total_count"], 1, "{point}");
            let rescued = &rows["rescues"][0];
            let elsewhere = tempfile::tempdir().unwrap();
            git(elsewhere.path(), &["init", "--quiet"]);
            let path = rescued["path"].as_str().unwrap();
            git(elsewhere.path(), &["fetch", "--quiet", path, "refs/rescue/work:refs/heads/back"]);
            assert_eq!(json!(git(elsewhere.path(), &["rev-parse", "back"])), rescued["commit"], "{point}");
            let kept = std::fs::read_dir(program.data_dir().join("rescued")).unwrap().count();
            assert_eq!(kept, 1, "{point}");
        }
    }

    async fn state(up: &Up) -> Value {
        up.get("/api/v1/rescues").await["rescues"][0]["state"].clone()
    }
}
