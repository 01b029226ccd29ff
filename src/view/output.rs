//! Output of programs as text for JSON, cut at character boundaries, so that joined pages are complete.

/// A text and the number of bytes that it represents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) text: String,
    pub(super) n_bytes: usize,
}

/// The longest text within `chars` characters of JSON. Invalid UTF-8 becomes U+FFFD; an incomplete character at the
/// end is left for the next page, unless `is_all`.
pub(super) fn cut(bytes: &[u8], chars: usize, is_all: bool) -> Cut {
    let mut cut = Cut { text: String::new(), n_bytes: 0 };
    let mut room = chars;
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if !cut.push(c, c.len_utf8(), &mut room) {
                return cut;
            }
        }
        let invalid = chunk.invalid();
        let may_go_on = cut.n_bytes + invalid.len() == bytes.len() && !is_all;
        let is_over = invalid.is_empty() || may_go_on;
        if !is_over && !cut.push(char::REPLACEMENT_CHARACTER, invalid.len(), &mut room) {
            return cut;
        }
    }
    cut
}

impl Cut {
    fn push(&mut self, c: char, n_bytes: usize, room: &mut usize) -> bool {
        let Some(left) = room.checked_sub(json_chars(c)) else { return false };
        *room = left;
        self.text.push(c);
        self.n_bytes += n_bytes;
        true
    }
}

/// The number of characters of JSON for `c`.
fn json_chars(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        c if c < ' ' => 6,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_cut_in_the_middle_of_a_character_waits_for_the_rest() {
        let bytes = "aé".as_bytes();
        assert_eq!(cut(&bytes[..2], 10, false), Cut { text: "a".into(), n_bytes: 1 });
        assert_eq!(cut(&bytes[..2], 10, true), Cut { text: "a\u{fffd}".into(), n_bytes: 2 });
        assert_eq!(cut(b"a\xffb", 10, false), Cut { text: "a\u{fffd}b".into(), n_bytes: 3 });
        assert_eq!(cut(b"\x01\"ab", 9, true), Cut { text: "\u{1}\"a".into(), n_bytes: 3 });
        assert_eq!(cut(b"", 0, true), Cut { text: String::new(), n_bytes: 0 });
    }

    proptest! {
        #[test]
        fn pages_put_together_are_the_whole_text(text in ".{0,200}", page in 4..40_usize, chars in 6..30_usize) {
            let bytes = text.as_bytes();
            let (mut at, mut all) = (0, String::new());
            while at < bytes.len() {
                let end = (at + page).min(bytes.len());
                let cut = cut(&bytes[at..end], chars, end == bytes.len());
                prop_assert!(serde_json::to_string(&cut.text).unwrap().chars().count() <= chars + 2);
                prop_assert!(cut.n_bytes > 0);
                at += cut.n_bytes;
                all.push_str(&cut.text);
            }
            prop_assert_eq!(all, text);
        }
    }
}
