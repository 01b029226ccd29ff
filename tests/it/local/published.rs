//! The branch of an agent of `here` in the caller's repository: it follows the agent and loses no other commit.

use std::path::PathBuf;

use fleet_mcp::coder::exec::{Command, Exit};
use serde_json::{Value, json};
use uuid::Uuid;

use super::here::{git, repository};
use crate::harness::{LocalSite, RunningLocal, eventually, is_over, is_ready};

/// An agent of `here` on a server of its own.
struct Helper {
    caller: tempfile::TempDir,
    site: LocalSite,
    local: RunningLocal,
    id: Value,
    agent: Uuid,
}

impl Helper {
    async fn start() -> Self {
        Self::of(repository()).await
    }

    async fn of(caller: tempfile::TempDir) -> Self {
        let site = LocalSite::new().here(caller.path());
        let local = site.start().await;
        let id = local.create("here", "helper", "").await.body["id"].clone();
        let agent = local.until(&id, is_ready).await.latest_build.resources[0].agents[0].id;
        Self { caller, site, local, id, agent }
    }

    fn repo(&self) -> PathBuf {
        self.site.workspace("helper").join("repo")
    }

    /// Runs a script as the agent would.
    async fn run(&self, script: &str) -> String {
        let script =
            format!("set -e; git() {{ command git -c user.name=A -c user.email=a@b \"$@\"; }}; {script}");
        let output =
            self.local.client().exec(self.agent, &Command::new(["sh", "-c", &script])).await.unwrap();
        assert_eq!(output.exit, Exit::Code(0), "{script}: {output:?}");
        String::from_utf8(output.stdout.to_vec()).unwrap().trim().to_owned()
    }

    async fn commit(&self, text: &str) -> String {
        self.run(&format!("echo {text} > {text}; git add .; git commit -qm {text}; git rev-parse HEAD")).await
    }

    fn in_caller(&self, name: &str) -> String {
        let format = "--format=%(objectname)";
        git(self.caller.path(), &["for-each-ref", format, name])
    }

    async fn is_followed(&self, name: &str, commit: &str) {
        eventually("the agent's commit arrives", async || self.in_caller(name) == commit).await;
    }

    async fn build(&self, transition: &str) {
        self.local.build(&self.id, &json!({ "transition": transition })).await;
        assert_eq!(self.local.until(&self.id, is_over).await.latest_build.job.status, "succeeded");
    }

    /// A commit that a person puts on the agent's branch.
    fn commit_of_a_person(&self) -> String {
        let caller = self.caller.path();
        let commit = git(caller, &["commit-tree", "-p", BRANCH, "-m", "a person's", "HEAD^{tree}"]);
        git(caller, &["update-ref", BRANCH, &commit]);
        commit
    }
}

const BRANCH: &str = "refs/heads/fleet/helper";
const AGENTS: &str = "refs/fleet/agents/helper";

#[tokio::test]
async fn commits_amended_and_taken_back_are_followed_and_no_object_is_copied_before() {
    let helper = Helper::start().await;
    assert_eq!(git(&helper.repo(), &["count-objects"]), "0 objects, 0 kilobytes");
    let first = helper.commit("one").await;
    helper.is_followed(BRANCH, &first).await;
    let amended = helper.run("git commit -q --amend -m other; git rev-parse HEAD").await;
    assert_ne!(amended, first);
    helper.is_followed(BRANCH, &amended).await;
    let back = helper.run("git reset -q --hard HEAD~1; git rev-parse HEAD").await;
    helper.is_followed(BRANCH, &back).await;
    // More than a few objects at once.
    let many =
        "for n in $(seq 150); do echo $n > f$n; done; git add .; git commit -qm many; git rev-parse HEAD";
    let many = helper.run(many).await;
    helper.is_followed(BRANCH, &many).await;
    git(helper.caller.path(), &["fsck", "--strict", "--no-dangling"]);
    helper.local.coder.stop().await;
}

#[tokio::test]
async fn last_commit_is_published_after_a_stop_and_after_a_delete() {
    let helper = Helper::start().await;
    let last = helper.commit("one").await;
    helper.build("stop").await;
    helper.is_followed(BRANCH, &last).await;
    git(&helper.repo(), &["commit", "--quiet", "--allow-empty", "--message=later"]);
    let later = git(&helper.repo(), &["rev-parse", "HEAD"]);
    helper.build("delete").await;
    assert_eq!((helper.in_caller(BRANCH), helper.in_caller("refs/fleet")), (later, String::new()));
    helper.local.coder.stop().await;
}

