//! Decides which settings of the caller's repository a clone gets: addresses, names and storage formats.
//!
//! No copied setting starts a program; addresses with a helper program (`ext::…`) are excluded.

use std::path::Path;

use super::git::is_reference;
use crate::git::quiet::is_match;

/// `*` matches any name; written as `git config --list` prints them.
const COPIED: [&str; 24] = [
    "user.name",
    "user.email",
    "remote.*.url",
    "remote.*.pushurl",
    "remote.*.fetch",
    "remote.*.tagopt",
    "remote.*.promisor",
    "remote.*.partialclonefilter",
    "remote.pushdefault",
    "url.*.insteadof",
    "url.*.pushinsteadof",
    "http.extraheader",
    "http.*.extraheader",
    "credential.username",
    "credential.*.username",
    "push.default",
    "push.autosetupremote",
    "pull.rebase",
    "pull.ff",
    "core.autocrlf",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.symlinks",
];

/// One setting of git.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) name: String,
    pub(super) value: String,
}

impl Setting {
    pub(super) fn new(name: &str, value: impl Into<String>) -> Self {
        Self { name: name.to_owned(), value: value.into() }
    }

    /// As a line of a configuration file.
    fn line(&self) -> Option<String> {
        let (section, rest) = self.name.split_once('.')?;
        let value = escaped(&self.value).replace('\n', "\\n").replace('\t', "\\t");
        Some(match rest.rsplit_once('.') {
            Some((name, key)) => format!("[{section} \"{}\"]\n\t{key} = \"{value}\"\n", escaped(name)),
            None => format!("[{section}]\n\t{rest} = \"{value}\"\n"),
        })
    }
}

/// The text of a configuration file with these settings.
pub(super) fn file_text(entries: &[Setting]) -> String {
    entries.iter().filter_map(Setting::line).collect()
}

/// The settings to copy from the output of `git config --list --show-scope -z`, run in a repository with this
/// directory.
pub(super) fn copied(listing: &str, directory: &Path) -> Vec<Setting> {
    let mut words = listing.split('\0');
    let mut entries = Vec::new();
    while let (Some(scope), Some(pair)) = (words.next(), words.next()) {
        // A setting without a value is true.
        let (name, value) = pair.split_once('\n').unwrap_or((pair, "true"));
        let entry = Setting::new(name, value);
        if ["local", "worktree"].contains(&scope) && is_copied(&entry) {
            entries.push(absolute(entry, directory));
        }
    }
    entries
}

fn is_copied(entry: &Setting) -> bool {
    let is_listed = COPIED.iter().any(|pattern| is_match(pattern, &entry.name));
    let is_helper = is_address(&entry.name) && !is_reference(&entry.value) || entry.name.contains("::");
    is_listed && !is_helper
}

fn is_address(name: &str) -> bool {
    name.starts_with("remote.") && (name.ends_with(".url") || name.ends_with(".pushurl"))
}

/// Relative addresses of remotes are relative to the caller's repository.
fn absolute(entry: Setting, directory: &Path) -> Setting {
    let is_relative = !entry.value.starts_with('/') && !entry.value.contains(':') && !entry.value.is_empty();
    if !is_address(&entry.name) || !is_relative {
        return entry;
    }
    let value = directory.join(&entry.value).display().to_string();
    Setting { value, ..entry }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_are_copied_and_nothing_that_starts_a_program() {
        let listing = [
            "global\0user.name\nElse",
            "local\0user.name\nAnn",
            "local\0core.hookspath\n/evil",
            "local\0filter.x.smudge\nevil",
            "local\0remote.origin.url\n../up stream",
            "local\0remote.origin.uploadpack\nevil",
            "local\0remote.evil.url\next::sh -c evil",
            "local\0url.ext::sh -c evil .insteadof\nhttps://",
            "local\0remote.o\"dd\\.url\nhttps://example.com/a",
            "worktree\0core.symlinks",
            "local\0alias.st\n!evil",
            "local\0include.path\n/evil",
        ]
        .join("\0");
        let entries = copied(&listing, Path::new("/caller"));
        let expected = [
            Setting::new("user.name", "Ann"),
            Setting::new("remote.origin.url", "/caller/../up stream"),
            Setting::new("remote.o\"dd\\.url", "https://example.com/a"),
            Setting::new("core.symlinks", "true"),
        ];
        assert_eq!(entries, expected);
        let text = "[user]\n\tname = \"Ann\"\n[remote \"origin\"]\n\turl = \"/caller/../up stream\"\n\
            [remote \"o\\\"dd\\\\\"]\n\turl = \"https://example.com/a\"\n[core]\n\tsymlinks = \"true\"\n";
        assert_eq!(file_text(&entries), text);
    }
}
