//! Changes of a client's file on disk: atomic, with mode, link and backup kept.

use super::*;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_keeps_its_mode_and_is_copied_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f.json");
    std::fs::write(&path, "one").unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    let file = ClientFile::new(&path);
    assert_eq!(file.change(Secrecy::Open, |_| Ok("two".to_owned())).unwrap(), Saved::Changed);
    assert_eq!(file.change(Secrecy::Open, |_| Ok("two".to_owned())).unwrap(), Saved::Unchanged);
    assert_eq!(mode(&path), 0o640);
    assert_eq!(file.change(Secrecy::Private, |_| Ok("three".to_owned())).unwrap(), Saved::Changed);
    assert_eq!(mode(&path), 0o600);
    assert_eq!(names(directory.path()), ["f.json", "f.json.before-fleet"]);
    let copy = directory.path().join("f.json.before-fleet");
    assert_eq!((std::fs::read_to_string(&copy).unwrap().as_str(), mode(&copy)), ("one", 0o640));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "three");
}

#[test]
fn a_missing_file_is_made_with_its_directory_for_its_owner_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/b/f.json");
    let saved = ClientFile::new(&path).change(Secrecy::Open, |text| Ok(format!("{text}new")));
    assert_eq!((saved.unwrap(), mode(&path)), (Saved::Changed, 0o600));
    assert_eq!(mode(&directory.path().join("a")), 0o700);
    assert_eq!(names(&directory.path().join("a/b")), ["f.json"]);
}

#[test]
fn a_link_stays_a_link_also_to_nothing_yet() {
    let directory = tempfile::tempdir().unwrap();
    let (link, real) = (directory.path().join("link"), directory.path().join("kept/real"));
    std::os::unix::fs::symlink("kept/real", &link).unwrap();
    for text in ["one", "two"] {
        ClientFile::new(&link).change(Secrecy::Open, |_| Ok(text.to_owned())).unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(std::fs::read_to_string(&real).unwrap(), text);
    }
}

#[test]
fn a_refused_file_is_not_touched_and_one_that_changes_meanwhile_is_read_anew() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f.json");
    std::fs::write(&path, "broken").unwrap();
    let file = ClientFile::new(&path);
    let refusal = || Refusal { line: 7, problem: "no sense".to_owned() };
    let error = file.change(Secrecy::Open, |_| Err(refusal())).unwrap_err();
    assert_eq!(error.to_string(), format!("{}, line 7: no sense; nothing was changed", path.display()));
    assert_eq!(names(directory.path()), ["f.json"]);
    let saved = file.change(Secrecy::Open, |text| {
        if text == "broken" {
            std::fs::write(&path, "theirs").unwrap();
        }
        Ok(format!("{text} and ours"))
    });
    assert_eq!(
        (saved.unwrap(), std::fs::read_to_string(&path).unwrap().as_str()),
        (Saved::Changed, "theirs and ours")
    );
}
