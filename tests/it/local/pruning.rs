//! `agents prune`: merged branches of deleted agents go after a yes, and no others.

use serde_json::json;

use crate::harness::{Program, Up};

/// A repository with a living agent, a merged, an unmerged and a checked-out branch.
async fn up() -> Up {
    let up = Up::start_here(&Program::without_coder()).await;
    let host = up.program.repository();
    up.agent_with(json!({ "project": "here", "spec": "say hello", "name": "living" })).await;
    let git = |arguments: &[&str]| up.program.git(&host, arguments);
    for name in ["merged", "living.0123456789ab", "shown"] {
        git(&["branch", &format!("fleet/{name}"), "HEAD"]);
    }
    let tree = git(&["rev-parse", "HEAD^{tree}"]);
    let other = git(&["commit-tree", "-p", "HEAD", "-m", "not merged", &tree]);
    git(&["branch", "fleet/unmerged", &other]);
    git(&["branch", "kept", "HEAD"]);
    // An agent of another server that works on the same repository.
    git(&["branch", "fleet/elsewhere", "HEAD"]);
    git(&["update-ref", "refs/fleet/agents/elsewhere", "HEAD"]);
    let path = up.program.directory.path().join("shown");
    git(&["worktree", "add", "--quiet", path.to_str().unwrap(), "fleet/shown"]);
    up
}

fn branches(up: &Up) -> Vec<String> {
    let format = "--format=%(refname:lstrip=2)";
    let listed = up.program.git(&up.program.repository(), &["for-each-ref", format, "refs/heads"]);
    listed.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn only_merged_branches_of_agents_that_are_gone_are_removed() {
    let up = up().await;
    let before = branches(&up);
    let commit = up.program.git(&up.program.repository(), &["rev-parse", "HEAD"]);
    let pruned = up.program.json(&["agents", "prune", "--yes", "--json"]).await;
    let removed = ["fleet/living.0123456789ab", "fleet/merged"];
    let rows: Vec<_> = removed.iter().map(|name| json!({ "branch": name, "commit": commit })).collect();
    assert_eq!(pruned, json!({ "repository": up.program.repository(), "removed": rows, "left": [] }));
    let expected: Vec<_> = before.into_iter().filter(|name| !removed.contains(&name.as_str())).collect();
    assert_eq!(branches(&up), expected);
    let again = up.program.run(&["agents", "prune"]).await;
    let told = String::from_utf8_lossy(&again.stdout).into_owned();
    let nothing = "no branch was removed: there is no merged branch of a deleted agent\n";
    assert_eq!((again.status.code(), told.as_str()), (Some(0), nothing));
}

#[tokio::test]
async fn a_branch_that_git_does_not_remove_stays_with_the_reason_that_git_gives() {
    let up = up().await;
    let host = up.program.repository();
    std::fs::write(host.join(".git/refs/heads/fleet/merged.lock"), "").unwrap();
    let commit = up.program.git(&host, &["rev-parse", "HEAD"]);
    let told = up.program.run(&["agents", "prune", "--yes"]).await;
    let stdout = String::from_utf8_lossy(&told.stdout).into_owned();
    let lines: Vec<&str> = stdout.lines().collect();
    let [_, _, left, removed] = lines[..] else { panic!("{stdout}") };
    assert!(left.starts_with("fleet/merged stays: git could not remove the branch: "), "{left}");
    assert!(left.contains("merged.lock': File exists"), "{left}");
    assert_eq!((told.status.code(), removed), (Some(1), "1 merged branch removed"));
    let pruned = up.program.run(&["agents", "prune", "--yes", "--json"]).await;
    let pruned: serde_json::Value = serde_json::from_slice(&pruned.stdout).unwrap();
    let [left] = &pruned["left"].as_array().unwrap()[..] else { panic!("{pruned}") };
    assert_eq!((&left["branch"], &left["commit"]), (&json!("fleet/merged"), &json!(commit)));
    assert!(left["reason"].as_str().unwrap().contains("File exists"), "{left}");
}

#[tokio::test]
async fn without_a_terminal_nothing_is_removed_unless_the_yes_is_given() {
    let up = up().await;
    let before = branches(&up);
    let refused = up.program.run(&["agents", "prune"]).await;
    let commit = up.program.git(&up.program.repository(), &["rev-parse", "HEAD"]);
    let listed = format!("{0} fleet/living.0123456789ab\n{0} fleet/merged\n", &commit[..12]);
    assert_eq!(String::from_utf8_lossy(&refused.stdout), listed);
    let error = "error: removing 2 merged branches needs confirmation, and there is no terminal\n  \
                 next: Add --yes to remove without confirmation.\n";
    assert_eq!((refused.status.code(), String::from_utf8_lossy(&refused.stderr).as_ref()), (Some(2), error));
    assert_eq!(branches(&up), before);
}

#[tokio::test]
async fn a_directory_without_a_repository_is_refused_with_what_to_do() {
    let up = Up::start(&Program::without_coder()).await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let refused = up.program.run(&["agents", "prune", "--yes", "--repository", path]).await;
    let error = format!(
        "error: {path} is not a git repository\n  next: Run the command in a repository, or choose one with --repository.\n"
    );
    assert_eq!(
        (refused.status.code(), String::from_utf8_lossy(&refused.stderr).as_ref()),
        (Some(2), &*error)
    );
}
