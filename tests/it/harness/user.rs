//! The users whose servers a test starts: the current one and, where that is root, a plain one.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Program, skipped};

/// The unprivileged user of every system, which no test server runs as.
const PLAIN_ID: u32 = 65_534;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    Current,
    Plain,
}

impl User {
    /// Lets a command run as this user.
    pub(crate) fn run(self, command: &mut Command) {
        match self {
            Self::Current => {}
            Self::Plain => {
                command.uid(PLAIN_ID).gid(PLAIN_ID);
            }
        }
    }

    /// Gives a file or directory to this user.
    pub(crate) fn own(self, path: &Path) {
        match self {
            Self::Current => {}
            Self::Plain => std::os::unix::fs::chown(path, Some(PLAIN_ID), Some(PLAIN_ID)).unwrap(),
        }
    }

    /// Whether this user's servers can enclose their agents; says so where they cannot.
    fn can_enclose(self) -> bool {
        let mut attempt = Command::new(env!("CARGO_BIN_EXE_fleet-mcp"));
        attempt.args(["enclose", "--own-terminals", "--"]).stdin(Stdio::null()).stderr(Stdio::null());
        self.run(&mut attempt);
        let is_able = attempt.status().is_ok_and(|status| status.success());
        if !is_able {
            skipped(&format!("agents of {self:?} user cannot be enclosed on this machine"));
        }
        is_able
    }

    fn all() -> Vec<Self> {
        if rustix::process::getuid().is_root() {
            return vec![Self::Current, Self::Plain];
        }
        skipped("as another user: only root can start servers of other users");
        vec![Self::Current]
    }
}

/// Plays once for each user whose agents can be enclosed here, each time with a program on a fresh data directory.
pub(crate) async fn as_each_user(play: impl AsyncFn(Program)) {
    for user in User::all().into_iter().filter(|user| user.can_enclose()) {
        play(Program::without_coder().run_by(user)).await;
    }
}
