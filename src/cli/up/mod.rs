//! The greeting of `up`: what was found, how to connect, what to try; and the demo agents.

mod demo;
mod greeting;

use std::path::PathBuf;

use tokio_util::sync::CancellationToken;
use url::Url;

use super::connect::installed;
use super::globals::Globals;
use super::screen::{Format, Screen};
use super::server_file::ServerFile;
use super::{CliError, own_program};
use greeting::Greeting;

/// Where the agents of this server run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentHost {
    /// On this machine, with this engine.
    Here {
        engine: String,
        program: EngineProgram,
    },
    Coder {
        url: Url,
    },
}

/// How the engine is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineProgram {
    /// Built into this program; a usable CLI as the alternative, if there is one.
    Own { instead: Option<&'static str> },
    /// With the minimum version, if the found version is older.
    Found { program: PathBuf, version: Option<String>, wanted: Option<[u32; 2]> },
    /// A program that is not on the PATH.
    Missing(String),
    /// Configured by templates: nothing to look for.
    Custom,
}

/// Whether the fleet is filled with demo agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demo {
    Wanted,
    Unwanted,
}

/// Inputs of the greeting.
#[derive(Debug)]
pub struct UpReport {
    pub host: AgentHost,
    pub demo: Demo,
    /// Finds a program as a shell would.
    pub find_program: fn(&str) -> Option<PathBuf>,
}

/// Prints that the server is up, and later that it stops. Failures are printed and stop nothing.
pub async fn greet(globals: Globals, report: UpReport, server: ServerFile, stop: CancellationToken) {
    let screen = Screen::of_process(globals.json);
    stop.run_until_cancelled(welcome(&globals, &report, server, &screen)).await;
    stop.cancelled().await;
    // Agents may take a while to end, and a silent terminal looks stuck.
    screen.hint(greeting::stopping(&report.host));
}

async fn welcome(globals: &Globals, report: &UpReport, server: ServerFile, screen: &Screen) {
    if let Err(error) = print_result(globals, report, server, screen) {
        screen.fail(&error);
    }
    if report.demo == Demo::Wanted
        && let Err(error) = demo::fill(globals, &report.host, screen).await
    {
        screen.fail(&error);
    }
}

fn print_result(
    globals: &Globals,
    report: &UpReport,
    server: ServerFile,
    screen: &Screen,
) -> Result<(), CliError> {
    let greeting = Greeting {
        host: &report.host,
        demo: report.demo,
        server,
        data_directory: globals.require_data_directory()?,
        program: own_program()?,
        arguments: globals.own_arguments()?,
        clients: installed(report.find_program),
    };
    match screen.format {
        Format::Json => screen.json(&greeting.json()),
        Format::People => screen.rendered(&greeting.text()),
    }
}
