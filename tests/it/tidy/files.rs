//! Refuses files that nothing uses: sources that no module declares, snapshots without an assertion, tests in no run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{complain, files_under, rust, sources_under};

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
    let (mut problems, mut n_written) = (Vec::new(), 0);
    for source in sources_under("tests/it") {
        let module = module_of(&source.path);
        for name in tests_in(&source.text) {
            n_written += 1;
            let (begin, end) = (format!("{module}::"), format!("::{name}: test"));
            if !listed.lines().any(|line| line.starts_with(&begin) && line.ends_with(&end)) {
                problems.push(format!("{}: {name} is compiled into no run", source.path.display()));
            }
        }
    }
    complain(&problems);
    // A test may not stand in for one of the same name in a module of the same file.
    assert_eq!(listed.lines().filter(|line| line.ends_with(": test")).count(), n_written);
}

/// The files that a source declares as its modules, each as the two places where it may stand.
fn declared(path: &Path, text: &str) -> Vec<[PathBuf; 2]> {
    let code = rust::without_comments(text);
    let folder = path.parent().unwrap();
    let is_root = ["mod", "lib", "main"].contains(&path.file_stem().unwrap().to_str().unwrap());
    let inside = if is_root { folder.to_owned() } else { path.with_extension("") };
    let mut given = None;
    let mut found = Vec::new();
    for line in code.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("#[path = \"") {
            given = rest.split('"').next().map(|file| folder.join(file));
        }
        let Some(before) = line.strip_suffix(';') else { continue };
        if let Some(("" | "pub", name)) =
            before.rsplit_once("mod ").map(|(seen, name)| (visibility(seen), name))
        {
            let usual = [inside.join(format!("{name}.rs")), inside.join(name).join("mod.rs")];
            found.push(given.take().map_or(usual, |file| [file.clone(), file]));
        }
    }
    found
}

/// `pub` for every form of it.
fn visibility(before: &str) -> &str {
    before.trim().split('(').next().unwrap_or_default()
}

/// Sources that no root leads to.
fn unreached(roots: &[&str], sources: &[(PathBuf, &str)]) -> Vec<PathBuf> {
    let mut reached: BTreeSet<&Path> = BTreeSet::new();
    let mut open: Vec<PathBuf> = roots.iter().map(PathBuf::from).collect();
    while let Some(next) = open.pop() {
        if let Some((path, text)) = sources.iter().find(|(path, _)| *path == next)
            && reached.insert(path)
        {
            open.extend(declared(path, text).into_iter().flatten());
        }
    }
    sources.iter().map(|(path, _)| path).filter(|path| !reached.contains(path.as_path())).cloned().collect()
}

#[test]
fn every_source_is_declared_by_a_module() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources: Vec<_> = ["src", "tests/it"].into_iter().flat_map(sources_under).collect();
    let sources: Vec<(PathBuf, &str)> = sources
        .iter()
        .map(|source| (source.path.strip_prefix(root).unwrap().to_owned(), source.text.as_str()))
        .collect();
    let lost = unreached(&["src/lib.rs", "src/main.rs", "tests/it/main.rs"], &sources);
    complain(
        &lost.iter().map(|path| format!("{}: no module declares it", path.display())).collect::<Vec<_>>(),
    );
}

#[test]
fn a_source_that_no_module_declares_is_found() {
    let source = |path: &str, text: &'static str| (PathBuf::from(path), text);
    let sources = [
        source("src/lib.rs", "pub mod a;\n// mod e;\n"),
        source("src/a/mod.rs", "pub(super) mod b;\n#[cfg(test)]\n#[path = \"b_tests.rs\"]\nmod tests;\n"),
        source("src/a/b.rs", "mod c;\n"),
        source("src/a/b_tests.rs", ""),
        source("src/a/b/c.rs", ""),
        source("src/a/c.rs", ""),
        source("src/e.rs", ""),
    ];
    assert_eq!(
        unreached(&["src/lib.rs"], &sources),
        [PathBuf::from("src/a/c.rs"), PathBuf::from("src/e.rs")]
    );
}

/// What a snapshot's file calls the assertion: the last part of its module path, without a number that counts them.
fn name_of(snapshot: &Path) -> String {
    let stem = snapshot.file_stem().unwrap().to_string_lossy();
    stem.rsplit("__").next().unwrap_or_default().to_owned()
}

