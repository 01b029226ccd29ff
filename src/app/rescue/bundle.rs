//! Fetches an agent's unpushed work from its workspace as a git bundle, in pieces that fit into memory.

use super::directory::BundleDraft;
use crate::app::workspace_exec::{WorkspaceExec, WorkspaceExecError};
use crate::coder::exec::{Command, Output};
use crate::domain::bundle::is_object_id;
use crate::domain::rescue::MAX_BYTES;
use crate::domain::text::{cut, one_line};
use crate::git::quiet::shell_function;

/// Creates the bundle and prints its first piece; preceded by the shell functions of `quiet`.
const MAKE: &str = include_str!("bundle.sh");
/// Prints a further piece; after the last piece the bundle is removed from the workspace.
const NEXT: &str = r#"shelf=${FLEET_AGENT_DIR:-$HOME/.fleet}/rescue
dd if="$shelf/work.bundle" bs="$1" skip="$2" count=1 2> /dev/null
[ "$3" = last ] && rm -rf "$shelf"
exit 0"#;
const PIECE: usize = 4 * 1024 * 1024;
const LONGEST_REASON: usize = 200;

/// The result of a rescue in the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::app) enum BundleResult {
    Bundle(Bundle),
    /// All work is on a remote.
    Nothing,
    Failed(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::app) struct Bundle {
    pub(in crate::app) commit: String,
    pub(in crate::app) bytes: u64,
    pub(in crate::app) note: Option<String>,
}

/// Creates the bundle in the workspace and copies it into the draft.
pub(in crate::app) async fn fetch_bundle(
    workspace_exec: &WorkspaceExec<'_>,
    draft: &mut BundleDraft,
) -> Result<BundleResult, WorkspaceExecError> {
    let (max, piece) = (MAX_BYTES.to_string(), PIECE.to_string());
    let make = format!("{}{MAKE}", shell_function());
    let output = run(workspace_exec, ["sh", "-c", &make, "rescue", &max, &piece]).await?;
    let (result, first) = read_made(&output);
    let BundleResult::Bundle(bundle) = &result else { return Ok(result) };
    let mut missing = match add(draft, &first, bundle.bytes) {
        Ok(missing) => missing,
        Err(failed) => return Ok(failed),
    };
    let mut n_pieces = 1;
    while missing > 0 {
        let position = if missing <= PIECE as u64 { "last" } else { "more" };
        let argv = ["sh", "-c", NEXT, "rescue", &piece, &n_pieces.to_string(), position];
        let next = run(workspace_exec, argv).await?.stdout;
        missing = match add(draft, &next, missing) {
            Ok(missing) => missing,
            Err(failed) => return Ok(failed),
        };
        n_pieces += 1;
    }
    Ok(result)
}

async fn run<const N: usize>(
    workspace_exec: &WorkspaceExec<'_>,
    argv: [&str; N],
) -> Result<Output, WorkspaceExecError> {
    let limits = workspace_exec.limits;
    // The rescue as a whole has the same limit. This one ends a command whose connection was lost.
    let timeout = limits.rescue.to_std().unwrap_or_default();
    let command = Command { timeout, output_limit: 2 * PIECE, ..Command::new(argv) };
    workspace_exec.exec(command, limits.workspace_answer).await
}

/// Writes a piece and returns the number of missing bytes.
fn add(draft: &mut BundleDraft, piece: &[u8], missing: u64) -> Result<u64, BundleResult> {
    let left = missing.checked_sub(piece.len() as u64).filter(|_| !piece.is_empty());
    let left = left.ok_or_else(|| BundleResult::Failed("the bundle arrived incomplete".to_owned()))?;
    draft
        .add(piece)
        .map_err(|error| BundleResult::Failed(format!("the bundle could not be stored: {error}")))?;
    Ok(left)
}

/// Parses the first line of the output, the result; the first piece follows it.
fn read_made(output: &Output) -> (BundleResult, Vec<u8>) {
    let mut parts = output.stdout.splitn(2, |byte| *byte == b'\n');
    let head = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let piece = parts.next().unwrap_or_default().to_vec();
    let result = match head.split_once(' ').unwrap_or((&head, "")) {
        ("saved", rest) => saved(rest).unwrap_or_else(|| BundleResult::Failed(shortened(&head))),
        ("nothing", _) => BundleResult::Nothing,
        ("failed", reason) => BundleResult::Failed(shortened(reason)),
        _ => BundleResult::Failed(unexpected(&head, output)),
    };
    (result, piece)
}

/// `COMMIT BYTES [NOTE]`
fn saved(text: &str) -> Option<BundleResult> {
    let mut words = text.splitn(3, ' ');
    let commit = words.next().filter(|id| is_object_id(id))?;
    let bytes = words.next()?.parse().ok().filter(|bytes| (1..=MAX_BYTES).contains(bytes))?;
    let note = words.next().map(shortened).filter(|note| !note.is_empty());
    Some(BundleResult::Bundle(Bundle { commit: commit.to_owned(), bytes, note }))
}

fn unexpected(head: &str, output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let text = if stderr.trim().is_empty() { head } else { stderr.trim() };
    shortened(&format!("git did not finish ({:?}): {text}", output.exit))
}

/// Untrusted text from a workspace, as one short line.
fn shortened(text: &str) -> String {
    cut(&one_line(text), LONGEST_REASON)
}
