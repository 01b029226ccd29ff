//! Starts an agent's branch in the caller's repository; an existing branch of that name is renamed.
//!
//! The start is recorded before git changes a ref. A build that is repeated after a kill follows the record and so
//! never takes its own branch for that of an earlier agent.

use std::collections::HashMap;
use std::path::Path;

use super::branch::Branch;
use super::git::Git;
use super::work::Work;
use super::{pull_request, refs};
use crate::git::quiet::Reach;
use crate::git::refs::{self as git_refs, Ref};
use crate::hooks::point;
use crate::local::LocalError;
use crate::local::record::{BranchStart, EarlierBranch, Workspace};

/// A started branch and its commit; a repeated build may find commits of the agent on it.
pub(super) struct StartedBranch {
    pub(super) start: BranchStart,
    pub(super) tip: String,
}

/// The commit at which a branch starts, and notes about it for the creator.
pub(super) struct BranchBase {
    pub(super) commit: String,
    pub(super) notes: Vec<String>,
}

/// Starts the branch at this base, unless an earlier attempt of this workspace has started it.
pub(super) async fn begin(
    work: &Work,
    git: &Git,
    of: &Path,
    base: impl Future<Output = Result<BranchBase, LocalError>>,
) -> Result<StartedBranch, LocalError> {
    let (refs, start) = match recorded(work) {
        Some(start) => (Refs::read(git, of, Branch::of(&work.workspace)).await?, start),
        None => {
            let base = base.await?;
            let refs = Refs::read(git, of, Branch::of(&work.workspace)).await?;
            let start = refs.plan(base);
            record(work, Some(start.clone())).await?;
            (refs, start)
        }
    };
    point("branch.planned");
    let tip = work.uninterrupted(refs.apply(&start)).await?;
    point("branch.begun");
    Ok(StartedBranch { start, tip })
}

/// Reverts `begin` unless the agent has committed to the branch.
pub(super) async fn undo(work: &Work, of: &Path) -> Result<(), LocalError> {
    let git = Git::of(work, &[], Reach::Local);
    // The fetched head is released even if nothing was recorded yet.
    pull_request::release(work, &git, of).await;
    let Some(start) = recorded(work) else { return Ok(()) };
    let refs = Refs::read(&git, of, Branch::of(&work.workspace)).await?;
    let is_own = |tip: &String| *tip != start.commit && refs.displaced(&start).is_none();
    let is_worked_on = refs.value(&refs.branch.head).is_some_and(is_own);
    refs.change(&refs.undo_changes(&start), "take the branch back").await?;
    // A branch with work of this agent stays this agent's.
    if is_worked_on { Ok(()) } else { record(work, None).await }
}

/// Read from the current record: the build holds an older copy.
fn recorded(work: &Work) -> Option<BranchStart> {
    let id = work.workspace.id;
    work.deployment.read(|memory| memory.workspaces.get(&id).and_then(|known| known.branch_start.clone()))
}

async fn record(work: &Work, start: Option<BranchStart>) -> Result<(), LocalError> {
    let change = |workspace: &mut Workspace| workspace.branch_start = start;
    match work.deployment.amend(work.workspace.id, change) {
        Some(saving) => saving.done().await,
        None => Ok(()),
    }
}

/// The refs of the caller's repository that belong or belonged to agents of this name.
struct Refs<'a> {
    git: &'a Git,
    of: &'a Path,
    branch: Branch,
    values: HashMap<String, String>,
    /// Branches that are checked out in a working tree.
    checked_out: Vec<String>,
}

impl<'a> Refs<'a> {
    async fn read(git: &'a Git, of: &'a Path, branch: Branch) -> Result<Self, LocalError> {
        let earlier = format!("{}.*", branch.head);
        let patterns = [&branch.head, &earlier, &branch.agent, &branch.published].map(String::as_str);
        let listing = git.run(of, &git_refs::list(&patterns), "read the branch").await?;
        let (mut values, mut checked_out) = (HashMap::new(), Vec::new());
        for Ref { commit, name, checked_out_in } in git_refs::read(&listing) {
            checked_out.extend(checked_out_in.map(|_| name.clone()));
            values.insert(name, commit);
        }
        Ok(Self { git, of, branch, values, checked_out })
    }

    fn value(&self, name: &str) -> Option<&String> {
        self.values.get(name)
    }

    fn is_checked_out(&self, name: &str) -> bool {
        self.checked_out.iter().any(|known| known == name)
    }

    /// A branch that already stands at the start is used as it is.
    fn plan(&self, base: BranchBase) -> BranchStart {
        let BranchBase { commit, mut notes } = base;
        let tip = self.value(&self.branch.head).filter(|tip| **tip != commit);
        let earlier = tip.map(|tip| EarlierBranch { commit: tip.clone(), kept_as: self.free_name(tip) });
        let note_of = |earlier: &EarlierBranch| {
            format!("branch {} of an earlier agent is kept as {}", self.branch.short, earlier.kept_as)
        };
        notes.extend(earlier.iter().map(note_of));
        BranchStart { commit, earlier, notes }
    }

