//! What each engine would run: arguments, environment and standard input, whole.

use std::path::PathBuf;

use fleet_mcp::engine::codex::{Codex, Sandbox};
use fleet_mcp::engine::custom::{Custom, shipped};
use fleet_mcp::engine::demo::Demo;
use fleet_mcp::engine::member::{MemberEngine, place};
use fleet_mcp::engine::template::Values;
use fleet_mcp::engine::{Count, Engine, EngineWord, FleetAccess, Repository, Request, RolePrompt, Session};

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
    Session::Resume { id: "earlier".to_owned(), spent: Count::default() }
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
    let templates = shipped(EngineWord::CursorAgent).unwrap();
    let cursor = Custom::new(EngineWord::CursorAgent, templates.run, templates.create_chat).unwrap();
    let opening = cursor.opening(&everything(fresh())).unwrap();
    insta::assert_snapshot!("cursor_agent_opening", format!("{opening:#?}"));
    insta::assert_snapshot!("cursor_agent_run", shown(&cursor, &everything(resumed())));
    assert!(cursor.opening(&everything(resumed())).unwrap().is_none());
    let demo = Demo { program: PathBuf::from("/bin/fleet-mcp") };
    insta::assert_snapshot!("demo", shown(&demo, &everything(fresh())));
}

#[test]
fn a_custom_engine_gets_its_prompt_once_in_an_argument_or_on_standard_input() {
    let engine = |template: &str| Custom::new(EngineWord::Custom, template, None).unwrap();
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

/// Agents are called by code and members by templates: what the one is denied, the other is denied too.
#[test]
fn members_are_called_as_agents_are() {
    let shared = |session| Request {
        role: None,
        notes: None,
        settings: None,
        fleet: None,
        max_cost_usd: None,
        ..everything(session)
    };
    for (session, chat) in
        [(fresh(), ("newChatId", "00000000-0000-0000-0000-000000000007")), (resumed(), ("chatId", "earlier"))]
    {
        let request = Request { is_followed: false, ..shared(session) };
        let mut values = place("/w/repo", request.repository.as_ref(), None);
        values.extend([chat, ("model", "opus")].map(|(name, value)| (name.to_owned(), value.to_owned())));
        for engine in [&claude() as &dyn Engine, &codex()] {
            let member = MemberEngine::shipped(engine.word(), &Values::new()).unwrap().unwrap();
            let called = member.command(&values).unwrap();
            let invocation = engine.invocation(&request).unwrap();
            let arguments = invocation.arguments.iter().map(|word| word.to_str().unwrap());
            // Nobody reads along with a member.
            let arguments = arguments.filter(|word| *word != "--verbose");
            let arguments = arguments.map(|word| if word == "stream-json" { "text" } else { word });
            assert_eq!(
                called.argv[1..].iter().map(String::as_str).collect::<Vec<_>>(),
                arguments.collect::<Vec<_>>()
            );
            assert_eq!(called.environment, invocation.environment);
        }
    }
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

#[test]
fn every_engine_that_squads_can_name_comes_with_a_template() {
    let named = EngineWord::ALL.iter().filter(|word| shipped(**word).is_some()).collect::<Vec<_>>();
    let expected = [EngineWord::Claude, EngineWord::Codex, EngineWord::CursorAgent, EngineWord::Demo];
    assert_eq!(named, expected.iter().collect::<Vec<_>>());
    for word in expected {
        let templates = shipped(word).unwrap();
        for text in [Some(templates.run), templates.create_chat].into_iter().flatten() {
            fleet_mcp::engine::template::Template::parse(text).unwrap();
        }
    }
}
