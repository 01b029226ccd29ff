//! Role and project files: those compiled in, overridden by the operator's directories.

mod project_file;
mod role_file;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use thiserror::Error;

use crate::domain::name::name_key;
use crate::domain::project::Project;
use crate::domain::role::Role;

macro_rules! embedded {
    ($($file:literal),+ $(,)?) => {
        &[$(($file, include_str!(concat!("../../../", $file)))),+]
    };
}

const ROLES: &[(&str, &str)] = embedded![
    "roles/architect.md",
    "roles/backend-developer.md",
    "roles/coder.md",
    "roles/frontend-developer.md",
    "roles/manager.md",
    "roles/operator.md",
    "roles/planner.md",
    "roles/qa-engineer.md",
    "roles/reviewer.md",
];

const PROJECTS: &[(&str, &str)] =
    embedded!["projects/dataone.toml", "projects/here.toml", "projects/setup.toml"];

/// Why one file could not be used; the others are.
#[derive(Debug, Error)]
pub enum CatalogError {
    #[error("read {path}")]
    Read {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error("{path}: {problem}")]
    Content { path: String, problem: String },
}

/// Where the operator keeps further files; later directories win.
#[derive(Debug, Clone, Default)]
pub struct CatalogDirs {
    pub roles: Vec<PathBuf>,
    pub projects: Vec<PathBuf>,
}

/// Everything the files say.
#[derive(Debug, Default)]
pub struct Files {
    pub roles: BTreeMap<String, Role>,
    pub projects: BTreeMap<String, Project>,
    /// Files that could not be used, each with its reason.
    pub problems: Vec<String>,
}

/// The files as last read; reading again picks up changes.
#[derive(Debug)]
pub struct Catalog {
    dirs: CatalogDirs,
    files: ArcSwap<Files>,
}

impl Catalog {
    pub fn open(dirs: CatalogDirs) -> Self {
        let files = read_all(&dirs);
        for problem in &files.problems {
            tracing::warn!(problem, "a role or project file is left out");
        }
        Self { dirs, files: ArcSwap::from_pointee(files) }
    }

    pub fn files(&self) -> Arc<Files> {
        self.files.load_full()
    }

    pub fn reload(&self) {
        self.files.store(Arc::new(read_all(&self.dirs)));
    }
}

impl Files {
    pub fn role(&self, name: &str) -> Option<&Role> {
        let key = name_key(name);
        self.roles.get(&key).or_else(|| self.roles.values().find(|role| name_key(&role.name) == key))
    }
}

fn read_all(dirs: &CatalogDirs) -> Files {
    let mut files = Files::default();
    for (path, text) in ROLES {
        files.add_role(path, text);
    }
    for (path, text) in PROJECTS {
        files.add_project(path, text);
    }
    for file in dirs.roles.iter().flat_map(|dir| read_dir(dir, "md")) {
        files.add_read(file, Files::add_role);
    }
    for file in dirs.projects.iter().flat_map(|dir| read_dir(dir, "toml")) {
        files.add_read(file, Files::add_project);
    }
    files
}

/// The files of a directory with this extension, by name; a directory that is not there has none.
fn read_dir(dir: &Path, extension: &str) -> Vec<Result<(String, String), CatalogError>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        Err(source) => return vec![Err(CatalogError::Read { path: dir.display().to_string(), source })],
    };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|found| found == extension));
    paths.sort();
    paths.into_iter().map(|path| read(&path)).collect()
}

fn read(path: &Path) -> Result<(String, String), CatalogError> {
    let shown = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => Ok((shown, text)),
        Err(source) => Err(CatalogError::Read { path: shown, source }),
    }
}

impl Files {
    fn add_read(
        &mut self,
        file: Result<(String, String), CatalogError>,
        add: impl Fn(&mut Self, &str, &str),
    ) {
        match file {
            Ok((path, text)) => add(self, &path, &text),
            Err(error) => self.problems.push(format!("{error}: {}", reason_of(&error))),
        }
    }

    fn add_role(&mut self, path: &str, text: &str) {
        match role_file::parse(path, text) {
            Ok(role) => {
                self.roles.insert(name_key(&role.id), role);
            }
            Err(error) => self.problems.push(error.to_string()),
        }
    }

    fn add_project(&mut self, path: &str, text: &str) {
        match project_file::parse(path, text) {
            Ok(project) => {
                self.projects.insert(name_key(&project.name), project);
            }
            Err(error) => self.problems.push(error.to_string()),
        }
    }
}

fn reason_of(error: &CatalogError) -> String {
    std::error::Error::source(error).map(ToString::to_string).unwrap_or_default()
}

/// The stem of a path, which names a role or project.
fn stem(path: &str) -> String {
    Path::new(path).file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_compiled_in_can_be_used() {
        let files = read_all(&CatalogDirs::default());
        assert_eq!(files.problems, Vec::<String>::new());
        let roles: Vec<(&str, &str)> =
            files.roles.values().map(|role| (role.id.as_str(), role.kind.word())).collect();
        let expected = [
            ("architect", "planning"),
            ("backend-developer", "coding"),
            ("coder", "coding"),
            ("frontend-developer", "coding"),
            ("manager", "manager"),
            ("operator", "operator"),
            ("planner", "planning"),
            ("qa-engineer", "coding"),
            ("reviewer", "review"),
        ];
        assert_eq!(roles, expected);
        assert_eq!(files.projects.keys().collect::<Vec<_>>(), ["dataone", "here", "setup"]);
    }

    #[test]
    fn the_operators_files_win_and_a_bad_one_hides_no_other() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("coder.md"), "---\nname: ours\n---\nOur coder.").unwrap();
        std::fs::write(dir.path().join("bad.md"), "---\nname: x\n").unwrap();
        std::fs::write(dir.path().join("notes.txt"), "not a role").unwrap();
        let dirs =
            CatalogDirs { roles: vec![dir.path().to_owned()], projects: vec![dir.path().join("absent")] };
        let files = read_all(&dirs);
        assert_eq!(files.role("CODER").unwrap().prompt, "Our coder.");
        assert_eq!(files.role("Ours").unwrap().id, "coder");
        assert_eq!(files.roles.len(), ROLES.len());
        assert_eq!(files.problems.len(), 1);
        assert!(
            files.problems[0].ends_with("bad.md: the front matter has no closing '---' line"),
            "{:?}",
            files.problems
        );
    }
}
