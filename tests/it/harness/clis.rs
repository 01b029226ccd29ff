//! The real agent CLIs, where this machine has them.

use std::ffi::OsString;
use std::path::PathBuf;

use super::skipped;

/// A CLI, and a PATH on which it and what it needs are found.
pub(crate) struct RealCli {
    pub(crate) program: PathBuf,
    pub(crate) path: OsString,
}

/// The CLI named by the variable, else the one on the PATH; where there is none, that is said and the test skipped.
pub(crate) fn real_cli(name: &str) -> Option<RealCli> {
    let variable = format!("FLEET_TEST_{}", name.to_uppercase());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named = std::env::var_os(&variable).map(PathBuf::from);
    let Some(program) = named.or_else(|| fleet_mcp::engine::installed::program(name, &path)) else {
        skipped(&format!("there is no '{name}' on the PATH; install it or set {variable} to its path"));
        return None;
    };
    let mut directories = vec![program.parent().unwrap().to_owned()];
    directories.extend(std::env::split_paths(&path));
    Some(RealCli { program, path: std::env::join_paths(directories).unwrap() })
}
