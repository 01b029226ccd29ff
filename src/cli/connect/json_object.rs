//! Sets and removes members of objects in a JSON text, leaving every other byte where it is.

use std::ops::Range;

use serde_json::Value;

use super::Refusal;
use super::json_text::{Comments, JsonText, Member};

/// One step to the right in a file that has none yet.
const INDENT: &str = "  ";

/// A text under change; an empty one becomes an empty object.
#[derive(Debug)]
pub(super) struct Document {
    text: String,
    comments: Comments,
}

/// An object and its members, with the one that was looked for.
struct Found {
    json: JsonText,
    object: Range<usize>,
    members: Vec<Member>,
    index: Option<usize>,
}

impl Document {
    pub(super) fn open(text: &str, comments: Comments) -> Result<Self, Refusal> {
        let text = if text.trim().is_empty() { "{}\n".to_owned() } else { text.to_owned() };
        let document = Self { text, comments };
        document.find(&[""]).map(|_| document)
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// The text of the value at this path of keys.
    pub(super) fn get(&self, path: &[&str]) -> Result<Option<String>, Refusal> {
        let found = self.find(path)?;
        Ok(found.index.map(|index| self.text[found.members[index].value.clone()].to_owned()))
    }

    /// Sets the member to a value written in lines without indentation; an equal one stays as it is written.
    pub(super) fn set(&mut self, path: &[&str], value: &str) -> Result<(), Refusal> {
        let found = self.find(path)?;
        let edits = match (found.index, path.last()) {
            (Some(index), _) => self.replaced(&found, index, value),
            (None, Some(key)) => self.added(&found, key, value),
            (None, None) => Vec::new(),
        };
        self.apply(edits);
        Ok(())
    }

    /// Removes the member if it is there.
    pub(super) fn cut(&mut self, path: &[&str]) -> Result<(), Refusal> {
        let found = self.find(path)?;
        if let Some(index) = found.index {
            self.apply(self.removed(&found, index));
            self.close_if_empty(&found.object);
        }
        Ok(())
    }

    fn find(&self, path: &[&str]) -> Result<Found, Refusal> {
        let json = JsonText::read(&self.text, self.comments)?;
        let mut object = json.whole();
        let mut name = "the file";
        for (depth, key) in path.iter().enumerate() {
            let members = json.members(&object).ok_or_else(|| self.not_an_object(&object, name))?;
            // Of a key given twice the last one counts, as it does for those who read the file.
            let index = members.iter().rposition(|member| member.key == *key);
            match index {
                Some(index) if depth + 1 < path.len() => {
                    object = members[index].value.clone();
                    name = key;
                }
                Some(_) | None => return Ok(Found { json, object, members, index }),
            }
        }
        Err(self.not_an_object(&object, name))
    }

    fn not_an_object(&self, place: &Range<usize>, name: &str) -> Refusal {
        let line = self.text[..place.start].matches('\n').count() + 1;
        Refusal { line, problem: format!("{name} is not an object in braces") }
    }

    fn replaced(&self, found: &Found, index: usize, value: &str) -> Vec<Edit> {
        let Member { value: place, start, .. } = &found.members[index];
        let read = |text: &str| serde_json::from_str::<Value>(text).ok();
        if read(&found.json.plain()[place.clone()]) == read(value) {
            return Vec::new();
        }
        vec![Edit { place: place.clone(), text: self.indented(value, self.indent_at(*start)) }]
    }

    fn added(&self, found: &Found, key: &str, value: &str) -> Vec<Edit> {
        let member = |indent: &str| format!("{}: {}", Value::from(key), self.indented(value, indent));
        let Some(last) = found.members.last() else { return self.first_added(&found.object, member) };
        let comma = found.json.comma_after(&last.value, found.object.end);
        let after = comma.map_or(last.value.end, |comma| comma + 1);
        let comma = match comma {
            Some(_) => Vec::new(),
            None => vec![Edit::insert(last.value.end, ",".to_owned())],
        };
        let line = found.json.end_of_bare_line(after).filter(|_| self.begins_line(last.start));
        let added = match line {
            Some(end) => {
                let indent = self.indent_at(last.start);
                Edit::insert(end, format!("{}{indent}{}", self.newline(), member(indent)))
            }
            None => Edit::insert(after, format!(" {}", member(self.indent_at(last.start)))),
        };
        comma.into_iter().chain([added]).collect()
    }

    fn first_added(&self, object: &Range<usize>, member: impl Fn(&str) -> String) -> Vec<Edit> {
        let inner = object.start + 1..object.end - 1;
        let written = self.text[inner.clone()].trim_end().len();
        let outer = self.indent_at(object.start);
        let indent = format!("{outer}{}", self.unit());
        let newline = self.newline();
        let text = format!("{newline}{indent}{}{newline}{outer}", member(&indent));
        vec![Edit { place: inner.start + written..inner.end, text }]
    }

    fn removed(&self, found: &Found, index: usize) -> Vec<Edit> {
        let member = &found.members[index];
        let limit = found.members.get(index + 1).map_or(found.object.end, |next| next.start);
        let end = found.json.comma_after(&member.value, limit).map_or(member.value.end, |comma| comma + 1);
        let line = found.json.end_of_bare_line(end).filter(|_| self.begins_line(member.start));
        let is_last = index + 1 == found.members.len();
        let before = found.members[..index].last().filter(|_| is_last);
        // What now is the last one has no comma any more.
        let comma = before.and_then(|before| found.json.comma_after(&before.value, member.start));
        match (line, comma) {
            (Some(end), comma) => {
                let start = self.text[..self.line_start(member.start)].trim_end_matches(['\n', '\r']).len();
                comma
                    .map(|comma| Edit::delete(comma..comma + 1))
                    .into_iter()
                    .chain([Edit::delete(start..end)])
                    .collect()
            }
            (None, Some(comma)) => vec![Edit::delete(comma..end)],
            (None, None) => {
                let n_spaces = self.text[end..].len() - self.text[end..].trim_start_matches(' ').len();
                vec![Edit::delete(member.start..end + n_spaces)]
            }
        }
    }

    /// An object from which the last member went closes on its own line.
    fn close_if_empty(&mut self, object: &Range<usize>) {
        let inside = &self.text[object.start + 1..];
        let space = inside.len() - inside.trim_start().len();
        if inside.trim_start().starts_with('}') {
            let place = object.start + 1..object.start + 1 + space;
            self.apply(vec![Edit::delete(place)]);
        }
    }

    /// Edits are in the order of their places and do not overlap.
    fn apply(&mut self, edits: Vec<Edit>) {
        for edit in edits.into_iter().rev() {
            self.text.replace_range(edit.place, &edit.text);
        }
    }

    fn indented(&self, value: &str, indent: &str) -> String {
        value.replace('\n', &format!("{}{indent}", self.newline()))
    }

    fn newline(&self) -> &'static str {
        if self.text.contains("\r\n") { "\r\n" } else { "\n" }
    }

    /// One step to the right as the file has it.
    fn unit(&self) -> &str {
        let mut indents = self.text.match_indices('\n').map(|(at, _)| self.indent_at(at + 1));
        indents.find(|indent| !indent.is_empty()).unwrap_or(INDENT)
    }

    fn line_start(&self, at: usize) -> usize {
        self.text[..at].rfind('\n').map_or(0, |n| n + 1)
    }

    fn indent_at(&self, at: usize) -> &str {
        let line = &self.text[self.line_start(at)..];
        &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
    }

    fn begins_line(&self, at: usize) -> bool {
        let start = self.line_start(at);
        start > 0 && self.text[start..at].trim().is_empty()
    }
}

/// Text to stand in a place; an empty place is an insertion.
#[derive(Debug)]
struct Edit {
    place: Range<usize>,
    text: String,
}

impl Edit {
    fn insert(at: usize, text: String) -> Self {
        Self { place: at..at, text }
    }

    fn delete(place: Range<usize>) -> Self {
        Self { place, text: String::new() }
    }
}