#[tokio::test]
async fn a_persons_commit_on_the_branch_is_never_lost_and_the_agents_stay_beside_it() {
    let helper = Helper::start().await;
    let first = helper.commit("one").await;
    helper.is_followed(BRANCH, &first).await;
    let persons = helper.commit_of_a_person();
    let second = helper.commit("two").await;
    helper.is_followed(AGENTS, &second).await;
    assert_eq!(helper.in_caller(BRANCH), persons);
    helper.build("delete").await;
    let kept = format!("refs/fleet/kept/helper/{}", &second[..12]);
    assert_eq!((helper.in_caller(BRANCH), helper.in_caller("refs/fleet")), (persons, second.clone()));
    assert_eq!(helper.in_caller(&kept), second);
    helper.local.coder.stop().await;
}

#[tokio::test]
async fn an_agent_that_takes_a_persons_commit_in_is_followed_again() {
    let helper = Helper::start().await;
    let first = helper.commit("one").await;
    helper.is_followed(BRANCH, &first).await;
    let persons = helper.commit_of_a_person();
    let script =
        "git fetch -q fleet-here; git merge -q --no-edit fleet-here/fleet/helper; git rev-parse HEAD";
    assert_eq!(helper.run(script).await, persons);
    let next = helper.commit("two").await;
    helper.is_followed(BRANCH, &next).await;
    helper.local.coder.stop().await;
}

#[tokio::test]
async fn a_branch_that_is_checked_out_stays_and_moves_once_it_is_not() {
    let helper = Helper::start().await;
    let base = helper.in_caller(BRANCH);
    git(helper.caller.path(), &["checkout", "--quiet", "fleet/helper"]);
    let commit = helper.commit("one").await;
    helper.is_followed(AGENTS, &commit).await;
    assert_eq!(helper.in_caller(BRANCH), base);
    let amended = helper.run("git commit -q --amend -m other; git rev-parse HEAD").await;
    git(helper.caller.path(), &["checkout", "--quiet", "main"]);
    helper.build("stop").await;
    helper.is_followed(BRANCH, &amended).await;
    helper.local.coder.stop().await;
}

#[tokio::test]
async fn base_of_the_agents_branch_outlives_the_callers_own_branches() {
    let caller = repository();
    let gone = git(caller.path(), &["commit-tree", "-p", "HEAD", "-m", "gone", "HEAD^{tree}"]);
    git(caller.path(), &["branch", "gone", &gone]);
    git(caller.path(), &["commit", "--quiet", "--allow-empty", "--message=base"]);
    let helper = Helper::of(caller).await;
    let caller = helper.caller.path();
    git(caller, &["reset", "--quiet", "--hard", "HEAD~1"]);
    git(caller, &["commit", "--quiet", "--amend", "--allow-empty", "--message=rewritten"]);
    git(caller, &["branch", "--quiet", "-D", "gone", "fleet/helper"]);
    git(caller, &["reflog", "expire", "--expire=now", "--all"]);
    git(caller, &["gc", "--quiet", "--prune=now"]);
    let commit = helper.commit("one").await;
    helper.is_followed(BRANCH, &commit).await;
    let n_unpushed = helper.run("git rev-list --count HEAD --not --exclude='fleet-here/*' --remotes").await;
    assert_eq!(n_unpushed, "3");
    git(caller, &["fsck", "--strict"]);
    helper.local.coder.stop().await;
}

#[tokio::test]
async fn the_clone_knows_the_callers_remotes_and_name_and_pushes_as_before() {
    let (caller, elsewhere) = (repository(), tempfile::tempdir().unwrap());
    git(elsewhere.path(), &["init", "--quiet", "--bare"]);
    let path = caller.path();
    git(path, &["remote", "add", "origin", elsewhere.path().to_str().unwrap()]);
    git(path, &["push", "--quiet", "origin", "main"]);
    git(path, &["config", "user.name", "Ann \"A\" \\ B"]);
    git(path, &["config", "user.email", "ann@example.com"]);
    git(path, &["tag", "v1"]);
    git(path, &["config", "core.hooksPath", "hooks"]);
    std::fs::write(path.join(".git/info/exclude"), "*.tmp\n").unwrap();
    let helper = Helper::of(caller).await;
    let script = "touch a.tmp; command git commit -q --allow-empty -m own; git push -q origin fleet/helper; \
                  git log -1 --format='%an <%ae>'; git describe --tags HEAD~1; git status --porcelain; \
                  git rev-list --count HEAD --not --remotes=origin; git config --get core.hooksPath || echo none";
    let told = helper.run(script).await;
    assert_eq!(told, "Ann \"A\" \\ B <ann@example.com>\nv1\n0\nnone");
    let pushed = git(elsewhere.path(), &["rev-parse", "fleet/helper"]);
    helper.is_followed(BRANCH, &pushed).await;
    helper.local.coder.stop().await;
}

