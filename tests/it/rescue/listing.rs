//! The list of rescues: what was saved and what was not, for operators and managers.

use serde_json::json;

use super::make_work;
use crate::harness::{Program, Up};

#[tokio::test]
async fn rescues_are_listed_newest_first_with_what_became_of_each() {
    let up = Up::start(&Program::without_coder()).await;
    for name in ["otter", "heron"] {
        up.agent(name).await;
    }
    make_work(&up.workspace("otter").join("repo"));
    let rescued = up.delete("otter", "").await["rescued"].clone();
    up.delete("heron", "").await;
    let list = up.program.json(&["--json", "rescue", "list"]).await;
    let rows = list["rescues"].as_array().unwrap();
    let expected_saved = json!({
        "id": rescued["id"], "agent_name": "otter", "project": "setup", "state": "saved", "path": rescued["path"],
        "bytes": rescued["bytes"], "commit": rescued["commit"], "note": null, "created_at": rows[1]["created_at"]
    });
    let expected_nothing = json!({
        "id": rows[0]["id"], "agent_name": "heron", "project": "setup", "state": "nothing", "path": null,
        "bytes": null, "commit": null, "note": null, "created_at": rows[0]["created_at"]
    });
    assert_eq!(rows, &[expected_nothing, expected_saved]);
    let shown = up.program.run(&["rescue", "list"]).await;
    let table = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(table.contains("otter") && table.contains("saved") && table.contains("nothing"), "{table}");

    let manager = std::fs::read_to_string(up.program.data_dir().join("manager.token")).unwrap();
    assert_eq!(up.get_as(manager.trim(), "/api/v1/rescues").await.body, list);
    let id = rescued["id"].as_str().unwrap();
    let bundle = up.get_as(manager.trim(), &format!("/api/v1/rescues/{id}/bundle")).await;
    assert_eq!(bundle.headers["content-type"], "application/octet-stream");
    assert_eq!(bundle.headers["content-length"], rescued["bytes"].to_string().as_str());
}
