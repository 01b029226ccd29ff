//! Splits the address of a repository from the login in it, which only git may see.
//!
//! Messages, logs and command lines are readable by others. So git gets the address without the login and finds the
//! login in its own credential store; commands in the clone sign in the same way.

use std::path::Path;

use super::git::is_reference;
use crate::local::LocalError;

pub(super) struct RemoteAddress {
    /// Passed to git.
    pub(super) for_git: String,
    /// Shown in messages.
    pub(super) for_display: String,
    pub(super) login: Option<Login>,
}

/// A login at one server.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Login {
    /// `https://example.com`
    server: String,
    /// `https://name:password@example.com`: a line of git's credential store.
    pub(super) line: String,
}

impl RemoteAddress {
    pub(super) fn parse(text: &str) -> Result<Self, LocalError> {
        let address = Self::split(text);
        if is_reference(text) { Ok(address) } else { Err(LocalError::BadReference(address.for_display)) }
    }

    /// By git's own rule: a colon makes it an address of another machine unless a slash comes before it.
    pub(super) fn is_local(&self) -> bool {
        match self.for_git.split_once("://") {
            Some((scheme, _)) => scheme.eq_ignore_ascii_case("file"),
            None => self.for_git.split_once(':').is_none_or(|(before, _)| before.contains('/')),
        }
    }

    fn split(text: &str) -> Self {
        let plain = |text: &str| Self { for_git: text.to_owned(), for_display: text.to_owned(), login: None };
        let Some((scheme, rest)) = text.split_once("://") else { return plain(text) };
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let Some((user, host)) = authority.rsplit_once('@') else { return plain(text) };
        let server = format!("{scheme}://{host}");
        let for_display = format!("{server}{path}");
        if is_web(scheme) {
            // A token without a colon is a user name with an empty password.
            let colon = if user.contains(':') { "" } else { ":" };
            let login = Login { line: format!("{scheme}://{user}{colon}@{host}"), server };
            return Self { for_git: for_display.clone(), for_display, login: Some(login) };
        }
        // Other schemes do not use the name as a login; only git interprets a password there.
        if user.contains(':') { Self { for_display, ..plain(text) } } else { plain(text) }
    }
}

impl Login {
    /// The settings with which a clone reads its login from this file.
    pub(super) fn settings(&self, file: &Path) -> [String; 2] {
        let quoted = file.display().to_string().replace('\'', r"'\''");
        let helper = |value: &str| format!("credential.{}.helper={value}", self.server);
        // The empty helper resets the user's own credential store, which may hold another login for this server.
        [helper(""), helper(&format!("store --file='{quoted}'"))]
    }
}

fn is_web(scheme: &str) -> bool {
    let scheme = scheme.to_ascii_lowercase();
    scheme.ends_with("http") || scheme.ends_with("https")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (String, String, Option<String>) {
        let RemoteAddress { for_git, for_display, login } = RemoteAddress::split(text);
        (for_git, for_display, login.map(|login| login.line))
    }

    #[test]
    fn whatever_signs_in_on_the_web_is_neither_shown_nor_given_to_git() {
        let clean = "https://example.com:8443/a.git".to_owned();
        for (user, line) in
            [("me:se%40cret", "me:se%40cret"), ("ghp_token", "ghp_token:"), ("a@b:c", "a@b:c")]
        {
            let line = Some(format!("https://{line}@example.com:8443"));
            let text = format!("https://{user}@example.com:8443/a.git");
            assert_eq!(parts(&text), (clean.clone(), clean.clone(), line));
        }
    }

    #[test]
    fn other_addresses_are_given_as_they_are_and_shown_without_passwords() {
        for text in
            ["/some/where", "git@example.com:a/b.git", "ssh://git@example.com/a", "https://example.com/@a"]
        {
            assert_eq!(parts(text), (text.to_owned(), text.to_owned(), None));
        }
        let text = "ssh://me:secret@example.com/a";
        assert_eq!(parts(text), (text.to_owned(), "ssh://example.com/a".to_owned(), None));
    }

    #[test]
    fn a_path_and_a_file_address_are_of_this_machine() {
        let is_local = |text: &str| RemoteAddress::split(text).is_local();
        let local = ["/some/where", "../a", "a", "./a:b", "/a:b", "file:///a", "FILE:///a"];
        assert_eq!(local.map(is_local), [true; 7]);
        let elsewhere = ["git@example.com:a/b", "host:/a", "ssh://host/a", "https://host/a", "git://host/a"];
        assert_eq!(elsewhere.map(is_local), [false; 5]);
    }

    #[test]
    fn a_refusal_does_not_show_it_either() {
        let refused = RemoteAddress::parse("https://ghp_token@example.com/a\nb").err().unwrap();
        assert_eq!(
            refused.to_string(),
            "'https://example.com/a\nb' cannot be used as a repository address or branch: git could take it for an \
             option or a command; correct repo or branch in the project file"
        );
    }

    #[test]
    fn a_store_is_named_for_its_server_alone_and_in_place_of_any_other() {
        let login = RemoteAddress::split("https://me:secret@example.com/a").login.unwrap();
        assert_eq!(
            login.settings(Path::new("/it's here")),
            [
                "credential.https://example.com.helper=",
                r"credential.https://example.com.helper=store --file='/it'\''s here'"
            ]
        );
    }
}
