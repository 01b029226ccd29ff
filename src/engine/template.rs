//! Command templates: a text file with one argument per line, never interpreted by a shell.
//!
//! Lines are split before values are inserted, so a value with line breaks or placeholders stays one argument.

use std::collections::BTreeMap;

use thiserror::Error;

/// The limit of Linux, without the terminating zero byte.
pub const MAX_ARGUMENT: usize = 128 * 1024 - 1;
const OPEN: &str = "<%";
const CLOSE: &str = "%>";

/// The variables of a template and their values.
pub type Values = BTreeMap<String, String>;

/// A parsed template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    lines: Vec<TemplateLine>,
}

/// A process to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    pub program: String,
    pub arguments: Vec<String>,
}

#[derive(Debug, Error, PartialEq, Eq)]
pub enum TemplateError {
    #[error("the template has no line that names a program")]
    Empty,
    #[error("line {line} of the template: '<%' without '%>'; close the placeholder")]
    Unclosed { line: usize },
    #[error("line {line} of the template: '{inside}' is not a variable; write <% name %>")]
    NotAName { line: usize, inside: String },
    #[error("line {line} of the template: '<% if … %>' and '<% end %>' must stand on lines of their own")]
    NotAlone { line: usize },
    #[error("line {line} of the template: '<% end %>' without '<% if … %>'")]
    NothingToEnd { line: usize },
    #[error("line {line} of the template: '<% if … %>' without '<% end %>'")]
    Endless { line: usize },
    #[error("line {line} of the template: there is no variable '{name}'; there are: {known}")]
    Unknown { line: usize, name: String, known: String },
    #[error(
        "line {line} of the template: the argument has {n_bytes} bytes, and at most {MAX_ARGUMENT} are \
        possible; remove the prompt from the template to pass it on standard input"
    )]
    TooLong { line: usize, n_bytes: usize },
    #[error("line {line} of the template: an argument cannot contain a zero byte")]
    ZeroByte { line: usize },
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct TemplateLine {
    number: usize,
    content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    Argument(Vec<Part>),
    If(String),
    End,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Variable(String),
}

impl Template {
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let numbered = text.lines().map(str::trim).enumerate().map(|(index, line)| (index + 1, line));
        let relevant = numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let lines =
            relevant.map(|(number, line)| Ok(TemplateLine { number, content: content(number, line)? }));
        let template = Self { lines: lines.collect::<Result<_, _>>()? };
        template.check_nesting()?;
        let is_argument = |line: &TemplateLine| matches!(line.content, Content::Argument(_));
        if template.lines.iter().any(is_argument) { Ok(template) } else { Err(TemplateError::Empty) }
    }

    /// Whether an argument contains this variable; if so, it does not go to standard input.
    pub fn inserts(&self, name: &str) -> bool {
        let variable = Part::Variable(name.to_owned());
        self.lines.iter().any(|line| match &line.content {
            Content::Argument(parts) => parts.contains(&variable),
            Content::If(_) | Content::End => false,
        })
    }

    /// Refuses unknown variables before any process starts.
    pub fn check(&self, known: &[&str]) -> Result<(), TemplateError> {
        let values = known.iter().map(|name| ((*name).to_owned(), String::new())).collect();
        self.names().try_for_each(|(line, name)| value(&values, line, name).map(drop))
    }

    /// Inserts the values, unescaped.
    pub fn render(&self, values: &Values) -> Result<Rendered, TemplateError> {
        let mut arguments = Vec::new();
        // The enclosing conditions, and whether each holds.
        let mut conditions: Vec<bool> = Vec::new();
        for TemplateLine { number, content } in &self.lines {
            match content {
                Content::If(name) => conditions.push(!value(values, *number, name)?.is_empty()),
                Content::End => drop(conditions.pop()),
                Content::Argument(parts) => {
                    let argument = fill(values, *number, parts)?;
                    if conditions.iter().all(|holds| *holds) {
                        arguments.push(fitting(*number, argument)?);
                    }
                }
            }
        }
        let mut arguments = arguments.into_iter();
        let program = arguments.next().filter(|program| !program.is_empty()).ok_or(TemplateError::Empty)?;
        Ok(Rendered { program, arguments: arguments.collect() })
    }

    fn names(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines.iter().flat_map(|line| {
            let names: Vec<&str> = match &line.content {
                Content::If(name) => vec![name],
                Content::End => Vec::new(),
                Content::Argument(parts) => parts.iter().filter_map(Part::variable).collect(),
            };
            names.into_iter().map(|name| (line.number, name))
        })
    }

    fn check_nesting(&self) -> Result<(), TemplateError> {
        let mut open = Vec::new();
        for line in &self.lines {
            match line.content {
                Content::If(_) => open.push(line.number),
                Content::End => {
                    open.pop().ok_or(TemplateError::NothingToEnd { line: line.number })?;
                }
                Content::Argument(_) => {}
            }
        }
        open.pop().map_or(Ok(()), |line| Err(TemplateError::Endless { line }))
    }
}

impl Part {
    fn variable(&self) -> Option<&str> {
        match self {
            Self::Variable(name) => Some(name),
            Self::Text(_) => None,
        }
    }
}

fn content(number: usize, line: &str) -> Result<Content, TemplateError> {
    let mut parts = Vec::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once(OPEN) {
        let (inside, after) = after.split_once(CLOSE).ok_or(TemplateError::Unclosed { line: number })?;
        let is_alone = parts.is_empty() && before.is_empty() && after.is_empty();
        let words: Vec<&str> = inside.trim_start_matches('=').split_whitespace().collect();
        match words[..] {
            ["end"] if is_alone => return Ok(Content::End),
            ["if", name] if is_alone && is_name(name) => return Ok(Content::If(name.to_owned())),
            ["end"] | ["if", _] => return Err(TemplateError::NotAlone { line: number }),
            [name] if is_name(name) => {
                parts.extend([Part::Text(before.to_owned()), Part::Variable(name.to_owned())]);
            }
            _ => return Err(TemplateError::NotAName { line: number, inside: inside.trim().to_owned() }),
        }
        rest = after;
    }
    parts.push(Part::Text(rest.to_owned()));
    Ok(Content::Argument(parts))
}

fn is_name(word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && word.chars().all(is_part)
}

fn fill(values: &Values, line: usize, parts: &[Part]) -> Result<String, TemplateError> {
    let part = |part: &Part| match part {
        Part::Text(text) => Ok(text.clone()),
        Part::Variable(name) => value(values, line, name).map(str::to_owned),
    };
    parts.iter().map(part).collect()
}

fn value<'a>(values: &'a Values, line: usize, name: &str) -> Result<&'a str, TemplateError> {
    let unknown = || TemplateError::Unknown {
        line,
        name: name.to_owned(),
        known: values.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
    };
    values.get(name).map(String::as_str).ok_or_else(unknown)
}

fn fitting(line: usize, argument: String) -> Result<String, TemplateError> {
    if argument.len() > MAX_ARGUMENT {
        return Err(TemplateError::TooLong { line, n_bytes: argument.len() });
    }
    if argument.contains('\0') { Err(TemplateError::ZeroByte { line }) } else { Ok(argument) }
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
