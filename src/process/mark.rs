//! Reads the marker in the environment of a process.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::{fs, io};

use rustix::process::geteuid;

use super::stat::is_out_of_sight;

const LONGEST_ENVIRONMENT: u64 = 8 * 1024 * 1024;
/// A path is the longest expected value.
const LONGEST_VALUE: usize = 4 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// The value of the variable, in a process of our own user.
    Value(String),
    Absent,
    /// It has ended, is just executing another program, or lets no process read its environment.
    Unclear,
    /// No thread was left to read it.
    Unread,
}

/// What is known of a process without its environment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Ourselves,
    Other,
    Gone,
}

impl Owner {
    pub(super) fn of(pid: u32) -> io::Result<Self> {
        match fs::metadata(format!("/proc/{pid}")) {
            Ok(folder) if folder.uid() == geteuid().as_raw() => Ok(Self::Ourselves),
            Ok(_) => Ok(Self::Other),
            Err(error) if is_out_of_sight(&error) => Ok(Self::Gone),
            Err(error) => Err(error),
        }
    }
}

impl Mark {
    /// The value of the variable with which a process of our own user was started. The process can block this call
    /// for ever.
    pub(super) fn read(pid: u32, key: &str) -> io::Result<Self> {
        match environment_of(pid) {
            Ok(environment) if environment.is_empty() => Ok(Self::Unclear),
            Ok(environment) => Ok(value(&environment, key).map_or(Self::Absent, Self::Value)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(Self::Absent),
            Err(error) if is_out_of_sight(&error) => Ok(Self::Unclear),
            Err(error) => Err(error),
        }
    }
}

/// The kernel's limit for a started program fits; a process can present more of its memory as its environment.
fn environment_of(pid: u32) -> io::Result<Vec<u8>> {
    let mut environment = Vec::new();
    fs::File::open(format!("/proc/{pid}/environ"))?
        .take(LONGEST_ENVIRONMENT)
        .read_to_end(&mut environment)?;
    Ok(environment)
}

/// A value longer than any marker counts as absent: its length is up to the agent, and it is kept in memory.
fn value(environment: &[u8], key: &str) -> Option<String> {
    let entries = environment.split(|byte| *byte == 0);
    let mut values = entries.filter_map(|entry| entry.strip_prefix(key.as_bytes())?.strip_prefix(b"="));
    let value = values.next().filter(|value| value.len() <= LONGEST_VALUE)?;
    Some(String::from_utf8_lossy(value).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_the_value_of_exactly_that_variable() {
        let environment = b"PATH=/bin\0AFLEET=0\0FLEET_MORE=1\0FLEET=2\0FLEET=3\0";
        assert_eq!(value(environment, "FLEET"), Some("2".to_owned()));
        assert_eq!(value(environment, "FLEE"), None);
    }

    #[test]
    fn a_mark_that_is_longer_than_any_path_is_none() {
        let of_length =
            |length: usize| value(format!("A=1\0FLEET={}\0", "x".repeat(length)).as_bytes(), "FLEET");
        assert_eq!(of_length(4_096).map(|value| value.len()), Some(4_096));
        assert_eq!(of_length(4_097), None);
    }
}
