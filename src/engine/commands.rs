//! The engines that a command in a workspace can call, and their command lines.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use super::codex::{Codex, Sandbox};
use super::custom::Custom;
use super::template::{TemplateError, Values};
use super::{Engine, EngineWord, Invocation, claude, codex, demo};

/// Sets a variable from a file, then becomes the rest of its arguments.
const KNOWING: [&str; 4] = [
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

/// Engines by their words, found by PATH in the workspace that they are started in.
#[derive(Debug, Clone)]
pub struct CommandEngines {
    custom: Option<Custom>,
    cursor_agent: Custom,
}

impl CommandEngines {
    /// Refuses templates with variables that neither a run nor the settings have.
    pub fn new(custom: Option<Templates<'_>>, values: &Values) -> Result<Self, TemplateError> {
        let custom = custom
            .map(|Templates { run, create_chat }| Custom::new(EngineWord::Custom, run, create_chat, values));
        Ok(Self { custom: custom.transpose()?, cursor_agent: Custom::cursor_agent(values)? })
    }

    /// None for `auto`, which stands for others, and for a custom engine without a template.
    pub fn by_word(
        &self,
        word: EngineWord,
        own_program: PathBuf,
        sandbox: Sandbox,
    ) -> Option<Arc<dyn Engine>> {
        match word {
            EngineWord::Claude => Some(Arc::new(claude::Claude { program: PathBuf::from(claude::PROGRAM) })),
            // Its record of a run lies in the workspace, so its figures are known once a turn is completed.
            EngineWord::Codex => {
                let (program, home) = (PathBuf::from(codex::PROGRAM), PathBuf::new());
                Some(Arc::new(Codex { program, home, sandbox }))
            }
            EngineWord::CursorAgent => Some(Arc::new(self.cursor_agent.clone())),
            EngineWord::Custom => Some(Arc::new(self.custom.clone()?)),
            EngineWord::Demo => Some(Arc::new(demo::Demo { program: own_program })),
            EngineWord::Auto => None,
        }
    }
}

/// The command line of an invocation. What it is to know in secret is read there, by whoever then becomes the engine:
/// neither an argument nor we ever hold it.
pub fn argv(invocation: &Invocation) -> Vec<String> {
    let text = |word: &OsStr| word.to_string_lossy().into_owned();
    let mut argv = vec![text(invocation.program.as_os_str())];
    argv.extend(invocation.arguments.iter().map(|word| text(word)));
    for (name, file) in &invocation.secrets {
        let knowing = KNOWING.map(str::to_owned).into_iter().chain([name.clone(), text(file.as_os_str())]);
        argv = knowing.chain(argv).collect();
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
