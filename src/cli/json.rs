//! Formats JSON for people without changing its meaning, and without control characters for the terminal.

use std::fmt::Write;

use crate::domain::text::is_printable;

const INDENT: usize = 2;

/// Indents well-formed JSON. Order, numbers and strings stay as the server sent them; unprintable characters are
/// written as escapes of the same characters.
pub(crate) fn pretty(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut depth = 0;
    let mut rest = json.trim();
    while let Some(c) = rest.chars().next() {
        let mut taken = c.len_utf8();
        match c {
            '{' | '[' if is_empty(rest) => {
                out.push_str(if c == '{' { "{}" } else { "[]" });
                taken = rest.find(['}', ']']).map_or(rest.len(), |end| end + 1);
            }
            '{' | '[' => {
                depth += 1;
                out.push(c);
                new_line(&mut out, depth);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            '"' => {
                taken = string_length(rest);
                out.push_str(&safe(&rest[..taken]));
            }
            c if c.is_whitespace() => {}
            c => out.push(c),
        }
        rest = &rest[taken..];
    }
    out
}

/// One line of JSON, safe to print.
pub(crate) fn line(json: &str) -> String {
    let one_line: String = json.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    safe(&one_line)
}

fn is_empty(rest: &str) -> bool {
    rest[1..].trim_start().starts_with(['}', ']'])
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', depth * INDENT));
}

/// The length of the string that begins here, with both quotes.
fn string_length(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '"' if !escaped => return at + 1,
            c => escaped = c == '\\' && !escaped,
        }
    }
    rest.len()
}

/// A raw unprintable character can occur only in a string, where an escape means the same.
fn safe(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if !is_printable(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a String is infallible.
                let _written = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::{line, pretty};

    #[test]
    fn order_and_numbers_stay_as_they_were() {
        let sent = r#"{"b":1.50,"a":[1,{"x":"y, {z}: \"q\\"}], "e":[ ],"o":{},"n":null}"#;
        let shown = "{\n  \"b\": 1.50,\n  \"a\": [\n    1,\n    {\n      \"x\": \"y, {z}: \\\"q\\\\\"\n    }\n  ],\n  \"e\": [],\n  \"o\": {},\n  \"n\": null\n}";
        assert_eq!(pretty(sent), shown);
    }

    #[test]
    fn characters_that_do_not_print_become_escapes() {
        assert_eq!(line("{\"a\":\"x\u{9b}31m\u{202e}\"}\n"), r#"{"a":"x\u009b31m\u202e"}"#);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(|items| json!(items)),
                prop::collection::btree_map(any::<String>(), inner, 0..4).prop_map(|map| json!(map)),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_shown_says_the_same_as_what_was_sent(value in any_json()) {
            let sent = value.to_string();
            for shown in [pretty(&sent), line(&sent)] {
                prop_assert_eq!(&serde_json::from_str::<Value>(&shown).unwrap(), &value);
                prop_assert!(shown.chars().all(|c| c == '\n' || !c.is_control()));
            }
        }

        #[test]
        fn text_that_is_no_json_never_panics(text in ".{0,60}") {
            let _shown = (pretty(&text), line(&text));
        }
    }
}
