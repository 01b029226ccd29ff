//! Squads over MCP and the command line: progress with the id, a client that leaves, schemas by mode, bad templates.

use serde_json::{Value, json};

use super::{SCRIPT, Squads, member, program};

#[tokio::test]
async fn a_client_that_leaves_finds_its_squad_again_by_the_first_word_of_progress() {
    let squads = Squads::scripted().await;
    let go = squads.sign("go");
    let task = format!("until [ -e {} ]; do sleep 0.02; done; echo done", go.display());
    let token = squads.up.operator_token();
    let arguments = json!({ "members": [member("coder", &task)] });
    let first = squads.up.first_progress(&token, "start_squad_members", &arguments).await;
    let squad = first.strip_prefix("squad ").and_then(|rest| rest.split(':').next()).unwrap().to_owned();
    assert_eq!(first, format!("squad {squad}: 0 of 1 members have ended"));
    std::fs::write(&go, "").unwrap();
    assert_eq!(
        super::told(&squads.done(&squad).await["members"]),
        [("completed".to_owned(), "done\n".to_owned())]
    );
}

#[tokio::test]
async fn answers_over_mcp_stay_short_and_the_rest_is_read_by_pages() {
    let squads = Squads::scripted().await;
    let token = squads.up.operator_token();
    let flood = "i=0; while [ $i -lt 4000 ]; do echo \"line $i\"; i=$((i + 1)); done";
    let arguments = json!({ "members": vec![member("coder", flood); 3], "metadata": { "for": "a test" } });
    let result = squads.up.tool_as(&token, "start_squad_members", &arguments).await;
    let answer = &result["structuredContent"];
    assert!(answer.to_string().chars().count() <= 24_000);
    assert_eq!(
        (&answer["metadata"], &answer["members"][2]["truncated"]),
        (&json!({ "for": "a test" }), &json!(true))
    );
    let whole: String = (0..4_000).map(|i| format!("line {i}\n")).collect();
    let (mut all, mut next) = (String::new(), Some(0));
    while let Some(offset) = next {
        let question = json!({
            "squadId": answer["squadId"], "memberId": answer["members"][2]["memberId"], "stream": "stdout",
            "offset": offset, "limit": 1_000_000
        });
        let page = squads.up.tool_as(&token, "squad_status", &question).await["structuredContent"].clone();
        assert!(page.to_string().chars().count() <= 24_000);
        all.push_str(page["text"].as_str().unwrap());
        next = page["next_offset"].as_i64();
    }
    assert!(all == whole);
}

#[tokio::test]
async fn the_command_line_runs_a_squad_to_its_end_and_shows_it() {
    let squads = Squads::scripted().await;
    let program = &squads.up.program;
    let run = program.run(&["squad", "run", "coder=echo hello; echo oops >&2", "reviewer=exit 4"]).await;
    assert_eq!(run.status.code(), Some(1));
    let out = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(out.contains("hello\noops\n") && out.contains("completed") && out.contains("error"), "{out}");
    let status = program.json(&["squad", "status", "--json"]).await;
    let statuses: Vec<&Value> =
        status["squads"][0]["members"].as_array().unwrap().iter().map(|member| &member["status"]).collect();
    assert_eq!(statuses, ["completed", "error"]);
    let roles = program.json(&["squad", "roles", "--json"]).await;
    let ids: Vec<&str> =
        roles["roles"].as_array().unwrap().iter().map(|role| role["id"].as_str().unwrap()).collect();
    let expected = [
        "architect",
        "backend-developer",
        "coder",
        "frontend-developer",
        "manager",
        "operator",
        "planner",
        "qa-engineer",
        "reviewer",
    ];
    assert_eq!(ids, expected);
}

#[tokio::test]
async fn a_file_is_the_whole_input_of_the_tool_or_the_members_alone() {
    let squads = Squads::scripted().await;
    let program = &squads.up.program;
    let path = squads.sign("squad.json");
    let run = async |content: Value| {
        std::fs::write(&path, content.to_string()).unwrap();
        program.run(&["squad", "run", "--file", path.to_str().unwrap(), "--json"]).await
    };
    let told = |output: &std::process::Output| -> Value { serde_json::from_slice(&output.stdout).unwrap() };
    let members = json!([member("coder", "echo hello")]);
    let input =
        json!({ "members": members, "metadata": { "for": "a test" }, "request_key": "k", "async": false });
    let [first, again] = [told(&run(input.clone()).await), told(&run(input).await)];
    assert_eq!((&first["metadata"], &first["done"]), (&json!({ "for": "a test" }), &json!(true)));
    assert_eq!(again, first);
    let alone = told(&run(members.clone()).await);
    assert_ne!(alone["squadId"], first["squadId"]);
    assert_eq!(alone["members"][0]["rawStdout"], "hello\n");
    let refused = run(json!({ "members": members, "colour": "red" })).await;
    assert_eq!(refused.status.code(), Some(2), "{}", String::from_utf8_lossy(&refused.stderr));
}

