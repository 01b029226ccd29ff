//! Which variables a process that works for others may inherit: an allow-list, so that nothing of ours slips through.

/// By this variable the server tells a workspace's processes the commit that the agent started from.
pub const BASE: &str = "FLEET_BASE";

/// What people expect of a shell, what agent CLIs and git need, and the marks by which our processes are found. A
/// name that ends with a star stands for all that begin so.
pub const ALLOWED: [&str; 41] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TZ",
    "TERM",
    "TMPDIR",
    "PWD",
    "SSH_AUTH_SOCK",
    // How to get out of a closed network, and whom to trust there.
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "RUN_TEMPLATE_PATH",
    "CREATE_CHAT_TEMPLATE_PATH",
    "LC_*",
    "XDG_*",
    "ANTHROPIC_*",
    "OPENAI_*",
    "CLAUDE_*",
    "CODEX_*",
    "CURSOR_*",
    // Claude Code by way of a cloud.
    "AWS_*",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_PROJECT",
    "CLOUD_ML_REGION",
    "VERTEX_REGION_*",
    // How a workspace knows its Coder, and its git the way to its forge.
    "CODER_WORKSPACE_*",
    "CODER_AGENT_*",
    "GIT_*",
    DIRECTORY_VARIABLE,
    "FLEET_WORKSPACE",
];

/// Leads the processes of a workspace to the agent's own files, and tells from outside which workspace they are of.
pub const DIRECTORY_VARIABLE: &str = "FLEET_AGENT_DIR";

pub fn is_allowed(name: &str) -> bool {
    ALLOWED.iter().any(|allowed| match allowed.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == *allowed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_and_loaders_are_not_inherited() {
        let names = ["CODER_SESSION_TOKEN", "FLEET_TOKEN", "GITHUB_TOKEN", "LD_PRELOAD", "HOMES", "LC"];
        assert_eq!(names.map(is_allowed), [false; 6]);
        assert_eq!(["HOME", "LC_TIME", "GIT_SSH_COMMAND"].map(is_allowed), [true; 3]);
    }
}
