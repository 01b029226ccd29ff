//! Decides whether an engine gets the workspace's Coder token: only if git gets its credentials from Coder.

use std::path::Path;

const TOKEN: &str = "CODER_AGENT_TOKEN";
/// With these a Coder workspace makes git call Coder's own program, which requires the token.
const ASKING: [&str; 2] = ["GIT_SSH_COMMAND", "GIT_ASKPASS"];
const CODERS_PROGRAM: &str = "coder";

/// The variable to remove from an engine's environment. With Coder's git helper it stays: git could otherwise
/// neither fetch nor push, and on a real Coder every process of the workspace has it anyway.
pub(super) fn unless_git_asks_coder() -> Option<&'static str> {
    let is_asked =
        ASKING.iter().filter_map(|name| std::env::var(name).ok()).any(|command| is_coders(&command));
    (!is_asked).then_some(TOKEN)
}

fn is_coders(command: &str) -> bool {
    let program = command.split_whitespace().next().map(Path::new).and_then(Path::file_name);
    program.is_some_and(|name| name == CODERS_PROGRAM)
}

#[cfg(test)]
mod tests {
    use super::is_coders;

    #[test]
    fn coders_program_is_known_wherever_it_lies() {
        let commands = ["/tmp/coder.x1/coder gitssh --", "coder gitssh --", "/usr/bin/coder"];
        assert_eq!(commands.map(is_coders), [true; 3]);
        assert_eq!(["ssh -i coder", "/opt/coder/ssh", "mycoder", ""].map(is_coders), [false; 4]);
    }
}
