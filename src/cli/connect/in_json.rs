//! Adds our entry to a JSON file and removes it, keeping the user's comments and layout.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::entry::{Entry, Field};
use super::{NAME, Refusal};

/// Whether a client accepts comments and trailing commas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comments {
    Refused,
    Kept,
}

pub(super) fn with(text: &str, comments: Comments, section: &str, entry: &Entry) -> Result<String, Refusal> {
    let root = read(if text.trim().is_empty() { "{}\n" } else { text }, comments)?;
    let servers = object_or_new(&whole(&root)?, section)?;
    let ours = object_or_new(&servers, NAME)?;
    // Field by field, so that fields added by the user stay.
    for key in entry.obsolete {
        if let Some(field) = member(&ours, key) {
            field.remove();
        }
    }
    for (key, field) in &entry.fields {
        set(&ours, key, field);
    }
    Ok(root.to_string())
}

pub(super) fn without(text: &str, comments: Comments, section: &str) -> Result<String, Refusal> {
    let root = read(text, comments)?;
    match entry_in(&root, section)? {
        Some(ours) => {
            ours.remove();
            Ok(root.to_string())
        }
        None => Ok(text.to_owned()),
    }
}

/// Our entry as it is in the file.
pub(super) fn found(text: &str, comments: Comments, section: &str) -> Result<Option<String>, Refusal> {
    let ours = entry_in(&read(text, comments)?, section)?;
    Ok(ours.and_then(|ours| ours.value()).map(|value| value.to_string()))
}

fn entry_in(root: &CstRootNode, section: &str) -> Result<Option<CstObjectProp>, Refusal> {
    if root.value().is_none() {
        return Ok(None);
    }
    match member(&whole(root)?, section) {
        Some(servers) => Ok(member(&object(servers.value().as_ref(), section)?, NAME)),
        None => Ok(None),
    }
}

fn read(text: &str, comments: Comments) -> Result<CstRootNode, Refusal> {
    if comments == Comments::Refused && !text.trim().is_empty() {
        check_plain(text)?;
    }
    let jsonc = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    CstRootNode::parse(text, &jsonc)
        .map_err(|error| Refusal { line: error.line_display(), problem: error.kind().to_string() })
}

/// The parser accepts some comments regardless of its options.
fn check_plain(text: &str) -> Result<(), Refusal> {
    let Err(error) = serde_json::from_str::<IgnoredAny>(text) else { return Ok(()) };
    let whole = error.to_string();
    let problem = whole.split(" at line ").next().unwrap_or_default().to_owned();
    Err(Refusal { line: error.line().max(1), problem })
}

fn whole(root: &CstRootNode) -> Result<CstObject, Refusal> {
    object(root.value().as_ref(), "the file")
}

fn object(value: Option<&CstNode>, name: &str) -> Result<CstObject, Refusal> {
    match value.and_then(CstNode::as_object) {
        Some(object) => Ok(object),
        None => {
            let problem = format!("{name} is not an object in braces");
            Err(Refusal { line: value.map_or(1, line_of), problem })
        }
    }
}

fn object_or_new(parent: &CstObject, key: &str) -> Result<CstObject, Refusal> {
    let known = member(parent, key);
    let member = known.unwrap_or_else(|| parent.append(key, CstInputValue::Object(Vec::new())));
    object(member.value().as_ref(), key)
}

/// Of a repeated key the last one counts, as it does for the clients.
fn member(object: &CstObject, key: &str) -> Option<CstObjectProp> {
    object.properties().into_iter().rev().find(|member| member.decoded_name().as_deref() == Some(key))
}

/// An equal value keeps its formatting.
fn set(object: &CstObject, key: &str, field: &Field) {
    match member(object, key) {
        Some(known) if known.to_serde_value() == Some(meaning(field)) => {}
        Some(known) => known.set_value(written(field)),
        None => drop(object.append(key, written(field))),
    }
}

fn meaning(field: &Field) -> Value {
    match field {
        Field::Text(text) => json!(text),
        Field::Number(number) => json!(number),
        Field::List(items) => json!(items),
        Field::Map(pairs) => pairs.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect(),
    }
}

fn written(field: &Field) -> CstInputValue {
    match field {
        Field::Text(text) => text.as_str().into(),
        Field::Number(number) => CstInputValue::Number(number.to_string()),
        Field::List(items) => items.clone().into(),
        Field::Map(pairs) => {
            let pair = |(key, value): &(&str, String)| ((*key).to_owned(), value.as_str().into());
            CstInputValue::Object(pairs.iter().map(pair).collect())
        }
    }
}

/// Nodes have no positions, so the lines before one are counted.
fn line_of(node: &CstNode) -> usize {
    let lines_before = |node: &CstNode| -> usize {
        node.previous_siblings().map(|sibling| sibling.to_string().matches('\n').count()).sum()
    };
    let above = node.ancestors().map(|ancestor| lines_before(&ancestor.into()));
    1 + lines_before(node) + above.sum::<usize>()
}

#[cfg(test)]
#[path = "in_json_tests.rs"]
mod tests;
