//! Git's settings that start programs: each is set everywhere git looks, and no command of ours starts one.

use std::path::{Path, PathBuf};

use fleet_mcp::git::quiet::SETTINGS;
use serde_json::json;

use super::here::git;
use crate::harness::{Program, Up, eventually, script};

/// Switches that make git more eager to start the programs of the other rows.
const SWITCHES: [(&str, &str); 15] = [
    ("hook.*.enabled", "true"),
    ("filter.*.required", "true"),
    ("merge.verifysignatures", "true"),
    ("gc.auto", "1"),
    ("maintenance.auto", "true"),
    ("commit.gpgsign", "true"),
    ("tag.gpgsign", "true"),
    ("tag.forcesignannotated", "true"),
    ("push.gpgsign", "true"),
    ("log.showsignature", "true"),
    ("protocol.ext.allow", "always"),
    ("transfer.bundleuri", "true"),
    ("submodule.recurse", "true"),
    ("fetch.recursesubmodules", "true"),
    ("push.recursesubmodules", "on-demand"),
];
const HOOKS: [&str; 12] = [
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "post-checkout",
    "post-merge",
    "post-index-change",
    "reference-transaction",
    "pre-auto-gc",
    "post-rewrite",
    "fsmonitor-watchman",
    "update",
];

/// Scripts that each leave a file of their own, and a configuration that names them all.
struct Traps {
    directory: PathBuf,
    config: String,
}

impl Traps {
    fn set(directory: &Path) -> Self {
        let traps = Self { directory: directory.join("traps"), config: String::new() };
        std::fs::create_dir_all(traps.marks()).unwrap();
        for name in HOOKS {
            std::fs::create_dir_all(traps.directory.join("hooks")).unwrap();
            traps.script(&format!("hooks/{name}"), &format!("hook-{name}"));
        }
        let config = SETTINGS.iter().map(|setting| traps.line(setting.name)).collect();
        Self { config, ..traps }
    }

    fn marks(&self) -> PathBuf {
        self.directory.join("marks")
    }

    /// What passes its input on is harder to notice than what fails.
    fn script(&self, name: &str, mark: &str) -> PathBuf {
        let path = self.directory.join(name);
        let mark = self.marks().join(mark);
        script(
            &path,
            &format!("#!/bin/sh\ntouch '{}'\n[ -t 0 ] || cat 2>/dev/null\nexit 0\n", mark.display()),
        );
        path
    }

    fn line(&self, name: &str) -> String {
        let key = name.replace('*', "origin");
        let (section, rest) = key.split_once('.').unwrap();
        let value = match SWITCHES.iter().find(|(switch, _)| *switch == name) {
            Some((_, value)) => (*value).to_owned(),
            None => self.value(name),
        };
        match rest.rsplit_once('.') {
            Some((sub, key)) => format!("[{section} \"{sub}\"]\n\t{key} = \"{value}\"\n"),
            None => format!("[{section}]\n\t{rest} = \"{value}\"\n"),
        }
    }

    fn value(&self, name: &str) -> String {
        let program = self.script(&name.replace('*', "origin"), name).display().to_string();
        match name {
            "core.hookspath" => self.directory.join("hooks").display().to_string(),
            "core.attributesfile" => {
                let path = self.directory.join("attributes");
                std::fs::write(&path, "* filter=origin diff=origin merge=origin\n").unwrap();
                path.display().to_string()
            }
            "init.templatedir" => {
                let template = self.directory.join("template/hooks");
                std::fs::create_dir_all(&template).unwrap();
                script(&template.join("post-checkout"), &std::fs::read_to_string(program).unwrap());
                self.directory.join("template").display().to_string()
            }
            "alias.*" | "submodule.*.update" => format!("!{program}"),
            "remote.*.vcs" => "trap".to_owned(),
            _ => program,
        }
    }

    fn add_to(&self, config: &Path) {
        let known = std::fs::read_to_string(config).unwrap_or_default();
        std::fs::write(config, format!("{known}{}", self.config)).unwrap();
    }

    fn sprung(&self) -> Vec<String> {
        let marks = std::fs::read_dir(self.marks()).unwrap();
        let mut marks: Vec<String> =
            marks.map(|mark| mark.unwrap().file_name().into_string().unwrap()).collect();
        marks.sort();
        marks
    }
}

fn repository(program: &Program) -> PathBuf {
    let path = program.repository();
    std::fs::write(path.join(".gitattributes"), "* filter=origin diff=origin merge=origin\n").unwrap();
    std::fs::write(path.join("file"), "content\n").unwrap();
    git(&path, &["add", "."]);
    git(&path, &["commit", "--quiet", "--message=attributes"]);
    path
}

