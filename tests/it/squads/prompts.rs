//! What an engine gets: prompt byte for byte on standard input, arguments by position, the environment by a list.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;

use super::{Squads, member, program};

pub(super) const FOOTER: &str = "\n\n---\n\n# Setup & Reporting Rules\n\nIf you notice any setup or environment problems that prevent you from doing the task correctly,\nyou MUST report them clearly as SETUP / ENVIRONMENT ISSUES.\n\nExplain what you observed and suggest specific fixes for the human.\nDo NOT fabricate a successful implementation if the environment blocks you.";
pub(super) const ROLE: &str =
    "---\ndescription: Tries things.\n---\n\nYou \"try\" $things.\n\n<% prompt %> `id`\n";
/// Writes down everything it was given, in a folder named by its third argument.
const ENGINE: &str = r#"d=$1/$3; mkdir "$d"; for a do printf '%s\0' "$a"; done >"$d/argv"; cat >"$d/in"
cat /proc/$$/environ >"$d/env"; echo done"#;

struct Dump {
    arguments: Vec<String>,
    stdin: String,
    environment: BTreeMap<String, String>,
}

fn dump(folder: &Path) -> Dump {
    let list = |name: &str| {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        text.split_terminator('\0').map(str::to_owned).collect::<Vec<_>>()
    };
    let variables = list("env").into_iter();
    Dump {
        arguments: list("argv"),
        stdin: std::fs::read_to_string(folder.join("in")).unwrap(),
        environment: variables
            .map(|pair| pair.split_once('=').map(|(n, v)| (n.into(), v.into())).unwrap())
            .collect(),
    }
}

#[tokio::test]
async fn awkward_and_long_prompts_arrive_byte_for_byte_and_arguments_keep_their_places() {
    let program =
        program("", &[("GITHUB_TOKEN", "canary"), ("ANTHROPIC_MODEL", "m"), ("LD_LIBRARY_PATH", "/x")]);
    let dumps = program.directory.path().join("dumps");
    std::fs::create_dir(&dumps).unwrap();
    let engine = program.directory.path().join("engine.sh");
    std::fs::write(&engine, ENGINE).unwrap();
    let roles = program.directory.path().join("roles");
    std::fs::create_dir(&roles).unwrap();
    std::fs::write(roles.join("trier.md"), ROLE).unwrap();
    let (script, folder) = (engine.display(), dumps.display());
    let lines = [
        "# comment",
        "sh",
        &script.to_string(),
        &folder.to_string(),
        "<% STATE_MODE %>",
        "",
        "<%= model %>x",
        "<% chatId %>",
        "last",
    ];
    let template = lines.join("\n");
    std::fs::write(program.directory.path().join("run.template"), template).unwrap();
    let program = program.variable("AGENTS_DIRECTORY_PATH", roles.to_str().unwrap());
    let squads = Squads::on(program).await;
    let tasks = [
        "'single' \"double\" $HOME `id` $(id) \\ %s <% cwd %> <%= prompt %>".to_owned(),
        "one\ntwo\r\n\n\tthree  \n".to_owned(),
        "é漢🦀\u{1}\u{7f}".to_owned(),
        "long line of a prompt\n".repeat(250_000 / 22 + 1),
    ];
    for task in &tasks {
        let one = squads.run_one(member("Trier", task)).await;
        assert_eq!((&one["status"], &one["rawStdout"]), (&json!("completed"), &json!("done\n")), "{one}");
        let found = dump(&dumps.join("x"));
        let role = "You \"try\" $things.\n\n<% prompt %> `id`";
        assert!(found.stdin == format!("# Role\n\n{role}\n\n---\n\n# Task\n\n{task}{FOOTER}"), "{task:.80}");
        let expected = [dumps.to_str().unwrap(), "stateless", "x", "", "last"];
        assert_eq!(found.arguments, expected);
        assert_eq!(one["roleId"], "trier");
        let names: Vec<&str> = found.environment.keys().map(String::as_str).collect();
        insta::assert_snapshot!("environment", names.join("\n"));
        std::fs::remove_dir_all(dumps.join("x")).unwrap();
    }
}

#[tokio::test]
async fn a_prompt_too_long_for_an_argument_is_that_members_error() {
    let squads = Squads::with("sh\n-c\nprintf %s \"$1\" | wc -c; cat | wc -c\nx\n<% prompt %>\n", &[]).await;
    let long = "x".repeat(130 * 1024);
    let run = squads.run(&json!([member("coder", "short"), member("coder", &long)])).await;
    let [short, long] = [&run["members"][0], &run["members"][1]];
    assert_eq!(short["status"], "completed", "{short}");
    // Nothing on standard input, which is closed at once.
    assert!(short["rawStdout"].as_str().unwrap().ends_with("\n0\n"), "{short}");
    assert_eq!(long["status"], "error");
    let reason = long["rawStderr"].as_str().unwrap();
    assert!(
        reason.starts_with("line 5 of the template: the argument has 13")
            && reason.contains("131071 are possible"),
        "{reason}"
    );
}
