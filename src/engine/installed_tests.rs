//! Resolution of engines and its messages, with small programs in place of the CLIs.

use super::*;

struct Machine {
    directory: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    /// Installs a program with this output and exit code.
    ///
    /// A shell writes it: a fork in another test thread would inherit our open file, and the kernel does not execute
    /// files that are open for writing.
    fn with(self, name: &str, says: &str, code: u8) -> Self {
        let write = "printf '#!/bin/sh\necho \"%s\"\nexit %s\n' \"$2\" \"$3\" >\"$1\" && chmod 755 \"$1\"";
        let mut shell = std::process::Command::new("/bin/sh");
        shell.args(["-c", write, "sh"]).arg(self.directory.path().join(name)).args([says, &code.to_string()]);
        assert!(shell.status().unwrap().success());
        self
    }

    fn file(self, name: &str, text: &str) -> Self {
        std::fs::write(self.directory.path().join(name), text).unwrap();
        self
    }

    fn search_paths(&self) -> SearchPaths {
        let template = |name: &str| Some(self.directory.path().join(name)).filter(|path| path.exists());
        SearchPaths {
            own_program: PathBuf::from("fleet-mcp"),
            path: self.directory.path().into(),
            codex_home: PathBuf::from("/home/ann/.codex"),
            run_template: template("run"),
            create_chat_template: template("create-chat"),
        }
    }

    async fn find(&self, word: EngineWord) -> Result<EngineWord, String> {
        let found = find(word, &self.search_paths()).await;
        found
            .map(|engine| engine.word())
            .map_err(|error| error.to_string().replace(&self.directory.path().display().to_string(), "<dir>"))
    }
}

#[tokio::test]
async fn auto_takes_the_first_that_works() {
    let both =
        Machine::new().with("claude", "2.1.325 (Claude Code)", 0).with("codex", "codex-cli 0.166.0", 0);
    assert_eq!(both.find(EngineWord::Auto).await, Ok(EngineWord::Claude));
    let old = Machine::new().with("claude", "1.0.3 (Claude Code)", 0).with("codex", "codex-cli 0.166.0", 0);
    assert_eq!(old.find(EngineWord::Auto).await, Ok(EngineWord::Codex));
    let alone = Machine::new().file("claude", "not a program").with("codex", "codex-cli 0.166.0", 0);
    assert_eq!(alone.find(EngineWord::Auto).await, Ok(EngineWord::Codex));
}

#[tokio::test]
async fn the_preferred_cli_is_the_one_of_auto_else_the_first_with_its_problem() {
    let preferred_of = async |machine: Machine| {
        let cli = preferred(&machine.search_paths().path).await?;
        assert_eq!(cli.program, machine.directory.path().join(cli.word.word()));
        Some((cli.word, cli.version, cli.wanted))
    };
    let (old, new) = ("1.0.3 (Claude Code)", "codex-cli v0.166.0-beta.1");
    let codex = (EngineWord::Codex, Some("0.166.0-beta.1".to_owned()), None);
    assert_eq!(
        preferred_of(Machine::new().with("claude", old, 0).with("codex", new, 0)).await,
        Some(codex.clone())
    );
    assert_eq!(
        preferred_of(Machine::new().with("claude", "what is it.", 0).with("codex", new, 0)).await,
        Some(codex)
    );
    let claude = (EngineWord::Claude, Some("1.0.3".to_owned()), Some(claude::MINIMUM));
    assert_eq!(preferred_of(Machine::new().with("claude", old, 0).with("codex", "", 3)).await, Some(claude));
    assert_eq!(preferred_of(Machine::new()).await, None);
}

#[tokio::test]
async fn missing_old_and_broken_engines_are_refused_with_a_remedy() {
    let nothing = Machine::new();
    let old = Machine::new().with("claude", "1.0.3 (Claude Code)", 0).with("codex", "codex-cli 0.99.0", 0);
    let broken = Machine::new().with("claude", "oops", 0).with("codex", "", 3);
    let wrong = Machine::new().file("run", "agent\n<% unknown %>\n");
    let messages = [
        nothing.find(EngineWord::Auto).await,
        nothing.find(EngineWord::Claude).await,
        nothing.find(EngineWord::Codex).await,
        nothing.find(EngineWord::Custom).await,
        old.find(EngineWord::Auto).await,
        old.find(EngineWord::Codex).await,
        broken.find(EngineWord::Claude).await,
        broken.find(EngineWord::Codex).await,
        wrong.find(EngineWord::Custom).await,
    ];
    insta::assert_snapshot!(messages.map(|messages| messages.unwrap_err()).join("\n"));
}

#[tokio::test]
async fn templates_and_demo_need_no_program_to_be_chosen() {
    let machine = Machine::new().file("run", "agent\n<% prompt %>\n").file("create-chat", "agent\nnew\n");
    for word in [EngineWord::Custom, EngineWord::CursorAgent, EngineWord::Demo] {
        assert_eq!(machine.find(word).await, Ok(word));
    }
}

#[tokio::test]
async fn codex_without_namespaces_is_called_without_its_sandbox() {
    let machine = Machine::new().with("codex", "codex-cli 0.166.0", 0);
    assert_eq!(sandbox(&machine.directory.path().join("codex")).await, Sandbox::Workspace);
    let machine = Machine::new().with("codex", "bwrap: no", 1);
    assert_eq!(sandbox(&machine.directory.path().join("codex")).await, Sandbox::Impossible);
}
