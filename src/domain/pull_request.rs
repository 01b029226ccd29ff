//! The URL of a pull request: its repository, and the ref of its head.

use url::Url;

/// The path segments before the number in a URL, and in the name of the ref.
const KINDS: [(&str, &str); 3] = [("pull", "pull"), ("pulls", "pull"), ("merge_requests", "merge-requests")];
/// An owner and a repository precede those segments.
const SHORTEST_PATH: usize = 2;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequest {
    pub number: u64,
    /// `refs/pull/7/head` on GitHub and Gitea, `refs/merge-requests/7/head` on GitLab
    pub head: String,
    url: Url,
    /// `owner/repository`
    repository: String,
}

impl PullRequest {
    /// None for a URL that is not a pull request on a known kind of server.
    pub fn parse(text: &str) -> Option<Self> {
        let url = Url::parse(text).ok().filter(is_web)?;
        let parts: Vec<&str> = url.path_segments()?.filter(|part| !part.is_empty()).collect();
        let found = parts.windows(2).enumerate().skip(SHORTEST_PATH).find_map(|(place, pair)| {
            let (_, folder) = KINDS.iter().find(|(word, _)| pair.first() == Some(word))?;
            Some((place, *folder, number_of(pair.get(1)?)?))
        });
        let (place, folder, number) = found?;
        let repository = parts.get(..place)?.join("/");
        // GitLab separates the project path by a hyphen.
        let repository = plain_path(repository.strip_suffix("/-").unwrap_or(&repository));
        Some(Self { number, head: format!("refs/{folder}/{number}/head"), url, repository })
    }

    /// Whether the pull request belongs to the repository at this remote.
    pub fn is_of(&self, remote: &str) -> bool {
        let Some((host, path)) = self.place_of(remote) else { return false };
        let is_host = self.url.host_str().is_some_and(|own| own.eq_ignore_ascii_case(&host));
        is_host && plain_path(&path) == self.repository
    }

    /// Host and path of a remote. A web URL must have the same port; ssh has its own ports.
    fn place_of(&self, remote: &str) -> Option<(String, String)> {
        if !remote.contains("://") {
            let (login, path) = remote.split_once(':').filter(|(login, _)| !login.contains('/'))?;
            let host = login.rsplit_once('@').map_or(login, |(_, host)| host);
            return Some((host.to_owned(), path.to_owned()));
        }
        let url = Url::parse(remote).ok()?;
        let is_same_port = url.port_or_known_default() == self.url.port_or_known_default();
        let is_ssh = url.scheme() == "ssh";
        let is_comparable = is_ssh || (is_web(&url) && is_same_port);
        is_comparable.then(|| Some((url.host_str()?.to_owned(), url.path().to_owned())))?
    }
}

fn is_web(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
}

fn number_of(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number| *number > 0 && text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Servers compare paths case-insensitively.
fn plain_path(path: &str) -> String {
    let path = path.trim_matches('/').to_ascii_lowercase();
    path.strip_suffix(".git").unwrap_or(&path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Option<String> {
        PullRequest::parse(text).map(|found| found.head)
    }

    #[test]
    fn each_kind_of_server_has_its_own_address_and_ref() {
        let pull = Some("refs/pull/7/head".to_owned());
        assert_eq!(head("https://github.com/owner/app/pull/7"), pull);
        assert_eq!(head("https://github.com/owner/app/pull/7/files?w=1#diff"), pull);
        assert_eq!(head("http://gitea.test:3000/owner/app/pulls/7"), pull);
        let merge = Some("refs/merge-requests/7/head".to_owned());
        assert_eq!(head("https://gitlab.com/group/sub/app/-/merge_requests/7"), merge);
        for other in [
            "https://github.com/owner/app",
            "https://github.com/owner/app/pull/0",
            "https://github.com/owner/app/pull/+7",
            "https://github.com/owner/app/pull/seven",
            "https://github.com/pull/7",
            "ssh://github.com/owner/app/pull/7",
            "not an address",
        ] {
            assert_eq!(head(other), None, "{other}");
        }
    }

    #[test]
    fn a_remote_is_its_own_by_host_and_path_whatever_the_protocol() {
        let request = PullRequest::parse("https://Example.com/Owner/app/pull/7").unwrap();
        for own in [
            "https://example.com/owner/app.git",
            "https://example.com:443/owner/app/",
            "https://me:secret@example.com/owner/app",
            "git@example.com:owner/app.git",
            "example.com:/owner/app",
            "ssh://git@example.com:2222/owner/app.git",
        ] {
            assert!(request.is_of(own), "{own}");
        }
        for other in [
            "https://example.com/owner/other.git",
            "https://example.com/owner/app/more",
            "https://example.org/owner/app.git",
            "https://example.com:8443/owner/app.git",
            "https://example.com.evil.test/owner/app.git",
            "file://example.com/owner/app.git",
            "/example.com/owner/app",
            "./example.com:owner/app",
            "ext::sh -c true",
        ] {
            assert!(!request.is_of(other), "{other}");
        }
        let merge = PullRequest::parse("https://gitlab.com/a/b/c/-/merge_requests/3").unwrap();
        assert!(merge.is_of("git@gitlab.com:a/b/c.git") && !merge.is_of("git@gitlab.com:a/b.git"));
    }
}
