//! Adds our entry to a TOML file and removes it, keeping comments and order.

use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value, value};

use super::entry::{Entry, Field};
use super::{NAME, Refusal};

pub(super) fn with(text: &str, section: &str, entry: &Entry) -> Result<String, Refusal> {
    let mut document = read(text)?;
    let servers = document.entry(section).or_insert_with(|| Item::Table(implicit()));
    let is_inline = servers.is_inline_table();
    let servers = servers.as_table_like_mut().ok_or_else(|| not_a_table(text, section))?;
    let ours = servers.entry(NAME).or_insert_with(|| fresh(is_inline));
    let ours = ours.as_table_like_mut().ok_or_else(|| not_a_table(text, NAME))?;
    for key in entry.obsolete {
        ours.remove(key);
    }
    for (key, field) in &entry.fields {
        put(ours, key, written(field));
    }
    Ok(in_lines_of(text, &document))
}

pub(super) fn without(text: &str, section: &str) -> Result<String, Refusal> {
    let mut document = read(text)?;
    let servers = document.get_mut(section).and_then(Item::as_table_like_mut);
    match servers.and_then(|servers| servers.remove(NAME)) {
        Some(_) => Ok(in_lines_of(text, &document)),
        None => Ok(text.to_owned()),
    }
}

/// Keeps the file's line endings: the parser writes only one kind.
fn in_lines_of(text: &str, document: &DocumentMut) -> String {
    let written = document.to_string();
    if text.contains("\r\n") { written.replace("\r\n", "\n").replace('\n', "\r\n") } else { written }
}

/// Our entry as it is in the file.
pub(super) fn found(text: &str, section: &str) -> Result<Option<String>, Refusal> {
    let document = read(text)?;
    let ours = document.get(section).and_then(|servers| servers.get(NAME));
    Ok(ours.map(Item::to_string))
}

fn read(text: &str) -> Result<DocumentMut, Refusal> {
    text.parse::<DocumentMut>().map_err(|error| {
        let start = error.span().map_or(0, |span| span.start.min(text.len()));
        let line = text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count() + 1;
        Refusal { line, problem: error.message().lines().next().unwrap_or_default().to_owned() }
    })
}

/// A table without a header of its own: only its subtables have one.
fn implicit() -> Table {
    let mut table = Table::new();
    table.set_implicit(true);
    table
}

fn fresh(is_inline: bool) -> Item {
    if is_inline { value(InlineTable::new()) } else { Item::Table(Table::new()) }
}

/// An equal value keeps its formatting.
fn put(table: &mut dyn TableLike, key: &str, fresh: Value) {
    let plain = |value: &Value| value.clone().decorated("", "").to_string();
    let is_equal = table.get(key).and_then(Item::as_value).is_some_and(|old| plain(old) == plain(&fresh));
    if !is_equal {
        table.insert(key, Item::Value(fresh));
    }
}

fn written(field: &Field) -> Value {
    match field {
        Field::Text(text) => text.as_str().into(),
        Field::Number(number) => (*number).into(),
        Field::List(items) => items.iter().collect::<Array>().into(),
        Field::Map(pairs) => {
            pairs.iter().map(|(key, value)| (*key, value.as_str())).collect::<InlineTable>().into()
        }
    }
}

fn not_a_table(text: &str, key: &str) -> Refusal {
    let line = text.lines().position(|line| line.trim_start().starts_with(key)).unwrap_or(0) + 1;
    Refusal { line, problem: format!("{key} is not a table") }
}

#[cfg(test)]
#[path = "in_toml_tests.rs"]
mod tests;