/// What git does by itself with such a configuration: else the test below would show nothing.
#[test]
fn the_traps_catch_a_git_that_is_left_to_its_settings() {
    let program = Program::without_coder();
    let repository = repository(&program);
    let traps = Traps::set(program.directory.path());
    let plain = |arguments: &[&str]| {
        let mut git = std::process::Command::new("git");
        let identity = ["-c", "user.name=Ann", "-c", "user.email=ann@example.test"];
        git.current_dir(&repository).env("GIT_PAGER", "cat").args(identity).args(arguments).output().unwrap();
    };
    let config = repository.join(".git/config");
    let before = std::fs::read_to_string(&config).unwrap();
    // A filter that is a process goes before one that is a command.
    let with_commands = traps.config.replace(&traps.line("filter.*.process"), "");
    for text in [&traps.config, &with_commands] {
        std::fs::write(&config, format!("{before}{text}")).unwrap();
        std::fs::write(repository.join("file"), "changed\n").unwrap();
        plain(&["diff"]);
        plain(&["diff", "--no-ext-diff"]);
        plain(&["add", "."]);
        plain(&["commit", "-m", "x"]);
        std::fs::remove_file(repository.join("file")).unwrap();
        plain(&["checkout", "--", "file"]);
    }
    let sprung = traps.sprung();
    let expected = [
        "core.fsmonitor",
        "diff.*.command",
        "diff.*.textconv",
        "filter.*.clean",
        "filter.*.process",
        "filter.*.smudge",
        "gpg.openpgp.program",
        "hook-pre-commit",
    ];
    for row in expected {
        assert!(sprung.iter().any(|mark| mark == row), "{row} of {sprung:?}");
    }
}

#[tokio::test]
async fn no_git_command_of_ours_starts_a_program_that_a_setting_names() {
    let program = Program::without_coder();
    let host = repository(&program);
    let traps = Traps::set(program.directory.path());
    // The user's own settings, which a hostile agent can write too, and those of the caller's repository.
    traps.add_to(&program.directory.path().join(".gitconfig"));
    traps.add_to(&host.join(".git/config"));
    let up = Up::start(&program.within(&host)).await;
    up.agent_with(json!({ "project": "here", "spec": "commit of the agent", "name": "otter" })).await;
    up.agent("heron").await;
    for name in ["otter", "heron"] {
        let repo = up.workspace(name).join("repo");
        std::fs::write(repo.join(".gitattributes"), "* filter=origin diff=origin merge=origin\n").unwrap();
        traps.add_to(&repo.join(".git/config"));
        let before = up.show(name).await["git"]["head"].clone();
        up.post(&format!("/api/v1/agents/{name}/tasks"), &json!({ "task_description": "commit again" }))
            .await;
        eventually("the agent has committed", async || {
            let git = up.show(name).await["git"].clone();
            git["head"].is_string() && git["head"] != before
        })
        .await;
        std::fs::write(repo.join("uncommitted"), "work\n").unwrap();
    }
    let squad = json!({ "members": [{ "roleId": "coder", "task": "say hello", "agent_name": "otter" }] });
    up.post("/api/v1/squads", &squad).await;
    for name in ["otter", "heron"] {
        let deleted = up.delete(name, "").await;
        assert_eq!(deleted["message"], format!("agent '{name}' is deleted; its work was saved"));
        let id = deleted["rescued"]["id"].as_str().unwrap();
        let into = if name == "otter" { host.clone() } else { program.directory.path().join("restored") };
        up.program.json(&["--json", "rescue", "restore", id, "--into", into.to_str().unwrap()]).await;
    }
    assert_eq!(traps.sprung(), Vec::<String>::new());
}

/// Git starts another one to read a repository of this machine, and gives it none of our overrides.
#[tokio::test]
async fn a_clone_of_a_repository_on_this_machine_starts_no_program_that_a_setting_names() {
    let program = Program::without_coder();
    let host = repository(&program);
    let mut traps = Traps::set(program.directory.path());
    traps.config =
        ["uploadpack.packobjectshook", "remote.*.uploadpack"].map(|name| traps.line(name)).concat();
    traps.add_to(&program.directory.path().join(".gitconfig"));
    let projects = program.data_dir().join("projects");
    std::fs::create_dir_all(&projects).unwrap();
    std::fs::write(projects.join("copy.toml"), format!("repo = \"file://{}\"\n", host.display())).unwrap();
    let up = Up::start(&program).await;
    up.agent_with(json!({ "project": "copy", "spec": "say hello", "name": "crane" })).await;
    assert_eq!(traps.sprung(), Vec::<String>::new());
}
