//! The head of a git bundle: the commits it builds on, and the commits it holds, each with its name.

use std::io::BufRead;

/// The head of a bundle with more branches than anything restores is far smaller.
const LONGEST: u64 = 4 * 1024 * 1024;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Header {
    /// The commits that a repository must have before it can take the bundle.
    pub needs: Vec<String>,
    /// Commit and name.
    pub heads: Vec<(String, String)>,
}

impl Header {
    /// Lines of text up to an empty one: the version, what it builds on, and the commits it holds.
    pub fn read(bundle: impl BufRead) -> Self {
        let lines = bundle.take(LONGEST).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
        let mut header = Self::default();
        for line in lines.filter(|line| !line.starts_with(['#', '@'])) {
            if let Some(needed) = line.strip_prefix('-') {
                let id = needed.split(' ').next().filter(|id| is_object_id(id));
                header.needs.extend(id.map(str::to_owned));
            } else if let Some((id, name)) = line.split_once(' ').filter(|(id, _)| is_object_id(id)) {
                header.heads.push((id.to_owned(), name.to_owned()));
            }
        }
        header
    }
}

/// A whole name of a git object, which git cannot take for anything else.
pub fn is_object_id(text: &str) -> bool {
    [40, 64].contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_tells_what_the_bundle_builds_on_and_what_it_holds() {
        let id = |digit: &str| digit.repeat(40);
        let text = format!(
            "# v3 git bundle\n@object-format=sha1\n-{} base\n-{}\n---upload-pack=x y\n{} refs/rescue/work\n2 refs/x\n\n{} PACK\n",
            id("1"),
            id("2"),
            id("3"),
            id("4")
        );
        let expected =
            Header { needs: vec![id("1"), id("2")], heads: vec![(id("3"), "refs/rescue/work".to_owned())] };
        assert_eq!(Header::read(text.as_bytes()), expected);
        assert_eq!(Header::read("# v2 git bundle\n\n".as_bytes()), Header::default());
    }
}
