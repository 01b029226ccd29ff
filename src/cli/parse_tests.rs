//! Every command parses as documented, and its help is unchanged.

use std::fmt::Write;

use clap::{CommandFactory, Parser};

use super::{Cli, EncloseArgs};

/// Splits arguments as a shell does, with `'…'` as one argument.
fn parse(line: &str) -> Result<Cli, clap::Error> {
    let quoted = line.split('\'').enumerate().flat_map(|(n, part)| match n % 2 {
        0 => part.split_whitespace().collect::<Vec<_>>(),
        _ => vec![part],
    });
    Cli::try_parse_from(std::iter::once("fleet-mcp").chain(quoted))
}

#[test]
fn the_commands_are_put_together_well() {
    Cli::command().debug_assert();
    EncloseArgs::command().debug_assert();
}

/// The contract's command lines.
const LINES: &[&str] = &[
    "up",
    "up --port 0 --bind 127.0.0.1 --engine demo --demo",
    "local-coder --data-dir /d --port 7080",
    "serve",
    "serve --port 0 --bind ::1",
    "stdio",
    "stdio --as-role reviewer",
    "down",
    "agents list",
    "agents list --status busy,idle --project p --role r --page 2 --page-size 10 --watch",
    "agents show a",
    "agents create --project p --spec 'do it'",
    "agents create --project p --spec-file - --name a --role r --pull-request-url https://x.example/1 --wait 90",
    "agents create --project p --spec x --no-wait",
    "agents delete a",
    "agents delete a --discard-work --wait 45 -y",
    "agents prune",
    "agents prune --repository /r --yes",
    "agents start a",
    "agents stop a --wait 3",
    "agents stop --all",
    "agents restart a",
    "agents history a --kind report --page 2 --page-size 5",
    "squad run 'coder=do it' 'reviewer=look at it' --cwd sub --agent a",
    "squad run coder=go --chat c --no-wait",
    "squad run --file -",
    "squad status",
    "squad status s --wait 45",
    "squad status s --member m --stream stderr --offset 10 --limit 20",
    "squad roles",
    "status",
    "roles",
    "roles --project p",
    "projects",
    "doctor",
    "connect claude",
    "connect claude-desktop --print",
    "connect codex --http",
    "connect cursor --remove",
    "connect vscode --http --print",
    "token create --kind operator",
    "token create --kind manager --name n --role r --project p --project q --expires 1h",
    "token create --kind agent --agent a",
    "token create --kind agent --role r",
    "token list",
    "token revoke 0190e1a2-0000-7000-8000-000000000001",
    "rescue list",
    "rescue list --page 2 --page-size 10",
    "rescue restore 0190e1a2-0000-7000-8000-000000000001",
    "rescue restore otter --into /r",
    "audit --page 2 --page-size 10",
    "openapi",
    "completions zsh",
    "--data-dir /d --config /c --url http://127.0.0.1:1 --json --log-level debug status",
    "status --data-dir /d --json",
];

#[test]
fn every_command_line_of_the_contract_parses() {
    let mut parsed = String::new();
    for line in LINES {
        let cli = parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        writeln!(parsed, "{line}\n    {:?}", cli.command).unwrap();
    }
    insta::assert_snapshot!(parsed);
}

#[test]
fn mistakes_are_refused_with_a_reason() {
    let lines = [
        "",
        "upp",
        "status --url ftp://x.example",
        "agents show a_b",
        "agents show ..",
        "agents create --spec x",
        "agents create --project p",
        "agents create --project p --spec x --spec-file y",
        "agents create --project p --spec x --wait 1 --no-wait",
        "agents delete",
        "agents delete a --wait 46",
        "agents stop",
        "agents stop a --all",
        "agents history a --kind log",
        "connect",
        "connect emacs",
        "connect codex --remove --http",
        "token create",
        "token create --kind manager --expires soon",
        "token revoke abc",
        "serve --token x",
    ];
    let mut refused = String::new();
    for line in lines {
        let error = parse(line).expect_err(line).to_string();
        let reason: Vec<&str> = error.lines().take_while(|line| !line.starts_with("Usage")).collect();
        writeln!(refused, "{line}\n    {}", reason.join(" ").trim_end()).unwrap();
    }
    insta::assert_snapshot!(refused);
}

#[test]
fn every_command_says_what_it_does_and_gives_an_example() {
    fn walk(command: &mut clap::Command, path: &str, reference: &mut String) {
        let help = command.render_help().to_string();
        let (own, example) = help.split_once("Example:").unwrap_or_else(|| panic!("{path} has no example"));
        let own = own.split("Global options:").next().unwrap_or(own);
        writeln!(reference, "=== {path}\n{own}Example:{example}").unwrap();
        for sub in command.get_subcommands_mut() {
            let path = format!("{path} {}", sub.get_name());
            walk(sub, &path, reference);
        }
    }
    let mut reference = String::new();
    let mut command = Cli::command().term_width(100);
    command.build();
    writeln!(reference, "{}", command.render_long_help()).unwrap();
    walk(&mut command, "fleet-mcp", &mut reference);
    walk(&mut EncloseArgs::command().term_width(100), "fleet-mcp enclose", &mut reference);
    insta::assert_snapshot!(reference);
}
