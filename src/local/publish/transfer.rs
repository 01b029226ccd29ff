//! Transfers one branch from an agent's clone into the caller's repository.
//!
//! The agent controls the clone's settings and files. So the git that reads it runs with the agent's rights only,
//! and outputs nothing but a stream of objects. The git that writes sees only the caller's repository and checks
//! every object before it stores it.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use super::packing::{PACK, Packing, blocked};
use crate::domain::bundle::is_object_id;
use crate::git::bounded;
use crate::git::quiet::Reach;
use crate::git::refs::{self as git_refs, Ref};
use crate::local::build::{Branch, Git, WorkspaceDirs, finished, marker, not_run, refs, with_deadline};
use crate::local::enclosure::DirectoryAccess;
use crate::local::record::Workspace;
use crate::local::{Deployment, LocalError};

/// Up to this many objects are stored loose, as git does it itself; more stay in a pack.
const FEW_OBJECTS: u32 = 100;
const READ_TIP: &str = "read the agent's branch";

/// The outcome of a transfer.
#[derive(Debug)]
pub(super) enum TransferOutcome {
    /// The branch in the caller's repository is the agent's.
    Current,
    /// The commits are stored, but the branch is not ours to move.
    NotOurs(String),
    /// The agent's clone cannot be read.
    Unreadable(LocalError),
}

/// The caller's repository and the current values of our refs in it.
struct CallerRefs<'a> {
    deployment: &'a Deployment,
    git: Git,
    directory: &'a Path,
    branch: Branch,
    refs: HashMap<String, String>,
    /// The worktree in which the branch is checked out.
    checked_out: Option<String>,
}

