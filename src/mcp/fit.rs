//! Keeps results within the size that clients show in full: repeats are dropped first, then long texts are cut.

use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::schema;
use crate::app::error::Error;

/// The limit on a result, in characters of JSON.
pub(super) const ANSWER_CHARS: usize = 24_000;
/// The limit on results that are lists.
pub(super) const LIST_CHARS: usize = 40_000;
/// Reserved for `truncated` and `next`.
pub(super) const MARGIN: usize = 500;
/// Lengths tried for long texts, longest first.
const LIMITS: [usize; 10] = [16_000, 8_000, 4_000, 2_000, 1_000, 500, 250, 120, 60, 30];
/// Rounds of omitting parts.
const ROUNDS: usize = 3;
const OFFSET: &str = "text_offset";

/// A result that declares which of its parts may be long.
pub(super) trait Fit: Serialize + JsonSchema {
    const BUDGET: usize = ANSWER_CHARS;
    /// Whether the caller can continue with `text_offset`.
    const READS_ON: bool = false;

    /// Every text that may be long.
    fn texts(&mut self) -> Vec<&mut String>;

    /// Shortens what the result repeats.
    fn drop_repeats(&mut self) {}

    /// The last resort, in rounds: omits what another tool shows, the least important first.
    fn drop_extras(&mut self, _round: usize) {}

    /// The agent whose `show_agent` has the full texts.
    fn agent_name(&self) -> Option<&str> {
        None
    }
}

/// An answer as it goes out.
#[derive(Debug, Serialize, JsonSchema)]
struct Fitted<T> {
    #[serde(flatten)]
    answer: T,
    /// True if texts were shortened or omitted to keep the answer short.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    truncated: bool,
    /// Arguments that return the rest: of this tool if it takes text_offset, else of show_agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Value>,
}

/// How much of a result is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Whole,
    WithoutRepeats,
    /// Long texts have at most this many characters.
    TextsUpTo(usize),
}

/// The result with its texts from `offset` on, shortened as needed.
pub(super) fn fitted<T: Fit>(mut answer: T, arguments: JsonObject, offset: usize) -> Value {
    skip(&mut answer, offset);
    let kept = shorten(&mut answer);
    let next = match kept {
        Kept::Whole | Kept::WithoutRepeats => None,
        Kept::TextsUpTo(limit) => next_arguments(&answer, arguments, offset.saturating_add(limit)),
    };
    let fitted = Fitted { answer, truncated: kept != Kept::Whole, next };
    // Results have only string keys, so serializing is infallible.
    serde_json::to_value(fitted).unwrap_or_default()
}

pub(super) fn output_schema<T: Fit>() -> std::sync::Arc<JsonObject> {
    schema::output::<Fitted<T>>()
}

/// The schema of the arguments, with `text_offset` if the result supports it.
pub(super) fn input_schema<I: JsonSchema, T: Fit>() -> JsonObject {
    let mut schema = schema::input::<I>();
    if T::READS_ON
        && let Some(Value::Object(properties)) = schema.get_mut("properties")
    {
        let description = "Offset into long texts, in characters; take it from next of a truncated answer.";
        let offset = json!({ "type": "integer", "minimum": 0, "default": 0, "description": description });
        properties.insert(OFFSET.to_owned(), offset);
    }
    schema
}

/// Removes `text_offset` from the arguments.
pub(super) fn take_offset<T: Fit>(arguments: &mut JsonObject) -> Result<usize, Error> {
    let Some(value) = arguments.remove(OFFSET).filter(|_| T::READS_ON) else { return Ok(0) };
    let offset = value.as_u64().and_then(|offset| usize::try_from(offset).ok());
    offset.ok_or_else(|| Error::invalid(OFFSET, "text_offset must be a number of characters, 0 or more"))
}

fn next_arguments<T: Fit>(answer: &T, mut arguments: JsonObject, offset: usize) -> Option<Value> {
    if T::READS_ON {
        arguments.insert(OFFSET.to_owned(), json!(offset));
        return Some(Value::Object(arguments));
    }
    answer.agent_name().map(|name| json!({ "agent_name": name, OFFSET: offset }))
}

fn shorten<T: Fit>(answer: &mut T) -> Kept {
    if fits(answer) {
        return Kept::Whole;
    }
    answer.drop_repeats();
    if fits(answer) {
        return Kept::WithoutRepeats;
    }
    for limit in LIMITS {
        for text in answer.texts() {
            *text = text.chars().take(limit).collect();
        }
        if fits(answer) {
            return Kept::TextsUpTo(limit);
        }
    }
    for round in 0..ROUNDS {
        answer.drop_extras(round);
        if fits(answer) {
            break;
        }
    }
    Kept::TextsUpTo(LIMITS[LIMITS.len() - 1])
}

fn skip<T: Fit>(answer: &mut T, offset: usize) {
    if offset == 0 {
        return;
    }
    for text in answer.texts() {
        *text = text.chars().skip(offset).collect();
    }
}

fn fits<T: Fit>(answer: &T) -> bool {
    serde_json::to_string(answer).is_ok_and(|json| json.chars().count() <= T::BUDGET - MARGIN)
}
