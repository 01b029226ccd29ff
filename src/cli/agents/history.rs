//! `agents history`: an agent's tasks and reports.

use chrono::Utc;
use clap::Args;
use serde_json::{Value, json};

use super::NameArg;
use crate::cli::age::relative;
use crate::cli::client::Client;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::paging::{ENTRIES, position};
use crate::cli::screen::Screen;
use crate::cli::table::{Column, Table, column, column_from, text};
use crate::cli::word::one_of;
use crate::domain::history::HistoryFilter;
use crate::view::history::{HistoryRow, TaskHistory};

const COLUMNS: &[Column] =
    &[column("WHEN"), column_from(50, "KIND"), column("STATE"), column_from(60, "FROM"), column("TEXT")];
/// Enough of a commit's id to find it.
const SHORT_ID: usize = 8;

#[derive(Debug, Args)]
pub struct HistoryArgs {
    #[command(flatten)]
    agent: NameArg,
    /// Which entries to show
    #[arg(long, value_name = "K", default_value = "all", value_parser = one_of::<HistoryFilter>())]
    kind: HistoryFilter,
    /// Page, starting at 1
    #[arg(long, value_name = "N", default_value_t = 1)]
    page: i64,
    /// Entries per page, 1 to 100
    #[arg(long, value_name = "N", default_value_t = 20)]
    page_size: i64,
}

pub(super) async fn run(client: &Client, args: HistoryArgs, screen: &Screen) -> Result<Exit, CliError> {
    let query = json!({ "kind": args.kind.word(), "page": args.page, "page_size": args.page_size });
    let body = client.get(&["agents", args.agent.name.as_str(), "history"], &query).await?;
    screen.answer(&body, |history: &TaskHistory| {
        let mut table = Table::new(COLUMNS);
        history.tasks.iter().for_each(|entry| table.row(row(entry)));
        screen.table(&table)?;
        screen.hint(&position(&history.paging, ENTRIES));
        Ok(())
    })?;
    Ok(Exit::Ok)
}

fn row(entry: &HistoryRow) -> [comfy_table::Cell; 5] {
    let outcome = entry.outcome.as_ref().map(|outcome| format!(" -> {outcome}")).unwrap_or_default();
    [
        text(relative(&entry.created_at, Utc::now())),
        text(&entry.kind),
        text(&entry.state),
        text(&entry.source),
        text(format!("{}{outcome}{}", entry.message, entry.verified.as_ref().map(seen).unwrap_or_default())),
    ]
}

/// The verified facts in words.
fn seen(verified: &Value) -> String {
    let clean = if verified["clean"] == true { "clean tree" } else { "uncommitted changes" };
    let Some(commit) = verified["commit"].as_str().and_then(|id| id.get(..SHORT_ID)) else {
        return format!(" (verified: no commit, {clean})");
    };
    let commit = match verified["new_commit"].as_bool() {
        Some(true) => format!("new commit {commit}"),
        Some(false) => "no new commit".to_owned(),
        None => format!("commit {commit}"),
    };
    let pushed = if verified["pushed"] == true { "pushed" } else { "not pushed" };
    format!(" (verified: {commit}, {pushed}, {clean})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_told_in_words() {
        let shown = |commit, new_commit: Option<bool>, pushed: Option<bool>| {
            seen(&json!({ "commit": commit, "new_commit": new_commit, "pushed": pushed, "clean": true }))
        };
        let id = Some("1f2e3d4c5b6a");
        assert_eq!(shown(None, Some(false), None), " (verified: no commit, clean tree)");
        assert_eq!(shown(id, Some(false), Some(true)), " (verified: no new commit, pushed, clean tree)");
        assert_eq!(
            shown(id, Some(true), Some(false)),
            " (verified: new commit 1f2e3d4c, not pushed, clean tree)"
        );
    }
}