/// Transfers the agent's newest commit.
pub(super) async fn transfer_branch(
    deployment: &Arc<Deployment>,
    workspace: &Workspace,
    store: &Path,
) -> Result<TransferOutcome, LocalError> {
    let dirs = WorkspaceDirs::new(&deployment.layout, workspace);
    let reader = match reader(deployment, &dirs, store).await? {
        Ok(reader) => reader.marked(marker(workspace.id)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(TransferOutcome::Current),
        Err(error) => return Ok(TransferOutcome::Unreadable(LocalError::directory(&dirs.repo)(error))),
    };
    let branch = Branch::of(workspace);
    let tip = match tip_of(&reader, &dirs.repo, &branch).await {
        Ok(Some(tip)) => tip,
        // An agent may have removed its branch: then the last transfer stays.
        Ok(None) => return Ok(TransferOutcome::Current),
        Err(error) => return Ok(TransferOutcome::Unreadable(error)),
    };
    let mut store = CallerRefs::open(deployment, store, branch).await?;
    if store.value(&store.branch.agent) != Some(&tip) {
        let known: String = store.refs.values().map(|commit| format!("^{commit}\n")).collect();
        if let Err(error) = transfer_objects(&reader, &dirs.repo, &store, &format!("{tip}\n{known}")).await? {
            return Ok(TransferOutcome::Unreadable(error));
        }
        let arguments = ["rev-list", "--objects", "--quiet", tip.as_str(), "--not", "--all"];
        store.run(&arguments, "check the agent's commits").await?;
    }
    store.move_to(&tip).await
}

/// Removes our refs from the caller's repository after the agent's delete; commits on no branch are kept.
pub(crate) async fn forget(
    deployment: &Deployment,
    workspace: &Workspace,
    store: &Path,
) -> Result<(), LocalError> {
    let store = CallerRefs::open(deployment, store, Branch::of(workspace)).await?;
    let branch = &store.branch;
    let mut changes = String::new();
    if let Some(commit) = store.value(&branch.agent)
        && !store.has_on_branch(commit).await
    {
        changes.push_str(&format!("update {} {commit}\n", branch.kept(commit)));
    }
    for name in [&branch.agent, &branch.published, &branch.pulled()] {
        if let Some(commit) = store.value(name) {
            changes.push_str(&format!("delete {name} {commit}\n"));
        }
    }
    store.change(&changes).await
}

/// A git that reads the agent's clone, or why there is no clone to read.
async fn reader(
    deployment: &Arc<Deployment>,
    dirs: &WorkspaceDirs,
    store: &Path,
) -> Result<io::Result<Git>, LocalError> {
    let (deployment, dirs, read_only) = (Arc::clone(deployment), dirs.clone(), [store.to_owned()]);
    let look = move || {
        let visible = [dirs.root.clone()];
        let access =
            DirectoryAccess { visible: &visible, read_only: &read_only, ..DirectoryAccess::default() };
        Ok(dirs.repository().map(|_| Git::new(&deployment, access, Reach::Local)))
    };
    with_deadline(store, look).await
}

async fn tip_of(reader: &Git, repo: &Path, branch: &Branch) -> Result<Option<String>, LocalError> {
    // This command also succeeds without the branch, so a failure never looks like a missing branch. The pattern
    // also matches refs below the branch; the branch itself comes first.
    let list = ["for-each-ref", "--count=1", "--format=%(objectname) %(refname)", &branch.head];
    let read = async {
        let listing = run_in_clone(reader, repo, &list).await?;
        let tip = listing.split_once(' ').filter(|(_, name)| *name == branch.head).map(|(id, _)| id);
        let Some(tip) = tip.filter(|id| is_object_id(id)) else { return Ok(None) };
        // Opens the files that git reads for any object, such as the list of shallow commits: each may be a FIFO.
        run_in_clone(reader, repo, &["rev-parse", "--verify", &format!("{tip}^{{tree}}")]).await?;
        Ok(Some(tip.to_owned()))
    };
    let limit = reader.limits().publish_tip;
    tokio::time::timeout(limit, read).await.unwrap_or_else(|_| Err(blocked(READ_TIP, limit)))
}

async fn run_in_clone(reader: &Git, repo: &Path, command: &[&str]) -> Result<String, LocalError> {
    reader.run(repo, &in_clone(repo, command), READ_TIP).await
}

/// With an explicit directory, so that git does not find a repository above one that the agent has removed.
fn in_clone(repo: &Path, command: &[&str]) -> Vec<OsString> {
    let mut git_dir = OsString::from("--git-dir=");
    git_dir.push(repo.join(".git"));
    [git_dir].into_iter().chain(command.iter().map(Into::into)).collect()
}

/// Streams the objects of the wanted commits from the clone into the caller's repository. Reports read and write
/// failures separately.
async fn transfer_objects(
    reader: &Git,
    repo: &Path,
    store: &CallerRefs<'_>,
    wanted: &str,
) -> Result<Result<(), LocalError>, LocalError> {
    let mut packing =
        Packing::begin(reader.command(repo, &in_clone(repo, &PACK)), wanted, reader.limits().publish_silence)
            .await?;
    let stored = store_objects(store, &mut packing).await;
    // The rest of a pack is missing if its git is blocked: then the other git's error says nothing more. When the
    // objects are refused, the reader dies of the closed pipe; that error is ignored.
    if !packing.is_blocked() {
        stored?;
    }
    Ok(packing.finish().await)
}

async fn store_objects(store: &CallerRefs<'_>, packing: &mut Packing) -> Result<(), LocalError> {
    // Without a header the reader has failed and reports that itself.
    let Some(header) = packing.header().await else { return Ok(()) };
    let arguments: &[&str] = if header.n_objects() <= FEW_OBJECTS {
        &["unpack-objects", "-q", "--strict"]
    } else {
        &["index-pack", "--stdin", "--fix-thin", "--strict"]
    };
    let mut keeping = store.git.command(store.directory, &[&["--git-dir=."], arguments].concat());
    keeping.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut keeping = keeping.spawn().map_err(not_run)?;
    let stdin = keeping.stdin.take();
    let passed = async {
        // A git that refuses an object stops reading and reports why.
        let _refused = match stdin {
            Some(stdin) => packing.copy_to(&header, stdin).await,
            None => Ok(()),
        };
    };
    // Its output is read meanwhile: with a full pipe it would block.
    let ((), output) = tokio::join!(passed, bounded::output_of(keeping));
    finished(output, "keep the agent's commits")
}

impl<'a> CallerRefs<'a> {
    async fn open(
        deployment: &'a Deployment,
        directory: &'a Path,
        branch: Branch,
    ) -> Result<Self, LocalError> {
        let git = Git::new(deployment, DirectoryAccess::default(), Reach::Local);
        let mut store = Self { deployment, git, directory, branch, refs: HashMap::new(), checked_out: None };
        let Branch { head, agent, published, .. } = &store.branch;
        let pulled = store.branch.pulled();
        let arguments = git_refs::list(&[head, agent, published, &pulled]);
        let listing = store.run(&arguments, "read the branch").await?;
        for Ref { commit, name, checked_out_in } in git_refs::read(&listing) {
            if name == store.branch.head {
                store.checked_out = checked_out_in;
            }
            store.refs.insert(name, commit);
        }
        Ok(store)
    }

    fn value(&self, name: &str) -> Option<&String> {
        self.refs.get(name)
    }

    async fn run(&self, arguments: &[&str], doing: &str) -> Result<String, LocalError> {
        self.git.run(self.directory, &[&["--git-dir=."], arguments].concat(), doing).await
    }

    /// All changes or none, and only if each ref still has the value that was read.
    async fn change(&self, changes: &str) -> Result<(), LocalError> {
        let (git, directory, changes) = (self.git.clone(), self.directory.to_owned(), changes.to_owned());
        // A stop of the server waits for this: a killed git leaves its locks behind.
        let changing = async move {
            refs::change(&git, &directory, &["--git-dir=."], &changes, "move the branch").await
        };
        self.deployment
            .tasks
            .spawn(changing)
            .await
            .map_err(|error| LocalError::Git(io::Error::other(error)))?
    }

    /// Records the agent's commit, and moves the branch to it unless that would drop another author's commit or
    /// change a checked-out branch.
    async fn move_to(&mut self, tip: &str) -> Result<TransferOutcome, LocalError> {
        let refusal = self.refusal(tip).await;
        let Branch { head, agent, published, .. } = &self.branch;
        let moved: &[&String] = if refusal.is_none() { &[head, published, agent] } else { &[agent] };
        let moved = moved.iter().filter(|name| self.value(name).is_none_or(|value| value != tip));
        let zero = "0".repeat(tip.len());
        let changes: String = moved
            .map(|name| format!("update {name} {tip} {}\n", self.value(name).unwrap_or(&zero)))
            .collect();
        self.change(&changes).await?;
        Ok(refusal.map_or(TransferOutcome::Current, TransferOutcome::NotOurs))
    }

    async fn refusal(&self, tip: &str) -> Option<String> {
        let Branch { short, head, agent, published } = &self.branch;
        let value = self.value(head)?;
        if value == tip {
            return None;
        }
        if let Some(path) = &self.checked_out {
            return Some(format!("{short} is checked out in {path}; the agent's commits are in {agent}"));
        }
        let is_ours = self.value(published) == Some(value) || self.is_part_of(value, tip).await;
        let diverged = || format!("{short} has commits that are not the agent's; the agent's are in {agent}");
        (!is_ours).then(diverged)
    }

    async fn has_on_branch(&self, commit: &str) -> bool {
        match self.value(&self.branch.head) {
            Some(value) => self.is_part_of(commit, value).await,
            None => false,
        }
    }

    async fn is_part_of(&self, commit: &str, of: &str) -> bool {
        self.run(&["merge-base", "--is-ancestor", commit, of], "compare commits").await.is_ok()
    }
}
