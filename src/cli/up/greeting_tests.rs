//! The greeting for people and programs.

use super::*;

fn greeting<'a>(host: &'a AgentHost, clients: &[Installed]) -> Greeting<'a> {
    Greeting {
        host,
        demo: Demo::Unwanted,
        server: ServerFile {
            url: "http://127.0.0.1:3001".parse().unwrap(),
            mcp_url: "http://127.0.0.1:3001/mcp".parse().unwrap(),
            pid: 42,
            version: "0.1.0".to_owned(),
        },
        data_directory: "/home/me/fleet data".into(),
        program: "/opt/fleet-mcp".into(),
        arguments: vec!["--data-dir".to_owned(), "/home/me/fleet data".to_owned()],
        clients: clients.to_vec(),
    }
}

fn claude(wanted: Option<[u32; 2]>) -> AgentHost {
    let version = Some("2.1.325".to_owned());
    let program = EngineProgram::Found { program: "/usr/bin/claude".into(), version, wanted };
    AgentHost::Here { engine: "claude".to_owned(), program }
}

fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

const CLAUDE: Installed = Installed { title: "Claude Code", word: "claude" };
const DESKTOP: Installed = Installed { title: "Claude Desktop", word: "claude-desktop" };

#[test]
fn a_machine_with_a_cli_and_clients_is_greeted_with_lines_to_copy() {
    let host = claude(None);
    insta::assert_snapshot!(plain(&greeting(&host, &[CLAUDE, DESKTOP]).text()));
}

#[test]
fn a_bare_machine_is_told_plainly_that_agents_are_scripted() {
    let host = AgentHost::Here { engine: "demo".to_owned(), program: EngineProgram::Own { instead: None } };
    let bare = Greeting { arguments: Vec::new(), ..greeting(&host, &[]) };
    insta::assert_snapshot!(plain(&bare.text()));
}

#[test]
fn an_engine_that_is_not_there_is_named_with_the_way_out() {
    let program = EngineProgram::Missing("codex".to_owned());
    let host = AgentHost::Here { engine: "codex".to_owned(), program };
    let expected = "codex, but no program 'codex' is on the PATH: install it, or use --engine demo";
    assert_eq!(greeting(&host, &[]).engine().as_deref(), Some(expected));
    let program = EngineProgram::Own { instead: Some("codex") };
    let host = AgentHost::Here { engine: "demo".to_owned(), program };
    let expected = "demo: scripted agents that need no account; use --engine codex to run real agents";
    assert_eq!(greeting(&host, &[]).engine().as_deref(), Some(expected));
}

#[test]
fn an_engine_too_old_for_any_task_is_told_before_the_first_one_fails() {
    let host = claude(Some([2, 2]));
    let expected =
        "claude 2.1.325 (/usr/bin/claude): too old, update it to 2.2 or later, or use --engine demo";
    assert_eq!(greeting(&host, &[]).engine().as_deref(), Some(expected));
}

#[test]
fn where_demo_agents_are_at_work_the_command_to_try_shows_them() {
    let host = AgentHost::Here { engine: "demo".to_owned(), program: EngineProgram::Own { instead: None } };
    let demo = Greeting { demo: Demo::Wanted, arguments: Vec::new(), ..greeting(&host, &[]) };
    assert_eq!(demo.trial(), "/opt/fleet-mcp agents list --watch");
}

#[test]
fn on_a_coder_deployment_agents_go_on_without_the_server() {
    let host = AgentHost::Coder { url: "https://coder.example".parse().unwrap() };
    insta::assert_snapshot!(plain(&greeting(&host, &[CLAUDE]).text()));
}

#[test]
fn programs_get_the_same_as_json() {
    let host = claude(None);
    insta::assert_json_snapshot!(greeting(&host, &[CLAUDE]).json());
}

#[test]
fn words_are_quoted_for_a_shell_only_where_needed() {
    let cases =
        [("/a-b/c.d", "/a-b/c.d"), ("a b", "'a b'"), ("it's", r"'it'\''s'"), ("$x", "'$x'"), ("", "''")];
    for (word, expected) in cases {
        assert_eq!(quoted(word), expected);
    }
}
