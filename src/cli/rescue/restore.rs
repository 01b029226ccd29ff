//! `rescue restore`: fetches a bundle from the server and makes branches of it.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use futures_util::StreamExt;
use reqwest::Method;
use serde::Serialize;
use uuid::Uuid;

use super::RestoreArgs;
use super::git::{Head, Repository, RestoreTarget};
use crate::cli::client::Client;
use crate::cli::error::CliError;
use crate::cli::screen::{Format, Screen};
use crate::domain::bundle::Header;
use crate::domain::name::AgentName;
use crate::view::request::NoInput;
use crate::view::rescue::RescueRow;

/// The name in a bundle of the agent's last commit.
const WORK: &str = "refs/rescue/work";
/// The names in a bundle of the agent's other branches and stashes, and the targets of each kind.
const OTHERS: [(&str, &str); 2] =
    [("refs/rescue/branches/", "rescue-branches"), ("refs/rescue/stashes/", "rescue-stashes")];
/// More branches would flood the repository.
const MOST_OTHERS: usize = 100;
const SHORT_ID: usize = 8;

/// A bundle in a temporary file, removed on drop.
struct Download(PathBuf);

impl Download {
    fn header(&self) -> Result<Header, CliError> {
        let unreadable = |source| CliError::File { path: self.0.clone(), source };
        let file = File::open(&self.0).map_err(unreadable)?;
        Header::read(BufReader::new(file)).map_err(unreadable)
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        // Leftovers in the temporary directory are harmless.
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
    /// Other branches and stashes of the agent with commits of their own.
    branches: Vec<String>,
    /// How many further ones the bundle holds.
    left_out: usize,
}

pub(super) async fn run(client: &Client, args: &RestoreArgs, screen: &Screen) -> Result<(), CliError> {
    let rescue: RescueRow = client.get(&["rescues", &args.id], &NoInput {}).await?.read()?;
    let restored = tokio::select! {
        biased;
        // The download and a newly created repository are removed in that case too.
        _interrupted = tokio::signal::ctrl_c() => Err(CliError::Interrupted),
        restored = bring_back(client, args, &rescue) => restored,
    }?;
    match screen.format {
        Format::Json => screen.json(&restored),
        Format::People => print_result(screen, &restored, &rescue),
    }
}

async fn bring_back(client: &Client, args: &RestoreArgs, rescue: &RescueRow) -> Result<Restored, CliError> {
    let bundle = download(client, &rescue.id).await?;
    let header = bundle.header()?;
    let target = RestoreTarget::look(&args.into).await?;
    let missing = target.missing(&header.needs).await?;
    if !missing.is_empty() {
        let (agent, directory) = (rescue.agent_name.clone(), target.path().to_owned());
        return Err(CliError::MissingBase { agent, directory, missing });
    }
    let repository = target.open().await?;
    let restored = restore(&repository, &bundle.0, (rescue, &header.heads)).await?;
    repository.keep();
    Ok(restored)
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

async fn restore(
    repository: &Repository,
    bundle: &Path,
    (rescue, heads): (&RescueRow, &[(String, String)]),
) -> Result<Restored, CliError> {
    repository.verify(bundle).await?;
    let agent = AgentName::parse(&rescue.agent_name)
        .map_err(|error| CliError::usage(error.to_string(), "Compare the versions of server and command."))?;
    let others = OTHERS.map(|(_, target)| format!("{target}/{agent}"));
    let known = repository.branches(&[&others[..], &["rescue".to_owned()]].concat()).await?;
    let plan = Plan::of(heads, known, (&agent, &rescue.id));
    if plan.heads.is_empty() {
        return Err(CliError::NothingToRestore { agent: agent.to_string(), bundle: rescue.path.clone() });
    }
    repository.fetch(bundle, &plan.heads).await?;
    let mut branches: Vec<String> = plan.heads.iter().map(|head| head.branch.clone()).collect();
    if let Some((commit, _)) = heads.iter().find(|(_, name)| name == WORK) {
        // A branch that cannot be compared is kept.
        let contained = repository.part_of(commit, &others).await.unwrap_or_default();
        let (contained, own) = branches.into_iter().partition::<Vec<_>, _>(|name| contained.contains(name));
        let made = contained.iter().map(String::as_str).filter(|name| !plan.known.contains_key(*name));
        repository.drop_branches(&made.collect::<Vec<_>>()).await?;
        branches = own;
    }
    let mut branches = branches.into_iter();
    Ok(Restored {
        id: rescue.id.clone(),
        agent_name: agent.to_string(),
        repository: repository.path().to_owned(),
        branch: branches.next().unwrap_or_default(),
        commit: rescue.commit.clone().unwrap_or_default(),
        branches: branches.collect(),
        left_out: plan.left_out,
    })
}

/// The branches to create from a bundle.
struct Plan<'a> {
    /// Existing branches, each with its commit.
    known: HashMap<String, String>,
    id: &'a str,
    heads: Vec<Head>,
    left_out: usize,
}

impl<'a> Plan<'a> {
    fn of(
        heads: &[(String, String)],
        known: HashMap<String, String>,
        (agent, id): (&AgentName, &'a str),
    ) -> Self {
        let mut plan = Self { known, id, heads: Vec::new(), left_out: 0 };
        if let Some((commit, name)) = heads.iter().find(|(_, name)| name == WORK) {
            let branch = plan.free_name(format!("rescue/{agent}"), commit);
            plan.heads.push(Head { name: name.clone(), branch });
        }
        for (commit, name) in heads {
            let Some((target, short)) = other_place(name) else { continue };
            if plan.n_others() < MOST_OTHERS && is_plain(short) {
                plan.add(commit, name, format!("{target}/{agent}/{short}"));
            } else {
                plan.left_out += 1;
            }
        }
        plan
    }

    fn n_others(&self) -> usize {
        self.heads.iter().filter(|head| head.name != WORK).count()
    }

    /// Git cannot have a branch below another branch, so such names are left out.
    fn add(&mut self, commit: &str, name: &str, wanted: String) {
        let branch = self.free_name(wanted, commit);
        let mut taken = self.known.keys().chain(self.heads.iter().map(|head| &head.branch));
        let is_repeated = self.heads.iter().any(|head| head.branch == branch);
        if is_repeated || taken.any(|other| is_below(other, &branch) || is_below(&branch, other)) {
            self.left_out += 1;
            return;
        }
        self.heads.push(Head { name: name.to_owned(), branch });
    }

    /// An existing branch with other content stays: the new one is distinguished by the rescue's id.
    fn free_name(&self, wanted: String, commit: &str) -> String {
        let is_other = self.known.get(&wanted).is_some_and(|known| known != commit);
        if is_other || self.known.keys().any(|known| is_below(known, &wanted)) {
            let start = self.id.len().saturating_sub(SHORT_ID);
            return format!("{wanted}-{}", self.id.get(start..).unwrap_or_default());
        }
        wanted
    }
}

fn is_below(name: &str, other: &str) -> bool {
    name.strip_prefix(other).is_some_and(|rest| rest.starts_with('/'))
}

fn other_place(name: &str) -> Option<(&'static str, &str)> {
    OTHERS.iter().find_map(|(prefix, target)| Some((*target, name.strip_prefix(prefix)?)))
}

/// Names in a bundle were chosen by an agent: only those without a special meaning for git are accepted.
fn is_plain(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    let is_whole = name.chars().all(is_letter) && name.split('/').all(is_part);
    is_whole && !name.contains("..") && !name.ends_with('.')
}

fn print_result(screen: &Screen, restored: &Restored, rescue: &RescueRow) -> Result<(), CliError> {
    let Restored { agent_name, repository, branch, left_out, .. } = restored;
    screen.line(&format!("the work of '{agent_name}' is on branch {branch} of {}", repository.display()))?;
    for other in &restored.branches {
        screen.line(&format!("and on branch {other}"))?;
    }
    if *left_out > 0 {
        let path = rescue.path.as_deref().unwrap_or_default();
        screen.line(&format!("{left_out} more branches and stashes are only in the bundle {path}"))?;
        screen
            .hint(&format!("git bundle list-heads {path} shows their names; git fetch {path} NAME gets one"));
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
        for bad in ["", "a:refs/heads/main", "a b", "a..b", "*", "a//b", "a\nb", "a.lock", "a/.b", "a/", "a."]
        {
            assert!(!is_plain(bad), "{bad}");
        }
    }
}
