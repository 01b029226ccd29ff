//! Makes an agent's own clone: it borrows the caller's objects and shares no settings, hooks or refs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::branch::Branch;
use super::branch_start::BranchBase;
use super::checkout::PreparedCheckout;
use super::copied_settings::{self, Setting};
use super::git::Git;
use super::pull_request::{PullRequestHead, Remote};
use super::work::Work;
use super::{blocking, branch_start, pull_request};
use crate::files::beneath::Directory;
use crate::git::quiet::Reach;
use crate::local::LocalError;
use crate::local::record::Checkout;

const NO_COMMIT: [&str; 2] = ["not a git repository", "Needed a single revision"];
/// The remote by which an agent sees the caller's branches; agents do not push to it.
const REMOTE: &str = "fleet-here";
/// Longer files of the caller's repository are not copied.
const LONGEST_FILE: u64 = 1024 * 1024;
const LIST_SETTINGS: [&str; 4] = ["config", "--list", "--show-scope", "-z"];
const LIST_REFS: [&str; 5] = [
    "for-each-ref",
    "--format=%(objectname) %(refname) %(symref)",
    "refs/heads",
    "refs/remotes",
    "refs/tags",
];

/// The caller's repository as it was read.
struct CallerRepo {
    /// Its git directory, the common one of all its worktrees.
    store: PathBuf,
    objects: PathBuf,
    object_format: String,
    refs: Vec<Ref>,
    settings: Vec<Setting>,
    head: String,
}

struct Ref {
    commit: String,
    name: String,
    /// The target of a symbolic ref; empty for others.
    leads_to: String,
}

/// Makes the clone in the workspace's directory and checks out the workspace's branch.
pub(super) async fn make(work: &Work, of: &Path) -> Result<PreparedCheckout, LocalError> {
    let branch = Branch::of(&work.workspace);
    let outside = Git::of(work, &[], Reach::Local);
    let mut caller = read_caller(&outside, of).await?;
    let begun = branch_start::begin(work, &outside, of, base(work, of, &caller)).await?;
    pull_request::release(work, &outside, of).await;
    // Starting the branch may have renamed the branch of an earlier agent.
    caller.refs = refs(&outside, of).await?;
    let inside = Git::of(work, &[&work.dirs.root], Reach::Network);
    let repo = OsString::from(&work.dirs.repo);
    let arguments: [OsString; 7] = [
        "init".into(),
        "--quiet".into(),
        "--template=".into(),
        format!("--object-format={}", caller.object_format).into(),
        format!("--initial-branch={}", branch.short).into(),
        "--end-of-options".into(),
        repo,
    ];
    inside.run(&work.dirs.root, &arguments, "create a repository").await?;
    let (git_dir, store) = (work.dirs.repo.join(".git"), caller.store.clone());
    blocking(move || furnish(&git_dir, &caller, &branch, &begun.tip)).await?;
    let inside = inside.without_drivers(&work.dirs.repo).await?;
    inside.run(&work.dirs.repo, &["reset", "--quiet", "--hard"], "check the files out").await?;
    let checkout = Checkout::Clone { of: of.to_owned(), store };
    Ok(PreparedCheckout { checkout, base: Some(begun.start.commit), notes: begun.start.notes })
}

/// The head of the requested pull request, or the caller's own commit.
async fn base(work: &Work, of: &Path, caller: &CallerRepo) -> Result<BranchBase, LocalError> {
    let PullRequestHead { head, notes } = pull_request::offered(work, &[], of, &remotes(caller)).await?;
    Ok(BranchBase { commit: head.unwrap_or_else(|| caller.head.clone()), notes })
}

fn remotes(caller: &CallerRepo) -> Vec<Remote> {
    let name = |entry: &Setting| Some(entry.name.strip_prefix("remote.")?.strip_suffix(".url")?.to_owned());
    let remote = |entry: &Setting| Some(Remote { name: name(entry)?, url: entry.value.clone() });
    caller.settings.iter().filter_map(remote).collect()
}

async fn read_caller(git: &Git, of: &Path) -> Result<CallerRepo, LocalError> {
    let doing = format!("use {}", of.display());
    let head = git.run(of, &["rev-parse", "--verify", "HEAD^{commit}"], &doing).await;
    let head = head.map_err(|error| explained(error, of))?;
    let asked = ["--git-common-dir", "--git-path", "objects"];
    let asked =
        ["rev-parse", "--path-format=absolute"].into_iter().chain(asked).chain(["--show-object-format"]);
    let answer = git.run(of, &asked.collect::<Vec<_>>(), &doing).await?;
    let mut lines = answer.lines().map(str::to_owned);
    let mut next = || lines.next().unwrap_or_default();
    let (store, objects) = (next().into(), next().into());
    let object_format = next();
    let listing = git.run(of, &LIST_SETTINGS, "read the settings").await?;
    // A bare repository has no working tree; its own directory is used.
    let top = git.run(of, &["rev-parse", "--show-toplevel"], &doing).await.map_or(of.to_owned(), Into::into);
    let settings = copied_settings::copied(&listing, &top);
    Ok(CallerRepo { store, objects, object_format, refs: Vec::new(), settings, head })
}

