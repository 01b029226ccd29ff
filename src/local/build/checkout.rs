//! Makes the repository of a workspace: cloned, empty, borrowing from the caller's, or the caller's itself.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::address::RemoteAddress;
use super::branch::Branch;
use super::git::{Git, check_branch};
use super::pull_request::{PullRequestHead, Remote};
use super::work::Work;
use super::{blocking, borrow, branch_start, pull_request, with_deadline, worktree};
use crate::domain::bundle::is_object_id;
use crate::domain::name::AgentName;
use crate::git::quiet::{Reach, UPLOAD_PACK};
use crate::hooks::point;
use crate::local::parameters::value_of;
use crate::local::record::Checkout;
use crate::local::template::{DIRECTORY, Source, Template};
use crate::local::{LocalError, publish};

/// The login for the repository's server, in the format of git's credential store.
const CREDENTIALS: &str = "git-credentials";

/// The remote of a clone; a setting of the user could choose another name.
const ORIGIN: &str = "origin";

/// The least time for removing files, also in builds with less time left.
const LEAST_REMOVAL: Duration = Duration::from_secs(2);
/// The longest time for removing files: a process in the directory could hold up the delete and its slot for ever.
const LONGEST_REMOVAL: Duration = Duration::from_secs(120);

/// How long starting git is retried after the files were removed.
const FORGET_LIMIT: Duration = Duration::from_secs(10);
const FORGET_AGAIN: Duration = Duration::from_millis(500);

/// The directory that an agent works in, the commit that it starts from, and notes for its creator.
pub(super) struct PreparedCheckout {
    pub(super) checkout: Checkout,
    pub(super) base: Option<String>,
    pub(super) notes: Vec<String>,
}

/// Makes the directory and its repository, step by step.
pub(super) async fn make(work: &Work, template: &Template) -> Result<PreparedCheckout, LocalError> {
    let dirs = work.dirs.clone();
    work.uninterrupted_step("Creating the directory", blocking(move || dirs.claim())).await?;
    let source = &template.variant(&work.build.values).source;
    match plan(work, source).await? {
        Plan::Foreign(directory) => {
            Ok(PreparedCheckout { checkout: Checkout::Foreign { directory }, base: None, notes: Vec::new() })
        }
        Plan::Clone(of) => work.step("Cloning the repository", borrow::make(work, &of)).await,
        Plan::Own => {
            let (base, notes) = work.step("Preparing the repository", prepare(work, source)).await?;
            Ok(PreparedCheckout { checkout: Checkout::Own, base, notes })
        }
    }
}

/// What a first start makes.
enum Plan {
    Own,
    /// A clone of the repository in this directory.
    Clone(PathBuf),
    /// Nothing: the agent works in an existing directory.
    Foreign(PathBuf),
}

/// The directory in which the agent works.
pub(super) fn directory(work: &Work, checkout: &Checkout) -> PathBuf {
    match checkout {
        Checkout::Foreign { directory } => directory.clone(),
        Checkout::None | Checkout::Own | Checkout::Worktree { .. } | Checkout::Clone { .. } => {
            work.dirs.repo.clone()
        }
    }
}

/// Paths that the agent's processes may read and not change: the repository that they borrow objects from.
pub(super) async fn read_only(checkout: &Checkout) -> Result<Vec<PathBuf>, LocalError> {
    match checkout {
        Checkout::Clone { of, store } => {
            // In a linked worktree this file names the repository.
            let link = of.join(".git");
            let link = with_deadline(of, move || Ok(Some(link).filter(|path| path.is_file()))).await?;
            Ok([store.clone()].into_iter().chain(link).collect())
        }
        Checkout::None | Checkout::Own | Checkout::Worktree { .. } | Checkout::Foreign { .. } => {
            Ok(Vec::new())
        }
    }
}

