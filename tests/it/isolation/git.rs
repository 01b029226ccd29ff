//! Agents of one repository: what one sets in git never runs with the rights of another, and no ref is changed for it.

use std::path::Path;

use serde_json::json;

use super::peak_memory;
use crate::harness::{Program, Up, as_each_user, eventually};

/// Plants a script behind every setting, hook and attribute that an agent can write, in all repositories it can find.
const PLANT: &str = r#"
caller=$1 mark=$2
printf '#!/bin/sh\nenv | grep ^CODER_WORKSPACE_NAME >> "%s" || echo server >> "%s"\n[ -t 0 ] || cat\n' "$mark" "$mark" > "$PWD/../trap"
chmod +x "$PWD/../trap"
trap=$(cd .. && pwd)/trap
for dir in "$(git rev-parse --absolute-git-dir)" "$(git rev-parse --git-common-dir)" "$caller/.git" \
    "$(git config remote.fleet-here.url)" "$PWD"/../../*/repo/.git
do
    [ -d "$dir" ] || continue
    for name in filter.x.smudge filter.x.clean filter.x.process core.fsmonitor diff.external alias.status \
        core.sshCommand core.pager core.editor gpg.program
    do git config --file "$dir/config" "$name" "$trap"; done
    git config --file "$dir/config" core.hooksPath "$dir/hooks"
    mkdir -p "$dir/hooks" "$dir/info"
    for hook in post-checkout pre-commit post-commit reference-transaction post-index-change
    do cp "$trap" "$dir/hooks/$hook"; done
    echo '* filter=x' > "$dir/info/attributes"
    git --git-dir="$dir" update-ref refs/heads/fleet/victim HEAD~1
    git --git-dir="$dir" update-ref refs/heads/main HEAD~1
    git --git-dir="$dir" branch -D fleet/victim
    rm -f "$dir/HEAD" "$dir/packed-refs"
    mv "$dir" "$dir.away"
done
echo planted
"#;

/// Every file of a git directory that is not an object, with its content.
fn snapshot(git_dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![git_dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.starts_with(git_dir.join("objects")) {
                found.push((path.display().to_string(), std::fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

fn here(name: &str) -> serde_json::Value {
    json!({ "project": "here", "spec": "commit of the agent", "name": name })
}

fn committed(program: &Program) -> std::path::PathBuf {
    let caller = program.repository();
    program.git(&caller, &["commit", "--quiet", "--allow-empty", "-m", "second"]);
    caller
}

#[tokio::test]
async fn git_settings_of_one_agent_never_run_for_another_and_the_callers_repository_stays() {
    as_each_user(async |program| {
        let caller = committed(&program);
        let up = Up::start(&program.within(&caller)).await;
        for name in ["victim", "mallory"] {
            up.agent_with(here(name)).await;
        }
        let tip = |name: &str| program.git(&caller, &["rev-parse", name]);
        let victims = program.git(&up.workspace("victim").join("repo"), &["rev-parse", "HEAD"]);
        for name in ["victim", "mallory"] {
            let repo = up.workspace(name).join("repo");
            let last = program.git(&repo, &["rev-parse", "HEAD"]);
            // All of these are written together, one file after another.
            let refs = ["heads/fleet", "fleet/published", "fleet/agents"]
                .map(|folder| format!("refs/{folder}/{name}"));
            eventually("the branch is there", async || refs.iter().all(|name| tip(name) == last)).await;
        }
        let before = snapshot(&caller.join(".git"));
        let mark = program.directory.path().join("mark");
        let plant = format!("set -- '{}' '{}'\n{PLANT}", caller.display(), mark.display());
        let output = up.exec("mallory", &plant).await;
        assert!(output.stdout.ends_with(b"planted\n"), "{output:?}");
        assert_eq!(snapshot(&caller.join(".git")), before);
        up.agent_with(here("later")).await;
        up.post("/api/v1/agents/victim/tasks", &json!({ "task_description": "commit again" })).await;
        eventually("the other agent has committed", async || tip("fleet/victim") != victims).await;
        for name in ["later", "victim", "mallory"] {
            up.delete(name, "").await;
        }
        // For its own git commands the traps are armed; they spring for no other agent and not for the server.
        let sprung = std::fs::read_to_string(&mark).unwrap();
        let (own, others): (Vec<&str>, Vec<&str>) =
            sprung.lines().partition(|line| *line == "CODER_WORKSPACE_NAME=mallory");
        assert!(!own.is_empty() && others.is_empty(), "{sprung}");
        let config = program.git(&caller, &["config", "--local", "--list"]);
        assert!(!config.contains("trap"), "{config}");
    })
    .await;
}

/// Puts 48 MB of refs below the agent's own branch, and then one more commit on it.
const FLOOD: &str = r#"
set -eu
name=$(printf 'x%.0s' $(seq 220))
commit=$(git rev-parse HEAD)
mkdir -p .git/refs/heads/fleet
echo "$commit" > .git/refs/heads/fleet/mallory
echo '# pack-refs with: peeled fully-peeled sorted ' > .git/packed-refs
seq -f "$commit refs/heads/fleet/mallory/%06.0f/$name" 160000 >> .git/packed-refs
more=$(git -c user.name=A -c user.email=a@b commit-tree -p "$commit" -m more "$commit^{tree}")
echo "$more" > .git/refs/heads/fleet/mallory
echo "$more"
"#;

#[tokio::test]
async fn a_flood_of_refs_below_its_branch_does_not_fill_the_memory_of_the_server() {
    let program = Program::without_coder();
    let caller = committed(&program);
    let up = Up::start(&program.within(&caller)).await;
    up.agent_with(here("mallory")).await;
    let tip = || program.git(&caller, &["rev-parse", "fleet/mallory"]);
    let last = program.git(&up.workspace("mallory").join("repo"), &["rev-parse", "HEAD"]);
    eventually("the branch is there", async || tip() == last).await;
    let server = up.child.id().unwrap();
    let before = peak_memory(server);
    let output = up.exec("mallory", FLOOD).await;
    let more = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert_eq!(more.len(), 40, "{output:?}");
    eventually("the last commit arrives", async || tip() == more).await;
    let grown = peak_memory(server) - before;
    assert!(grown < 24_000, "{grown} kB");
}
