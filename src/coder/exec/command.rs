//! A command for a workspace, and its result.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use super::ExecError;

const TIMEOUT: Duration = Duration::from_secs(60);
const OUTPUT_LIMIT: usize = 1 << 20;

/// A command for a workspace. Every process there can read its arguments; secrets are passed by `stdin` or `env`.
#[derive(Clone, PartialEq, Eq)]
pub struct Command {
    /// The program, looked up in the workspace's `PATH`, and its arguments; no shell interprets them.
    pub argv: Vec<String>,
    /// The working directory, relative to the agent's directory.
    pub cwd: Option<String>,
    pub inherited: Inherited,
    /// Added to the inherited variables.
    pub env: Vec<(String, String)>,
    pub stdin: Bytes,
    /// In whole seconds; afterwards the command and all its descendants are terminated.
    pub timeout: Duration,
    /// A container inside the workspace.
    pub container: Option<String>,
    /// How much of each stream one call keeps; durable runs are not limited by it.
    pub output_limit: usize,
    /// How much of each stream a durable run keeps at least for its readers; further output is counted and mostly
    /// discarded. None: everything is kept.
    pub kept_output: Option<u64>,
}

/// The variables of the agent's environment that a command inherits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inherited {
    All,
    /// These names; a final star matches any suffix.
    Only(&'static [&'static str]),
}

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    pub exit: Exit,
    pub stdout: Bytes,
    pub stderr: Bytes,
    /// At least one stream exceeded the limit; its beginning is kept.
    pub truncated: bool,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    /// Indistinguishable from a command that itself returned 130 or 141.
    Signal(i32),
    TimedOut,
}

impl Command {
    /// Without input, with a timeout of a minute and a megabyte of each stream.
    pub fn new(argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            cwd: None,
            inherited: Inherited::All,
            env: Vec::new(),
            stdin: Bytes::new(),
            timeout: TIMEOUT,
            container: None,
            output_limit: OUTPUT_LIMIT,
            kept_output: None,
        }
    }

    /// Refuses values that a shell cannot pass on, before any effect.
    pub(crate) fn check(&self) -> Result<(), ExecError> {
        let refuse = |reason: String| Err(ExecError::Command { reason });
        let Some(program) = self.argv.first() else { return refuse("there is no program".to_owned()) };
        if program.is_empty() || program.starts_with('-') {
            return refuse("the program's name is empty or begins with a dash".to_owned());
        }
        if let Some((name, _)) = self.env.iter().find(|(name, _)| !is_variable(name)) {
            return refuse(format!("{name:?} is no name of a variable"));
        }
        let values = self.env.iter().map(|(_, value)| value);
        if self.argv.iter().chain(&self.cwd).chain(values).any(|text| text.contains('\0')) {
            return refuse("an argument, the directory or a variable holds a null byte".to_owned());
        }
        Ok(())
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.env.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Command")
            .field("argv", &self.argv)
            .field("cwd", &self.cwd)
            .field("inherited", &self.inherited)
            .field("env", &names)
            .field("stdin", &format_args!("{} bytes", self.stdin.len()))
            .field("timeout", &self.timeout)
            .field("container", &self.container)
            .field("output_limit", &self.output_limit)
            .field("kept_output", &self.kept_output)
            .finish()
    }
}

fn is_variable(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::Command;

    #[test]
    fn debug_output_holds_no_input_and_no_values() {
        let mut command = Command::new(["git", "push"]);
        command.env.push(("TOKEN".to_owned(), "canary".to_owned()));
        command.stdin = "canary".into();
        assert_eq!(
            format!("{command:?}"),
            "Command { argv: [\"git\", \"push\"], cwd: None, inherited: All, env: [\"TOKEN\"], stdin: 6 bytes, \
             timeout: 60s, container: None, output_limit: 1048576, kept_output: None }"
        );
    }

    #[test]
    fn what_a_shell_cannot_pass_on_is_refused() {
        let reason = |command: Command| command.check().unwrap_err().to_string();
        let with_variable = |name: &str, value: &str| Command {
            env: vec![(name.to_owned(), value.to_owned())],
            ..Command::new(["true"])
        };
        assert_eq!(
            [
                reason(Command::new([""; 0])),
                reason(Command::new(["-x"])),
                reason(Command::new(["true", "a\0b"])),
                reason(with_variable("A B", "")),
                reason(with_variable("A", "\0")),
            ],
            [
                "the command cannot be run: there is no program",
                "the command cannot be run: the program's name is empty or begins with a dash",
                "the command cannot be run: an argument, the directory or a variable holds a null byte",
                "the command cannot be run: \"A B\" is no name of a variable",
                "the command cannot be run: an argument, the directory or a variable holds a null byte",
            ]
        );
    }
}