async fn refs(git: &Git, of: &Path) -> Result<Vec<Ref>, LocalError> {
    let listing = git.run(of, &LIST_REFS, "list the branches").await?;
    Ok(listing.lines().filter_map(read_ref).collect())
}

fn read_ref(line: &str) -> Option<Ref> {
    let mut words = line.splitn(3, ' ').map(str::to_owned);
    Some(Ref { commit: words.next()?, name: words.next()?, leads_to: words.next().unwrap_or_default() })
}

/// Replaces git's message about a missing repository or commit by advice; other messages stay.
fn explained(error: LocalError, of: &Path) -> LocalError {
    match error {
        LocalError::GitRefused { output, .. } if NO_COMMIT.iter().any(|words| output.contains(words)) => {
            LocalError::NotARepository { path: of.to_owned() }
        }
        other => other,
    }
}

/// Fills the new repository before any other process uses it.
fn furnish(git_dir: &Path, caller: &CallerRepo, branch: &Branch, start: &str) -> Result<(), LocalError> {
    let failed = |path: &Path| LocalError::directory(path.to_owned());
    let write = |name: &str, text: String| {
        let path = git_dir.join(name);
        let folder = path.parent().unwrap_or(git_dir);
        std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text)).map_err(failed(&path))
    };
    write("objects/info/alternates", format!("{}\n", caller.objects.display()))?;
    write("packed-refs", packed(caller, branch, start))?;
    for found in caller.refs.iter().filter(|found| !found.leads_to.is_empty()) {
        if let (Some(name), Some(leads_to)) = (seen_as(&found.name), seen_as(&found.leads_to)) {
            write(&name, format!("ref: {leads_to}\n"))?;
        }
    }
    for (folder, name) in [(None, "shallow"), (Some("info"), "exclude")] {
        if let Some(text) = file_of(&caller.store, folder, name) {
            write(&folder.map_or(name.to_owned(), |folder| format!("{folder}/{name}")), text)?;
        }
    }
    let config = git_dir.join("config");
    let own = std::fs::read_to_string(&config).map_err(failed(&config))?;
    write("config", format!("{own}{}", copied_settings::file_text(&settings(caller))))
}

/// Reads a file of the caller's repository. Follows no links: other agents of the same user may have written there.
fn file_of(store: &Path, folder: Option<&str>, name: &str) -> Option<String> {
    let mut directory = Directory::open(store).ok()?;
    if let Some(folder) = folder {
        directory = directory.child(folder).ok()?;
    }
    let content = directory.read(name, LONGEST_FILE).ok()?;
    let is_whole = content.size <= LONGEST_FILE;
    String::from_utf8(content.bytes).ok().filter(|_| is_whole)
}

fn settings(caller: &CallerRepo) -> Vec<Setting> {
    let of_remote = |key: &str, value: &str| Setting::new(&format!("remote.{REMOTE}.{key}"), value);
    let mut settings = caller.settings.clone();
    settings.extend([
        of_remote("url", &caller.store.display().to_string()),
        of_remote("pushurl", "this-remote-is-read-only"),
        of_remote("fetch", &format!("+refs/heads/*:refs/remotes/{REMOTE}/*")),
        of_remote("tagopt", "--no-tags"),
    ]);
    settings
}

/// All refs in one file, regardless of their number.
fn packed(caller: &CallerRepo, branch: &Branch, start: &str) -> String {
    let plain = caller.refs.iter().filter(|found| found.leads_to.is_empty());
    let lines = plain.filter_map(|found| Some(format!("{} {}\n", found.commit, seen_as(&found.name)?)));
    lines.chain([format!("{start} {}\n", branch.head)]).collect()
}

/// The name of a caller's ref in the clone: the caller's branches become those of a remote.
fn seen_as(name: &str) -> Option<String> {
    if let Some(branch) = name.strip_prefix("refs/heads/") {
        return Some(format!("refs/remotes/{REMOTE}/{branch}"));
    }
    (name.starts_with("refs/remotes/") || name.starts_with("refs/tags/")).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_directory_without_a_commit_is_told_to_make_one() {
        let answer = |output: &str| {
            let error = LocalError::GitRefused { doing: "use /a".to_owned(), output: output.to_owned() };
            explained(error, Path::new("/a")).to_string()
        };
        let remedy = "/a is not a git repository: run 'git init' and make a first commit there";
        assert_eq!(answer("fatal: not a git repository (or any of the parent directories): .git"), remedy);
        assert_eq!(answer("fatal: Needed a single revision"), remedy);
        let dubious = "fatal: detected dubious ownership in repository at '/a'; To add an exception for this \
                       directory, call:; git config --global --add safe.directory /a";
        assert_eq!(answer(dubious), format!("git could not use /a: {dubious}"));
    }
}
