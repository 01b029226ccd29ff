//! What each engine would run: arguments, environment and standard input, whole.

use std::path::PathBuf;

use fleet_mcp::domain::run::EngineOutput;
use fleet_mcp::engine::codex::{Codex, Sandbox};
use fleet_mcp::engine::custom::Custom;
use fleet_mcp::engine::demo::Demo;
use fleet_mcp::engine::template::Values;
use fleet_mcp::engine::{
    ConversationUsage, Engine, EngineWord, FleetAccess, Repository, Request, RolePrompt, Session,
};

use super::{claude, codex, fresh, request};

const TOKEN: &str = "/w/fleet/token";

/// All that can be asked for, in a linked worktree.
fn everything(session: Session) -> Request {
    let config_toml = "[mcp_servers.fleet_agent]\nurl = \"http://127.0.0.1:3001/mcp\"\n\
        bearer_token_env_var = \"FLEET_TOKEN\"\ndefault_tools_approval_mode = \"approve\"\nrequired = true\n";
    Request {
        role: Some(RolePrompt { text: "You write code.\n".to_owned(), file: "/w/fleet/role.md".into() }),
        notes: Some("Run the tests.\n".to_owned()),
        settings: Some("[mcp_servers.fleet]\ncommand = \"fleet-mcp\"\n".to_owned()),
        model: Some("opus".to_owned()),
        repository: Some(Repository {
            git_directory: "/src/main/.git/worktrees/repo".into(),
            common_directory: "/src/main/.git".into(),
        }),
        fleet: Some(FleetAccess {
            mcp_json: "/w/fleet/mcp.json".into(),
            config_toml: config_toml.to_owned(),
            token: TOKEN.into(),
        }),
        max_cost_usd: Some(1.5),
        is_review: true,
        ..request(session)
    }
}

fn resumed() -> Session {
    Session::Resume { id: "earlier".to_owned(), spent: ConversationUsage::default() }
}

fn shown(engine: &dyn Engine, request: &Request) -> String {
    format!("{:#?}", engine.invocation(request).unwrap())
}

#[test]
fn claude_code_is_called_with_its_rights_and_without_the_repositorys_settings() {
    insta::assert_snapshot!("claude_alone", shown(&claude(), &request(fresh())));
    insta::assert_snapshot!("claude_with_everything", shown(&claude(), &everything(fresh())));
    insta::assert_snapshot!("claude_resumed", shown(&claude(), &everything(resumed())));
}

#[test]
fn codex_is_called_with_both_git_directories_and_trusts_no_repository() {
    insta::assert_snapshot!("codex_alone", shown(&codex(), &request(fresh())));
    insta::assert_snapshot!("codex_with_everything", shown(&codex(), &everything(fresh())));
    insta::assert_snapshot!("codex_resumed", shown(&codex(), &everything(resumed())));
    let unconfined = Codex { sandbox: Sandbox::Impossible, ..codex() };
    insta::assert_snapshot!("codex_where_it_cannot_confine", shown(&unconfined, &request(fresh())));
}

#[test]
fn cursor_agent_gets_a_chat_first_and_the_demo_engine_is_told_that_it_reviews() {
    let cursor = Custom::cursor_agent(&Values::new()).unwrap();
    let session_creation = cursor.session_creation(&everything(fresh())).unwrap();
    insta::assert_snapshot!("cursor_agent_opening", format!("{session_creation:#?}"));
    insta::assert_snapshot!("cursor_agent_run", shown(&cursor, &everything(resumed())));
    assert!(cursor.session_creation(&everything(resumed())).unwrap().is_none());
    let demo = Demo { program: PathBuf::from("/bin/fleet-mcp") };
    insta::assert_snapshot!("demo", shown(&demo, &everything(fresh())));
}

