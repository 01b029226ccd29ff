//! Which MCP clients this machine has: by their program, or by what they have left in the home directory.

use std::ffi::OsStr;

use super::CLIENTS;
use super::places::Places;
use crate::cli::on_path::on_path;

/// A client that is here, and the command line that connects it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Installed {
    pub(crate) title: &'static str,
    pub(crate) word: &'static str,
}

pub(crate) fn installed() -> Vec<Installed> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    Places::of_process().map(|places| among(&places, &path)).unwrap_or_default()
}

fn among(places: &Places, path: &OsStr) -> Vec<Installed> {
    let here = CLIENTS.iter().filter(|client| {
        on_path(client.program, path).is_some()
            || (client.directory)(places).is_dir()
            || (client.file)(places).is_file()
    });
    here.map(|client| Installed { title: client.title, word: client.word }).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_client_is_here_by_its_program_or_by_what_it_left() {
        let home = tempfile::tempdir().unwrap();
        let programs = home.path().join("bin");
        std::fs::create_dir_all(&programs).unwrap();
        let places = Places::read("linux", |name| (name == "HOME").then(|| home.path().into())).unwrap();
        let words = || -> Vec<&str> {
            among(&places, programs.as_os_str()).iter().map(|installed| installed.word).collect()
        };
        assert_eq!(words(), Vec::<&str>::new());
        std::fs::create_dir_all(home.path().join(".config/Code")).unwrap();
        std::fs::write(home.path().join(".claude.json"), "{}").unwrap();
        std::fs::write(programs.join("codex"), "").unwrap();
        assert_eq!(words(), ["claude", "vscode"]);
        std::fs::set_permissions(programs.join("codex"), PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(words(), ["claude", "codex", "vscode"]);
    }
}
