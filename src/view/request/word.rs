//! Keywords of closed vocabularies as arguments: their schemas list the keywords, and so does the error for any other
//! text.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema as OpenApiSchema};
use utoipa::{PartialSchema, ToSchema};

use crate::app::tasks::ReportedState;
use crate::domain::agent::Until;
use crate::domain::history::HistoryFilter;
use crate::domain::run::RunStream;
use crate::domain::task::WhenBusy;
use crate::domain::token::TokenKind;
use crate::domain::word_enum::Vocabulary;

/// The beginning of the error for an unknown keyword.
pub(super) const ONE_OF: &str = "one of ";

// Declared separately: utoipa composes the names of generic types from the schemas of their arguments.
pub(super) type UntilWord = OneOf<Until>;
pub(super) type WhenBusyWord = OneOf<WhenBusy>;
pub(super) type HistoryFilterWord = OneOf<HistoryFilter>;
pub(super) type ReportedStateWord = OneOf<ReportedState>;
pub(super) type RunStreamWord = OneOf<RunStream>;
pub(super) type TokenKindWord = OneOf<TokenKind>;

/// A value of a vocabulary, written as its keyword and read in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneOf<T>(pub T);

impl<T: Vocabulary> Serialize for OneOf<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.word())
    }
}

impl<'de, T: Vocabulary> Deserialize<'de> for OneOf<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = Cow::<str>::deserialize(deserializer)?;
        let known = || D::Error::custom(format!("{ONE_OF}{}", T::words().join(", ")));
        T::parse(&word).map(Self).ok_or_else(known)
    }
}

impl<T: Vocabulary> JsonSchema for OneOf<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::NAME.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": T::words() })
    }
}

impl<T: Vocabulary> PartialSchema for OneOf<T> {
    fn schema() -> RefOr<OpenApiSchema> {
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(T::words())).into()
    }
}

impl<T: Vocabulary> ToSchema for OneOf<T> {
    fn name() -> Cow<'static, str> {
        T::NAME.into()
    }
}