#[test]
fn a_custom_engine_gets_its_prompt_once_in_an_argument_or_on_standard_input() {
    let engine = |template: &str| Custom::new(EngineWord::Custom, template, None, &Values::new()).unwrap();
    let inserted =
        engine("agent\n--chat=<% newChatId %>\n<% prompt %>\n").invocation(&everything(fresh())).unwrap();
    assert_eq!(inserted.stdin, "");
    assert_eq!(
        inserted.arguments,
        [
            "--chat=00000000-0000-0000-0000-000000000007",
            "# Role\n\nYou write code.\n\n---\n\n# Task\n\nDo it."
        ]
    );
    let fed = engine("agent\n--in\n<% cwd %>\n").invocation(&everything(resumed())).unwrap();
    assert_eq!((fed.stdin.as_str(), &fed.arguments[..]), ("Do it.", &["--in".into(), "/w/repo".into()][..]));
    let long = Request { message: "x".repeat(200_000), ..request(fresh()) };
    let refused = engine("agent\n<% prompt %>\n").invocation(&long).unwrap_err().to_string();
    assert!(refused.contains("remove the prompt from the template"), "{refused}");
}

/// Claude Code prints words for people who read a member's output. Codex has no such form that names its thread.
#[test]
fn members_are_called_as_agents_are_but_for_what_claude_code_prints() {
    for session in [Session::Unnamed, fresh(), resumed()] {
        let agents = Request { output: EngineOutput::Events, ..everything(session) };
        let members = Request { output: EngineOutput::Text, ..agents.clone() };
        let called = |engine: &dyn Engine, request| engine.invocation(request).unwrap();
        let (as_agent, as_member) = (called(&claude(), &agents), called(&claude(), &members));
        let words = as_agent.arguments.iter().filter(|word| *word != "--verbose");
        let words = words.map(|word| if word == "stream-json" { "text".into() } else { word.clone() });
        assert_eq!(as_member.arguments, words.collect::<Vec<_>>());
        assert_eq!(as_member.environment, as_agent.environment);
        assert_eq!(called(&codex(), &members).arguments, called(&codex(), &agents).arguments);
    }
    let nameless = claude().invocation(&request(Session::Unnamed)).unwrap();
    assert!(!nameless.arguments.contains(&"--session-id".into()), "{nameless:?}");
}

/// The settings add variables; a run's own count before those, and an unknown one stops the start.
#[test]
fn a_template_may_name_what_the_run_and_the_settings_have() {
    let values = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Values>()
    };
    let template = "p\n<% region %>\n<% roleId %>\n<% task %>\n<% model %>\n<% newChatId %>|<% chatId %>\n";
    let error = Custom::new(EngineWord::Custom, template, None, &Values::new()).unwrap_err().to_string();
    assert!(
        error.starts_with("line 2 of the template: there is no variable 'region'; there are: "),
        "{error}"
    );
    let settings = values(&[("region", "eu"), ("model", "small"), ("roleId", "nobody")]);
    let engine = Custom::new(EngineWord::Custom, template, None, &settings).unwrap();
    let variables = values(&[("roleId", "coder"), ("task", "the task alone")]);
    let told = engine.invocation(&Request { variables, ..request(Session::Unnamed) }).unwrap();
    assert_eq!(told.arguments, ["eu", "coder", "the task alone", "small", "|"]);
}

/// Codex gets it by a variable, Claude Code by a file of its own; an engine knows only where it lies.
#[test]
fn the_agents_token_is_in_no_command_line() {
    for engine in [&claude() as &dyn Engine, &codex()] {
        let invocation = engine.invocation(&everything(fresh())).unwrap();
        let secrets = [("FLEET_TOKEN".to_owned(), PathBuf::from(TOKEN))];
        let expected = if engine.word() == EngineWord::Codex { &secrets[..] } else { &[] };
        assert_eq!(invocation.secrets, expected);
        let open = format!("{:?}{:?}{}", invocation.arguments, invocation.environment, invocation.stdin);
        assert!(!open.contains(TOKEN), "{open}");
    }
}