/// The log of the newest build.
async fn build_log(helper: &Helper) -> String {
    let shown = helper.local.api().get(&format!("/api/v2/workspaces/{}", helper.id.as_str().unwrap())).await;
    let build = shown.body["latest_build"]["id"].as_str().unwrap().to_owned();
    helper.local.api().get(&format!("/api/v2/workspacebuilds/{build}/logs")).await.body.to_string()
}

#[tokio::test]
async fn a_commit_that_is_no_proper_one_is_refused_and_the_next_one_is_taken() {
    let helper = Helper::start().await;
    let base = helper.in_caller(BRANCH);
    let evil = "blob=$(echo '[core]' | git hash-object -w --stdin); \
                tree=$(printf '100644 blob %s\\tx\\n' $blob | git mktree); \
                tree=$(printf '040000 tree %s\\t.git\\n' $tree | git mktree); \
                git update-ref HEAD $(git commit-tree -p HEAD -m evil $tree)";
    helper.run(evil).await;
    eventually("the refusal is told", async || build_log(&helper).await.contains("keep the agent's commits"))
        .await;
    assert_eq!((helper.in_caller(BRANCH), helper.in_caller(AGENTS)), (base.clone(), base));
    let good = helper
        .run("git reset -q --hard HEAD~1; echo a > a; git add a; git commit -qm good; git rev-parse HEAD");
    let good = good.await;
    helper.build("stop").await;
    assert_eq!(helper.in_caller(BRANCH), good);
    helper.local.coder.stop().await;
}

#[tokio::test]
async fn a_clone_in_which_nothing_can_be_read_holds_no_stop_or_delete_up() {
    let helper = Helper::start().await;
    let base = helper.in_caller(BRANCH);
    helper
        .run("rm -rf .git; mkdir -p .git/objects .git/refs; mkfifo .git/HEAD .git/config .git/packed-refs")
        .await;
    helper.build("stop").await;
    helper.build("delete").await;
    assert_eq!((helper.in_caller(BRANCH), helper.site.workspace_names()), (base, Vec::new()));
    helper.local.coder.stop().await;
}

/// Ten at once in the usual run, as many as `FLEET_TEST_CREATES` says in a long one.
#[tokio::test]
async fn creates_at_the_same_time_in_one_repository_all_succeed() {
    let n_creates: usize = std::env::var("FLEET_TEST_CREATES").map_or(10, |text| text.parse().unwrap());
    let caller = repository();
    let mut site = LocalSite::new().here(caller.path());
    site.options.slots = std::num::NonZeroUsize::new(8).unwrap();
    let local = site.start().await;
    let names: Vec<String> = (0..n_creates).map(|number| format!("agent-{number}")).collect();
    for some in names.chunks(50) {
        let created = some.iter().map(|name| local.create("here", name, ""));
        let created = futures_util::future::join_all(created).await;
        for (name, made) in some.iter().zip(created) {
            let ended = local.until(&made.body["id"], is_over).await;
            assert_eq!(
                (ended.latest_build.job.error, ended.latest_build.status.as_str()),
                (None, "running"),
                "{name}"
            );
        }
        for name in some {
            let path = format!("/api/v2/users/me/workspace/{name}");
            let id = local.api().get(&path).await.body["id"].clone();
            local.build(&id, &json!({ "transition": "delete" })).await;
            assert_eq!(local.until(&id, is_over).await.latest_build.status, "deleted");
        }
    }
    let all =
        git(caller.path(), &["for-each-ref", "--format=%(refname)", "refs/heads/fleet"]).lines().count();
    assert_eq!(all, n_creates);
    local.coder.stop().await;
}

/// What a canceled create leaves is the repository as it was found.
#[tokio::test]
async fn a_first_start_that_fails_gives_the_name_back_to_the_earlier_branch() {
    let caller = repository();
    let tree = git(caller.path(), &["commit-tree", "-p", "main", "-m", "earlier", "HEAD^{tree}"]);
    git(caller.path(), &["update-ref", BRANCH, &tree]);
    let mut site = LocalSite::new().here(caller.path());
    site.options.runner.program = "/bin/false".into();
    let local = site.start().await;
    let id = local.create("here", "helper", "").await.body["id"].clone();
    assert_eq!(local.until(&id, is_over).await.latest_build.status, "failed");
    let format = "--format=%(objectname) %(refname)";
    let left = git(caller.path(), &["for-each-ref", format, "refs/heads/fleet", "refs/fleet"]);
    assert_eq!(left, format!("{tree} {BRANCH}"));
    local.coder.stop().await;
}
