//! Reads Rust as far as the checks need: comments and texts told from code, functions with their lines.

use std::ops::Range;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Text,
}

/// A function as written: its name and its lines, from `fn` to the closing brace.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function<'a> {
    pub(super) name: &'a str,
    /// Counted from 1.
    pub(super) first_line: usize,
    pub(super) n_lines: usize,
    pub(super) text: &'a str,
}

/// The text with comments blank; every character stays at its place.
pub(super) fn without_comments(text: &str) -> String {
    blanked(text, |kind| kind == Kind::Comment)
}

/// The text with the contents of texts and characters blank; comments stay.
pub(super) fn without_texts(text: &str) -> String {
    blanked(text, |kind| kind == Kind::Text)
}

/// The text with comments and the contents of texts and characters blank.
pub(super) fn code_alone(text: &str) -> String {
    blanked(text, |kind| kind != Kind::Code)
}

/// Every function that has a body, also those inside of others.
pub(super) fn functions(text: &str) -> Vec<Function<'_>> {
    let code = code_alone(text);
    words(&code)
        .filter(|(_, word)| *word == "fn")
        .filter_map(|(start, _)| {
            let (name_at, name) = words(&code[start + 2..]).next()?;
            let head = &code[start..];
            // `fn(..)` is a type.
            let is_named = head[2..2 + name_at].trim().is_empty();
            let open = body(head).filter(|_| is_named)?;
            let end = start + open + closing(&head[open..])?;
            let name = start + 2 + name_at..start + 2 + name_at + name.len();
            Some(Function {
                name: &text[name],
                first_line: text[..start].matches('\n').count() + 1,
                n_lines: text[start..end].lines().count(),
                text: &text[start..end],
            })
        })
        .collect()
}

/// Identifiers and keywords with their places.
pub(super) fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut at = 0;
    std::iter::from_fn(move || {
        at += code[at..].find(is_part)?;
        let n_bytes = code[at..].find(|c| !is_part(c)).unwrap_or(code.len() - at);
        let word = (at, &code[at..at + n_bytes]);
        at += n_bytes;
        Some(word)
    })
}

/// Where the body of a function begins; a declaration has none.
fn body(head: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in head.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '{' if depth == 0 => return Some(at),
            ';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// What lies behind the brace that closes the first one.
pub(super) fn closing(code: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in code.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return Some(at + 1),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn blanked(text: &str, is_blank: impl Fn(Kind) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for (kind, range) in pieces(text) {
        match is_blank(kind) {
            false => shown.push_str(&text[range]),
            // One space a byte, so that places stay.
            true => shown.extend(text[range].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' })),
        }
    }
    shown
}

fn pieces(text: &str) -> Vec<(Kind, Range<usize>)> {
    let mut pieces = Vec::new();
    let (mut code_from, mut at) = (0, 0);
    while let Some(c) = text[at..].chars().next() {
        let Some((kind, n_bytes)) = comment(&text[at..]).or_else(|| literal(text, at)) else {
            at += c.len_utf8();
            continue;
        };
        pieces.push((Kind::Code, code_from..at));
        pieces.push((kind, at..at + n_bytes));
        at += n_bytes;
        code_from = at;
    }
    pieces.push((Kind::Code, code_from..at));
    pieces
}

fn comment(rest: &str) -> Option<(Kind, usize)> {
    if rest.starts_with("//") {
        return Some((Kind::Comment, rest.find('\n').unwrap_or(rest.len())));
    }
    if !rest.starts_with("/*") {
        return None;
    }
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match rest.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    Some((Kind::Comment, at))
}

/// A text, raw or not, or a character; a lifetime is code.
fn literal(text: &str, at: usize) -> Option<(Kind, usize)> {
    let rest = &text[at..];
    let n_bytes = match rest.as_bytes() {
        [b'"', ..] => quoted(rest, '"'),
        [b'\'', b'\\', ..] => quoted(rest, '\''),
        [b'\'', ..] => {
            let c = rest[1..].chars().next()?;
            rest[1 + c.len_utf8()..].starts_with('\'').then(|| c.len_utf8() + 2)?
        }
        [b'r', b'"' | b'#', ..] if !is_in_word(text, at) => {
            let n_marks = rest[1..].bytes().take_while(|byte| *byte == b'#').count();
            let end = format!("\"{}", "#".repeat(n_marks));
            let content = rest[1 + n_marks..].strip_prefix('"')?;
            2 + n_marks + content.find(&end)? + end.len()
        }
        _ => return None,
    };
    Some((Kind::Text, n_bytes))
}

/// Is the `r` here the end of a word rather than the mark of a raw text? `br` and `cr` are marks too.
fn is_in_word(text: &str, at: usize) -> bool {
    let before = text[..at].trim_end_matches(['b', 'c']);
    before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

#[test]
fn comments_texts_and_characters_are_told_from_code() {
    let text = "a /* b /* c */ d */ e // f \"g\"\nh(\"i \\\" // j\", '\"', '\\'', r#\"k\"l\"#, br\"m\", &'n o) var\"p\"";
    let without = without_comments(text);
    assert_eq!(without.len(), text.len());
    let words_of = |code: &str| words(code).map(|(_, word)| word.to_owned()).collect::<Vec<_>>().join(" ");
    assert_eq!(words_of(&without), "a e h i j r k l br m n o var p");
    assert_eq!(words_of(&without_texts(text)), "a b c d e f g h b n o var");
    assert_eq!(words_of(&code_alone(text)), "a e h b n o var");
}

#[test]
fn functions_are_found_with_their_lines() {
    let text = "impl A {\n    fn one(&self, f: fn(u8) -> u8) -> [u8; 2] {\n        let brace = '{'; // }\n    }\n}\n\
        trait B {\n    fn none(&self);\n}\nfn two<'a>() where &'a (): C {}\nfn outer() {\n    fn inner() {\n    }\n}\n";
    let found: Vec<_> = functions(text).iter().map(|f| (f.name, f.first_line, f.n_lines)).collect();
    assert_eq!(found, [("one", 2, 3), ("two", 9, 1), ("outer", 10, 4), ("inner", 11, 2)]);
}
