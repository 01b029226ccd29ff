//! `agents prune`: removes merged branches of deleted agents from a repository, after a confirmation.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use crate::cli::client::Client;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::git::{self, Purpose};
use crate::cli::screen::{Format, Screen};
use crate::domain::name::name_key;
use crate::git::refs;
use crate::view::agent::AgentList;
use crate::view::request::ListAgentsInput;

const LARGEST_PAGE: i64 = 100;
const SHORT_COMMIT: usize = 12;
/// Branches of agents without commits of their own.
const MERGED: [&str; 2] = ["--merged=HEAD", "refs/heads/fleet/"];
/// A server keeps these refs while an agent exists, including servers that this command does not ask.
const LIVING: [&str; 3] = ["for-each-ref", "--format=fleet/%(refname:lstrip=3)", "refs/fleet/agents/"];

const READING: Purpose = Purpose { doing: "read the branches", next: "Check the repository with git." };

#[derive(Debug, Args)]
pub struct PruneArgs {
    /// The repository; the current directory if omitted
    #[arg(long, value_name = "DIR", default_value = ".")]
    repository: PathBuf,
    /// Do not ask for confirmation
    #[arg(short = 'y', long)]
    yes: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Merged {
    branch: String,
    commit: String,
}

#[derive(Debug, Serialize)]
struct Pruned {
    repository: PathBuf,
    removed: Vec<Merged>,
    left: Vec<KeptBranch>,
}

#[derive(Debug, Serialize)]
struct KeptBranch {
    #[serde(flatten)]
    found: Merged,
    reason: String,
}

pub(super) async fn run(client: &Client, args: PruneArgs, screen: &Screen) -> Result<Exit, CliError> {
    let repository = top_of(&args.repository).await?;
    let listed = merged(client, &repository).await?;
    if screen.format == Format::People {
        listed.iter().try_for_each(|found| screen.line(&shown(found)))?;
    }
    if !listed.is_empty() && !args.yes && !confirmed(listed.len(), screen)? {
        screen.hint("nothing was removed");
        return Ok(Exit::Failed);
    }
    let pruned = remove(client, repository, listed).await?;
    print_result(&pruned, screen)?;
    Ok(if pruned.left.is_empty() { Exit::Ok } else { Exit::Failed })
}

/// The confirmation may take a while: what is no longer listed by then is kept.
async fn remove(client: &Client, repository: PathBuf, listed: Vec<Merged>) -> Result<Pruned, CliError> {
    let mut pruned = Pruned { repository, removed: Vec::new(), left: Vec::new() };
    let still = if listed.is_empty() { Vec::new() } else { merged(client, &pruned.repository).await? };
    for found in listed {
        let removed = if still.contains(&found) {
            remove_one(&pruned.repository, &found).await.map_err(|error| error.message())
        } else {
            Err("it changed in the meantime, or an agent uses it".to_owned())
        };
        match removed {
            Ok(()) => pruned.removed.push(found),
            Err(reason) => pruned.left.push(KeptBranch { found, reason }),
        }
    }
    Ok(pruned)
}

/// Git removes the branch only if it still points to this commit.
async fn remove_one(repository: &Path, found: &Merged) -> Result<(), CliError> {
    let name = format!("refs/heads/{}", found.branch);
    let arguments = ["update-ref", "--no-deref", "-d", &name, &found.commit];
    let purpose = Purpose { doing: "remove the branch", ..READING };
    git::run(repository, &arguments, purpose).await.map(drop)
}

async fn top_of(directory: &Path) -> Result<PathBuf, CliError> {
    let unreadable = |source| CliError::File { path: directory.to_owned(), source };
    let path = std::path::absolute(directory).map_err(unreadable)?;
    if !path.is_dir() || ask(&path, &["rev-parse", "--git-dir"]).await.is_err() {
        let message = format!("{} is not a git repository", path.display());
        return Err(CliError::usage(
            message,
            "Run the command in a repository, or choose one with --repository.",
        ));
    }
    Ok(path)
}

/// The branches that can be removed.
async fn merged(client: &Client, repository: &Path) -> Result<Vec<Merged>, CliError> {
    let mut living: HashSet<String> = ask(repository, &LIVING).await?.lines().map(name_key).collect();
    living.extend(names(client).await?.iter().map(|name| name_key(&format!("fleet/{name}"))));
    let listing = ask(repository, &refs::list(&MERGED)).await?;
    let free = refs::read(&listing).filter(|found| found.checked_out_in.is_none());
    let found =
        free.filter_map(|found| Some(Merged { branch: found.branch()?.to_owned(), commit: found.commit }));
    Ok(found.filter(|found| !living.contains(&name_key(&found.branch))).collect())
}

/// All agents of the fleet that are not deleted.
async fn names(client: &Client) -> Result<Vec<String>, CliError> {
    let (mut names, mut page) = (Vec::new(), 1);
    loop {
        let query =
            ListAgentsInput { page, page_size: LARGEST_PAGE, include_runs: true, ..Default::default() };
        let list: AgentList = client.get(&["agents"], &query).await?.read()?;
        names.extend(list.agents.into_iter().map(|agent| agent.name));
        if !list.paging.has_next_page {
            return Ok(names);
        }
        page += 1;
    }
}

async fn ask(repository: &Path, arguments: &[&str]) -> Result<String, CliError> {
    git::run(repository, arguments, READING).await
}

fn confirmed(n_branches: usize, screen: &Screen) -> Result<bool, CliError> {
    let what = counted(n_branches);
    screen.confirmed(&format!("Remove {what}?"), || {
        CliError::usage(
            format!("removing {what} needs confirmation, and there is no terminal"),
            "Add --yes to remove without confirmation.",
        )
    })
}

fn counted(n_branches: usize) -> String {
    if n_branches == 1 { "1 merged branch".to_owned() } else { format!("{n_branches} merged branches") }
}

fn shown(found: &Merged) -> String {
    format!("{} {}", found.commit.get(..SHORT_COMMIT).unwrap_or(&found.commit), found.branch)
}

fn print_result(pruned: &Pruned, screen: &Screen) -> Result<(), CliError> {
    if screen.format == Format::Json {
        return screen.json(pruned);
    }
    for KeptBranch { found, reason } in &pruned.left {
        screen.line(&format!("{} stays: {reason}", found.branch))?;
    }
    match pruned.removed.len() {
        0 if !pruned.left.is_empty() => Ok(()),
        0 => screen.line("no branch was removed: there is no merged branch of a deleted agent"),
        n_removed => screen.line(&format!("{} removed", counted(n_removed))),
    }
}
