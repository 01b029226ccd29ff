//! Arguments that take one word of a closed vocabulary.

use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::domain::word_enum::Vocabulary;

/// Takes the words of a vocabulary, which the help lists.
pub(super) fn one_of<T: Vocabulary>() -> impl TypedValueParser<Value = T> {
    let unknown = "not one of its words";
    PossibleValuesParser::new(T::words()).try_map(move |word| T::parse(&word).ok_or(unknown))
}
