//! Decodes values that Go omits, sends as `null` or sends as its zero time.

use chrono::{DateTime, Datelike, Utc};
use serde::{Deserialize, Deserializer};

/// Reads `null` like an absent field: Go encodes a nil slice as `null`.
pub(super) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads Go's zero time (year 1) as "never".
pub(super) fn time<'de, D>(deserializer: D) -> Result<Option<DateTime<Utc>>, D::Error>
where
    D: Deserializer<'de>,
{
    let time: Option<DateTime<Utc>> = Option::deserialize(deserializer)?;
    Ok(time.filter(|time| time.year() > 1))
}

/// Reads this many bytes of a text and drops the rest: some servers do not bound what agents report.
pub(super) fn at_most<'de, const BYTES: usize, D>(deserializer: D) -> Result<String, D::Error>
where
    D: Deserializer<'de>,
{
    let mut text = String::deserialize(deserializer)?;
    text.truncate(text.floor_char_boundary(BYTES));
    text.shrink_to_fit();
    Ok(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{DateTime, Deserialize, Utc, at_most, null_as_default, time};

    #[derive(Debug, PartialEq, Deserialize)]
    struct Sample {
        #[serde(default, deserialize_with = "null_as_default")]
        words: Vec<String>,
        #[serde(default, deserialize_with = "time")]
        at: Option<DateTime<Utc>>,
        #[serde(default, deserialize_with = "at_most::<5, _>")]
        text: String,
    }

    fn read(value: serde_json::Value) -> Sample {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn absent_null_and_zero_all_read_as_nothing() {
        let nothing = || Sample { words: Vec::new(), at: None, text: String::new() };
        assert_eq!(read(json!({})), nothing());
        assert_eq!(read(json!({"words": null, "at": null})), nothing());
        assert_eq!(read(json!({"words": [], "at": "0001-01-01T00:00:00Z"})), nothing());
    }

    #[test]
    fn texts_are_cut_between_characters() {
        let cut = |text: &str| read(json!({ "text": text })).text;
        assert_eq!([cut("short"), cut("longer"), cut("four字")], ["short", "longe", "four"]);
    }

    #[test]
    fn times_keep_any_number_of_fraction_digits() {
        let whole = read(json!({"at": "2026-11-15T23:52:28Z"})).at.unwrap();
        let fine = read(json!({"at": "2026-11-15T23:52:28.985190001Z"})).at.unwrap();
        assert_eq!((fine - whole).num_nanoseconds(), Some(985_190_001));
    }
}
