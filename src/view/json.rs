//! Reads JSON from clients: rejects duplicate keys and deep nesting.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use thiserror::Error;

/// Far deeper than any request needs, and shallow enough for every parser behind it.
pub const MOST_NESTING: usize = 64;

/// Why a text is rejected.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JsonError {
    #[error("not JSON: {0}")]
    Syntax(String),
    #[error("nested deeper than {MOST_NESTING} levels")]
    TooDeep,
    #[error("the key '{0}' is given twice")]
    Duplicate(String),
}

impl JsonError {
    /// The whole message about a text, such as "the body".
    pub fn of(&self, text: &str) -> String {
        match self {
            Self::Syntax(_) | Self::TooDeep => format!("{text} is {self}"),
            Self::Duplicate(_) => self.to_string(),
        }
    }

    /// The wrong argument, if there is one.
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Duplicate(field) => Some(field),
            Self::Syntax(_) | Self::TooDeep => None,
        }
    }
}

/// The value of a text. Duplicate keys are rejected, since two parsers could use different values.
pub fn read(bytes: &[u8]) -> Result<Value, JsonError> {
    let refusal = RefCell::new(None);
    let root = Strict { parent: None, step: PathStep::Root, depth: 0, refusal: &refusal };
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = root.deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    value.map_err(|error| refusal.take().unwrap_or_else(|| JsonError::Syntax(error.to_string())))
}

/// A value being read, and its path.
#[derive(Clone, Copy)]
struct Strict<'a> {
    parent: Option<&'a Strict<'a>>,
    step: PathStep<'a>,
    /// The number of enclosing arrays and objects.
    depth: usize,
    refusal: &'a RefCell<Option<JsonError>>,
}

#[derive(Clone, Copy)]
enum PathStep<'a> {
    Root,
    Key(&'a str),
    Index(usize),
}

impl<'a> Strict<'a> {
    fn child(&'a self, step: PathStep<'a>) -> Self {
        Self { parent: Some(self), step, depth: self.depth + 1, refusal: self.refusal }
    }

    fn refuse<E: serde::de::Error>(&self, refusal: JsonError) -> E {
        let error = E::custom(&refusal);
        self.refusal.replace(Some(refusal));
        error
    }

    fn enter<E: serde::de::Error>(&self) -> Result<(), E> {
        if self.depth < MOST_NESTING { Ok(()) } else { Err(self.refuse(JsonError::TooDeep)) }
    }
}

/// The path of a value as arguments are named, such as `members[1].task`.
impl fmt::Display for Strict<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        let is_first = self.parent.is_none_or(|parent| matches!(parent.step, PathStep::Root));
        match self.step {
            PathStep::Root => Ok(()),
            PathStep::Key(key) if is_first => f.write_str(key),
            PathStep::Key(key) => write!(f, ".{key}"),
            PathStep::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        self.enter()?;
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(self.child(PathStep::Index(array.len())))? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        self.enter()?;
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let child = self.child(PathStep::Key(&key));
            if object.contains_key(&key) {
                return Err(self.refuse(JsonError::Duplicate(child.to_string())));
            }
            let value = entries.next_value_seed(child)?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refusal(text: &str) -> String {
        read(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn every_kind_of_value_is_read_as_it_is() {
        let text = r#" {"a":[null,true,-1,18446744073709551615,0.5,1e2,"x\u00e9"],"b":{"c":{}}} "#;
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(read(text.as_bytes()), Ok(expected));
        assert_eq!(read(b"null"), Ok(json!(null)));
    }

    #[test]
    fn a_key_that_is_given_twice_is_named_at_every_depth() {
        assert_eq!(refusal(r#"{"a":1,"b":2,"a":3}"#), "the key 'a' is given twice");
        let deep = r#"{"members":[{"task":"x"},{"task":{"a":1,"\u0061":2}}]}"#;
        assert_eq!(refusal(deep), "the key 'members[1].task.a' is given twice");
        assert_eq!(refusal(r#"[{"a":1},{"a":1,"a":1}]"#), "the key '[1].a' is given twice");
    }

    #[test]
    fn sixty_four_levels_are_read_and_one_more_is_not() {
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(read(nested(64).as_bytes()).is_ok());
        assert_eq!(read(nested(65).as_bytes()), Err(JsonError::TooDeep));
        assert_eq!(read(nested(100_000).as_bytes()), Err(JsonError::TooDeep));
        let objects = format!("{}1{}", r#"{"a":"#.repeat(65), "}".repeat(65));
        assert_eq!(read(objects.as_bytes()), Err(JsonError::TooDeep));
    }

    #[test]
    fn invalid_json_is_refused_with_its_position() {
        assert_eq!(refusal("{"), "not JSON: EOF while parsing an object at line 1 column 1");
        assert_eq!(refusal("{} x"), "not JSON: trailing characters at line 1 column 4");
    }
}
