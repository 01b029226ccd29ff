//! Engines that run as commands in a workspace, and their command lines.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use super::codex::{Codex, Sandbox};
use super::custom::Custom;
use super::plain_text::PlainTextReader;
use super::template::{TemplateError, Values};
use super::{Engine, EngineWord, Invocation, Reader, Request, claude, demo};

/// Exports a variable with the content of a file, then executes the rest of its arguments.
const EXPORT_SECRET: [&str; 4] = [
    "sh",
    "-c",
    r#"name=$1 file=$2; shift 2; IFS= read -r value <"$file" && export "$name=$value"; exec "$@""#,
    "knowing",
];

/// The templates of a custom engine.
#[derive(Debug, Clone, Copy)]
pub struct Templates<'a> {
    pub run: &'a str,
    pub create_chat: Option<&'a str>,
}

/// The program of an engine that no template defines.
pub(super) struct Program {
    pub(super) path: PathBuf,
    /// Empty if the session logs of Codex are on another machine.
    pub(super) codex_home: PathBuf,
    pub(super) sandbox: Sandbox,
}

/// Engines by keyword.
#[derive(Debug, Clone)]
pub struct CommandEngines {
    custom: Option<Custom>,
    cursor_agent: Custom,
}

impl CommandEngines {
    /// Refuses templates with unknown variables.
    pub fn new(custom: Option<Templates<'_>>, values: &Values) -> Result<Self, TemplateError> {
        let custom = custom
            .map(|Templates { run, create_chat }| Custom::new(EngineWord::Custom, run, create_chat, values));
        Ok(Self { custom: custom.transpose()?, cursor_agent: Custom::cursor_agent(values)? })
    }

    /// As a command in a workspace. Codex's session log is there, so usage is known only after a completed turn.
    pub fn in_workspace(
        &self,
        word: EngineWord,
        own_program: PathBuf,
        sandbox: Sandbox,
    ) -> Option<Arc<dyn Engine>> {
        let path = if word == EngineWord::Demo { own_program } else { PathBuf::from(word.word()) };
        self.by_word(word, Program { path, codex_home: PathBuf::new(), sandbox })
    }

    /// None for `auto` and for a custom engine without a template.
    pub(super) fn by_word(&self, word: EngineWord, program: Program) -> Option<Arc<dyn Engine>> {
        match word {
            EngineWord::CursorAgent => Some(Arc::new(self.cursor_agent.clone())),
            EngineWord::Custom => Some(Arc::new(self.custom.clone()?)),
            EngineWord::Auto | EngineWord::Claude | EngineWord::Codex | EngineWord::Demo => {
                program.engine(word)
            }
        }
    }
}

impl Program {
    fn engine(self, word: EngineWord) -> Option<Arc<dyn Engine>> {
        let Self { path: program, codex_home: home, sandbox } = self;
        match word {
            EngineWord::Claude => Some(Arc::new(claude::Claude { program })),
            EngineWord::Codex => Some(Arc::new(Codex { program, home, sandbox })),
            EngineWord::Demo => Some(Arc::new(demo::Demo { program })),
            EngineWord::Auto | EngineWord::CursorAgent | EngineWord::Custom => None,
        }
    }
}

/// A reader for the stored output of a run. It does not depend on how the engine was called, so that a run is read even
/// if the template of its engine was removed.
pub fn output_reader(word: EngineWord, request: &Request) -> Box<dyn Reader> {
    let program = Program { path: PathBuf::new(), codex_home: PathBuf::new(), sandbox: Sandbox::Workspace };
    match program.engine(word) {
        Some(engine) => engine.reader(request),
        None => Box::new(PlainTextReader::default()),
    }
}

/// The command line of an invocation. A shell inside the workspace reads the secrets and executes the engine, so that
/// neither the arguments nor this server contain them.
pub fn argv(invocation: &Invocation) -> Vec<String> {
    let text = |word: &OsStr| word.to_string_lossy().into_owned();
    let mut argv = vec![text(invocation.program.as_os_str())];
    argv.extend(invocation.arguments.iter().map(|word| text(word)));
    for (name, file) in &invocation.secrets {
        let export =
            EXPORT_SECRET.map(str::to_owned).into_iter().chain([name.clone(), text(file.as_os_str())]);
        argv = export.chain(argv).collect();
    }
    argv
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_no_part_of_a_command_line_and_the_engine_knows_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a token");
        std::fs::write(&file, "canary $HOME\nmore\n").unwrap();
        let invocation = Invocation {
            program: PathBuf::from("printenv"),
            arguments: vec!["FLEET_TOKEN".into()],
            environment: Vec::new(),
            secrets: vec![("FLEET_TOKEN".to_owned(), file)],
            stdin: String::new(),
        };
        let argv = argv(&invocation);
        assert!(!argv.concat().contains("canary"), "{argv:?}");
        let output = std::process::Command::new(&argv[0]).args(&argv[1..]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "canary $HOME\n");
    }
}
