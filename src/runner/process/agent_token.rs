//! Who may have the token by which Coder knows the workspace: git, where it gets its keys from Coder, and else nobody.

use std::path::Path;

const TOKEN: &str = "CODER_AGENT_TOKEN";
/// By these a Coder workspace lets git ask Coder's own program, which in turn needs the token.
const ASKING: [&str; 2] = ["GIT_SSH_COMMAND", "GIT_ASKPASS"];
const CODERS_PROGRAM: &str = "coder";

/// The variable to take from an engine: without it git could neither fetch nor push on a real Coder, where every
/// process of the workspace has it anyway.
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
