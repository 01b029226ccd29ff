//! Shortens the JSON of an answer: cuts long texts to equal lengths and removes optional parts.

use serde_json::Value;

use crate::domain::text;

/// Keys joined by dots, which select values of an answer: `*` selects every element of an array and every value of an
/// object, `key?` continues only if that key of the object is true.
pub(crate) type Path = &'static str;

/// Lengths tried for long texts, in characters, longest first.
const LENGTHS: [usize; 13] =
    [1 << 17, 1 << 16, 32_000, 16_000, 8_000, 4_000, 2_000, 1_000, 500, 250, 120, 60, SHORTEST];
const SHORTEST: usize = 30;
/// The part of an answer that is reserved for paged texts, even if other texts need more.
const PAGES_SHARE: usize = 8;
/// The field beside a page that tells whether more of it exists.
const PAGE_IS_CUT: &str = "truncated";

/// Shortens the values at one path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    path: Path,
    action: Action,
    /// Values with at most this many characters of JSON stay unchanged.
    over: usize,
}

#[derive(Debug, Clone, Copy)]
enum Action {
    /// The key is absent afterwards.
    Remove,
    /// The key stays, with null.
    Null,
    /// The text or array becomes empty.
    Clear,
    /// The array or object keeps at most this many entries.
    First(usize),
    /// The text keeps at most this many characters, the last of which marks the cut.
    Excerpt(usize),
    /// The page becomes empty and is marked as incomplete.
    DropPage,
}

impl Step {
    pub(crate) const fn remove(path: Path) -> Self {
        Self::new(path, Action::Remove)
    }

    pub(crate) const fn null(path: Path) -> Self {
        Self::new(path, Action::Null)
    }

    pub(crate) const fn clear(path: Path) -> Self {
        Self::new(path, Action::Clear)
    }

    pub(crate) const fn first(path: Path, n: usize) -> Self {
        Self::new(path, Action::First(n))
    }

    pub(crate) const fn excerpt(path: Path, n_chars: usize) -> Self {
        Self::new(path, Action::Excerpt(n_chars))
    }

    pub(crate) const fn drop_page(path: Path) -> Self {
        Self::new(path, Action::DropPage)
    }

    /// Applies only to values with more characters of JSON.
    pub(crate) const fn if_over(self, n_chars: usize) -> Self {
        Self { over: n_chars, ..self }
    }

    const fn new(path: Path, action: Action) -> Self {
        Self { path, action, over: 0 }
    }

    #[cfg(test)]
    pub(crate) fn path(&self) -> Path {
        self.path
    }

    pub(crate) fn apply(&self, answer: &mut Value) {
        match self.action {
            Action::Remove => remove(answer, self.path, self.over),
            Action::DropPage => cut_page(answer, self.path, 0),
            Action::Null => self.change(answer, |value| *value = Value::Null),
            Action::Clear => self.change(answer, |value| keep_first(value, 0)),
            Action::First(n) => self.change(answer, |value| keep_first(value, n)),
            Action::Excerpt(n) => self.change(answer, |value| {
                if let Value::String(text) = value {
                    *text = text::cut(text, n);
                }
            }),
        }
    }

    fn change(&self, answer: &mut Value, change: impl Fn(&mut Value)) {
        let is_over = |value: &Value| self.over == 0 || n_chars(value) > self.over;
        each(answer, self.path, &mut |value| {
            if is_over(value) {
                change(value);
            }
        });
    }
}

/// The number of characters of an answer's JSON.
pub(crate) fn n_chars(answer: &Value) -> usize {
    answer.to_string().chars().count()
}

/// Removes the first characters of the texts at these paths.
pub(crate) fn skip(answer: &mut Value, texts: &[Path], n: usize) {
    if n > 0 {
        each_text(answer, texts, &mut |text| *text = text.chars().skip(n).collect());
    }
}

/// Cuts the texts at these paths to one length: the longest with which the answer has at most `most` characters, else
/// the shortest. Returns that length.
pub(crate) fn cut_texts(answer: &mut Value, texts: &[Path], most: usize) -> usize {
    for length in LENGTHS {
        each_text(answer, texts, &mut |text| truncate(text, length));
        if n_chars(answer) <= most {
            return length;
        }
    }
    SHORTEST
}

/// Cuts paged texts until the answer has at most `most` characters. They keep a reserved part even if other texts need
/// more, because those can be cut too.
pub(crate) fn cut_pages(answer: &mut Value, pages: &[Path], most: usize) {
    if pages.is_empty() || n_chars(answer) <= most {
        return;
    }
    let mut bare = answer.clone();
    pages.iter().for_each(|page| cut_page(&mut bare, page, 0));
    let most = most.max(n_chars(&bare).saturating_add(most / PAGES_SHARE));
    for length in LENGTHS.into_iter().chain([0]) {
        pages.iter().for_each(|page| cut_page(answer, page, length));
        if n_chars(answer) <= most {
            return;
        }
    }
}

fn cut_page(answer: &mut Value, page: Path, length: usize) {
    let (parent, key) = split(page);
    each(answer, parent, &mut |parent| {
        let Some(Value::String(text)) = parent.get_mut(key) else { return };
        let n_bytes = text.len();
        truncate(text, length);
        if text.len() < n_bytes {
            parent[PAGE_IS_CUT] = Value::Bool(true);
        }
    });
}

