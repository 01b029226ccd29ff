//! Restoring: a new branch of a repository, from the command line.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use super::{git, make_work};
use crate::harness::{Program, Up, eventually, script};

async fn rescued(up: &Up, name: &str) -> String {
    let deleted = up.delete(name, "").await;
    deleted["rescued"]["id"].as_str().unwrap_or_else(|| panic!("{deleted}")).to_owned()
}

async fn restore(up: &Up, id: &str, into: &Path) -> Value {
    up.program.json(&["--json", "rescue", "restore", id, "--into", into.to_str().unwrap()]).await
}

#[tokio::test]
async fn work_comes_back_as_a_branch_of_a_new_repository() {
    let up = Up::start(&Program::without_coder()).await;
    up.agent("otter").await;
    make_work(&up.workspace("otter").join("repo"));
    let id = rescued(&up, "otter").await;
    let directory = tempfile::tempdir().unwrap();
    let into = directory.path().join("new");
    let restored = restore(&up, &id, &into).await;
    let commit = git(&into, &["rev-parse", "rescue/otter"]);
    let expected = json!({
        "id": id, "agent_name": "otter", "repository": into, "branch": "rescue/otter", "commit": commit, "branches": [],
        "left_out": 0
    });
    assert_eq!(restored, expected);
    assert_eq!(git(&into, &["show", "rescue/otter:untracked.txt"]), "new");
    // Once more is the same; nothing was checked out.
    assert_eq!(restore(&up, &id, &into).await, expected);
    assert_eq!(std::fs::read_dir(&into).unwrap().count(), 1);
}

#[tokio::test]
async fn work_on_top_of_a_remote_goes_back_into_a_clone_of_it_and_nowhere_else() {
    let remote = tempfile::tempdir().unwrap();
    let upstream = remote.path().join("upstream");
    git(remote.path(), &["init", "--quiet", "--initial-branch=main", "upstream"]);
    std::fs::write(upstream.join("base.txt"), "base\n").unwrap();
    git(&upstream, &["add", "."]);
    git(&upstream, &["commit", "--quiet", "-m", "base"]);
    let program = Program::without_coder();
    std::fs::create_dir_all(program.data_dir().join("projects")).unwrap();
    let file = format!(
        "name = \"cloned\"\ndisplay_name = \"Cloned\"\ntemplate = \"cloned\"\nrepo = \"{}\"\n",
        upstream.display()
    );
    std::fs::write(program.data_dir().join("projects/cloned.toml"), file).unwrap();
    let up = Up::start(&program).await;
    up.agent_with(json!({ "project": "cloned", "spec": "say hello", "name": "otter" })).await;
    let repository = up.workspace("otter").join("repo");
    git(&repository, &["switch", "--quiet", "-c", "side"]);
    std::fs::write(repository.join("side.txt"), "side\n").unwrap();
    git(&repository, &["add", "."]);
    git(&repository, &["commit", "--quiet", "-m", "side"]);
    git(&repository, &["switch", "--quiet", "main"]);
    std::fs::write(repository.join("base.txt"), "base\nmore\n").unwrap();
    let id = rescued(&up, "otter").await;

    let parent = remote.path().join("empty");
    let empty = parent.join("below");
    let refused = up.program.run(&["rescue", "restore", &id, "--into", empty.to_str().unwrap()]).await;
    let base = git(&upstream, &["rev-parse", "HEAD"]);
    let expected = format!(
        "error: the work of 'otter' is based on a commit that {} does not have: {base}\n  \
         next: Set --into to a clone of the project's repository that has it.\n",
        empty.display()
    );
    assert_eq!(
        (refused.status.code(), String::from_utf8_lossy(&refused.stderr).as_ref()),
        (Some(1), &*expected)
    );
    assert!(!parent.exists());

    let other = remote.path().join("other");
    git(remote.path(), &["init", "--quiet", "other"]);
    let refused = up.program.run(&["rescue", "restore", &id, "--into", other.to_str().unwrap()]).await;
    let complaint = String::from_utf8_lossy(&refused.stderr).into_owned();
    let expected = expected.replace(empty.to_str().unwrap(), other.to_str().unwrap());
    assert_eq!((refused.status.code(), complaint), (Some(1), expected));
    assert_eq!(git(&other, &["for-each-ref"]), "");
    assert_eq!(git(&other, &["count-objects"]), "0 objects, 0 kilobytes");

    git(remote.path(), &["clone", "--quiet", "upstream", "clone"]);
    let clone = remote.path().join("clone");
    let restored = restore(&up, &id, &clone).await;
    assert_eq!(
        (&restored["branch"], &restored["branches"]),
        (&json!("rescue/otter"), &json!(["rescue-branches/otter/side"]))
    );
    assert_eq!(git(&clone, &["show", "rescue/otter:base.txt"]), "base\nmore");
    assert_eq!(git(&clone, &["show", "rescue-branches/otter/side:side.txt"]), "side");
    assert_eq!(git(&clone, &["status", "--porcelain"]), "");

    // A branch of that name with other work stays as it is.
    git(&clone, &["branch", "--force", "rescue/otter", "main"]);
    let again = restore(&up, &id, &clone).await;
    let end = &id[id.len() - 8..];
    assert_eq!(again["branch"], json!(format!("rescue/otter-{end}")));
    assert_eq!(git(&clone, &["rev-parse", "rescue/otter"]), git(&clone, &["rev-parse", "main"]));
}

