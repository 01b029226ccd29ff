//! Looks where a member is to work: the directory without links, inside the workspace's own, and its git directories.

use std::time::Duration;

use uuid::Uuid;

use crate::app::Fleet;
use crate::coder::exec::{Command, Exit, Output};
use crate::domain::squad::MemberEnd;
use crate::domain::text::{cut, one_line};

/// Prints the directory and its git directories, each followed by a zero byte; complains with 3 or 4.
const SCRIPT: &str = r#"unset CDPATH
root=$(pwd -P && echo .) && root=${root%?.} || exit 5
cd -- "$1" 2>/dev/null || exit 3
here=$(pwd -P && echo .) && here=${here%?.} || exit 3
case $here/ in "${root%/}"/*) ;; *) exit 4 ;; esac
printf '%s\000' "$here"
own=$(git rev-parse --absolute-git-dir 2>/dev/null) || exit 0
common=$(cd -- "$(git rev-parse --git-common-dir 2>/dev/null)" && pwd -P) || exit 0
printf '%s\000%s\000' "$own" "$common""#;
const MISSING: i32 = 3;
const OUTSIDE: i32 = 4;
const LIMIT: Duration = Duration::from_secs(20);
const LONGEST_REASON: usize = 300;

/// Where a member works.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ground {
    pub(super) cwd: String,
    pub(super) git_directory: String,
    pub(super) git_common_directory: String,
}

impl Fleet {
    pub(super) async fn member_ground(
        &self,
        workspace_agent: Uuid,
        container: Option<&str>,
        wanted: Option<&str>,
    ) -> Result<Ground, MemberEnd> {
        let cwd = wanted.unwrap_or(".");
        let command = Command {
            timeout: LIMIT,
            container: container.map(str::to_owned),
            ..Command::new(["sh", "-c", SCRIPT, "ground", cwd])
        };
        match self.coder().exec(workspace_agent, &command).await {
            Ok(output) => read(&output, cwd),
            Err(error) => Err(MemberEnd::error(format!("its workspace does not answer: {error}"))),
        }
    }
}

fn read(output: &Output, cwd: &str) -> Result<Ground, MemberEnd> {
    match output.exit {
        Exit::Code(0) => {}
        Exit::Code(MISSING) => {
            return Err(MemberEnd::error(format!("cwd '{cwd}' is no directory of the workspace")));
        }
        Exit::Code(OUTSIDE) => {
            return Err(MemberEnd::error(format!("cwd '{cwd}' is outside of the workspace")));
        }
        Exit::Code(_) | Exit::Signal(_) | Exit::TimedOut => {
            let said = cut(&one_line(&String::from_utf8_lossy(&output.stderr)), LONGEST_REASON);
            return Err(MemberEnd::error(format!("cwd '{cwd}' could not be looked at: {said}")));
        }
    }
    let mut parts = output.stdout.split(|byte| *byte == 0);
    let mut next = || String::from_utf8(parts.next().unwrap_or_default().to_vec());
    let ground = (|| {
        Ok::<_, std::string::FromUtf8Error>(Ground {
            cwd: next()?,
            git_directory: next()?,
            git_common_directory: next()?,
        })
    })();
    ground.map_err(|_| MemberEnd::error(format!("cwd '{cwd}' has a name that is not UTF-8")))
}
