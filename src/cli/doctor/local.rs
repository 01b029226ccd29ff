//! Checks that need no server: the data directory, its files, git, and whether a server runs at all.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::cli::client::TOKEN_FILE;
use crate::cli::globals::Globals;
use crate::cli::server_file::ServerFile;
use crate::git;
use crate::view::doctor::CheckRow;

/// The name of the check whether a server runs here.
pub(super) const SERVER: &str = "server";
const OUR_VERSION: &str = env!("CARGO_PKG_VERSION");
/// Permissions of group and others.
const OTHERS: u32 = 0o077;

const LEAST_SPACE: u64 = 1 << 20;

/// The result of one check: all well, or the problem and its remedy.
type CheckResult = Result<String, Problem>;

struct Problem {
    finding: String,
    remedy: String,
}

/// A remote server has its own data directory: then only git is checked here.
pub(super) async fn checks(globals: &Globals) -> Vec<CheckRow> {
    let mut checks = Vec::new();
    if globals.url.is_none() {
        match globals.data_directory() {
            Some(directory) => checks.extend(of_directory(&directory)),
            None => checks.push(check(
                "data directory",
                problem("no home directory is known", "Choose one with --data-dir."),
            )),
        }
    }
    checks.push(check("git", git_check().await));
    checks
}

fn of_directory(directory: &Path) -> Vec<CheckRow> {
    let mut checks = vec![
        check("data directory", data_directory(directory)),
        check("operator token", operator_token(&directory.join(TOKEN_FILE))),
    ];
    match ServerFile::read(directory) {
        Ok(Some(server)) => {
            checks.push(check(SERVER, server_process(&server)));
            checks.push(check("version", version(&server)));
        }
        Ok(None) => checks
            .push(check(SERVER, problem("no server runs for this data directory", "Run 'fleet-mcp up'."))),
        Err(error) => {
            checks
                .push(check(SERVER, problem(error.message(), "Remove server.json and run 'fleet-mcp up'.")));
        }
    }
    checks
}

fn data_directory(directory: &Path) -> CheckResult {
    let shown = directory.display();
    let Ok(metadata) = std::fs::metadata(directory) else {
        return problem(
            format!("{shown} does not exist"),
            "Run 'fleet-mcp up' once to create the directory.",
        );
    };
    if !metadata.is_dir() {
        return problem(format!("{shown} is not a directory"), "Choose another one with --data-dir.");
    }
    if metadata.permissions().mode() & OTHERS != 0 {
        return problem(format!("{shown} is accessible to other users"), format!("Run 'chmod 700 {shown}'."));
    }
    if is_full(directory) {
        return problem(format!("the disk that holds {shown} is full"), "Free disk space.");
    }
    match rustix::fs::access(directory, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK) {
        Ok(()) => Ok(format!("{shown} is private and writable")),
        Err(_) => {
            problem(format!("{shown} is not writable"), format!("Run 'chmod 700 {shown}' as its owner."))
        }
    }
}

/// Less than one transaction may need.
fn is_full(directory: &Path) -> bool {
    rustix::fs::statvfs(directory).is_ok_and(|disk| disk.f_bavail * disk.f_frsize < LEAST_SPACE)
}

fn operator_token(file: &Path) -> CheckResult {
    match std::fs::metadata(file) {
        Err(_) => {
            problem(format!("{TOKEN_FILE} does not exist"), "Run 'fleet-mcp up' once to create the token.")
        }
        Ok(metadata) if metadata.permissions().mode() & OTHERS != 0 => problem(
            format!("{TOKEN_FILE} is accessible to other users"),
            format!("Run 'chmod 600 {}'.", file.display()),
        ),
        Ok(_) => Ok(format!("{TOKEN_FILE} is private")),
    }
}

fn server_process(server: &ServerFile) -> CheckResult {
    let ServerFile { pid, url, .. } = server;
    if server.is_alive() {
        Ok(format!("process {pid} at {url}"))
    } else {
        problem(format!("server.json names process {pid}, which is not running"), "Run 'fleet-mcp up'.")
    }
}

fn version(server: &ServerFile) -> CheckResult {
    if server.version == OUR_VERSION {
        Ok(format!("server and command are both {OUR_VERSION}"))
    } else {
        problem(
            format!("the server is {}, this command is {OUR_VERSION}", server.version),
            "Run 'fleet-mcp down', then 'fleet-mcp up' with this version.",
        )
    }
}

async fn git_check() -> CheckResult {
    match git::version().await {
        Some(version) => Ok(version),
        None => problem("git cannot be run", "Install git."),
    }
}

fn problem(finding: impl Into<String>, remedy: impl Into<String>) -> CheckResult {
    Err(Problem { finding: finding.into(), remedy: remedy.into() })
}

fn check(name: &str, result: CheckResult) -> CheckRow {
    let name = name.to_owned();
    match result {
        Ok(finding) => CheckRow { name, ok: true, finding, remedy: None },
        Err(Problem { finding, remedy }) => CheckRow { name, ok: false, finding, remedy: Some(remedy) },
    }
}
