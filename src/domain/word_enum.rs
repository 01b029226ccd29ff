//! Macro for enums of our own keywords: variants, their words, and parsing.

/// A closed vocabulary, for code that treats all of them alike.
pub trait Vocabulary: Copy + Send + Sync + 'static {
    const NAME: &'static str;

    fn words() -> Vec<&'static str>;
    fn word(self) -> &'static str;
    /// Parses a word, ignoring case.
    fn parse(word: &str) -> Option<Self>;
}

macro_rules! word_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// The value of a keyword, case-insensitive; none for an unknown one.
            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.word().eq_ignore_ascii_case(word.trim()))
            }
        }

        impl $crate::domain::word_enum::Vocabulary for $name {
            const NAME: &'static str = stringify!($name);

            fn words() -> Vec<&'static str> {
                Self::ALL.iter().map(|value| value.word()).collect()
            }

            fn word(self) -> &'static str {
                self.word()
            }

            fn parse(word: &str) -> Option<Self> {
                Self::parse(word)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}
pub(crate) use word_enum;
