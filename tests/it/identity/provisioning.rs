//! What lies in an agent's directory after each start, and what is said when it could not be put there.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{Program, Up, eventually};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn an_agent_finds_its_token_role_address_configuration_and_budget() {
    let program = Program::without_coder();
    std::fs::create_dir_all(program.data_dir().join("roles")).unwrap();
    let role = "---\nkind: review\nmax_tokens: 500\n---\nYou read.\n\nCarefully — ✓";
    std::fs::write(program.data_dir().join("roles/reader.md"), role).unwrap();
    let program = program.with_settings("[agents]\nmax_cost_usd = 1.5\nmax_tokens = 9000\n");
    let up = Up::start(&program).await;
    up.agent_with(json!({ "project": "setup", "spec": "say hello", "name": "otter", "role": "reader" }))
        .await;

    let directory = up.workspace("otter").join("fleet");
    assert_eq!(mode(&directory), 0o700);
    for file in ["token", "url", "role.md", "mcp.json", "config.toml", "budget.json", "provisioned.json"] {
        assert_eq!(mode(&directory.join(file)), 0o600, "{file}");
    }
    let read = |file: &str| up.agent_file("otter", file).unwrap();
    let (token, url) = (up.token_of("otter"), up.url.clone());
    let json_of = |file: &str| serde_json::from_str::<Value>(&read(file)).unwrap();
    assert_eq!(read("url"), format!("{url}\n"));
    let role = read("role.md");
    assert!(role.starts_with("You read.\n\nCarefully — ✓\n\n## Reporting\n"), "{role}");
    assert!(role.contains("`report_status`") && role.contains("`question`"), "{role}");
    let server = json!({ "type": "http", "url": format!("{url}/mcp"), "headers": { "Authorization": format!("Bearer {token}") } });
    assert_eq!(json_of("mcp.json"), json!({ "mcpServers": { "fleet_agent": server } }));
    let expected = format!(
        "[mcp_servers.fleet_agent]\nbearer_token_env_var = \"FLEET_TOKEN\"\ndefault_tools_approval_mode = \"approve\"\n\
         required = true\ntool_timeout_sec = 600\nurl = \"{url}/mcp\"\n"
    );
    assert_eq!(read("config.toml"), expected);
    assert_eq!(json_of("budget.json"), json!({ "max_cost_usd": 1.5, "max_tokens": 500 }));
    let provisioned = json_of("provisioned.json");
    assert_eq!((&provisioned["generation"], &provisioned["callback"]), (&json!(1), &json!("direct")));
    let left: Vec<String> = std::fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".fresh"))
        .collect();
    assert_eq!(left, Vec::<String>::new());

    let shown = up.show("otter").await;
    assert_eq!((&shown["callback"], &shown["callback_reason"]), (&json!("direct"), &Value::Null));
    let tokens = up.get("/api/v1/tokens").await;
    let own = tokens["tokens"].as_array().unwrap().iter().find(|row| row["agent"] == "otter").unwrap();
    assert_eq!(
        (&own["kind"], &own["role"], &own["projects"]),
        (&json!("review"), &json!("reader"), &json!(["setup"]))
    );
    assert!(own["expires_at"].is_string());
}

#[tokio::test]
async fn an_address_that_cannot_be_reached_from_inside_is_said_with_the_remedy() {
    // The port of a closed listener: connections are refused there.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let program = Program::without_coder().variable("FLEET_PUBLIC_URL", &format!("http://{free}"));
    let up = Up::start(&program).await;
    up.agent("otter").await;
    let shown = up.show("otter").await;
    assert_eq!(shown["callback"], "unreachable");
    let reason = format!(
        "the workspace cannot reach http://{free}: set FLEET_PUBLIC_URL to an address that the workspace can reach, and restart the server"
    );
    assert_eq!(shown["callback_reason"], json!(reason));
    let doctor = up.get("/api/v1/doctor").await;
    let check =
        doctor["checks"].as_array().unwrap().iter().find(|check| check["name"] == "callbacks").unwrap();
    assert_eq!(
        (&check["ok"], &check["finding"]),
        (&json!(false), &json!(format!("1 of 1 running agents cannot call the fleet; otter: {reason}")))
    );
    assert!(up.agent_file("otter", "provisioned.json").unwrap().contains("unreachable"));
}

#[tokio::test]
async fn an_agent_that_cannot_be_written_to_runs_on_says_why_and_is_given_its_things_later() {
    let up = Up::start(&Program::without_coder()).await;
    up.agent("otter").await;
    let obstacle = up.workspace("otter").join("fleet/.url.fresh");
    std::fs::create_dir(&obstacle).unwrap();
    up.change("otter", "restart").await;
    eventually("the trouble is shown", async || !up.show("otter").await["callback_reason"].is_null()).await;
    let shown = up.show("otter").await;
    let reason = shown["callback_reason"].as_str().unwrap();
    assert!(
        reason.starts_with("the agent's files could not be written: the files did not arrive whole, or "),
        "{reason}"
    );
    assert_eq!((&shown["status"], &shown["callback"]), (&json!("idle"), &Value::Null));

    std::fs::remove_dir(&obstacle).unwrap();
    up.provisioned("otter").await;
    assert_eq!(up.show("otter").await["callback_reason"], Value::Null);
    assert_eq!(up.get_as(&up.token_of("otter"), "/api/v1/agents").await.status, 200);
}

#[tokio::test]
async fn an_agent_that_outlives_the_server_is_told_the_new_address() {
    let up = Up::start(&Program::without_coder()).await;
    up.agent("otter").await;
    let (old_url, old_token) = (up.url.clone(), up.token_of("otter"));
    let up = Up::start(&up.killed().await).await;
    assert_ne!(up.url, old_url);
    let told = format!("{}\n", up.url);
    eventually("it has the new address", async || up.agent_file("otter", "url").as_ref() == Some(&told))
        .await;
    eventually("it is recorded", async || up.show("otter").await["callback"] == "direct").await;
    assert_eq!(up.show("otter").await["generation"], 1);
    for token in [old_token, up.token_of("otter")] {
        assert_eq!(up.get_as(&token, "/api/v1/agents").await.status, 200);
    }
}
