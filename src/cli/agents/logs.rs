//! `agents logs`: the messages to an agent and its answers.

use clap::Args;
use serde_json::json;

use super::NameArg;
use crate::cli::client::Client;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::paging::{MESSAGES, position};
use crate::cli::screen::Screen;
use crate::view::log::LogPage;

#[derive(Debug, Args)]
pub struct LogsArgs {
    #[command(flatten)]
    agent: NameArg,
    /// Page; 1 has the newest messages
    #[arg(long, value_name = "N", default_value_t = 1)]
    page: i64,
    /// Messages per page, 1 to 100
    #[arg(long, value_name = "N", default_value_t = 10)]
    page_size: i64,
}

pub(super) async fn run(client: &Client, args: LogsArgs, screen: &Screen) -> Result<Exit, CliError> {
    let query = json!({ "page": args.page, "page_size": args.page_size });
    let body = client.get(&["agents", args.agent.name.as_str(), "log"], &query).await?;
    screen.answer(&body, |log: &LogPage| {
        // Oldest first, as people read from top to bottom.
        for entry in log.logs.iter().rev() {
            screen.line(&format!("{} {}\n{}\n", entry.time, entry.kind, entry.content.trim_end()))?;
        }
        screen.hint(&position(&log.paging, MESSAGES));
        Ok(())
    })?;
    Ok(Exit::Ok)
}
