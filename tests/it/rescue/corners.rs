//! Work in the corners of a repository: stashed, nested, filtered, or on top of another author's history.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::git;
use crate::harness::{Program, Up};

/// An agent whose repository has one commit, all of it on a remote.
async fn pushed(up: &Up, remote: &Path) -> PathBuf {
    up.agent("otter").await;
    let repository = up.workspace("otter").join("repo");
    git(remote, &["init", "--quiet", "--bare"]);
    std::fs::write(repository.join("a.txt"), "a\n").unwrap();
    git(&repository, &["add", "."]);
    git(&repository, &["commit", "--quiet", "-m", "a"]);
    git(&repository, &["remote", "add", "origin", remote.to_str().unwrap()]);
    git(&repository, &["push", "--quiet", "origin", "HEAD:main"]);
    repository
}

/// The work of a deleted agent in this repository.
async fn restored(up: &Up, deleted: &Value, into: &Path) -> Value {
    let id = deleted["rescued"]["id"].as_str().unwrap_or_else(|| panic!("{deleted}"));
    up.program.json(&["--json", "rescue", "restore", id, "--into", into.to_str().unwrap()]).await
}

#[tokio::test]
async fn stashes_are_saved_and_come_back_as_branches() {
    let up = Up::start(&Program::without_coder()).await;
    let remote = tempfile::tempdir().unwrap();
    let repository = pushed(&up, remote.path()).await;
    for text in ["older\n", "newer\n"] {
        std::fs::write(repository.join("a.txt"), text).unwrap();
        git(&repository, &["stash", "--quiet"]);
    }
    let deleted = up.delete("otter", "").await;
    assert_eq!(deleted["message"], "agent 'otter' is deleted; its work was saved");
    let clone = remote.path().join("clone");
    git(remote.path(), &["clone", "--quiet", "--branch", "main", ".", "clone"]);
    let back = restored(&up, &deleted, &clone).await;
    let branches = ["rescue-stashes/otter/1", "rescue-stashes/otter/2"];
    assert_eq!((&back["branch"], &back["branches"]), (&json!(branches[0]), &json!([branches[1]])));
    let texts = branches.map(|branch| git(&clone, &["show", &format!("{branch}:a.txt")]));
    assert_eq!(texts, ["newer", "older"]);
}

#[tokio::test]
async fn a_repository_that_names_another_working_tree_is_saved_as_it_is() {
    let up = Up::start(&Program::without_coder()).await;
    let remote = tempfile::tempdir().unwrap();
    let repository = pushed(&up, remote.path()).await;
    std::fs::write(repository.join("b.txt"), "b\n").unwrap();
    git(&repository, &["config", "core.worktree", remote.path().to_str().unwrap()]);
    let deleted = up.delete("otter", "").await;
    assert_eq!(deleted["message"], "agent 'otter' is deleted; its work was saved");
    let clone = remote.path().join("clone");
    git(remote.path(), &["clone", "--quiet", "--branch", "main", ".", "clone"]);
    restored(&up, &deleted, &clone).await;
    assert_eq!(git(&clone, &["ls-tree", "--name-only", "rescue/otter"]), "a.txt\nb.txt");
}

#[tokio::test]
async fn of_a_repository_inside_of_another_one_the_files_are_saved_if_it_has_work_of_its_own() {
    let up = Up::start(&Program::without_coder()).await;
    let remote = tempfile::tempdir().unwrap();
    let repository = pushed(&up, remote.path()).await;
    git(&repository, &["clone", "--quiet", "--branch", "main", remote.path().to_str().unwrap(), "clean"]);
    for (name, file) in [("begun", "one.txt"), ("committed", "two.txt")] {
        git(&repository, &["init", "--quiet", name]);
        std::fs::write(repository.join(name).join(file), "work\n").unwrap();
    }
    git(&repository.join("committed"), &["add", "."]);
    git(&repository.join("committed"), &["commit", "--quiet", "-m", "two"]);
    let deleted = up.delete("otter", "").await;
    let message = "agent 'otter' is deleted; its work was saved, but of the repository in committed only the files, \
                   of the repository in begun only the files";
    assert_eq!(deleted["message"], message);
    let clone = remote.path().join("clone");
    git(remote.path(), &["clone", "--quiet", "--branch", "main", ".", "clone"]);
    restored(&up, &deleted, &clone).await;
    let listed = git(&clone, &["ls-tree", "-r", "--format=%(objecttype) %(path)", "rescue/otter"]);
    let expected = ["blob a.txt", "blob begun/one.txt", "commit clean", "blob committed/two.txt"];
    assert_eq!(listed.lines().collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn no_filter_of_the_users_changes_what_is_saved_but_what_they_ignore_is_ignored() {
    let program = Program::without_coder();
    let home = program.directory.path();
    let settings = "[filter \"pointer\"]\nclean = echo pointer\n[core]\nexcludesFile = ~/ignored\n";
    std::fs::write(home.join(".gitconfig"), settings).unwrap();
    std::fs::write(home.join("ignored"), "*.secret\n").unwrap();
    let up = Up::start(&program).await;
    up.agent("otter").await;
    let repository = up.workspace("otter").join("repo");
    for (name, text) in
        [(".gitattributes", "*.bin filter=pointer\n"), ("a.bin", "content\n"), ("b.secret", "")]
    {
        std::fs::write(repository.join(name), text).unwrap();
    }
    let deleted = up.delete("otter", "").await;
    let elsewhere = tempfile::tempdir().unwrap();
    let into = elsewhere.path().join("new");
    restored(&up, &deleted, &into).await;
    let names = git(&into, &["ls-tree", "-r", "--name-only", "rescue/otter"]);
    assert_eq!(names.lines().collect::<Vec<_>>(), [".gitattributes", "a.bin"]);
    assert_eq!(git(&into, &["cat-file", "blob", "rescue/otter:a.bin"]), "content");
}

#[tokio::test]
async fn in_a_clone_of_the_callers_repository_only_the_agents_own_work_is_saved() {
    let program = Program::without_coder();
    let host = program.repository();
    let noise: Vec<u8> =
        (0..1_000_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    std::fs::write(host.join("large.bin"), noise).unwrap();
    git(&host, &["add", "."]);
    git(&host, &["commit", "--quiet", "-m", "large"]);
    let up = Up::start(&program.within(&host)).await;
    up.agent_with(json!({ "project": "here", "spec": "say hello", "name": "otter" })).await;
    std::fs::write(up.workspace("otter").join("repo/small.txt"), "nine\n").unwrap();
    let deleted = up.delete("otter", "").await;
    assert_eq!(deleted["message"], "agent 'otter' is deleted; its work was saved");
    let bytes = deleted["rescued"]["bytes"].as_u64().unwrap();
    assert!(bytes < 10_000, "{bytes}");
    restored(&up, &deleted, &host).await;
    assert_eq!(git(&host, &["show", "rescue/otter:small.txt"]), "nine");
}
