//! Prints one object in full: one name and value per line, empty values omitted.

use super::tone::Tone;
use crate::domain::text::one_line;

#[derive(Debug)]
pub(crate) struct Field {
    name: &'static str,
    value: String,
}

/// Untrusted text, made one printable line.
pub(crate) fn field(name: &'static str, text: impl AsRef<str>) -> Field {
    Field { name, value: one_line(text.as_ref()) }
}

pub(crate) fn optional(name: &'static str, text: Option<&str>) -> Field {
    field(name, text.unwrap_or_default())
}

pub(crate) fn toned(name: &'static str, tone: Option<Tone>, text: impl AsRef<str>) -> Field {
    let Field { name, value } = field(name, text);
    let value = match tone {
        Some(tone) if !value.is_empty() => tone.paint(&value),
        Some(_) | None => value,
    };
    Field { name, value }
}

/// Lines with the values aligned in one column.
pub(crate) fn render(fields: &[Field]) -> String {
    let shown: Vec<&Field> = fields.iter().filter(|field| !field.value.is_empty()).collect();
    let width = shown.iter().map(|field| field.name.len()).max().unwrap_or_default();
    let lines: Vec<String> =
        shown.iter().map(|Field { name, value }| format!("{name:width$}  {value}")).collect();
    lines.join("\n")
}