#[tokio::test]
async fn failed_restore_says_why() {
    let up = Up::start(&Program::without_coder()).await;
    let unknown = up.program.run(&["rescue", "restore", "0190e1a2-0000-7000-8000-000000000001"]).await;
    assert_eq!(unknown.status.code(), Some(3));
    assert_eq!(
        String::from_utf8_lossy(&unknown.stderr),
        "error: rescue '0190e1a2-0000-7000-8000-000000000001' not found\n  \
         next: Run 'fleet-mcp rescue list' to see the saved work.\n"
    );
    up.agent("otter").await;
    up.change("otter", "stop").await;
    up.delete("otter", "").await;
    let id = up.get("/api/v1/rescues").await["rescues"][0]["id"].as_str().unwrap().to_owned();
    let nothing = up.program.run(&["rescue", "restore", &id]).await;
    assert_eq!(nothing.status.code(), Some(3));
    let told = String::from_utf8_lossy(&nothing.stderr).into_owned();
    assert!(
        told.contains("has nothing to restore: its work was not saved: the workspace is not running"),
        "{told}"
    );
}

#[tokio::test]
async fn a_rescue_is_named_by_its_agent_or_by_the_beginning_of_its_id() {
    let up = Up::start(&Program::without_coder()).await;
    let mut ids = Vec::new();
    for name in ["otter", "heron", "otter"] {
        up.agent(name).await;
        make_work(&up.workspace(name).join("repo"));
        ids.push(rescued(&up, name).await);
    }
    // Nothing is saved of this one, so that the name goes on meaning the one before.
    up.agent("otter").await;
    up.delete("otter", "").await;
    let directory = tempfile::tempdir().unwrap();
    let mut n_restored = 0;
    let mut restored = async |id: &str| {
        n_restored += 1;
        restore(&up, id, &directory.path().join(n_restored.to_string())).await["id"].clone()
    };
    assert_eq!(restored("heron").await, json!(ids[1]));
    assert_eq!(restored("Otter").await, json!(ids[2]));
    let only = |id: &str| {
        (1..=id.len())
            .map(|end| id[..end].to_owned())
            .find(|start| ids.iter().filter(|other| other.starts_with(start.as_str())).count() == 1)
    };
    let start = only(&ids[0]).unwrap();
    assert_eq!(restored(&start).await, json!(ids[0]));
    assert_eq!(restored(&start.replace('-', "").to_uppercase()).await, json!(ids[0]));
    assert_eq!(restored(&ids[1]).await, json!(ids[1]));

    let all = up.get("/api/v1/rescues").await;
    let all: Vec<&str> =
        all["rescues"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    let many = up.program.run(&["rescue", "restore", &ids[0][..2]]).await;
    let named: Vec<String> = all
        .iter()
        .zip(["otter", "otter", "heron", "otter"])
        .map(|(id, name)| format!("{id} ({name})"))
        .collect();
    let expected = format!(
        "error: '{}' matches several rescues: {}\n  next: Give more characters of the id.\n",
        &ids[0][..2],
        named.join(", ")
    );
    assert_eq!((many.status.code(), String::from_utf8_lossy(&many.stderr).as_ref()), (Some(2), &*expected));
    for unknown in ["nobody", "ffff", "../otter", "zz zz"] {
        let missed = up.program.run(&["rescue", "restore", unknown]).await;
        let told = String::from_utf8_lossy(&missed.stderr).into_owned();
        assert_eq!(
            (missed.status.code(), told.starts_with(&format!("error: rescue '{unknown}' not found"))),
            (Some(3), true),
            "{told}"
        );
    }
}

/// Branches with a commit each, below `refs/` and this prefix.
fn make_branches(repository: &Path, prefix: &str, n_branches: usize) {
    for number in 1..=n_branches {
        let commit =
            git(repository, &["commit-tree", "-p", "HEAD", "-m", &number.to_string(), "HEAD^{tree}"]);
        git(repository, &["update-ref", &format!("{prefix}/b{number:03}"), &commit]);
    }
}

/// A directory with a `git` that runs this script first.
fn with_own_git(directory: &Path, first: &str) -> String {
    let path = std::env::var("PATH").unwrap();
    let (own, file) = (directory.join("bin"), directory.join("bin/git"));
    std::fs::create_dir(&own).unwrap();
    script(&file, &format!("#!/bin/sh\n{first}\nPATH='{path}' exec git \"$@\"\n"));
    format!("{}:{path}", own.display())
}

#[tokio::test]
async fn of_very_many_branches_the_newest_are_saved_and_the_answer_says_so() {
    let up = Up::start(&Program::without_coder()).await;
    up.agent("otter").await;
    let repository = up.workspace("otter").join("repo");
    make_work(&repository);
    make_branches(&repository, "refs/heads", 103);
    let deleted = up.delete("otter", "").await;
    // The branch on which the agent works is one more.
    let message = "agent 'otter' is deleted; its work was saved, but only the newest 100 of its 104 branches";
    assert_eq!(deleted["message"], message);
    let directory = tempfile::tempdir().unwrap();
    let id = deleted["rescued"]["id"].as_str().unwrap();
    let restored = restore(&up, id, &directory.path().join("new")).await;
    let n_branches = restored["branches"].as_array().unwrap().len();
    assert!((99..=100).contains(&n_branches), "{restored}");
    assert_eq!((&restored["branch"], &restored["left_out"]), (&json!("rescue/otter"), &json!(0)));
}

#[tokio::test]
async fn very_many_branches_in_a_bundle_are_restored_by_one_fetch_and_within_a_bound() {
    let up = Up::start(&Program::without_coder()).await;
    up.agent("otter").await;
    let repository = up.workspace("otter").join("repo");
    make_work(&repository);
    make_branches(&repository, "refs/heads", 99);
    for number in 1..=51 {
        let message = format!("stash {number}");
        let commit = git(&repository, &["commit-tree", "-p", "HEAD", "-m", &message, "HEAD^{tree}"]);
        git(&repository, &["update-ref", "--create-reflog", "-m", &message, "refs/stash", &commit]);
    }
    let id = rescued(&up, "otter").await;
    let bundle = up.get("/api/v1/rescues").await["rescues"][0]["path"].as_str().unwrap().to_owned();
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let path = with_own_git(directory.path(), &format!("echo \"$*\" >> '{}'", log.display()));
    let into = directory.path().join("new");
    let program = up.program.clone().variable("PATH", &path);
    let restored =
        program.json(&["--json", "rescue", "restore", &id, "--into", into.to_str().unwrap()]).await;
    let names: Vec<String> = (1..=99).map(|number| format!("rescue-branches/otter/b{number:03}")).collect();
    // The branch on which the agent works is part of the work and needs no branch of its own.
    assert_eq!((&restored["branches"], &restored["left_out"]), (&json!(names), &json!(51)));
    let listed = git(&into, &["for-each-ref", "--format=%(refname:lstrip=2)"]);
    let all: Vec<String> = std::iter::once("rescue/otter".to_owned()).chain(names).collect();
    let mut listed: Vec<&str> = listed.lines().collect();
    listed.sort_by_key(|name| !name.starts_with("rescue/"));
    assert_eq!(listed, all);
    let commands = std::fs::read_to_string(&log).unwrap();
    let n_fetches = commands.lines().filter(|line| line.contains(" fetch ")).count();
    assert_eq!((n_fetches, commands.lines().count() < 10), (1, true), "{commands}");

    let told = program.run(&["rescue", "restore", &id, "--into", into.to_str().unwrap()]).await;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let left = format!("51 more branches and stashes are only in the bundle {bundle}");
    assert_eq!(told.lines().last(), Some(left.as_str()), "{told}");
}

#[tokio::test]
async fn an_interrupted_restore_leaves_neither_its_download_nor_a_repository() {
    let up = Up::start(&Program::without_coder()).await;
    up.agent("otter").await;
    make_work(&up.workspace("otter").join("repo"));
    let id = rescued(&up, "otter").await;
    let directory = tempfile::tempdir().unwrap();
    let (temporary, mark) = (directory.path().join("tmp"), directory.path().join("mark"));
    std::fs::create_dir(&temporary).unwrap();
    let hang = format!("case $* in *bundle*) touch '{}'; exec sleep 600 ;; esac", mark.display());
    let path = with_own_git(directory.path(), &hang);
    let into = directory.path().join("new");
    let mut command = up.program.command(&["rescue", "restore", &id, "--into", into.to_str().unwrap()]);
    command.env("PATH", path).env("TMPDIR", &temporary).stdin(Stdio::null()).stderr(Stdio::piped());
    let child = tokio::process::Command::from(command).kill_on_drop(true).spawn().unwrap();
    eventually("git is at work", async || mark.exists()).await;
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 1);
    let pid = rustix::process::Pid::from_raw(child.id().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().await.unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = "error: the command was interrupted\n  next: Run the command again.\n";
    assert_eq!((output.status.code(), told.as_str()), (Some(1), expected));
    assert_eq!((std::fs::read_dir(&temporary).unwrap().count(), into.exists()), (0, false));
}
