//! Bundles whose head is not all UTF-8: what can be restored is restored, and nothing is passed over in silence.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_json::json;

use super::{git, make_work};
use crate::harness::{Program, Up};

/// A branch whose name is no UTF-8, with a commit of its own.
fn make_odd_branch(repository: &Path) {
    let commit = git(repository, &["commit-tree", "-p", "HEAD", "-m", "odd", "HEAD^{tree}"]);
    let name = OsStr::from_bytes(b"refs/heads/x\xff");
    let mut command = std::process::Command::new("git");
    command.current_dir(repository).arg("update-ref").arg(name).arg(commit);
    assert!(command.status().unwrap().success());
}

/// A server with a project that clones a repository whose only commit has a subject in Latin-1.
async fn cloned(directory: &Path) -> Up {
    let upstream = directory.join("upstream");
    git(directory, &["init", "--quiet", "--initial-branch=main", "upstream"]);
    std::fs::write(upstream.join("base.txt"), "base\n").unwrap();
    git(&upstream, &["add", "."]);
    git(&upstream, &["commit", "--quiet", "-m", "base"]);
    // Git itself would turn the subject into UTF-8; commits that other programs made have it as it is.
    let commit = git(&upstream, &["cat-file", "commit", "HEAD"]);
    let (head, _) = commit.rsplit_once("base").unwrap();
    std::fs::write(directory.join("commit"), [head.as_bytes(), b"caf\xe9\n"].concat()).unwrap();
    let file = directory.join("commit");
    let base = git(&upstream, &["hash-object", "-t", "commit", "-w", file.to_str().unwrap()]);
    git(&upstream, &["update-ref", "HEAD", &base]);
    let program = Program::without_coder();
    std::fs::create_dir_all(program.data_dir().join("projects")).unwrap();
    let file = format!("name = \"cloned\"\ntemplate = \"cloned\"\nrepo = \"{}\"\n", upstream.display());
    std::fs::write(program.data_dir().join("projects/cloned.toml"), file).unwrap();
    let up = Up::start(&program).await;
    up.agent_with(json!({ "project": "cloned", "spec": "say hello", "name": "otter" })).await;
    git(directory, &["clone", "--quiet", "upstream", "clone"]);
    up
}

#[tokio::test]
async fn a_branch_with_an_odd_name_does_not_hide_the_work() {
    let up = Up::start(&Program::without_coder()).await;
    up.agent("otter").await;
    let repository = up.workspace("otter").join("repo");
    make_work(&repository);
    make_odd_branch(&repository);
    up.delete("otter", "").await;
    let directory = tempfile::tempdir().unwrap();
    let into = directory.path().join("new");
    let restore = ["--json", "rescue", "restore", "otter", "--into", into.to_str().unwrap()];
    let restored = up.program.json(&restore).await;
    assert_eq!((&restored["branch"], &restored["left_out"]), (&json!("rescue/otter"), &json!(1)));
    assert_eq!(git(&into, &["show", "rescue/otter:untracked.txt"]), "new");
}

#[tokio::test]
async fn a_base_commit_with_an_odd_subject_does_not_hide_the_work() {
    let directory = tempfile::tempdir().unwrap();
    let up = cloned(directory.path()).await;
    make_work(&up.workspace("otter").join("repo"));
    up.delete("otter", "").await;
    let clone = directory.path().join("clone");
    let restore = ["--json", "rescue", "restore", "otter", "--into", clone.to_str().unwrap()];
    assert_eq!(up.program.json(&restore).await["branch"], json!("rescue/otter"));
    assert_eq!(git(&clone, &["show", "rescue/otter:untracked.txt"]), "new");
    // What the work builds on is still checked.
    let empty = directory.path().join("empty");
    let refused = up.program.run(&["rescue", "restore", "otter", "--into", empty.to_str().unwrap()]).await;
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(told.contains("the work of 'otter' is based on a commit that"), "{told}");
}

#[tokio::test]
async fn a_bundle_of_which_nothing_can_become_a_branch_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let up = cloned(directory.path()).await;
    make_odd_branch(&up.workspace("otter").join("repo"));
    up.delete("otter", "").await;
    let bundle = up.get("/api/v1/rescues").await["rescues"][0]["path"].as_str().unwrap().to_owned();
    let clone = directory.path().join("clone");
    let refused = up.program.run(&["rescue", "restore", "otter", "--into", clone.to_str().unwrap()]).await;
    let expected = format!(
        "error: the bundle of 'otter' contains nothing that can be restored as a branch\n  \
         next: Run 'git bundle list-heads {bundle}' to see its contents.\n"
    );
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!((refused.status.code(), told, refused.stdout), (Some(1), expected, Vec::new()));
    assert_eq!(git(&clone, &["for-each-ref", "refs/heads/rescue*"]), "");
}
