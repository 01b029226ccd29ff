//! Rules for text that people and models see: cutting to a length, removing what does not print.

/// Cuts at a character boundary and marks the cut; text that fits is returned as it is.
pub fn cut(text: &str, max_chars: usize) -> String {
    if text.chars().count() <= max_chars {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(max_chars.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// Removes control characters, escape sequences' lead bytes, bidi and zero-width marks; keeps line breaks and tabs.
pub fn printable(text: &str) -> String {
    text.chars().filter(|c| is_printable(*c)).collect()
}

/// One line for a table cell or a log field: printable, line breaks become spaces.
pub fn one_line(text: &str) -> String {
    let spaced: String = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    printable(&spaced).split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

fn is_printable(c: char) -> bool {
    match c {
        '\n' | '\t' => true,
        '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}' => false,
        c => !c.is_control(),
    }
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
    fn escape_sequences_and_hidden_marks_do_not_reach_people() {
        assert_eq!(printable("a\u{1b}[31mred\u{202E}x\u{200B}y\nz"), "a[31mredxy\nz");
        assert_eq!(one_line("  two\r\n  lines\there "), "two lines here");
    }
}
