//! `agents list --watch`: redraws the list at every change, until Ctrl-C.

use super::list::{ListArgs, draw, fetch};
use crate::cli::client::Client;
use crate::cli::error::CliError;
use crate::cli::events::{Events, StreamEvent};
use crate::cli::exit::Exit;
use crate::cli::globals::Globals;
use crate::cli::json;
use crate::cli::screen::{Format, Screen};
use crate::domain::name::name_key;
use crate::view::agent::ChangedAgent;

/// Ctrl-C is the normal way to end a watch, so it exits with success.
pub(super) async fn run(globals: &Globals, args: ListArgs, screen: &Screen) -> Result<Exit, CliError> {
    tokio::select! {
        biased;
        // Polled first, so that an interrupt right after the first line is not missed.
        _interrupted = tokio::signal::ctrl_c() => Ok(()),
        ended = watch(globals, &args, screen) => ended,
    }?;
    Ok(Exit::Ok)
}

/// The stream is opened before the list is read, so that no change is missed between the two.
async fn watch(globals: &Globals, args: &ListArgs, screen: &Screen) -> Result<(), CliError> {
    let mut events = Events::open(globals, screen).await?;
    if screen.format == Format::People {
        redraw(globals, args, screen).await?;
    }
    loop {
        let news = events.next().await?;
        match (screen.format, news) {
            (Format::Json, StreamEvent::Changes(changes)) => print_changes(&changes, args, screen)?,
            (Format::Json, StreamEvent::Reopened) => {}
            (Format::People, StreamEvent::Changes(_) | StreamEvent::Reopened) => {
                redraw(globals, args, screen).await?;
            }
        }
    }
}

/// If the server disappears before the list is read, the stream reports it.
async fn redraw(globals: &Globals, args: &ListArgs, screen: &Screen) -> Result<(), CliError> {
    let fetched = match Client::connect(globals) {
        Ok(client) => fetch(&client, args).await,
        Err(error) => Err(error),
    };
    match fetched {
        Ok(body) => {
            screen.clear()?;
            draw(&body, screen)
        }
        Err(error) if error.exit() == Exit::Unavailable => Ok(()),
        Err(error) => Err(error),
    }
}

fn print_changes(changes: &[String], args: &ListArgs, screen: &Screen) -> Result<(), CliError> {
    for change in changes {
        let agent: ChangedAgent = serde_json::from_str(change).map_err(CliError::Undecodable)?;
        if is_wanted(&agent, args) {
            screen.line(&json::line(change))?;
        }
    }
    Ok(())
}

/// An agent that leaves the requested status changes the requested list as well.
fn is_wanted(changed: &ChangedAgent, args: &ListArgs) -> bool {
    let is = |wanted: &Option<String>, value: &str| {
        wanted.as_ref().is_none_or(|wanted| name_key(wanted) == name_key(value))
    };
    let has_status = args.status.as_ref().is_none_or(|list| {
        let now_or_before = [Some(&changed.agent.status), changed.previous_status.as_ref()];
        list.split(',')
            .any(|word| now_or_before.into_iter().flatten().any(|status| name_key(word) == *status))
    });
    has_status && is(&args.project, &changed.agent.project) && is(&args.role, &changed.agent.role)
}
