//! The header of a git bundle: the commits it requires, and the named commits it contains.

use std::io::{self, BufRead};

/// The header of a bundle with more branches than are ever restored is far smaller.
const LONGEST: u64 = 4 * 1024 * 1024;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Header {
    /// The commits that a repository must have before it can use the bundle.
    pub needs: Vec<String>,
    /// Commit and name.
    pub heads: Vec<(String, String)>,
}

impl Header {
    /// Lines up to an empty one: the version, the required commits, and the contained ones. Commit subjects and
    /// branch names are arbitrary bytes; invalid UTF-8 is replaced.
    pub fn read(bundle: impl BufRead) -> io::Result<Self> {
        let mut header = Self::default();
        for line in bundle.take(LONGEST).split(b'\n') {
            let line = line?;
            if line.is_empty() {
                break;
            }
            header.take(&String::from_utf8_lossy(&line));
        }
        Ok(header)
    }

    fn take(&mut self, line: &str) {
        if line.starts_with(['#', '@']) {
            return;
        }
        if let Some(needed) = line.strip_prefix('-') {
            let id = needed.split(' ').next().filter(|id| is_object_id(id));
            self.needs.extend(id.map(str::to_owned));
        } else if let Some((id, name)) = line.split_once(' ').filter(|(id, _)| is_object_id(id)) {
            self.heads.push((id.to_owned(), name.to_owned()));
        }
    }
}

/// Whether this is a full object id, which git cannot take for anything else.
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
        assert_eq!(Header::read(text.as_bytes()).unwrap(), expected);
        assert_eq!(Header::read("# v2 git bundle\n\n".as_bytes()).unwrap(), Header::default());
    }

    #[test]
    fn bytes_that_are_no_text_hide_no_line() {
        let [base, odd, work] = ["1", "2", "3"].map(|digit| digit.repeat(40));
        let head = [
            b"# v2 git bundle\n-",
            base.as_bytes(),
            b" caf\xe9\n",
            odd.as_bytes(),
            b" refs/rescue/branches/x\xff\n",
            work.as_bytes(),
            b" refs/rescue/work\n\nPACK\xff",
        ];
        let head = head.concat();
        let names = ["refs/rescue/branches/x\u{fffd}", "refs/rescue/work"].map(str::to_owned);
        let heads = [odd, work].into_iter().zip(names).collect();
        assert_eq!(Header::read(&*head).unwrap(), Header { needs: vec![base], heads });
    }
}
