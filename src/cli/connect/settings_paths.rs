//! The directories in which programs keep their settings on this system, from the environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::cli::error::CliError;

/// Variables that move the settings of a supported client.
const VARIABLES: [&str; 3] = ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "VSCODE_PORTABLE"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SettingsPaths {
    home: PathBuf,
    applications: PathBuf,
    variables: Vec<(&'static str, PathBuf)>,
}

impl SettingsPaths {
    pub(super) fn of_process() -> Result<Self, CliError> {
        Self::read(std::env::consts::OS, |name| std::env::var_os(name)).ok_or(CliError::NoHome)
    }

    /// None without a home directory. An empty variable counts as unset.
    pub(super) fn read(system: &str, variable: impl Fn(&str) -> Option<OsString>) -> Option<Self> {
        let path = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = path("HOME")?;
        let applications = match system {
            "macos" => home.join("Library").join("Application Support"),
            // The XDG specification requires relative paths to be ignored.
            _ => path("XDG_CONFIG_HOME")
                .filter(|directory| directory.is_absolute())
                .unwrap_or_else(|| home.join(".config")),
        };
        let variables = VARIABLES.iter().filter_map(|name| Some((*name, path(name)?))).collect();
        Some(Self { home, applications, variables })
    }

    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    /// The directory of desktop applications' settings.
    pub(super) fn applications(&self) -> &Path {
        &self.applications
    }

    pub(super) fn variable(&self, name: &str) -> Option<PathBuf> {
        self.variables.iter().find(|(known, _)| *known == name).map(|(_, path)| path.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::CLIENTS;
    use super::*;

    fn files(system: &str, variables: &[(&str, &str)]) -> Vec<String> {
        let get =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into());
        let paths = SettingsPaths::read(system, get).unwrap();
        CLIENTS.iter().map(|client| (client.file)(&paths).display().to_string()).collect()
    }

    #[test]
    fn every_client_has_its_file_where_the_system_and_the_environment_put_it() {
        assert_eq!(
            files("linux", &[("HOME", "/h"), ("XDG_CONFIG_HOME", "relative"), ("CODEX_HOME", "")]),
            [
                "/h/.claude.json",
                "/h/.config/Claude/claude_desktop_config.json",
                "/h/.codex/config.toml",
                "/h/.cursor/mcp.json",
                "/h/.config/Code/User/mcp.json",
            ]
        );
        assert_eq!(
            files("macos", &[("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")]),
            [
                "/h/.claude.json",
                "/h/Library/Application Support/Claude/claude_desktop_config.json",
                "/h/.codex/config.toml",
                "/h/.cursor/mcp.json",
                "/h/Library/Application Support/Code/User/mcp.json",
            ]
        );
        let moved = [
            ("HOME", "/h"),
            ("XDG_CONFIG_HOME", "/x"),
            ("CLAUDE_CONFIG_DIR", "/c"),
            ("CODEX_HOME", "/o"),
            ("VSCODE_PORTABLE", "/v"),
        ];
        assert_eq!(
            files("linux", &moved),
            [
                "/c/.claude.json",
                "/x/Claude/claude_desktop_config.json",
                "/o/config.toml",
                "/h/.cursor/mcp.json",
                "/v/user-data/User/mcp.json",
            ]
        );
        assert_eq!(SettingsPaths::read("linux", |_| None), None);
    }
}
