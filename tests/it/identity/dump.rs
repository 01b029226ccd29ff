//! A program inside a workspace that prints all it can see: the Coder session token is nowhere in it.

use serde_json::json;

use crate::harness::{Program, Up, skipped};

/// Environment, every file it can read where it may look, what other processes were started with, and what
/// everything it can call answers.
const DUMP: &str = r#"
say() { printf '\n== %s\n' "$1"; }
say environment; env
say files
for root in "$HOME" "$FLEET_AGENT_DIR" "$PWD" "${XDG_RUNTIME_DIR:-/nowhere}" "${TMPDIR:-/tmp}/fleet"*; do
    find "$root" -type f -size -2000k 2>/dev/null | while read -r file; do say "$file"; cat "$file" 2>/dev/null; done
done
say processes
for process in /proc/[0-9]*; do
    for file in cmdline environ; do say "$process/$file"; tr '\0' '\n' < "$process/$file" 2>/dev/null; done
done
say calls
token=$(cat "$FLEET_AGENT_DIR/token")
for path in /api/v1/agents /api/v1/agents/otter /api/v1/status /api/v1/projects /api/v1/tokens /api/v1/doctor /metrics; do
    say "$path"; curl -s -H "Authorization: Bearer $token" "$(cat "$FLEET_AGENT_DIR/url")$path"
done
for path in status messages fleet/state; do say "$path"; curl -s --unix-socket "$FLEET_AGENT_SOCKET" "http://x/$path"; done
say coder; curl -s "$CODER_AGENT_URL/api/v2/users/me"
"#;

fn curl_is_missing() -> bool {
    std::process::Command::new("curl").arg("--version").output().is_err()
}

#[tokio::test]
async fn the_coder_session_token_is_nowhere_that_a_program_in_a_workspace_can_look() {
    if curl_is_missing() {
        skipped("the dump program calls with curl, which is not installed");
        return;
    }
    let up = Up::start(&Program::without_coder()).await;
    up.agent("otter").await;
    let own = up.token_of("otter");
    let canary = up.coder_token();
    // The agent calls the fleet, and the fleet calls into the workspace, so that whatever leaks has leaked.
    up.tool_as(&own, "set_agent_metadata", &json!({ "key": "fleet_mcp_note", "value": "x" })).await;
    let home = up.workspace("otter");
    // The home of the test is the operator's, in which the data directory lies; agents are kept out of that by a
    // namespace of their own, which is tested where it is made. Here the program looks where it is sent to look.
    let script = format!(
        "HOME={} FLEET_AGENT_SOCKET=$(ls $FLEET_AGENT_DIR/*.sock 2>/dev/null | head -1)\n{DUMP}",
        home.display()
    );
    let output = up.exec("otter", &script).await;
    let dump = String::from_utf8_lossy(&output.stdout).into_owned();
    for section in ["environment", "files", "processes", "calls", "coder"] {
        assert!(dump.contains(&format!("== {section}\n")), "{section} is missing: {dump}");
    }
    // It did see what it is meant to see, so it would have seen the other too.
    assert!(dump.contains(&own) && dump.contains("FLEET_AGENT_DIR="), "{dump}");
    assert!(dump.contains(r#""name":"otter""#), "{dump}");
    let at = dump.find(&canary);
    let context = at.map(|at| dump[at.saturating_sub(600)..at].to_owned());
    assert_eq!(context, None, "the Coder session token is visible");
    let operators =
        [up.operator_token(), std::fs::read_to_string(up.program.data_dir().join("manager.token")).unwrap()];
    for secret in operators {
        assert!(!dump.contains(secret.trim()), "a token of people is visible");
    }
}
