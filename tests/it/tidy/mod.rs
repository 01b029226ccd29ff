//! The architecture held by a test: layers, confined crates, module docs, file and function length, words, unused files.

mod files;
mod rust;
mod words;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What every layer may import.
const FOR_ALL: &[&str] = &["durations"];
/// Who may import whom among our own modules; the rest of a file's first folder.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("address", &[]),
    ("durations", &[]),
    ("domain", &[]),
    ("hooks", &[]),
    ("coder", &["address"]),
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
    ("mcp", &["address", "app", "view", "domain"]),
    ("web", &["app", "view", "domain", "serve"]),
    ("cli", &["address", "view", "domain", "files", "git", "process"]),
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
            "hooks",
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
const MAX_FUNCTION_LINES: usize = 60;
/// Matches with one arm for each variant, which no cut would make clearer.
const TABLES: &[(&str, &str)] = &[("src/app/error.rs", "next_action")];

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
    let source = |path: PathBuf| {
        let inside = path.strip_prefix(&root).unwrap();
        let first = inside.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        Source { layer: first.trim_end_matches(".rs").to_owned(), path, text }
    };
    files_under(folder, "rs").into_iter().map(source).collect()
}

/// All files whose names end so, in order.
fn files_under(folder: &str, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(&format!(".{ending}")) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The modules that follow `crate::` in this code, alone or in a group.
fn imports(text: &str) -> BTreeSet<String> {
    let code = rust::without_comments(text);
    code.split("crate::").skip(1).flat_map(first_words).collect()
}

/// The first word of a path, or of each path in a group.
fn first_words(path: &str) -> Vec<String> {
    let Some(group) = path.strip_prefix('{') else {
        let word = path.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
        return if word.is_empty() { Vec::new() } else { vec![word.to_owned()] };
    };
    let end = rust::closing(path).unwrap_or(path.len()) - 2;
    let mut depth = 0;
    let is_between = |c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    };
    group[..end].split(is_between).flat_map(|path| first_words(path.trim())).collect()
}

/// A file as the checks name it.
fn place(path: &Path) -> String {
    path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap().display().to_string()
}

fn complain(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

/// What is wrong with the imports of a file in this layer.
fn forbidden_imports(layer: &str, text: &str) -> Vec<String> {
    let Some((_, allowed)) = MAY_IMPORT.iter().find(|(name, _)| *name == layer) else {
        return vec![format!("'{layer}' has no row in the table of layers")];
    };
    let is_ours = |import: &String| MAY_IMPORT.iter().any(|(name, _)| name == import);
    let imports = imports(text).into_iter().filter(is_ours);
    let may_import = |import: &str| import == layer || allowed.contains(&import) || FOR_ALL.contains(&import);
    let forbidden = imports.filter(|import| !may_import(import));
    forbidden.map(|import| format!("{layer} imports {import}")).collect()
}

#[test]
fn every_layer_imports_only_what_it_may() {
    let mut problems = Vec::new();
    for source in sources().iter().filter(|source| !["lib", "main"].contains(&source.layer.as_str())) {
        let found = forbidden_imports(&source.layer, &source.text);
        problems.extend(found.into_iter().map(|problem| format!("{}: {problem}", source.path.display())));
    }
    complain(&problems);
}

#[test]
fn an_import_that_a_layer_may_not_have_is_found_alone_and_in_groups() {
    assert_eq!(forbidden_imports("store", "use crate::domain::id::TaskId;\n"), [""; 0]);
    assert_eq!(forbidden_imports("store", "// crate::web\nlet x = crate::web::y();"), ["store imports web"]);
    let grouped = "use crate::{\n    app::{Fleet, coder},\n    domain::{id, web}, store,\n    view,\n};\n";
    assert_eq!(forbidden_imports("store", grouped), ["store imports app", "store imports view"]);
    assert_eq!(forbidden_imports("nowhere", ""), ["'nowhere' has no row in the table of layers"]);
}

#[test]
fn confined_crates_stay_where_they_belong() {
    let mut problems = Vec::new();
    for source in sources() {
        let code = rust::without_comments(&source.text);
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
    "GLOB",
    "NOCASE",
    " BLOB",
    "INDEXED BY",
    "LIMIT -1",
    "InvalidSavePoint",
    "datetime(",
    "strftime(",
    "julianday(",
    "unixepoch(",
    "json_",
    "printf(",
    "instr(",
    "iif(",
    "typeof(",
    "group_concat(",
];

/// SQL that only SQLite understands, beside its own words: booleans as numbers, and the greatest of several arguments.
fn of_sqlite(code: &str) -> Vec<String> {
    let tokens: Vec<&str> = code.split_whitespace().collect();
    let is_flag = |token: &str| token.rsplit('.').next().is_some_and(|column| column.starts_with("is_"));
    let is_number = |token: &str| matches!(token.trim_end_matches(['"', ',', ')']), "0" | "1");
    let compared = tokens
        .windows(3)
        .filter(|three| is_flag(three[0]) && matches!(three[1], "=" | "<>") && is_number(three[2]));
    let mut found: Vec<String> = compared.map(|three| three.join(" ")).collect();
    let lower = code.to_lowercase();
    for function in ["max(", "min("] {
        let calls = lower.match_indices(function).map(|(at, _)| &lower[at..]);
        found.extend(calls.filter_map(|call| several_arguments(call)).map(str::to_owned));
    }
    found
}

/// The call at the beginning of this text, if it has several arguments.
fn several_arguments(call: &str) -> Option<&str> {
    let (mut depth, mut has_comma) = (0, false);
    for (at, c) in call.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 1 => return has_comma.then_some(&call[..=at]),
            ')' => depth -= 1,
            ',' if depth == 1 => has_comma = true,
            _ => {}
        }
    }
    None
}

