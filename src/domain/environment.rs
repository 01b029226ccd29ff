//! The variables that a workspace's processes may inherit: an allow-list, so that none of our own leak.

/// Tells a workspace's processes the commit that the agent started from.
pub const BASE: &str = "FLEET_BASE";

/// Variables of a usual shell, of agent CLIs and git, and the markers of our processes. A final star matches any
/// suffix.
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
    // Proxies and certificates of closed networks.
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
    // Claude Code through a cloud provider.
    "AWS_*",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_PROJECT",
    "CLOUD_ML_REGION",
    "VERTEX_REGION_*",
    // The workspace's Coder, and git's credentials.
    "CODER_WORKSPACE_*",
    "CODER_AGENT_*",
    "GIT_*",
    DIRECTORY_VARIABLE,
    "FLEET_WORKSPACE",
];

/// Names the agent's own directory for its processes, and identifies their workspace from outside.
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
