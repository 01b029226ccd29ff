//! Role and project files: the embedded ones, overridden by the operator's directories.

mod project_file;
mod role_file;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::app::error::Error;
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

/// Why a file is ignored; the other files are still used.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    #[error("read {path}")]
    Read {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error("{path}: {problem}")]
    Content { path: String, problem: String },
    #[error(
        "{path} is ignored: {first} has the same name (upper and lower case count as equal); rename one \
        of them"
    )]
    Twice { path: String, first: String },
}

/// The operator's directories; later directories take precedence.
#[derive(Debug, Clone, Default)]
pub struct CatalogDirs {
    pub roles: Vec<PathBuf>,
    pub projects: Vec<PathBuf>,
}

/// The path and content of a file.
struct SourceFile {
    path: String,
    text: String,
}

/// All roles and projects from the files.
#[derive(Debug, Default)]
pub struct Files {
    pub roles: BTreeMap<String, Role>,
    pub projects: BTreeMap<String, Project>,
    /// One message per file that is ignored.
    pub role_problems: Vec<String>,
    pub project_problems: Vec<String>,
    /// Errors in the newest file of a role. The older version still gives the role's kind, but is not used as a
    /// persona, since its author has replaced it.
    broken_roles: BTreeMap<String, String>,
}

/// The files as last read; `reload` picks up changes.
#[derive(Debug)]
pub struct Catalog {
    dirs: CatalogDirs,
    files: ArcSwap<Files>,
}

impl Catalog {
    pub fn open(dirs: CatalogDirs) -> Self {
        let catalog = Self { dirs, files: ArcSwap::default() };
        catalog.reload();
        catalog
    }

    pub fn files(&self) -> Arc<Files> {
        self.files.load_full()
    }

    /// Each problem is logged once, when it is new.
    pub fn reload(&self) {
        let files = Arc::new(read_all(&self.dirs));
        let before = self.files.swap(Arc::clone(&files));
        let known: Vec<&String> = before.problems().collect();
        for problem in files.problems().filter(|problem| !known.contains(problem)) {
            tracing::warn!(problem, "a role or project file is ignored");
        }
    }
}

impl Files {
    pub fn role(&self, name: &str) -> Option<&Role> {
        let key = name_key(name);
        self.roles.get(&key).or_else(|| self.roles.values().find(|role| name_key(&role.name) == key))
    }

    /// Refuses a role whose newest file is invalid; an unknown role passes.
    pub fn check_role(&self, field: &str, name: &str) -> Result<(), Error> {
        let key = self.role(name).map_or_else(|| name_key(name), |role| name_key(&role.id));
        match self.broken_roles.get(&key) {
            Some(problem) => Err(Error::invalid(
                field,
                format!("role '{name}' cannot be used until its file is corrected: {problem}"),
            )),
            None => Ok(()),
        }
    }

    pub fn problems(&self) -> impl Iterator<Item = &String> {
        self.role_problems.iter().chain(&self.project_problems)
    }
}

fn read_all(dirs: &CatalogDirs) -> Files {
    let mut files = Files::default();
    files.add_roles(embedded(ROLES));
    files.add_projects(embedded(PROJECTS));
    for dir in &dirs.roles {
        files.add_roles(read_dir(dir, "md"));
    }
    for dir in &dirs.projects {
        files.add_projects(read_dir(dir, "toml"));
    }
    files
}

fn embedded(files: &[(&str, &str)]) -> Vec<Result<SourceFile, CatalogError>> {
    files
        .iter()
        .map(|(path, text)| Ok(SourceFile { path: (*path).to_owned(), text: (*text).to_owned() }))
        .collect()
}

