//! The repository of a workspace: cloned, begun afresh, a worktree of somebody's, or somebody's itself.

use std::ffi::OsString;
use std::path::PathBuf;

use super::address::Address;
use super::git::{Git, check_branch};
use super::work::Work;
use super::worktree;
use crate::domain::name::AgentName;
use crate::local::parameters::value_of;
use crate::local::record::Checkout;
use crate::local::template::{DIRECTORY, Source, Template};
use crate::local::{LocalError, files};

/// What signs in where the repository comes from, in the form of git's credential store.
const CREDENTIALS: &str = "git-credentials";

/// Makes the directory and its repository, step by step.
pub(super) async fn make(work: &Work, template: &Template) -> Result<Checkout, LocalError> {
    let (place, id) = (work.place.clone(), work.workspace.id);
    work.whole_step("Making the directory", blocking(move || place.claim(id))).await?;
    match planned(work, template)? {
        Checkout::Foreign { directory } => Ok(Checkout::Foreign { directory }),
        Checkout::Worktree { of } => {
            work.step("Adding a worktree", worktree::add(work, &of)).await?;
            Ok(Checkout::Worktree { of })
        }
        Checkout::None | Checkout::Own => {
            work.step("Preparing the repository", prepare(work, &template.source)).await?;
            Ok(Checkout::Own)
        }
    }
}

/// Where the agent works.
pub(super) fn directory(work: &Work, checkout: &Checkout) -> PathBuf {
    match checkout {
        Checkout::Foreign { directory } => directory.clone(),
        Checkout::None | Checkout::Own | Checkout::Worktree { .. } => work.place.repo.clone(),
    }
}

/// Takes away what an unfinished first start has made.
pub(super) async fn undo(work: &Work) -> Result<(), LocalError> {
    // The project file may have changed since; the directory that was asked for has not.
    let planned = in_directory(work).unwrap_or(Checkout::Own);
    take_away(work, &planned).await?;
    if let Checkout::Worktree { of } = planned {
        // Only a branch without work of its own goes; git keeps any other.
        let arguments = ["branch", "--delete", "--end-of-options", &worktree::branch_of(&work.workspace)];
        let _kept = Git::of(work, &[]).run(&of, &arguments, "delete the branch").await;
    }
    Ok(())
}

/// Takes away everything made for the workspace; a branch in somebody's repository stays.
pub(super) async fn remove(work: &Work) -> Result<(), LocalError> {
    take_away(work, &work.workspace.checkout).await
}

/// Keeps the files for whoever asked to forget the workspace only.
pub(super) async fn leave_behind(work: &Work) -> Result<(), LocalError> {
    let (place, id) = (work.place.clone(), work.workspace.id);
    if !place.is_owned_by(id) {
        return Ok(());
    }
    let kept = blocking(move || place.leave_behind(id)).await?;
    work.log("info", "Leaving the files", &kept.display().to_string());
    if let Checkout::Worktree { of } = &work.workspace.checkout {
        let arguments: [OsString; 4] =
            ["worktree".into(), "repair".into(), "--end-of-options".into(), kept.join("repo").into()];
        let repaired = Git::of(work, &[&kept]).run(of, &arguments, "repair the worktree").await;
        if let Err(error) = repaired {
            work.log("warn", "Leaving the files", &error.chain());
        }
    }
    Ok(())
}

async fn take_away(work: &Work, checkout: &Checkout) -> Result<(), LocalError> {
    let (place, id) = (work.place.clone(), work.workspace.id);
    blocking(move || place.remove(id)).await?;
    if let Checkout::Worktree { of } = checkout
        && of.is_dir()
    {
        return tolerate(work, worktree::forget(work, of).await);
    }
    Ok(())
}

/// A directory that is no repository any more holds nothing of ours, and must not keep a workspace alive.
fn tolerate(work: &Work, forgotten: Result<(), LocalError>) -> Result<(), LocalError> {
    match forgotten {
        Err(error @ LocalError::GitRefused { .. }) => {
            work.log("warn", "Forgetting the worktree", &error.chain());
            Ok(())
        }
        other => other,
    }
}

/// What the template and the parameters ask for.
fn planned(work: &Work, template: &Template) -> Result<Checkout, LocalError> {
    if template.source != Source::Here {
        return Ok(Checkout::Own);
    }
    in_directory(work)
}

/// Beside the directory that was asked for, or in it.
fn in_directory(work: &Work) -> Result<Checkout, LocalError> {
    let directory = PathBuf::from(value_of(&work.build.values, DIRECTORY).unwrap_or_default());
    if !directory.is_absolute() || !directory.is_dir() {
        return Err(LocalError::NotARepository { path: directory });
    }
    if work.deployment.enclosure.hides(&directory) {
        return Err(LocalError::OwnData { path: directory });
    }
    // Runs share the caller's own directory; they have no branch to keep apart.
    if AgentName::parse(&work.workspace.name).is_ok_and(|name| name.is_of_runs()) {
        return Ok(Checkout::Foreign { directory });
    }
    Ok(Checkout::Worktree { of: directory })
}

async fn prepare(work: &Work, source: &Source) -> Result<(), LocalError> {
    let git = Git::of(work, &[&work.place.root]);
    let (root, repo) = (&work.place.root, OsString::from(&work.place.repo));
    let Source::Clone { repo: address, branch } = source else {
        let arguments: [OsString; 5] = [
            "init".into(),
            "--quiet".into(),
            "--initial-branch=main".into(),
            "--end-of-options".into(),
            repo,
        ];
        return git.run(root, &arguments, "make an empty repository").await.map(drop);
    };
    let mut arguments: Vec<OsString> = vec!["clone".into(), "--quiet".into()];
    if let Some(branch) = branch {
        arguments.extend(["--branch".into(), check_branch(branch)?.into()]);
    }
    let address = Address::parse(address)?;
    if let Some(login) = &address.login {
        let (file, line) = (work.place.fleet.join(CREDENTIALS), format!("{}\n", login.line));
        let settings = login.settings(&file);
        blocking(move || files::private_file(&file, &line)).await?;
        arguments.extend(settings.into_iter().flat_map(|setting| ["--config".into(), setting.into()]));
    }
    arguments.extend(["--end-of-options".into(), address.given.clone().into(), repo]);
    let cloned = git.run(root, &arguments, &format!("clone {}", address.shown)).await;
    cloned.map(drop).map_err(|error| without_secrets(error, &address))
}

fn without_secrets(error: LocalError, address: &Address) -> LocalError {
    match error {
        LocalError::GitRefused { doing, output } => {
            LocalError::GitRefused { doing, output: output.replace(&address.given, &address.shown) }
        }
        other => other,
    }
}

/// Work on files, away from the threads that answer requests.
async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, LocalError> + Send + 'static,
) -> Result<T, LocalError> {
    let failed = |error| LocalError::Git(std::io::Error::other(error));
    tokio::task::spawn_blocking(act).await.map_err(failed)?
}