/// Removes what an unfinished first start has made.
pub(super) async fn undo(work: &Work) -> Result<(), LocalError> {
    remove_files(work).await?;
    point("place.removed");
    // Uses the requested directory: the project file may have changed since.
    match in_directory(work).await {
        Ok(Plan::Clone(of)) => branch_start::undo(work, &of).await,
        Ok(Plan::Own | Plan::Foreign(_)) | Err(_) => Ok(()),
    }
}

/// Removes everything made for the workspace, except for branches in a caller's repository.
pub(super) async fn remove(work: &Work) -> Result<(), LocalError> {
    remove_files(work).await?;
    point("place.removed");
    forget(work).await;
    Ok(())
}

/// Never fails the delete: the files are already removed and leftover refs are harmless. Retries if the machine
/// could not start a process.
async fn forget(work: &Work) {
    let deadline = Instant::now() + FORGET_LIMIT;
    let forgotten = loop {
        match forget_once(work).await {
            Err(LocalError::Git(_)) if Instant::now() < deadline => tokio::time::sleep(FORGET_AGAIN).await,
            forgotten => break forgotten,
        }
    };
    if let Err(error) = forgotten {
        work.log("warn", "Removing the record of the repository", &error.chain());
    }
}

/// Nothing remains in a repository that its owner has deleted.
async fn forget_once(work: &Work) -> Result<(), LocalError> {
    match &work.workspace.checkout {
        Checkout::Worktree { of } if is_directory(of).await? => worktree::forget(work, of).await,
        Checkout::Clone { store, .. } if is_directory(store).await? => {
            publish::forget(&work.deployment, &work.workspace, store).await
        }
        Checkout::None
        | Checkout::Own
        | Checkout::Worktree { .. }
        | Checkout::Clone { .. }
        | Checkout::Foreign { .. } => Ok(()),
    }
}

async fn remove_files(work: &Work) -> Result<(), LocalError> {
    let limit = work.deployment.options.build_deadline.clamp(LEAST_REMOVAL, LONGEST_REMOVAL);
    let dirs = work.dirs.clone();
    blocking(move || dirs.remove(limit)).await
}

async fn is_directory(path: &Path) -> Result<bool, LocalError> {
    let asked = path.to_owned();
    with_deadline(path, move || Ok(asked.is_dir())).await
}

/// Keeps the files, for a delete that only forgets the workspace.
pub(super) async fn orphan(work: &Work) -> Result<(), LocalError> {
    let dirs = work.dirs.clone();
    let Some(kept) = blocking(move || dirs.orphan()).await? else { return Ok(()) };
    work.log("info", "Leaving the files", &kept.display().to_string());
    if let Checkout::Worktree { of } = &work.workspace.checkout {
        let arguments: [OsString; 4] =
            ["worktree".into(), "repair".into(), "--end-of-options".into(), kept.join("repo").into()];
        let repaired = Git::of(work, &[&kept], Reach::Local).run(of, &arguments, "repair the worktree").await;
        if let Err(error) = repaired {
            work.log("warn", "Leaving the files", &error.chain());
        }
    }
    Ok(())
}

/// The checkout that the template and the parameters request.
async fn plan(work: &Work, source: &Source) -> Result<Plan, LocalError> {
    if *source != Source::Here {
        return Ok(Plan::Own);
    }
    in_directory(work).await
}

/// Relative to the requested directory: a clone of its repository, or the directory itself.
async fn in_directory(work: &Work) -> Result<Plan, LocalError> {
    let directory = PathBuf::from(value_of(&work.build.values, DIRECTORY).unwrap_or_default());
    if !directory.is_absolute() || !is_directory(&directory).await? {
        return Err(LocalError::NotARepository { path: directory });
    }
    let (deployment, asked) = (Arc::clone(&work.deployment), directory.clone());
    if with_deadline(&directory, move || Ok(deployment.enclosure.hides(&asked))).await? {
        return Err(LocalError::OwnData { path: directory });
    }
    // Runs share the caller's directory: they have no branch.
    if AgentName::parse(&work.workspace.name).is_ok_and(|name| name.is_of_runs()) {
        return Ok(Plan::Foreign(directory));
    }
    Ok(Plan::Clone(directory))
}

