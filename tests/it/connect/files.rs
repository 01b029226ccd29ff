//! The files of the clients: ours added, all else kept, twice the same, malformed ones refused.

use std::fmt::Write;

use super::{home, neutral, told};
use crate::harness::Program;

const FILES: [(&str, &str); 5] = [
    ("claude", ".claude.json"),
    ("claude-desktop", ".config/Claude/claude_desktop_config.json"),
    ("codex", ".codex/config.toml"),
    ("cursor", ".cursor/mcp.json"),
    ("vscode", ".config/Code/User/mcp.json"),
];

fn read(program: &Program, file: &str) -> String {
    neutral(program, &std::fs::read_to_string(home(program, file)).unwrap())
}

fn write(program: &Program, file: &str, text: &str) {
    let path = home(program, file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[tokio::test]
async fn every_client_gets_an_entry_of_its_own_form_without_any_secret() {
    let program = Program::without_coder();
    let mut all = String::new();
    for (client, file) in FILES {
        let first = program.run(&["connect", client]).await;
        let text = read(&program, file);
        let second = program.run(&["connect", client]).await;
        assert_eq!(read(&program, file), text, "{client}");
        let printed = program.run(&["connect", client, "--print"]).await;
        assert_eq!(neutral(&program, &String::from_utf8(printed.stdout).unwrap()), text, "{client}");
        let (first, second) = (told(&program, &first), told(&program, &second));
        write!(all, "=== {client}\n{first}{second}--- {file}\n{text}").unwrap();
    }
    insta::assert_snapshot!(all);
}

#[tokio::test]
async fn the_usual_data_directory_is_not_named_and_a_settings_file_is() {
    let program = Program::without_coder();
    let mut command = program.command(&["connect", "claude", "--config", "mine.toml"]);
    command.env_remove("FLEET_DATA_DIR").current_dir(program.directory.path());
    assert!(tokio::process::Command::from(command).output().await.unwrap().status.success());
    let file: serde_json::Value = serde_json::from_str(&read(&program, ".claude.json")).unwrap();
    let expected = serde_json::json!(["stdio", "--config", "HOME/mine.toml"]);
    assert_eq!(file["mcpServers"]["fleet"]["args"], expected);
}

#[tokio::test]
async fn other_entries_of_a_file_stay_and_come_back_whole() {
    let before = [
        (
            "claude",
            ".claude.json",
            "{\"z\": 1, \"mcpServers\": {\n  \"other\": {\"command\": \"x\"}\n },\n \"a\": 2.0}\n",
        ),
        (
            "codex",
            ".codex/config.toml",
            "# mine\nmodel = 'm' # good\n\n[mcp_servers.other]\ncommand = \"x\"\n",
        ),
        (
            "vscode",
            ".config/Code/User/mcp.json",
            "{\n\t// my servers\n\t\"servers\": {\n\t\t\"other\": {}\n\t}\n}\n",
        ),
    ];
    let program = Program::without_coder();
    for (client, file, text) in before {
        write(&program, file, text);
        assert!(program.run(&["connect", client]).await.status.success());
        assert_ne!(read(&program, file), text);
        assert_eq!(read(&program, &format!("{file}.before-fleet")), text);
        assert!(program.run(&["connect", client, "--remove"]).await.status.success());
        assert_eq!(read(&program, file), text, "{client}");
        let again = program.run(&["connect", client, "--remove"]).await;
        assert!(String::from_utf8_lossy(&again.stdout).contains("was not connected"));
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_understood_is_refused_with_place_and_remedy_and_left_alone() {
    let broken = [
        ("claude", ".claude.json", "{\n  \"mcpServers\": {\n"),
        ("claude-desktop", ".config/Claude/claude_desktop_config.json", "{\n  // no comments here\n}\n"),
        ("codex", ".codex/config.toml", "model = \"m\"\n[mcp_servers\n"),
        ("cursor", ".cursor/mcp.json", "[]\n"),
        ("vscode", ".config/Code/User/mcp.json", "{\n  \"servers\": 3\n}\n"),
    ];
    let program = Program::without_coder();
    let mut all = String::new();
    for (client, file, text) in broken {
        write(&program, file, text);
        for arguments in [vec!["connect", client], vec!["connect", client, "--remove"]] {
            let refused = program.run(&arguments).await;
            assert_eq!(read(&program, file), text, "{arguments:?}");
            writeln!(all, "{}\n{}", arguments.join(" "), told(&program, &refused)).unwrap();
        }
        let directory = home(&program, file).parent().unwrap().to_owned();
        let left = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
        let copies = left.filter(|name| name.to_string_lossy().contains("fleet")).count();
        assert_eq!(copies, 0, "{client}");
    }
    insta::assert_snapshot!(all);
}
