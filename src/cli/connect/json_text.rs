//! Where things stand in a JSON text, comments and all, so that it can be changed without being written anew.

use std::ops::Range;

use serde::de::IgnoredAny;

use super::Refusal;

/// What a client makes of comments and of commas before a closing bracket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comments {
    Refused,
    Kept,
}

/// A text that holds one JSON value.
#[derive(Debug)]
pub(super) struct JsonText {
    /// The same text with spaces for comments and superfluous commas: plain JSON with all offsets kept.
    plain: String,
    comments: Vec<Range<usize>>,
    /// Commas that stand before a closing bracket.
    spare_commas: Vec<usize>,
}

/// One `"key": value` of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) key: String,
    pub(super) start: usize,
    pub(super) value: Range<usize>,
}

impl JsonText {
    pub(super) fn read(text: &str, comments: Comments) -> Result<Self, Refusal> {
        let json = match comments {
            Comments::Refused => {
                Self { plain: text.to_owned(), comments: Vec::new(), spare_commas: Vec::new() }
            }
            Comments::Kept => without_commas(without_comments(text)?),
        };
        match serde_json::from_str::<IgnoredAny>(&json.plain) {
            Ok(_) => Ok(json),
            Err(error) => Err(Refusal { line: error.line().max(1), problem: reason(&error) }),
        }
    }

    pub(super) fn plain(&self) -> &str {
        &self.plain
    }

    /// The outermost value.
    pub(super) fn whole(&self) -> Range<usize> {
        let start = self.plain.len() - self.plain.trim_start().len();
        start..self.plain.trim_end().len()
    }

    /// The members of the object at this place; none if something else stands there.
    pub(super) fn members(&self, object: &Range<usize>) -> Option<Vec<Member>> {
        let mut at = self.plain[object.clone()].starts_with('{').then_some(object.start + 1)?;
        let mut members = Vec::new();
        loop {
            at = self.after_space(at);
            match self.plain.as_bytes().get(at) {
                Some(b',') => at += 1,
                Some(b'"') => {
                    let member = self.member(at);
                    at = member.value.end;
                    members.push(member);
                }
                Some(_) | None => return Some(members),
            }
        }
    }

    /// The end of what stands on the line after this place, if that is nothing but space and comments.
    pub(super) fn end_of_bare_line(&self, from: usize) -> Option<usize> {
        let line = self.plain[from..].split('\n').next().unwrap_or_default();
        let end = from + line.trim_end_matches('\r').len();
        let is_bare = line.trim().is_empty();
        let comment = self.comments.iter().find(|comment| comment.contains(&end));
        is_bare.then(|| comment.map_or(end, |comment| comment.end))
    }

    /// The comma that follows a value before `limit`, needed or not.
    pub(super) fn comma_after(&self, value: &Range<usize>, limit: usize) -> Option<usize> {
        let needed = self.plain[value.end..limit].find(',').map(|n| value.end + n);
        needed.or_else(|| self.spare_commas.iter().copied().find(|comma| (value.end..limit).contains(comma)))
    }

    fn member(&self, start: usize) -> Member {
        let key = self.end_of_value(start);
        let colon = self.after_space(key);
        let value = self.after_space(colon + 1);
        Member {
            key: serde_json::from_str(&self.plain[start..key]).unwrap_or_default(),
            start,
            value: value..self.end_of_value(value),
        }
    }

    fn after_space(&self, from: usize) -> usize {
        let rest = &self.plain[from..];
        from + rest.len() - rest.trim_start().len()
    }

    /// The text is known to be JSON, so brackets and quotes are all that must be looked at.
    fn end_of_value(&self, from: usize) -> usize {
        let bytes = self.plain.as_bytes();
        let (mut at, mut depth) = (from, 0_usize);
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'"' => at = end_of_string(bytes, at),
                b'{' | b'[' => (at, depth) = (at + 1, depth + 1),
                b'}' | b']' => (at, depth) = (at + 1, depth.saturating_sub(1)),
                _ => at = end_of_word(bytes, at),
            }
            if depth == 0 {
                break;
            }
        }
        at
    }
}

fn end_of_string(bytes: &[u8], quote: usize) -> usize {
    let mut at = quote + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// A number, a word, or what stands between values.
fn end_of_word(bytes: &[u8], from: usize) -> usize {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    let length = bytes[from..].iter().take_while(|byte| is_part(byte)).count();
    from + length.max(1)
}

/// Spaces in the place of comments; a `//` within a string is none.
fn without_comments(text: &str) -> Result<JsonText, Refusal> {
    let bytes = text.as_bytes();
    let (mut plain, mut comments) = (bytes.to_vec(), Vec::new());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text.as_bytes()[at..];
        let end = match rest {
            [b'"', ..] => {
                at = end_of_string(bytes, at);
                continue;
            }
            [b'/', b'/', ..] => at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
            [b'/', b'*', ..] => at + end_of_block(rest).ok_or_else(|| unclosed(text, at))?,
            _ => {
                at += 1;
                continue;
            }
        };
        blank(&mut plain[at..end]);
        comments.push(at..end);
        at = end;
    }
    // Only whole comments were replaced, and ASCII by ASCII elsewhere.
    Ok(JsonText { plain: String::from_utf8(plain).unwrap_or_default(), comments, spare_commas: Vec::new() })
}

/// Spaces in the place of commas that nothing follows.
fn without_commas(json: JsonText) -> JsonText {
    let mut plain = json.plain.into_bytes();
    let (mut last_comma, mut spare_commas) = (None, Vec::new());
    let mut at = 0;
    while at < plain.len() {
        match plain[at] {
            b'"' => {
                last_comma = None;
                at = end_of_string(&plain, at);
                continue;
            }
            b',' => last_comma = Some(at),
            b'}' | b']' => {
                if let Some(comma) = last_comma.take() {
                    plain[comma] = b' ';
                    spare_commas.push(comma);
                }
            }
            byte if byte.is_ascii_whitespace() => {}
            _ => last_comma = None,
        }
        at += 1;
    }
    let plain = String::from_utf8(plain).unwrap_or_default();
    JsonText { plain, comments: json.comments, spare_commas }
}

/// Lines stay lines.
fn blank(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
}

fn end_of_block(comment: &[u8]) -> Option<usize> {
    comment[2..].windows(2).position(|pair| pair == b"*/").map(|n| n + 4)
}

fn unclosed(text: &str, at: usize) -> Refusal {
    let line = text[..at].matches('\n').count() + 1;
    Refusal { line, problem: "a comment that never ends".to_owned() }
}

/// The place is told apart from the reason.
fn reason(error: &serde_json::Error) -> String {
    let whole = error.to_string();
    whole.split(" at line ").next().unwrap_or_default().to_owned()
}
