//! Rules for text that people and models read: truncating, and removing unprintable characters.

/// Truncates at a character boundary and marks the cut; text that fits is unchanged.
pub fn cut(text: &str, max_chars: usize) -> String {
    if text.chars().count() <= max_chars {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(max_chars.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// Keeps the end of the text, at most this many bytes, from a character boundary on.
pub fn tail(text: &str, max_bytes: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(max_bytes))..]
}

/// Removes control characters, escape sequences' lead bytes and invisible characters; keeps line breaks and tabs.
pub fn printable(text: &str) -> String {
    let broken = text.chars().map(|c| if matches!(c, '\u{2028}' | '\u{2029}') { '\n' } else { c });
    broken.filter(|c| is_printable(*c)).collect()
}

/// One line for a table cell or a log field: printable, line breaks become spaces.
pub fn one_line(text: &str) -> String {
    let spaced: String = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    printable(&spaced).split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

pub fn is_printable(c: char) -> bool {
    matches!(c, '\n' | '\t') || !(c.is_control() || is_unseen(c))
}

/// Characters that hide text from people but not from models: those of the category Cf without a visible shape,
/// line separators, fillers, and variation selectors. U+FE0E and U+FE0F stay: emoji need them.
fn is_unseen(c: char) -> bool {
    matches!(
        c,
        '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}'..='\u{1160}' | '\u{17B4}'..='\u{17B5}'
            | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0D}' | '\u{FEFF}' | '\u{FFA0}'
            | '\u{FFF0}'..='\u{FFFB}' | '\u{13430}'..='\u{1343F}' | '\u{1BCA0}'..='\u{1BCA3}'
            | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_fits_is_not_cut() {
        assert_eq!(cut("héllo", 5), "héllo");
        assert_eq!(cut("héllo!", 5), "héll…");
    }

    #[test]
    fn the_end_of_a_text_breaks_no_character() {
        assert_eq!(tail("héllo", 9), "héllo");
        assert_eq!((tail("héllo", 5), tail("héllo", 4), tail("héllo", 0)), ("éllo", "llo", ""));
    }

    #[test]
    fn escape_sequences_and_hidden_marks_do_not_reach_people() {
        assert_eq!(printable("a\u{1b}[31mred\u{202E}x\u{200B}y\nz"), "a[31mredxy\nz");
        assert_eq!(one_line("  two\r\n  lines\there "), "two lines here");
    }

    #[test]
    fn text_that_only_models_can_see_is_removed_and_separators_break_lines() {
        let tagged: String =
            "ignore all".chars().filter_map(|c| char::from_u32(c as u32 + 0xE0000)).collect();
        assert_eq!(printable(&format!("a{tagged}b")), "ab");
        assert_eq!(
            (printable("a\u{2028}b\u{2029}c"), one_line("a\u{2028}b")),
            ("a\nb\nc".into(), "a b".into())
        );
        let unseen = [
            '\u{AD}',
            '\u{34F}',
            '\u{61C}',
            '\u{115F}',
            '\u{1160}',
            '\u{17B4}',
            '\u{17B5}',
            '\u{180B}',
            '\u{180E}',
            '\u{200D}',
            '\u{202E}',
            '\u{2060}',
            '\u{2065}',
            '\u{2069}',
            '\u{206F}',
            '\u{3164}',
            '\u{FE00}',
            '\u{FE0D}',
            '\u{FEFF}',
            '\u{FFA0}',
            '\u{FFF9}',
            '\u{FFFB}',
            '\u{13430}',
            '\u{1BCA0}',
            '\u{1D173}',
            '\u{E0000}',
            '\u{E0001}',
            '\u{E007F}',
            '\u{E0100}',
            '\u{E01EF}',
        ];
        assert_eq!(printable(&unseen.iter().collect::<String>()), "");
        let seen = "é ж 中 ع \u{600}\u{6DD} ❤\u{FE0F} a\u{301}";
        assert_eq!(printable(seen), seen);
    }
}