/// The commit that the repository starts with, if any, and notes about it.
async fn prepare(work: &Work, source: &Source) -> Result<(Option<String>, Vec<String>), LocalError> {
    let notes = match source {
        Source::Clone { repo, branch } => clone(work, repo, branch.as_deref()).await?,
        Source::Empty | Source::Here => return begin(work).await.map(|notes| (None, notes)),
    };
    let git = Git::of(work, &[&work.dirs.root], Reach::Local);
    let head = ["rev-parse", "--verify", "HEAD^{commit}"];
    // A cloned repository may have no commit.
    let base = git.run(&work.dirs.repo, &head, "read the first commit").await.ok();
    Ok((base.filter(|base| is_object_id(base)), notes))
}

async fn begin(work: &Work) -> Result<Vec<String>, LocalError> {
    let arguments: [OsString; 6] = [
        "init".into(),
        "--quiet".into(),
        "--template=".into(),
        "--initial-branch=main".into(),
        "--end-of-options".into(),
        OsString::from(&work.dirs.repo),
    ];
    let git = Git::of(work, &[&work.dirs.root], Reach::Local);
    git.run(&work.dirs.root, &arguments, "create an empty repository").await?;
    // It has no remote, which the creator of an agent for a pull request is told.
    let offered = pull_request::offered(work, &[&work.dirs.root], &work.dirs.repo, &[]).await?;
    Ok(offered.notes)
}

async fn clone(work: &Work, address: &str, branch: Option<&str>) -> Result<Vec<String>, LocalError> {
    let mut arguments: Vec<OsString> =
        vec!["clone".into(), "--quiet".into(), "--template=".into(), format!("--origin={ORIGIN}").into()];
    if let Some(branch) = branch {
        arguments.extend(["--branch".into(), check_branch(branch)?.into()]);
    }
    let address = RemoteAddress::parse(address)?;
    if let Some(login) = &address.login {
        let (dirs, line) = (work.dirs.clone(), format!("{}\n", login.line));
        let settings = login.settings(&dirs.fleet.join(CREDENTIALS));
        blocking(move || dirs.write(&[(CREDENTIALS, &line)])).await?;
        arguments.extend(settings.into_iter().flat_map(|setting| ["--config".into(), setting.into()]));
    }
    let reach = if address.is_local() { Reach::Files } else { Reach::Network };
    arguments.extend((reach == Reach::Files).then(|| UPLOAD_PACK.into()));
    arguments.extend(["--end-of-options".into(), address.for_git.clone().into(), (&work.dirs.repo).into()]);
    let root = &work.dirs.root;
    let git = Git::of(work, &[root], reach).without_drivers(root).await?;
    let cloned = git.run(root, &arguments, &format!("clone {}", address.for_display)).await;
    cloned.map_err(|error| without_secrets(error, &address))?;
    on_pull_request(work, address.for_git).await
}

/// Checks out the agent's branch at the head of the requested pull request, if the remote offers it.
async fn on_pull_request(work: &Work, url: String) -> Result<Vec<String>, LocalError> {
    let (root, repo) = (&work.dirs.root, &work.dirs.repo);
    let remote = Remote { name: ORIGIN.to_owned(), url };
    let PullRequestHead { head, notes } = pull_request::offered(work, &[root], repo, &[remote]).await?;
    if let Some(head) = head {
        let git = Git::of(work, &[root], Reach::Network).without_drivers(repo).await?;
        let branch = Branch::of(&work.workspace).short;
        let arguments = ["checkout", "--quiet", "--no-track", "-B", &branch, &head, "--"];
        git.run(repo, &arguments, "check the pull request out").await?;
        pull_request::release(work, &git, repo).await;
    }
    Ok(notes)
}

fn without_secrets(error: LocalError, address: &RemoteAddress) -> LocalError {
    match error {
        LocalError::GitRefused { doing, output } => {
            LocalError::GitRefused { doing, output: output.replace(&address.for_git, &address.for_display) }
        }
        other => other,
    }
}
