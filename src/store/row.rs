//! Reads domain values from columns: times, keywords and ids.

use chrono::{DateTime, SubsecRound, Utc};
use sqlx::{Error, Row};
use uuid::Uuid;

use super::db::DbRow;

/// Typed access to one row; a value that the domain cannot have written is an error, never a default.
pub(crate) trait Columns {
    fn time(&self, column: &str) -> Result<DateTime<Utc>, Error>;
    fn time_if_any(&self, column: &str) -> Result<Option<DateTime<Utc>>, Error>;
    fn word<T>(&self, column: &str, parse: fn(&str) -> Option<T>) -> Result<T, Error>;
    fn word_if_any<T>(&self, column: &str, parse: fn(&str) -> Option<T>) -> Result<Option<T>, Error>;
    fn id<T>(&self, column: &str, wrap: fn(Uuid) -> T) -> Result<T, Error>;
    fn id_if_any<T>(&self, column: &str, wrap: fn(Uuid) -> T) -> Result<Option<T>, Error>;
}

impl Columns for DbRow {
    fn time(&self, column: &str) -> Result<DateTime<Utc>, Error> {
        from_micros(self.try_get(column)?, column)
    }

    fn time_if_any(&self, column: &str) -> Result<Option<DateTime<Utc>>, Error> {
        self.try_get::<Option<i64>, _>(column)?.map(|micros| from_micros(micros, column)).transpose()
    }

    fn word<T>(&self, column: &str, parse: fn(&str) -> Option<T>) -> Result<T, Error> {
        let word: &str = self.try_get(column)?;
        parse(word).ok_or_else(|| unreadable(column, word))
    }

    fn word_if_any<T>(&self, column: &str, parse: fn(&str) -> Option<T>) -> Result<Option<T>, Error> {
        match self.try_get::<Option<&str>, _>(column)? {
            Some(word) => parse(word).ok_or_else(|| unreadable(column, word)).map(Some),
            None => Ok(None),
        }
    }

    fn id<T>(&self, column: &str, wrap: fn(Uuid) -> T) -> Result<T, Error> {
        self.try_get(column).map(wrap)
    }

    fn id_if_any<T>(&self, column: &str, wrap: fn(Uuid) -> T) -> Result<Option<T>, Error> {
        Ok(self.try_get::<Option<Uuid>, _>(column)?.map(wrap))
    }
}

/// The stored form of a time. Finer parts are truncated, as in Postgres.
pub(crate) fn micros(at: DateTime<Utc>) -> i64 {
    at.timestamp_micros()
}

pub(crate) fn micros_if_any(at: Option<DateTime<Utc>>) -> Option<i64> {
    at.map(micros)
}

/// The time as it will be read back.
pub(crate) fn truncated(at: DateTime<Utc>) -> DateTime<Utc> {
    at.trunc_subsecs(6)
}

/// A stored value that the domain cannot have written.
pub(crate) fn unreadable(column: &str, value: impl std::fmt::Display) -> Error {
    Error::ColumnDecode { index: column.to_owned(), source: format!("unexpected value '{value}'").into() }
}

/// The values of two columns that are written together; one alone is an error.
pub(crate) fn both<A, B>(column: &str, pair: (Option<A>, Option<B>)) -> Result<Option<(A, B)>, Error> {
    match pair {
        (Some(one), Some(other)) => Ok(Some((one, other))),
        (None, None) => Ok(None),
        (Some(_), None) | (None, Some(_)) => Err(unreadable(column, "half of a pair")),
    }
}

/// A count; stored counts are never negative.
pub(crate) fn count(entries: i64) -> u64 {
    u64::try_from(entries).unwrap_or(0)
}

fn from_micros(micros: i64, column: &str) -> Result<DateTime<Utc>, Error> {
    DateTime::from_timestamp_micros(micros).ok_or_else(|| unreadable(column, micros))
}
