//! Refuses banned words: pronouns that hide who acts, and names of the dialect this project began in.

use std::path::Path;

use super::{complain, files_under, place, rust, sources_under};

/// Words of texts, and what to write instead. They count in prose, in messages and inside names.
const BANNED_IN_TEXT: &[(&str, &str)] = &[
    ("whoever", "the client, process or agent that is meant"),
    ("whomever", "the client, process or agent that is meant"),
    ("nobody", "no client, no process, no agent"),
    ("somebody", "a client, a process, an agent"),
    ("anybody", "any client, any process, any agent"),
];

/// Words of names in code, alone or as a part (`Deed`, `deed`, `task_errand`, `GroundError`).
const BANNED_IN_NAMES: &[(&str, &str)] = &[
    ("deed", "AuditedCall"),
    ("errand", "PreparedRun"),
    ("ground", "WorkspaceFacts"),
    ("plot", "WorkspaceProbe"),
    ("hunt", "Termination"),
    ("quarry", "ProcessSet"),
];

/// Names in code that are banned as they stand, one of them as a function; inside a longer name, or in lower case, they
/// are plain words.
const BANNED_NAMES: &[(&str, &str)] = &[
    ("Told", "DeliveryResult"),
    ("Said", "AppReply"),
    ("Heard", "EngineEvent"),
    ("meant(", "resolve_engine(requested, &installed)"),
];

const PROSE: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];
const FOLDERS_OF_PROSE: &[&str] = &["roles", "projects"];

/// The changelog up to the end of its first section; released sections are history.
fn unreleased(changelog: &str) -> &str {
    let end = changelog.match_indices("\n## ").nth(1).map_or(changelog.len(), |(at, _)| at);
    &changelog[..end]
}

/// The words of a name, in lower case: `task_errand`, `GroundError` and `TASK_ERRAND` have two each.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if c == '_' || (c.is_uppercase() && was_lower) {
            parts.push(String::new());
        }
        was_lower = c.is_lowercase();
        if let Some(part) = parts.last_mut().filter(|_| c != '_') {
            part.extend(c.to_lowercase());
        }
    }
    parts
}

/// Lines with a banned word of prose.
fn banned_in_text(text: &str) -> Vec<String> {
    let of_line = |(n, line): (usize, &str)| {
        let words: Vec<String> = rust::words(line).flat_map(|(_, word)| parts(word)).collect();
        let found = BANNED_IN_TEXT.iter().filter(move |(banned, _)| words.iter().any(|word| word == banned));
        found
            .map(move |(banned, instead)| format!("{}: '{banned}'; write {instead}", n + 1))
            .collect::<Vec<_>>()
    };
    text.lines().enumerate().flat_map(of_line).collect()
}

/// Lines of code with a banned name.
fn banned_in_code(text: &str) -> Vec<String> {
    let code = rust::code_alone(text);
    let of_line = |(n, line): (usize, &str)| {
        let names: Vec<(usize, &str)> = rust::words(line).collect();
        let parts: Vec<String> = names.iter().flat_map(|(_, name)| parts(name)).collect();
        let is_named = |banned: &str| {
            let name = banned.trim_end_matches('(');
            names.iter().any(|(at, found)| *found == name && line[*at..].starts_with(banned))
        };
        let whole = BANNED_NAMES.iter().filter(|(banned, _)| is_named(banned));
        let inside = BANNED_IN_NAMES.iter().filter(|(banned, _)| parts.iter().any(|part| part == banned));
        let found = whole.chain(inside);
        found.map(|(banned, instead)| format!("{}: '{banned}'; write {instead}", n + 1)).collect::<Vec<_>>()
    };
    code.lines().enumerate().flat_map(of_line).collect()
}

#[test]
fn no_banned_word_is_used() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut problems = Vec::new();
    let mut check = |path: &Path, found: Vec<String>| {
        let place = place(path);
        problems.extend(found.into_iter().map(|problem| format!("{place}:{problem}")));
    };
    for source in sources_under("src") {
        let mut found = banned_in_text(&source.text);
        found.extend(banned_in_code(&source.text));
        found.extend(banned_in_code(&source.path.file_stem().unwrap().to_string_lossy()));
        check(&source.path, found);
    }
    // Texts of tests are data, such as the name of an agent that does not exist.
    for source in sources_under("tests/it") {
        check(&source.path, banned_in_text(&rust::without_texts(&source.text)));
    }
    let changelog = root.join("CHANGELOG.md");
    check(&changelog, banned_in_text(unreleased(&std::fs::read_to_string(&changelog).unwrap())));
    let folders = FOLDERS_OF_PROSE.iter().flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap());
    let files = folders.map(|entry| entry.unwrap().path()).chain(PROSE.iter().map(|file| root.join(file)));
    for file in files.chain(files_under("src", "sh")) {
        check(&file, banned_in_text(&std::fs::read_to_string(&file).unwrap()));
    }
    complain(&problems);
}

#[test]
fn released_sections_of_the_changelog_are_not_checked() {
    let changelog = "# Changelog\n\n## Unreleased\n\n- nobody\n\n## 0.1.0\n\n- whoever\n";
    assert_eq!(unreleased(changelog), "# Changelog\n\n## Unreleased\n\n- nobody\n");
    assert_eq!(unreleased("# Changelog\n\n## Unreleased\n"), "# Changelog\n\n## Unreleased\n");
}

#[test]
fn banned_words_are_found_in_prose_messages_and_names() {
    let found = |text: &str| {
        let lines = banned_in_text(text).into_iter().chain(banned_in_code(text));
        lines.map(|line| line.split(';').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let text = "/// Whoever asks.\nfn f(deed: &AuditedCall) -> Heard {\n    meant(\"nobody\", GroundError)\n}\nfn is_nobody() {}\n";
    let expected = [
        "1: 'whoever'",
        "3: 'nobody'",
        "5: 'nobody'",
        "2: 'Heard'",
        "2: 'deed'",
        "3: 'meant('",
        "3: 'ground'",
    ];
    assert_eq!(found(text), expected);
    let plain = "// Told once, this is what was meant: the ground, a deed.\nlet (said, meant, background) = (1, 2, \"Heard\");\n";
    assert_eq!(found(plain), [""; 0]);
}
