//! Keeps answers within the length that clients show: removes repeats first, then cuts long texts to equal lengths.

use std::sync::Arc;

use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::schema;
use crate::app::error::Error;
use crate::view::shorten::{Path, Step, cut_pages, cut_texts, n_chars, skip};

/// The maximum number of characters of an answer's JSON.
pub(super) const ANSWER_CHARS: usize = 24_000;
/// The same for lists.
const LIST_CHARS: usize = 40_000;
/// Reserved for `truncated` and `next`.
pub(super) const MARGIN: usize = 500;
const OFFSET: &str = "text_offset";

/// An answer with a plan to shorten it.
pub(super) trait Fit: Serialize + JsonSchema {
    const PLAN: Plan;
}

/// The steps to shorten an answer, in this order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    /// The maximum number of characters of JSON.
    pub(super) budget: usize,
    /// Paged texts, whose fields tell how to read the next page.
    pub(super) pages: &'static [Path],
    /// Shortens repeated information.
    pub(super) repeats: &'static [Step],
    /// Every other text that may be long.
    pub(super) texts: &'static [Path],
    /// The last resort, in rounds: removes information that another tool has, the least important first.
    pub(super) extras: &'static [&'static [Step]],
    pub(super) rest: Rest,
}

/// The call that returns the rest of an answer's texts.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rest {
    /// The same tool, with `text_offset`.
    SameTool,
    /// `show_agent`, for the name under this pointer.
    ShowAgent(&'static str),
    Nothing,
}

/// The basis of an answer's plan.
pub(super) const ANSWER: Plan =
    Plan { budget: ANSWER_CHARS, pages: &[], repeats: &[], texts: &[], extras: &[], rest: Rest::Nothing };
/// The basis of a list's plan.
pub(super) const LIST: Plan = Plan { budget: LIST_CHARS, ..ANSWER };

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

/// How far an answer was shortened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Whole,
    WithoutRepeats,
    /// Long texts were cut to this many characters.
    TextsUpTo(usize),
}

pub(super) fn output_schema<T: Fit>() -> Arc<JsonObject> {
    schema::output::<Fitted<T>>()
}

impl Plan {
    /// The schema of the arguments, with `text_offset` if the tool returns the rest itself.
    pub(super) fn input_schema<I: JsonSchema>(&self) -> JsonObject {
        let mut schema = schema::input::<I>();
        if matches!(self.rest, Rest::SameTool)
            && let Some(Value::Object(properties)) = schema.get_mut("properties")
        {
            let description =
                "Offset into long texts, in characters; take it from next of a truncated answer.";
            let offset = json!({ "type": "integer", "minimum": 0, "default": 0, "description": description });
            properties.insert(OFFSET.to_owned(), offset);
        }
        schema
    }

    /// Removes `text_offset` from the arguments.
    pub(super) fn take_offset(&self, arguments: &mut JsonObject) -> Result<usize, Error> {
        if !matches!(self.rest, Rest::SameTool) {
            return Ok(0);
        }
        let Some(value) = arguments.remove(OFFSET) else { return Ok(0) };
        let offset = value.as_u64().and_then(|offset| usize::try_from(offset).ok());
        offset.ok_or_else(|| Error::invalid(OFFSET, "text_offset must be a number of characters, 0 or more"))
    }

    /// The answer with its texts from `offset` on, shortened as far as necessary.
    pub(super) fn fitted(&self, mut answer: Value, arguments: JsonObject, offset: usize) -> Value {
        skip(&mut answer, self.texts, offset);
        let kept = self.shorten(&mut answer);
        let next = match kept {
            Kept::Whole | Kept::WithoutRepeats => None,
            Kept::TextsUpTo(length) => self.next(&answer, arguments, offset.saturating_add(length)),
        };
        let fitted = Fitted { answer, truncated: kept != Kept::Whole, next };
        // Results have only string keys, so serializing is infallible.
        serde_json::to_value(fitted).unwrap_or_default()
    }

    fn next(&self, answer: &Value, mut arguments: JsonObject, offset: usize) -> Option<Value> {
        match self.rest {
            Rest::SameTool => {
                arguments.insert(OFFSET.to_owned(), json!(offset));
                Some(Value::Object(arguments))
            }
            Rest::ShowAgent(name) => {
                answer.pointer(name).map(|name| json!({ "agent_name": name, OFFSET: offset }))
            }
            Rest::Nothing => None,
        }
    }

    fn shorten(&self, answer: &mut Value) -> Kept {
        let most = self.budget - MARGIN;
        let fits = |answer: &Value| n_chars(answer) <= most;
        cut_pages(answer, self.pages, most);
        if fits(answer) {
            return Kept::Whole;
        }
        self.repeats.iter().for_each(|step| step.apply(answer));
        if fits(answer) {
            return Kept::WithoutRepeats;
        }
        let length = cut_texts(answer, self.texts, most);
        for round in self.extras {
            if fits(answer) {
                break;
            }
            round.iter().for_each(|step| step.apply(answer));
        }
        Kept::TextsUpTo(length)
    }
}