/// Is there an assertion of this name in one of the sources beside its folder? An assertion without a name has that of
/// its function, and from the second one on a number; `{..}` in a name stands for another text of the same file.
fn is_asserted(name: &str, sources: &[&str]) -> bool {
    sources.iter().any(|text| {
        let texts = texts_in(text);
        let is_named = asserted_names(text).iter().any(|form| match form.split_once('{') {
            None => *form == name,
            Some((before, rest)) => {
                let after = rest.split_once('}').map_or("", |(_, after)| after);
                let middle = name.strip_prefix(before).and_then(|middle| middle.strip_suffix(after));
                middle.is_some_and(|middle| texts.iter().any(|text| *text == middle))
            }
        });
        let (function, n) = match name.rsplit_once('-') {
            Some((function, n)) => (function, n.parse().unwrap_or(1)),
            None => (name, 1),
        };
        is_named || rust::functions(text).iter().any(|f| f.name == function && n_unnamed(f.text) >= n)
    })
}

/// What follows the parenthesis of every assertion of a snapshot or reply.
fn assertions(text: &str) -> impl Iterator<Item = &str> {
    let forms = ["assert_snapshot!(", "assert_json_snapshot!(", "assert_reply!(", "assert_snapshot("];
    forms.into_iter().flat_map(move |form| text.split(form).skip(1)).map(str::trim_start)
}

/// The names given to assertions, also such that a format makes.
fn asserted_names(text: &str) -> Vec<&str> {
    assertions(text).filter_map(given_name).collect()
}

fn n_unnamed(function: &str) -> usize {
    assertions(function).filter(|rest| given_name(rest).is_none()).count()
}

/// The first argument of an assertion, where another one follows it.
fn given_name(rest: &str) -> Option<&str> {
    let name = rest.trim_start_matches('&').trim_start_matches("format!(").strip_prefix('"')?;
    is_one_of_several(rest).then(|| name.split('"').next())?
}

/// Does a comma follow the first argument?
fn is_one_of_several(rest: &str) -> bool {
    let mut depth = 0;
    for c in rust::code_alone(rest).chars() {
        match c {
            ',' if depth == 0 => return true,
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => return false,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
    }
    false
}

fn texts_in(text: &str) -> BTreeSet<&str> {
    text.split('"').skip(1).step_by(2).collect()
}

#[test]
fn every_snapshot_has_its_assertion() {
    let mut problems = Vec::new();
    let snapshots = ["src", "tests"].into_iter().flat_map(|folder| files_under(folder, "snap"));
    for snapshot in snapshots {
        let folder = snapshot.parent().and_then(Path::parent).unwrap();
        let beside = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let beside = beside.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
        let texts: Vec<String> = beside.map(|path| std::fs::read_to_string(path).unwrap()).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        if !is_asserted(&name_of(&snapshot), &texts) {
            problems.push(format!("{}: no assertion compares with it", snapshot.display()));
        }
    }
    let pending = ["src", "tests"].into_iter().flat_map(|folder| files_under(folder, "snap.new"));
    problems.extend(pending.map(|path| format!("{}: neither accepted nor deleted", path.display())));
    complain(&problems);
}

#[test]
fn a_snapshot_whose_assertion_is_gone_is_found() {
    let text = "fn alone() { assert_snapshot!(x); }\nfn twice() {\n    assert_snapshot!(format!(\"{x}\", y)); assert_snapshot!(\n y) }\n\
        fn others() {\n    assert_reply!(\"reply\", x);\n    assert_snapshot(&format!(\"result_{name}\"), x, \"create\");\n    assert_snapshot!(format!(\"made_{name}\"), x);\n}\n";
    let is_used = |name: &str| is_asserted(&name_of(Path::new(&format!("it__a__{name}.snap"))), &[text]);
    let used = ["alone", "twice", "twice-2", "reply", "result_create", "made_create"];
    assert_eq!(used.map(is_used), [true; 6]);
    let unused = ["gone", "alone-2", "others", "reply_2", "result_delete", "create"];
    assert_eq!(unused.map(is_used), [false; 6]);
}
