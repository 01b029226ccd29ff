//! The architecture held by a test: layers, confined crates, module docs, file and function length.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Who may import whom among our own modules; the rest of a file's first folder.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("hooks", &[]),
    ("coder", &[]),
    ("serve", &[]),
    ("files", &[]),
    ("git", &[]),
    ("process", &[]),
    ("store", &["domain", "files"]),
    ("app", &["domain", "store", "coder", "engine", "files", "git", "hooks"]),
    ("engine", &["domain", "files", "git"]),
    ("runner", &["domain", "engine", "coder", "files", "git", "process", "serve"]),
    ("local", &["coder", "domain", "files", "git", "hooks", "process", "serve"]),
    ("view", &["domain", "app"]),
    ("mcp", &["app", "view", "domain"]),
    ("web", &["app", "view", "domain", "serve"]),
    ("cli", &["view", "domain", "files", "git", "process"]),
    ("config", &["domain"]),
    ("telemetry", &["config"]),
    (
        "boot",
        &[
            "app",
            "cli",
            "coder",
            "config",
            "domain",
            "engine",
            "files",
            "local",
            "mcp",
            "process",
            "runner",
            "serve",
            "store",
            "telemetry",
            "view",
            "web",
        ],
    ),
];

/// Crates that stay behind one edge.
const CONFINED: &[(&str, &[&str])] = &[
    ("rmcp", &["mcp"]),
    ("axum", &["web", "mcp", "boot", "runner", "local", "serve"]),
    ("utoipa", &["web", "view"]),
    ("sqlx", &["store"]),
    ("reqwest", &["coder", "mcp", "cli"]),
    ("clap", &["cli"]),
    ("comfy_table", &["cli"]),
    ("serde_saphyr", &["app"]),
    ("toml", &["app", "config", "engine"]),
    ("toml_edit", &["cli"]),
    ("jsonc_parser", &["cli"]),
    ("config", &["config"]),
    ("governor", &["coder"]),
    ("backon", &["coder"]),
    ("names", &["domain"]),
];

const MAX_FILE_LINES: usize = 500;

struct Source {
    path: PathBuf,
    layer: String,
    text: String,
}

fn sources() -> Vec<Source> {
    sources_under("src")
}