#[tokio::test]
async fn a_role_whose_file_is_broken_is_not_played_by_an_older_one() {
    let squads = Squads::scripted().await;
    let data = squads.up.program.data_dir();
    for folder in ["roles", "projects"] {
        std::fs::create_dir_all(data.join(folder)).unwrap();
    }
    std::fs::write(data.join("roles/coder.md"), "---\nname: x\n").unwrap();
    std::fs::write(data.join("projects/odd.toml"), "colour = 'red'\n").unwrap();
    let found = squads.up.get("/api/v1/squads/roles").await;
    let problem =
        format!("{}: the front matter has no closing '---' line", data.join("roles/coder.md").display());
    assert_eq!(found["problems"], json!([problem]));
    let refused =
        squads.refused(&json!({ "members": [member("reviewer", "true"), member("Coder", "true")] })).await;
    let message = format!("role 'Coder' cannot be used until its file is corrected: {problem}");
    assert_eq!((refused.status, &refused.body["message"]), (400, &json!(message)));
    let agent = json!({ "project": "setup", "spec": "x" });
    let token = squads.up.operator_token();
    let refused = squads.up.call_as(&token, reqwest::Method::POST, "/api/v1/agents", &agent).await;
    assert_eq!(
        (refused.status, &refused.body["details"]["field"]),
        (400, &json!("role")),
        "{}",
        refused.body
    );
    assert_eq!(squads.run_one(member("reviewer", "true")).await["status"], "completed");
}

#[tokio::test]
async fn roles_are_read_again_when_files_change_and_a_bad_one_hides_no_other() {
    let squads = Squads::scripted().await;
    let roles = squads.up.program.data_dir().join("roles");
    std::fs::create_dir_all(&roles).unwrap();
    std::fs::write(roles.join("Zoo.md"), "Tend the zoo.").unwrap();
    std::fs::write(roles.join("bad.md"), "---\nname: x\n").unwrap();
    let found = squads.up.get("/api/v1/squads/roles").await;
    // Bytewise: capitals come first.
    assert_eq!(found["roles"][0], json!({ "id": "Zoo", "name": "Zoo", "description": "" }));
    assert_eq!(found["roles"].as_array().unwrap().len(), 10);
    let problem = found["problems"][0].as_str().unwrap();
    assert!(problem.ends_with("bad.md: the front matter has no closing '---' line"), "{problem}");
    assert_eq!(squads.run_one(member("zoo", "true")).await["roleId"], "Zoo");
}

#[tokio::test]
async fn the_same_request_key_is_the_same_squad() {
    let squads = Squads::scripted().await;
    let sign = squads.sign("ran");
    let task = format!("echo ran >>{}", sign.display());
    let body = json!({ "members": [member("coder", &task)], "request_key": "k" });
    let first = squads.up.post("/api/v1/squads", &body).await;
    assert_eq!(squads.up.post("/api/v1/squads", &body).await["squadId"], first["squadId"]);
    assert_eq!(std::fs::read_to_string(&sign).unwrap(), "ran\n");
    let other = json!({ "members": [member("coder", "true")], "request_key": "k" });
    let refused = squads.refused(&other).await;
    assert_eq!(refused.body["code"], "KEY_REUSED");
}

#[tokio::test]
async fn a_template_with_an_unknown_variable_stops_the_start() {
    let program = program("prog\n<% colour %>\n", &[]);
    let output = program.run(&["up", "--port", "0"]).await;
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("run.template")
            && said.contains("line 2 of the template: there is no variable 'colour'"),
        "{said}"
    );
    assert_eq!(said.matches("there is no variable").count(), 1, "{said}");
    let output = program.run(&["up", "--port", "0", "--engine", "steam"]).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), said.matches("steam").count()), (Some(2), 1), "{said}");
}

#[tokio::test]
async fn a_template_that_no_member_is_called_by_is_warned_of() {
    let squads = Squads::on(program(SCRIPT, &[("ENGINE", "demo")])).await;
    let log = squads.up.program.log();
    assert!(log.contains("RUN_TEMPLATE_PATH is for the engine 'custom'"), "{log}");
}

#[tokio::test]
async fn tools_show_conversations_only_where_there_are_any() {
    for (mode, is_shown) in [("stateless", false), ("stateful", true)] {
        let squads = Squads::on(program(SCRIPT, &[("STATE_MODE", mode)])).await;
        let tools = squads.up.tools_as(&squads.up.operator_token()).await;
        let text: String = tools.iter().map(Value::to_string).collect();
        assert_eq!(text.contains("chatId"), is_shown, "{mode}");
    }
}

/// Members that get nowhere are quick, and all that is said of them is what the caller gave.
#[tokio::test]
async fn answers_over_mcp_stay_short_with_long_inputs_of_callers() {
    let squads = Squads::scripted().await;
    let token = squads.up.operator_token();
    let on_absent_agent = |n: usize, cwd: String| json!({ "roleId": "coder", "task": "x", "agent_name": format!("nobody-{n}"), "cwd": cwd });
    let long: Vec<Value> = (0..50).map(|n| on_absent_agent(n, "a\u{1}\"".repeat(1_200))).collect();
    let short: Vec<Value> = (0..50).map(|n| on_absent_agent(n, "sub".to_owned())).collect();
    let metadata = json!({ "note": "x".repeat(16_000) });
    for (members, metadata) in [(long, json!({ "for": "a test" })), (short, metadata)] {
        let arguments = json!({ "members": members, "metadata": metadata });
        let answer = squads.up.tool_as(&token, "start_squad_members", &arguments).await;
        let question = json!({ "squadId": answer["structuredContent"]["squadId"] });
        let shown = squads.up.tool_as(&token, "squad_status", &question).await;
        for told in [&answer["structuredContent"], &shown["structuredContent"]] {
            assert!(told.to_string().chars().count() <= 24_000);
            let ended =
                told["members"].as_array().unwrap().iter().filter(|member| member["status"] == "error");
            assert_eq!((ended.count(), &told["truncated"]), (50, &json!(true)));
        }
    }
}
