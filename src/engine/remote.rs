//! Engines by their names alone, for workspaces into which we only send commands.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use super::codex::{Codex, Sandbox};
use super::custom::{Custom, shipped};
use super::{Engine, EngineWord, Invocation, claude, codex, demo};

/// Sets a variable from a file, then becomes the rest of its arguments.
const KNOWING: [&str; 4] = [
    "sh",
    "-c",
    r#"name=$1 file=$2; shift 2; IFS= read -r value <"$file" && export "$name=$value"; exec "$@""#,
    "knowing",
];

/// The engine of this word, to be found there by whoever starts it. None for words that name no program.
pub fn by_name(word: EngineWord, own_program: PathBuf, sandbox: Sandbox) -> Option<Arc<dyn Engine>> {
    match word {
        EngineWord::Claude => Some(Arc::new(claude::Claude { program: PathBuf::from(claude::PROGRAM) })),
        // Its conversations lie where we cannot look, so that its cost is known at the end only.
        EngineWord::Codex => {
            Some(Arc::new(Codex { program: PathBuf::from(codex::PROGRAM), home: PathBuf::new(), sandbox }))
        }
        EngineWord::CursorAgent => {
            let templates = shipped(word)?;
            Some(Arc::new(Custom::new(word, templates.run, None).ok()?))
        }
        EngineWord::Demo => Some(Arc::new(demo::Demo { program: own_program })),
        EngineWord::Auto | EngineWord::Custom => None,
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

/// The engine that a command line of ours calls.
pub fn called(argv: &[String]) -> Option<EngineWord> {
    if argv.len() > KNOWING.len() + 2 && argv.iter().zip(KNOWING).all(|(word, known)| word == known) {
        return called(&argv[KNOWING.len() + 2..]);
    }
    if argv.get(1).is_some_and(|word| word == demo::COMMAND) {
        return Some(EngineWord::Demo);
    }
    EngineWord::parse(argv.first()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_tells_its_engine() {
        let called =
            |words: &[&str]| called(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(called(&["/opt/fleet-mcp", "demo-engine"]), Some(EngineWord::Demo));
        assert_eq!(called(&["claude", "-p"]), Some(EngineWord::Claude));
        assert_eq!(called(&["codex", "exec"]), Some(EngineWord::Codex));
        assert_eq!((called(&["git", "push"]), called(&[])), (None, None));
    }

    #[test]
    fn a_secret_is_no_part_of_a_command_line_and_the_engine_knows_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a token");
        std::fs::write(&file, "canary $HOME\nmore\n").unwrap();
        let invocation = Invocation {
            program: PathBuf::from("codex"),
            arguments: vec!["exec".into()],
            environment: Vec::new(),
            secrets: vec![("FLEET_TOKEN".to_owned(), file)],
            stdin: String::new(),
        };
        assert_eq!(called(&argv(&invocation)), Some(EngineWord::Codex));
        let shown =
            Invocation { program: "printenv".into(), arguments: vec!["FLEET_TOKEN".into()], ..invocation };
        let argv = argv(&shown);
        assert!(!argv.concat().contains("canary"), "{argv:?}");
        let output = std::process::Command::new(&argv[0]).args(&argv[1..]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "canary $HOME\n");
    }
}