/// The files of a directory with this extension, sorted by name; none if the directory does not exist.
fn read_dir(dir: &Path, extension: &str) -> Vec<Result<SourceFile, CatalogError>> {
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

/// Reads plain files only: reading a pipe or device might never end.
fn read(path: &Path) -> Result<SourceFile, CatalogError> {
    let shown = path.display().to_string();
    let failed = |source| CatalogError::Read { path: shown.clone(), source };
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(CatalogError::Content { path: shown, problem: "it is not a file".to_owned() });
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    Ok(SourceFile { path: shown, text })
}

impl Files {
    /// Adds the files of one directory, which override those of earlier directories.
    fn add_roles(&mut self, files: Vec<Result<SourceFile, CatalogError>>) {
        let mut names = BTreeMap::new();
        for file in files {
            if let Err(error) = file.and_then(|file| self.add_role(&file, &mut names)) {
                self.role_problems.push(describe(&error));
                self.note_broken(&error);
            }
        }
    }

    fn add_role(
        &mut self,
        file: &SourceFile,
        names: &mut BTreeMap<String, String>,
    ) -> Result<(), CatalogError> {
        let role = role_file::parse(&file.path, &file.text)?;
        let key = unique(names, &role.id, &file.path)?;
        self.broken_roles.remove(&key);
        self.roles.insert(key, role);
        Ok(())
    }

    fn note_broken(&mut self, error: &CatalogError) {
        match error {
            CatalogError::Read { path, .. } | CatalogError::Content { path, .. } => {
                self.broken_roles.insert(name_key(&stem(path)), describe(error));
            }
            CatalogError::Twice { .. } => {}
        }
    }

    fn add_projects(&mut self, files: Vec<Result<SourceFile, CatalogError>>) {
        let mut names = BTreeMap::new();
        for file in files {
            if let Err(error) = file.and_then(|file| self.add_project(&file, &mut names)) {
                self.project_problems.push(describe(&error));
            }
        }
    }

    fn add_project(
        &mut self,
        file: &SourceFile,
        names: &mut BTreeMap<String, String>,
    ) -> Result<(), CatalogError> {
        let project = project_file::parse(&file.path, &file.text)?;
        self.projects.insert(unique(names, &project.name, &file.path)?, project);
        Ok(())
    }
}

/// The key of a name, which must be unique within a directory.
fn unique(names: &mut BTreeMap<String, String>, name: &str, path: &str) -> Result<String, CatalogError> {
    let key = name_key(name);
    match names.get(&key) {
        Some(first) => Err(CatalogError::Twice { path: path.to_owned(), first: first.clone() }),
        None => {
            names.insert(key.clone(), path.to_owned());
            Ok(key)
        }
    }
}

fn describe(error: &CatalogError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// The file stem, which names a role or project.
fn stem(path: &str) -> String {
    Path::new(path).file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_compiled_in_can_be_used() {
        let files = read_all(&CatalogDirs::default());
        assert_eq!(files.problems().collect::<Vec<_>>(), Vec::<&String>::new());
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
        let bad = format!("{}/bad.md: the front matter has no closing '---' line", dir.path().display());
        assert_eq!((files.role_problems, files.project_problems), (vec![bad], Vec::new()));
    }

    #[test]
    fn a_role_whose_newest_file_is_broken_is_not_played_and_keeps_its_kind() {
        let [first, second] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let dirs = CatalogDirs {
            roles: vec![first.path().to_owned(), second.path().to_owned()],
            ..CatalogDirs::default()
        };
        std::fs::write(first.path().join("Reviewer.md"), "---\nkind: review\n").unwrap();
        let files = read_all(&dirs);
        assert_eq!(files.role("reviewer").unwrap().kind.word(), "review");
        let refused = files.check_role("roleId", "reviewer").unwrap_err().to_string();
        let problem = "Reviewer.md: the front matter has no closing '---' line";
        let expected = format!(
            "role 'reviewer' cannot be used until its file is corrected: {}/{problem}",
            first.path().display()
        );
        assert_eq!(refused, expected);
        assert!(files.check_role("roleId", "coder").is_ok());
        // A valid file in a later directory makes the role usable again.
        std::fs::write(second.path().join("reviewer.md"), "You review.").unwrap();
        assert!(read_all(&dirs).check_role("roleId", "reviewer").is_ok());
    }

    #[test]
    fn two_files_of_one_name_are_reported_and_so_is_what_is_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        std::fs::write(at("Dup.md"), "One.").unwrap();
        std::fs::write(at("dup.md"), "Two.").unwrap();
        std::fs::write(at("a.toml"), "name = 'p'").unwrap();
        std::fs::write(at("b.toml"), "name = 'P'").unwrap();
        std::fs::create_dir(at("folder.md")).unwrap();
        let files =
            read_all(&CatalogDirs { roles: vec![dir.path().into()], projects: vec![dir.path().into()] });
        let twice = |path: &str, first: &str| {
            let (path, first) = (at(path), at(first));
            format!(
                "{path} is ignored: {first} has the same name (upper and lower case count as equal); rename \
                one of them"
            )
        };
        let no_file = format!("{}: it is not a file", at("folder.md"));
        assert_eq!(files.role_problems, [twice("dup.md", "Dup.md"), no_file]);
        assert_eq!(files.project_problems, [twice("b.toml", "a.toml")]);
        assert_eq!(
            (files.role("dup").unwrap().prompt.as_str(), files.check_role("roleId", "dup").is_ok()),
            ("One.", true)
        );
    }
}
