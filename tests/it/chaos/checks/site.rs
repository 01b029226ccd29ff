//! Invariants of workspaces: one per agent, no process and no directory beside them, a status that is true.

use std::collections::BTreeSet;
use std::process::Command;

use super::Context;
use crate::chaos::facts::{Facts, Workspace};
use crate::chaos::processes::{Kind, Process, lasting};

pub(super) fn one_workspace(context: &Context<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let mut names = BTreeSet::new();
    for Workspace { id, name, status } in &context.facts.workspaces {
        if !names.insert(name.to_lowercase()) {
            found.push(format!("a second workspace {name}"));
        }
        if context.facts.rows.workspaces.get(name) != Some(id) {
            found.push(format!("workspace {name} {id} ({status}) has no agent of that id"));
        }
        let runners = of(context.facts, id).filter(|process| process.kind == Kind::Runner);
        let runners: Vec<Process> = runners.cloned().collect();
        if runners.len() > 1 {
            let runners = lasting(runners);
            if runners.len() > 1 {
                found.push(format!("workspace {name} has {} runners: {runners:?}", runners.len()));
            }
        }
    }
    for (name, id) in &context.facts.rows.workspaces {
        if !context.facts.workspaces.iter().any(|workspace| workspace.id == *id) {
            found.push(format!("agent {name} has workspace {id}, which Coder does not show"));
        }
    }
    found
}

fn of<'a>(facts: &'a Facts, workspace: &'a str) -> impl Iterator<Item = &'a Process> {
    let processes = facts.processes.iter();
    processes.filter(move |process| process.workspace.as_deref() == Some(workspace))
}

/// Every process is the server, or belongs to a workspace that runs.
pub(super) fn processes(context: &Context<'_>) -> Vec<String> {
    let is_running = |id: &str| {
        context.facts.workspaces.iter().any(|workspace| workspace.id == id && workspace.status == "running")
    };
    let suspects = context.facts.processes.iter().filter(|process| match &process.workspace {
        Some(workspace) => !is_running(workspace),
        None => Some(process.pid) != context.facts.server,
    });
    let orphans = lasting(suspects.cloned().collect());
    orphans.iter().map(|process| format!("orphan: {process:?}")).collect()
}

pub(super) fn directories(context: &Context<'_>) -> Vec<String> {
    let names: BTreeSet<&str> =
        context.facts.workspaces.iter().map(|workspace| workspace.name.as_str()).collect();
    let data = context.world.program.data_dir();
    let list = |folder: &str| {
        let entries = std::fs::read_dir(data.join(folder)).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    let left = list("workspaces").into_iter().filter(|name| !names.contains(name.as_str()));
    let left = left.map(|name| format!("directory of no workspace: workspaces/{name}"));
    let bundles = list("rescued").into_iter();
    let bundles =
        bundles.filter(|name| !context.facts.rows.rescued.iter().any(|file| file.ends_with(name.as_str())));
    let bundles = bundles.map(|name| format!("bundle of no rescue: rescued/{name}"));
    let trees = worktrees(context).into_iter().filter(|path| !std::path::Path::new(path).is_dir());
    let trees = trees.map(|path| format!("worktree without a directory: {path}"));
    left.chain(bundles).chain(trees).collect()
}

fn worktrees(context: &Context<'_>) -> Vec<String> {
    let mut git = Command::new("git");
    git.arg("-C").arg(&context.world.repository).args(["worktree", "list", "--porcelain"]);
    let listed = String::from_utf8(git.output().unwrap().stdout).unwrap();
    listed.lines().filter_map(|line| line.strip_prefix("worktree ")).map(str::to_owned).collect()
}

pub(in crate::chaos) fn statuses(facts: &Facts) -> Vec<String> {
    facts.agents.iter().filter_map(|agent| status(facts, agent)).collect()
}

/// What is wrong with an agent's status, if anything.
fn status(facts: &Facts, agent: &serde_json::Value) -> Option<String> {
    let text = |field: &str| agent[field].as_str().unwrap_or_default();
    let (name, word) = (text("name"), text("status"));
    let workspace = facts.workspaces.iter().find(|workspace| workspace.name == name);
    let runners = workspace.map_or(0, |workspace| {
        of(facts, &workspace.id).filter(|process| process.kind == Kind::Runner).count()
    });
    let build = workspace.map(|workspace| workspace.status.as_str());
    let is_true = match word {
        "idle" => build == Some("running") && runners == 1,
        "stopped" => build == Some("stopped") && runners == 0,
        // It must ask for attention, and leave no process.
        "failed" => text("attention") != "none" && runners == 0,
        "canceled" => build == Some("canceled") && runners == 0,
        _ => false,
    };
    let seen = format!("workspace {build:?}, {runners} runners, attention {}", text("attention"));
    (!is_true).then(|| format!("{name} is {word} ({}): {seen}", text("reason")))
}
