//! Puts our entry into a JSON file and takes it out.

use serde_json::{Value, json};

use super::entry::{Entry, Field};
use super::json_object::Document;
use super::json_text::Comments;
use super::{NAME, Refusal};

pub(super) fn with(text: &str, comments: Comments, section: &str, entry: &Entry) -> Result<String, Refusal> {
    let mut document = Document::open(text, comments)?;
    if document.get(&[section])?.is_none() {
        document.set(&[section], "{}")?;
    }
    if document.get(&[section, NAME])?.is_none() {
        document.set(&[section, NAME], "{}")?;
    }
    // Field by field, so that what the user has added to our entry stays.
    for key in entry.obsolete {
        document.cut(&[section, NAME, key])?;
    }
    for (key, field) in &entry.fields {
        document.set(&[section, NAME, key], &written(field))?;
    }
    Ok(document.into_text())
}

pub(super) fn without(text: &str, comments: Comments, section: &str) -> Result<String, Refusal> {
    if found(text, comments, section)?.is_none() {
        return Ok(text.to_owned());
    }
    let mut document = Document::open(text, comments)?;
    document.cut(&[section, NAME])?;
    Ok(document.into_text())
}

/// Our entry as it is written there.
pub(super) fn found(text: &str, comments: Comments, section: &str) -> Result<Option<String>, Refusal> {
    let document = Document::open(text, comments)?;
    match document.get(&[section])? {
        Some(_) => document.get(&[section, NAME]),
        None => Ok(None),
    }
}

fn written(field: &Field) -> String {
    let value = match field {
        Field::Text(text) => json!(text),
        Field::Number(number) => json!(number),
        Field::List(items) => json!(items),
        Field::Map(pairs) => pairs.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect(),
    };
    match &value {
        Value::Array(items) => {
            format!("[{}]", items.iter().map(Value::to_string).collect::<Vec<_>>().join(", "))
        }
        other => format!("{other:#}"),
    }
}

#[cfg(test)]
#[path = "in_json_tests.rs"]
mod tests;
