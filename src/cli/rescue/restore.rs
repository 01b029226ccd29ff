//! `rescue restore`: fetches a bundle from the server and turns it into branches of a repository.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use futures_util::StreamExt;
use reqwest::Method;
use serde::Serialize;
use uuid::Uuid;

use super::RestoreArgs;
use super::git::Repository;
use crate::cli::client::Client;
use crate::cli::error::CliError;
use crate::cli::screen::{Format, Screen};
use crate::domain::name::AgentName;
use crate::view::request::NoInput;
use crate::view::rescue::RescueRow;

/// The name in a bundle of where the agent stood.
const WORK: &str = "refs/rescue/work";
/// The names in a bundle of the agent's other branches and of what it had put aside, and where each kind goes.
const OTHERS: [(&str, &str); 2] =
    [("refs/rescue/branches/", "rescue-branches"), ("refs/rescue/stashes/", "rescue-stashes")];
const SHORT_ID: usize = 8;

/// A bundle on this machine for as long as it is needed.
struct Download(PathBuf);

impl Drop for Download {
    fn drop(&mut self) {
        // In the directory for temporary files it is in nobody's way.
        let _removed = std::fs::remove_file(&self.0);
    }
}

#[derive(Debug, Serialize)]
struct Restored {
    id: String,
    agent_name: String,
    repository: PathBuf,
    branch: String,
    commit: String,
    /// Other branches and stashes of the agent with work of their own.
    branches: Vec<String>,
}

pub(super) async fn run(client: &Client, args: &RestoreArgs, screen: &Screen) -> Result<(), CliError> {
    let id = args.id.to_string();
    let rescue: RescueRow = client.get(&["rescues", &id], &NoInput {}).await?.read()?;
    let bundle = download(client, &id).await?;
    let repository = Repository::open(&args.into).await?;
    let restored = match restore(&repository, &bundle.0, &rescue).await {
        Ok(restored) => restored,
        Err(error) => {
            repository.undo();
            return Err(error);
        }
    };
    match screen.format {
        Format::Json => screen.json(&restored),
        Format::People => tell(screen, &restored),
    }
}

async fn download(client: &Client, id: &str) -> Result<Download, CliError> {
    let path = std::env::temp_dir().join(format!("fleet-rescue-{}.bundle", Uuid::new_v4().simple()));
    let failed = |source| CliError::File { path: path.clone(), source };
    let response = client.open(client.request(Method::GET, &["rescues", id, "bundle"])).await?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
    let download = Download(path.clone());
    let mut pieces = response.bytes_stream();
    while let Some(piece) = pieces.next().await {
        file.write_all(&piece.map_err(|error| client.cut(error))?).map_err(failed)?;
    }
    Ok(download)
}

async fn restore(repository: &Repository, bundle: &Path, rescue: &RescueRow) -> Result<Restored, CliError> {
    let heads = repository.heads(bundle).await?;
    let agent = AgentName::parse(&rescue.agent_name)
        .map_err(|error| CliError::usage(error.to_string(), "Compare the versions of server and command."))?;
    let mut restored = Restored {
        id: rescue.id.clone(),
        agent_name: agent.to_string(),
        repository: repository.path().to_owned(),
        branch: String::new(),
        commit: rescue.commit.clone().unwrap_or_default(),
        branches: Vec::new(),
    };
    if let Some((commit, _)) = heads.iter().find(|(_, name)| name == WORK) {
        let branch = free_name(repository, &format!("rescue/{agent}"), &rescue.id, commit).await?;
        repository.fetch(bundle, WORK, &branch).await?;
        restored.branch = branch;
    }
    for (commit, name) in &heads {
        let Some((place, short)) = other_place(name) else { continue };
        if !restored.branch.is_empty() && repository.contains(&restored.branch, commit).await {
            continue;
        }
        let wanted = format!("{place}/{agent}/{short}");
        let branch = free_name(repository, &wanted, &rescue.id, commit).await?;
        repository.fetch(bundle, name, &branch).await?;
        restored.branches.push(branch);
    }
    if restored.branch.is_empty() && !restored.branches.is_empty() {
        restored.branch = restored.branches.remove(0);
    }
    Ok(restored)
}

/// A branch of that name that holds something else stays: the new one is told apart by the rescue's id.
async fn free_name(
    repository: &Repository,
    wanted: &str,
    id: &str,
    commit: &str,
) -> Result<String, CliError> {
    match repository.commit_of(wanted).await {
        Some(known) if known != commit => {
            let end: String = id.chars().rev().take(SHORT_ID).collect::<Vec<_>>().into_iter().rev().collect();
            Ok(format!("{wanted}-{end}"))
        }
        Some(_) | None => Ok(wanted.to_owned()),
    }
}

fn other_place(name: &str) -> Option<(&'static str, &str)> {
    let others = OTHERS.iter().find_map(|(prefix, place)| Some((*place, name.strip_prefix(prefix)?)));
    others.filter(|(_, short)| is_plain(short))
}

/// Names in a bundle were chosen by an agent: only those that cannot mean anything else to git are taken.
fn is_plain(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    !name.is_empty() && name.chars().all(is_letter) && !name.contains("..") && !name.contains("//")
}

fn tell(screen: &Screen, restored: &Restored) -> Result<(), CliError> {
    let Restored { agent_name, repository, branch, .. } = restored;
    screen.line(&format!("the work of '{agent_name}' is on branch {branch} of {}", repository.display()))?;
    for other in &restored.branches {
        screen.line(&format!("and on branch {other}"))?;
    }
    screen.hint(&format!("git -C {} switch {branch}", repository.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::is_plain;

    #[test]
    fn only_plain_names_out_of_a_bundle_are_taken() {
        for good in ["main", "feature/a-1", "v1.2_x"] {
            assert!(is_plain(good), "{good}");
        }
        for bad in ["", "a:refs/heads/main", "a b", "a..b", "*", "a//b", "a\nb"] {
            assert!(!is_plain(bad), "{bad}");
        }
    }
}
