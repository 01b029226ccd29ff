//! A set of processes that is read repeatedly: of a workspace, a run or a session.

use std::io;

use tokio::task::spawn_blocking;
use uuid::Uuid;

use super::identity::boot_id;
use super::stat::{Listing, Stat};
use super::tree::Tree;
use super::{Marker, ProcessId};

/// A process of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) id: ProcessId,
    pub(super) parent: u32,
}

impl Member {
    pub(super) fn of(stat: &Stat, boot_id: Uuid) -> Self {
        Self { id: ProcessId::from_stat(stat, boot_id), parent: stat.parent }
    }
}

#[derive(Debug)]
pub(super) struct ProcessSet(Option<Rule>);

#[derive(Debug)]
enum Rule {
    Tree(Tree),
    Session(u32),
}

impl ProcessSet {
    /// The processes that carry the marker, and their relatives.
    pub(super) fn marked(marker: Marker) -> Self {
        Self(Some(Rule::Tree(Tree::new(marker))))
    }

    /// The processes that carry the marker, this one and those of its group, which are known even if nothing can be
    /// read.
    pub(super) fn marked_or_led(marker: Marker, leader: Option<ProcessId>) -> Self {
        let mut tree = Tree::new(marker);
        leader.into_iter().for_each(|leader| tree.add_leader(leader));
        Self(Some(Rule::Tree(tree)))
    }

    /// The processes of the session that this process leads.
    pub(super) fn session(leader: u32) -> Self {
        Self(Some(Rule::Session(leader)))
    }

    /// The processes that run now; runs off the async threads.
    pub(super) async fn look(&mut self) -> io::Result<Vec<Member>> {
        let taken = self.0.take().ok_or_else(|| io::Error::other("a search for processes was aborted"))?;
        let (rule, found) = spawn_blocking(move || looked(taken)).await.map_err(io::Error::other)?;
        self.0 = Some(rule);
        found
    }
}

fn looked(mut rule: Rule) -> (Rule, io::Result<Vec<Member>>) {
    let found = match &mut rule {
        Rule::Tree(tree) => tree.look(),
        Rule::Session(leader) => members(*leader),
    };
    (rule, found)
}

fn members(session: u32) -> io::Result<Vec<Member>> {
    let boot_id = boot_id()?;
    let stats = Listing::read()?.running.into_iter().filter(|stat| stat.session == session);
    Ok(stats.map(|stat| Member::of(&stat, boot_id)).collect())
}