fn sources_under(folder: &str) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let inside = path.strip_prefix(&root).unwrap();
                let first = inside.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
                let text = std::fs::read_to_string(&path).unwrap();
                found.push(Source { layer: first.trim_end_matches(".rs").to_owned(), path, text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// Code without comments and string contents, so that words in prose do not count.
fn code(text: &str) -> String {
    let without_comments = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    without_comments.collect::<Vec<_>>().join("\n")
}

/// Words that follow `crate::` in this code.
fn imports(text: &str) -> BTreeSet<String> {
    let code = code(text);
    let parts = code.split("crate::").skip(1);
    let word = |part: &str| part.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    parts.map(word).filter(|word| !word.is_empty()).collect()
}

fn complain(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

#[test]
fn every_layer_imports_only_what_it_may() {
    let mut problems = Vec::new();
    for source in sources() {
        if ["lib", "main"].contains(&source.layer.as_str()) {
            continue;
        }
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(layer, _)| *layer == source.layer) else {
            problems.push(format!(
                "{}: '{}' has no row in the table of layers",
                source.path.display(),
                source.layer
            ));
            continue;
        };
        for import in imports(&source.text) {
            let is_ours = MAY_IMPORT.iter().any(|(layer, _)| *layer == import);
            if is_ours && import != source.layer && !allowed.contains(&import.as_str()) {
                problems.push(format!("{}: {} imports {import}", source.path.display(), source.layer));
            }
        }
    }
    complain(&problems);
}

#[test]
fn confined_crates_stay_where_they_belong() {
    let mut problems = Vec::new();
    for source in sources() {
        let code = code(&source.text);
        for (name, layers) in CONFINED {
            let uses =
                [format!("use {name}::"), format!(" {name}::"), format!("({name}::"), format!("<{name}::")];
            let is_used = uses.iter().any(|form| code.contains(form.as_str()));
            let is_own_module = format!("crate::{name}::");
            let is_crate = is_used
                && !(code.contains(&is_own_module) && MAY_IMPORT.iter().any(|(layer, _)| layer == name));
            if is_crate && !layers.contains(&source.layer.as_str()) && source.layer != "main" {
                problems.push(format!("{}: uses {name}", source.path.display()));
            }
        }
    }
    complain(&problems);
}

/// Words of one database: its types, and SQL that no other understands.
const OF_ONE_DATABASE: &[&str] = &[
    "sqlx::sqlite",
    "PRAGMA",
    "sqlite_",
    "VACUUM",
    "rowid",
    " OR REPLACE",
    " OR IGNORE",
    "IFNULL",
    "BEGIN ",
];

#[test]
fn one_file_of_the_store_knows_which_database_it_is() {
    let mut problems = Vec::new();
    for source in sources().iter().filter(|source| source.layer == "store") {
        let is_free = source.path.ends_with("store/db.rs") || source.path.ends_with("store/migrate_tests.rs");
        let code = code(source.text.split("#[cfg(test)]").next().unwrap_or_default());
        for word in OF_ONE_DATABASE.iter().filter(|word| !is_free && code.contains(**word)) {
            problems.push(format!("{}: {word}", source.path.display()));
        }
    }
    complain(&problems);
}

#[test]
fn every_file_says_in_one_sentence_why_it_exists() {
    let is_missing = |source: &Source| {
        let first = source.text.lines().next().unwrap_or_default();
        !first.starts_with("//! ") || first.len() < 20 || first.contains("module")
    };
    let problems: Vec<String> =
        sources().iter().filter(|s| is_missing(s)).map(|s| s.path.display().to_string()).collect();
    complain(&problems);
}

#[test]
fn no_file_grows_fat() {
    let lines = |source: &Source| {
        source.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().lines().count()
    };
    let fat = sources().into_iter().filter(|source| lines(source) > MAX_FILE_LINES);
    complain(
        &fat.map(|source| format!("{}: {} lines", source.path.display(), lines(&source))).collect::<Vec<_>>(),
    );
}

#[test]
fn nothing_is_put_off_or_waved_through() {
    let marks = ["TO".to_owned() + "DO", "FIX".to_owned() + "ME", "#[al".to_owned() + "low("];
    let mut problems = Vec::new();
    for source in sources() {
        for mark in marks.iter().filter(|mark| source.text.contains(mark.as_str())) {
            problems.push(format!("{}: {mark}", source.path.display()));
        }
    }
    complain(&problems);
}

#[test]
fn domain_derives_no_serde() {
    let in_domain = sources().into_iter().filter(|source| source.layer == "domain");
    let guilty = in_domain.filter(|source| code(&source.text).contains("serde"));
    complain(&guilty.map(|source| source.path.display().to_string()).collect::<Vec<_>>());
}

#[test]
fn every_action_has_a_tool_name_of_its_own_that_clients_accept() {
    let names: Vec<&str> =
        fleet_mcp::domain::access::Action::ALL.iter().map(|action| action.name()).collect();
    let unique: BTreeSet<&&str> = names.iter().collect();
    assert_eq!(unique.len(), names.len());
    assert!(
        names
            .iter()
            .all(|name| name.len() <= 40 && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
    );
}

/// Names of the functions below a `#[test]` or `#[tokio::test]` in this file.
fn tests_in(text: &str) -> Vec<&str> {
    let is_mark = |line: &str| line.starts_with("#[test]") || line.starts_with("#[tokio::test");
    let mut names = Vec::new();
    let mut is_marked = false;
    for line in text.lines().map(str::trim) {
        is_marked |= is_mark(line);
        let head = line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn "));
        if let Some(head) = head.filter(|_| is_marked) {
            names.extend(head.split(['(', '<']).next());
            is_marked = false;
        }
    }
    names
}

/// A file's module path: `tests/it/store/mod.rs` is `store`, `tests/it/store/tasks.rs` is `store::tasks`.
fn module_of(path: &Path) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let inside = path.strip_prefix(&root).unwrap().with_extension("");
    let words = inside.iter().map(|word| word.to_string_lossy().into_owned());
    words.filter(|word| word != "mod").collect::<Vec<_>>().join("::")
}

#[test]
fn every_test_that_is_written_is_in_this_run() {
    let this = std::env::current_exe().unwrap();
    let listed = std::process::Command::new(this).args(["--list", "--format", "terse"]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let mut problems = Vec::new();
    for source in sources_under("tests/it") {
        let module = module_of(&source.path);
        for name in tests_in(&source.text) {
            let (begin, end) = (format!("{module}::"), format!("::{name}: test"));
            if !listed.lines().any(|line| line.starts_with(&begin) && line.ends_with(&end)) {
                problems.push(format!("{}: {name} is compiled into no run", source.path.display()));
            }
        }
    }
    complain(&problems);
}