    /// A free name, so that no branch is overwritten.
    fn free_name(&self, commit: &str) -> String {
        let first = self.branch.earlier(commit);
        let numbered = (2..).map(|number| format!("{first}-{number}"));
        let mut names = [first.clone()].into_iter().chain(numbered);
        names.find(|name| self.value(&head_of(name)).is_none()).unwrap_or(first)
    }

    /// Brings the refs to the recorded start from any state that a kill may have left. Returns the branch's commit.
    async fn apply(self, start: &BranchStart) -> Result<String, LocalError> {
        let refs = match self.displaced(start) {
            Some(earlier) if self.is_checked_out(&self.branch.head) => self.rename(earlier).await?,
            Some(_) | None => self,
        };
        let tip = refs.value(&refs.branch.head);
        let is_begun = tip.is_some() && refs.displaced(start).is_none();
        let begun_at = tip.filter(|_| is_begun).unwrap_or(&start.commit).clone();
        let kept = if is_begun { String::new() } else { refs.kept(start) };
        let Branch { head, agent, published, .. } = &refs.branch;
        let zero = "0".repeat(begun_at.len());
        let moved = format!("update {head} {begun_at} {}\n", tip.unwrap_or(&zero));
        let ours = format!("update {agent} {begun_at}\nupdate {published} {begun_at}\n");
        refs.change(&format!("{kept}{moved}{ours}"), "create the branch").await?;
        Ok(begun_at)
    }

    /// The branch of an earlier agent that still has the name.
    fn displaced<'s>(&self, start: &'s BranchStart) -> Option<&'s EarlierBranch> {
        let tip = self.value(&self.branch.head);
        start.earlier.as_ref().filter(|earlier| tip == Some(&earlier.commit))
    }

    /// `git branch -m` updates the working trees that have the branch checked out. Our own ref holds the commit
    /// meanwhile.
    async fn rename(self, earlier: &EarlierBranch) -> Result<Self, LocalError> {
        let Branch { short, agent, .. } = &self.branch;
        self.change(&format!("update {agent} {}\n", earlier.commit), "keep the earlier branch").await?;
        refs::free(self.git, self.of, &[&self.branch.head, &head_of(&earlier.kept_as)]).await?;
        let arguments = ["branch", "--move", "--end-of-options", short, &earlier.kept_as];
        self.git.run(self.of, &arguments, "rename the earlier branch").await?;
        point("branch.renamed");
        Self::read(self.git, self.of, self.branch).await
    }

    /// Ref updates that keep the branch and the unpublished commits of earlier agents.
    fn kept(&self, start: &BranchStart) -> String {
        let mut changes = String::new();
        let earlier = start.earlier.as_ref();
        if let Some(EarlierBranch { commit, kept_as }) = earlier {
            let head = head_of(kept_as);
            if self.value(&head).is_none() {
                changes.push_str(&format!("create {head} {commit}\n"));
            }
        }
        let left = self.value(&self.branch.agent).filter(|left| **left != start.commit);
        if let Some(left) = left.filter(|left| earlier.is_none_or(|earlier| earlier.commit != **left)) {
            changes.push_str(&format!("update {} {left}\n", self.branch.kept(left)));
        }
        changes
    }

    fn undo_changes(&self, start: &BranchStart) -> String {
        let Branch { head, agent, published, .. } = &self.branch;
        let ours = [agent, published].into_iter().filter_map(|name| Some((name, self.value(name)?)));
        let mut changes: String = ours.map(|(name, value)| format!("delete {name} {value}\n")).collect();
        if self.value(head) == Some(&start.commit) && !self.is_checked_out(head) {
            changes.push_str(&self.name_restoring_changes(start));
        }
        changes
    }

    /// Returns the name to the earlier branch, or frees it.
    fn name_restoring_changes(&self, start: &BranchStart) -> String {
        let (head, begun_at) = (&self.branch.head, &start.commit);
        let is_as_kept = |earlier: &&EarlierBranch| {
            let kept = head_of(&earlier.kept_as);
            self.value(&kept) == Some(&earlier.commit) && !self.is_checked_out(&kept)
        };
        match start.earlier.as_ref().filter(is_as_kept) {
            Some(EarlierBranch { commit, kept_as }) => {
                format!("update {head} {commit} {begun_at}\ndelete {} {commit}\n", head_of(kept_as))
            }
            None => format!("delete {head} {begun_at}\n"),
        }
    }

    async fn change(&self, changes: &str, doing: &str) -> Result<(), LocalError> {
        refs::change(self.git, self.of, &[], changes, doing).await
    }
}

fn head_of(branch: &str) -> String {
    format!("refs/heads/{branch}")
}