fn remove(answer: &mut Value, path: Path, over: usize) {
    let (parent, key) = split(path);
    each(answer, parent, &mut |parent| {
        let is_over = |value: &Value| over == 0 || n_chars(value) > over;
        if let Value::Object(object) = parent
            && object.get(key).is_some_and(is_over)
        {
            object.remove(key);
        }
    });
}

fn keep_first(value: &mut Value, n: usize) {
    match value {
        Value::String(text) => truncate(text, n),
        Value::Array(items) => items.truncate(n),
        Value::Object(object) => *object = std::mem::take(object).into_iter().take(n).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn truncate(text: &mut String, n_chars: usize) {
    if let Some((end, _)) = text.char_indices().nth(n_chars) {
        text.truncate(end);
    }
}

/// Splits a path into the object's path and the key.
fn split(path: Path) -> (Path, &'static str) {
    path.rsplit_once('.').unwrap_or(("", path))
}

fn each_text(answer: &mut Value, texts: &[Path], change: &mut dyn FnMut(&mut String)) {
    for path in texts {
        each(answer, path, &mut |value| {
            if let Value::String(text) = value {
                change(text);
            }
        });
    }
}

/// Calls `change` for every value at the path.
fn each(value: &mut Value, path: &str, change: &mut dyn FnMut(&mut Value)) {
    if path.is_empty() {
        return change(value);
    }
    let (key, rest) = path.split_once('.').unwrap_or((path, ""));
    match value {
        Value::Array(items) if key == "*" => items.iter_mut().for_each(|item| each(item, rest, change)),
        Value::Object(object) if key == "*" => {
            object.values_mut().for_each(|inner| each(inner, rest, change));
        }
        Value::Object(object) => match key.strip_suffix('?') {
            Some(guard) if object.get(guard) == Some(&Value::Bool(true)) => each(value, rest, change),
            Some(_) => {}
            None => {
                if let Some(inner) = object.get_mut(key) {
                    each(inner, rest, change);
                }
            }
        },
        Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_leads_through_arrays_and_objects_and_past_guards() {
        let shortened = |step: Step| {
            let mut answer = json!({
                "rows": [{ "done": true, "texts": { "a": "long", "b": "x" } }, { "done": false, "texts": { "a": "long" } }],
                "one": null
            });
            step.apply(&mut answer);
            answer["rows"].take()
        };
        let [ended, open] = [json!({ "a": "long", "b": "x" }), json!({ "a": "long" })];
        let rows = |ended: &Value, open: &Value| json!([{ "done": true, "texts": ended }, { "done": false, "texts": open }]);
        let cut = json!({ "a": "lo…", "b": "x" });
        assert_eq!(shortened(Step::excerpt("rows.*.texts.*", 3)), rows(&cut, &json!({ "a": "lo…" })));
        assert_eq!(shortened(Step::excerpt("rows.*.done?.texts.*", 3)), rows(&cut, &open));
        assert_eq!(shortened(Step::first("rows.*.texts", 1)), rows(&json!({ "a": "long" }), &open));
        assert_eq!(shortened(Step::null("rows.*.texts.a").if_over(6)), rows(&ended, &open));
        assert_eq!(
            shortened(Step::null("rows.*.texts.b").if_over(2)),
            rows(&json!({ "a": "long", "b": null }), &open)
        );
        assert_eq!(
            shortened(Step::remove("rows.*.texts.a").if_over(5)),
            rows(&json!({ "b": "x" }), &json!({}))
        );
        assert_eq!(shortened(Step::clear("rows")), json!([]));
        assert_eq!(shortened(Step::remove("one.none.*")), rows(&ended, &open));
    }

    #[test]
    fn texts_are_cut_to_the_longest_equal_length_that_fits() {
        let whole = json!({ "a": "é".repeat(300), "b": ["y".repeat(90)], "kept": "z".repeat(100) });
        let mut answer = whole.clone();
        assert_eq!(cut_texts(&mut answer, &["a", "b.*"], 350), 120);
        assert_eq!(answer, json!({ "a": "é".repeat(120), "b": ["y".repeat(90)], "kept": "z".repeat(100) }));
        assert_eq!(cut_texts(&mut answer, &["a", "b.*"], 10), SHORTEST);
        let mut rest = whole;
        skip(&mut rest, &["a", "b.*"], 120);
        assert_eq!(rest, json!({ "a": "é".repeat(180), "b": [""], "kept": "z".repeat(100) }));
    }

    #[test]
    fn a_page_says_that_it_was_cut_and_keeps_its_share_beside_long_texts() {
        let member =
            |text: &str, is_cut: bool| json!({ "text": text, "truncated": is_cut, "cwd": "c".repeat(2_000) });
        let mut answer = json!({ "members": [member(&"x".repeat(900), false), member("short", false)] });
        cut_pages(&mut answer, &["members.*.text"], 5_200);
        assert_eq!(answer, json!({ "members": [member(&"x".repeat(900), false), member("short", false)] }));
        cut_pages(&mut answer, &["members.*.text"], 2_400);
        assert_eq!(answer, json!({ "members": [member(&"x".repeat(250), true), member("short", false)] }));
    }
}
