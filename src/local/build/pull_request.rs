//! Fetches the head of the pull request that an agent works on, from the repository's own remotes only.
//!
//! The address comes from a caller and is never passed to git; it only selects one of the repository's remotes.

use std::path::Path;
use std::time::Duration;

use super::branch::{Branch, short_id};
use super::git::{Git, is_reference};
use super::refs;
use super::work::Work;
use crate::domain::bundle::is_object_id;
use crate::domain::metadata::PULL_REQUEST_URL;
use crate::domain::pull_request::PullRequest;
use crate::git::quiet::Reach;
use crate::local::LocalError;
use crate::local::parameters::value_of;

/// A slower remote does not delay the agent's start.
const LIMIT: Duration = Duration::from_secs(60);
const FETCH: [&str; 8] = [
    "fetch",
    "--quiet",
    "--no-tags",
    "--no-prune",
    "--no-write-fetch-head",
    "--no-recurse-submodules",
    "--refmap=",
    "--end-of-options",
];

/// A remote of the repository, by name and address.
pub(super) struct Remote {
    pub(super) name: String,
    pub(super) url: String,
}

/// The commit that an agent starts from instead of the base, and a note about it.
#[derive(Default)]
pub(super) struct PullRequestHead {
    pub(super) head: Option<String>,
    pub(super) notes: Vec<String>,
}

/// The head of the requested pull request, if a remote of the repository in `directory` offers it. A ref of ours
/// holds the commit until `release`.
pub(super) async fn offered(
    work: &Work,
    visible: &[&Path],
    directory: &Path,
    remotes: &[Remote],
) -> Result<PullRequestHead, LocalError> {
    let Some(url) = address(work) else { return Ok(PullRequestHead::default()) };
    let git = Git::of(work, visible, Reach::Network).without_drivers(directory).await?;
    Ok(match fetched(work, &git, directory, (url, remotes)).await {
        Ok((number, head)) => {
            let note = format!("the agent starts from the head {} of pull request {number}", short_id(&head));
            PullRequestHead { head: Some(head), notes: vec![note] }
        }
        Err(reason) => {
            let note = format!("the agent starts from the base, not from the pull request: {reason}");
            PullRequestHead { head: None, notes: vec![note] }
        }
    })
}

/// Drops that ref: the commit has a branch now, or is no longer needed.
pub(super) async fn release(work: &Work, git: &Git, directory: &Path) {
    if address(work).is_some() {
        let held = Branch::of(&work.workspace).pulled();
        let change = format!("delete {held}\n");
        let _absent = refs::change(git, directory, &[], &change, "release the pull request").await;
    }
}

fn address(work: &Work) -> Option<&str> {
    value_of(&work.build.values, PULL_REQUEST_URL).filter(|url| !url.is_empty())
}

async fn fetched(
    work: &Work,
    git: &Git,
    directory: &Path,
    (url, remotes): (&str, &[Remote]),
) -> Result<(u64, String), String> {
    let request = PullRequest::parse(url).ok_or("its address is not that of a pull request")?;
    let own = remotes.iter().filter(|remote| is_reference(&remote.name));
    let remote = own.into_iter().find(|remote| request.is_of(&remote.url));
    let remote = &remote.ok_or("it belongs to no remote of the repository")?.name;
    let head = &request.head;
    let asked = async {
        let listed = ["ls-remote", "--quiet", "--end-of-options", remote, head];
        if git.run(directory, &listed, "ask for the pull request").await?.is_empty() {
            return Ok(None);
        }
        let held = Branch::of(&work.workspace).pulled();
        refs::free(git, directory, &[&held]).await?;
        let refspec = format!("+{head}:{held}");
        let arguments: Vec<&str> = FETCH.into_iter().chain([remote.as_str(), &refspec]).collect();
        git.run(directory, &arguments, "fetch the pull request").await?;
        let commit = format!("{held}^{{commit}}");
        git.run(directory, &["rev-parse", "--verify", &commit], "read the pull request").await.map(Some)
    };
    let answer: Result<Option<String>, LocalError> = match tokio::time::timeout(LIMIT, asked).await {
        Ok(answer) => answer,
        Err(_) => return Err(format!("remote '{remote}' did not respond within {} s", LIMIT.as_secs())),
    };
    match answer {
        Ok(Some(commit)) if is_object_id(&commit) => Ok((request.number, commit)),
        Ok(_) => Err(format!("remote '{remote}' does not offer {head}")),
        // Git's message may contain the remote's login.
        Err(_) => Err(format!("git could not fetch {head} from remote '{remote}'")),
    }
}
