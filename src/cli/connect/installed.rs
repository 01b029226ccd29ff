//! Finds installed MCP clients: by their program, or by their files in the home directory.

use std::path::PathBuf;

use super::CLIENTS;
use super::settings_paths::SettingsPaths;

/// An installed client, and the command line that connects it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Installed {
    pub(crate) title: &'static str,
    pub(crate) word: &'static str,
}

pub(crate) fn installed(find_program: impl Fn(&str) -> Option<PathBuf>) -> Vec<Installed> {
    SettingsPaths::of_process().map(|paths| among(&paths, find_program)).unwrap_or_default()
}

fn among(paths: &SettingsPaths, find_program: impl Fn(&str) -> Option<PathBuf>) -> Vec<Installed> {
    let here = CLIENTS.iter().filter(|client| {
        find_program(client.program).is_some()
            || (client.directory)(paths).is_dir()
            || (client.file)(paths).is_file()
    });
    here.map(|client| Installed { title: client.title, word: client.word }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_here_by_its_program_or_by_what_it_left() {
        let home = tempfile::tempdir().unwrap();
        let paths =
            SettingsPaths::read("linux", |name| (name == "HOME").then(|| home.path().into())).unwrap();
        let words = |programs: &[&str]| -> Vec<&str> {
            let found = among(&paths, |name| programs.contains(&name).then(|| PathBuf::from(name)));
            found.iter().map(|installed| installed.word).collect()
        };
        assert_eq!(words(&["other"]), Vec::<&str>::new());
        std::fs::create_dir_all(home.path().join(".config/Code")).unwrap();
        std::fs::write(home.path().join(".claude.json"), "{}").unwrap();
        assert_eq!(words(&[]), ["claude", "vscode"]);
        assert_eq!(words(&["codex", "code"]), ["claude", "codex", "vscode"]);
    }
}