#[test]
fn sql_of_sqlite_alone_is_recognized() {
    let found = |sql: &str| !of_sqlite(sql).is_empty();
    for sql in ["WHERE r.is_cleared = 0 AND", "SET is_cleared = 1\"", "MAX(stdout, $1)", "min(0, min(n)) - 1"]
    {
        assert!(found(sql), "{sql}");
    }
    let portable = ["WHERE NOT r.is_cleared", "SET is_cleared = TRUE", "max(CAST(n AS BIGINT))", "min(a), b"];
    for sql in portable {
        assert!(!found(sql), "{sql}");
    }
}

#[test]
fn one_file_of_the_store_knows_which_database_it_is() {
    let mut problems = Vec::new();
    for source in sources().iter().filter(|source| source.layer == "store") {
        let is_free = source.path.ends_with("store/db.rs") || source.path.ends_with("store/migrate_tests.rs");
        let code = rust::without_comments(source.text.split("#[cfg(test)]").next().unwrap_or_default());
        for word in OF_ONE_DATABASE.iter().filter(|word| !is_free && code.contains(**word)) {
            problems.push(format!("{}: {word}", source.path.display()));
        }
        let sql = of_sqlite(&code).into_iter().filter(|_| !is_free);
        problems.extend(sql.map(|sql| format!("{}: {sql}", source.path.display())));
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

/// Lines of a file without the tests at its end.
fn n_lines(text: &str) -> usize {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().lines().count()
}

#[test]
fn no_file_grows_fat() {
    let all = ["src", "tests/it", "benches"].into_iter().flat_map(sources_under);
    let fat = all.filter(|source| n_lines(&source.text) > MAX_FILE_LINES);
    let problems = fat.map(|source| format!("{}: {} lines", place(&source.path), n_lines(&source.text)));
    complain(&problems.collect::<Vec<_>>());
}

#[test]
fn the_tests_at_the_end_of_a_file_do_not_count_as_its_lines() {
    assert_eq!(n_lines("//! A.\n\nfn f() {}\n\n#[cfg(test)]\nmod tests {\n    fn t() {}\n}\n"), 4);
    assert_eq!(n_lines(&"x();\n".repeat(501)), 501);
}

fn too_long(place: &str, text: &str) -> Vec<String> {
    let is_table = |name: &str| TABLES.contains(&(place, name));
    let long = rust::functions(text).into_iter().filter(|function| function.n_lines > MAX_FUNCTION_LINES);
    let long = long.filter(|function| !is_table(function.name));
    long.map(|f| format!("{place}:{}: {} has {} lines", f.first_line, f.name, f.n_lines)).collect()
}

#[test]
fn no_function_grows_fat() {
    let problems = sources().into_iter().flat_map(|source| too_long(&place(&source.path), &source.text));
    complain(&problems.collect::<Vec<_>>());
}

#[test]
fn a_function_with_too_many_lines_is_found() {
    let function = |n_lines: usize| format!("// fn\n\nfn f() {{\n{}}}\n", "    x();\n".repeat(n_lines - 2));
    assert_eq!(too_long("a.rs", &function(60)), [""; 0]);
    assert_eq!(too_long("a.rs", &function(61)), ["a.rs:3: f has 61 lines"]);
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

/// An ignored test is listed and not played, unless another test of its file starts it as a process of its own.
#[test]
fn no_ignored_test_is_left_out() {
    let mark = "#[ig".to_owned() + "nore";
    let all = sources().into_iter().chain(sources_under("tests/it"));
    let is_left_out = |source: &Source| {
        let n_ignored = source.text.lines().filter(|line| line.trim().starts_with(&mark)).count();
        n_ignored > source.text.matches("\"--ignored\"").count()
    };
    let left_out = all.filter(is_left_out);
    complain(&left_out.map(|source| source.path.display().to_string()).collect::<Vec<_>>());
}

#[test]
fn domain_derives_no_serde() {
    let in_domain = sources().into_iter().filter(|source| source.layer == "domain");
    let guilty = in_domain.filter(|source| rust::without_comments(&source.text).contains("serde"));
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
