//! Macro for enums of our own keywords: variants, their keywords, and parsing.

macro_rules! word_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$told:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$told])* $variant),+ }

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

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}
pub(crate) use word_enum;
