//! The keywords by which users choose an engine.

use std::fmt;

use thiserror::Error;

use super::word_enum::word_enum;

word_enum! {
    /// All engines, and `auto` for the installed engine.
    EngineWord {
        Auto = "auto",
        Claude = "claude",
        Codex = "codex",
        CursorAgent = "cursor-agent",
        Custom = "custom",
        Demo = "demo",
    }
}

impl EngineWord {
    /// The demo engine calls no tools, so it waits for no callback of the fleet.
    pub fn calls_tools(self) -> bool {
        self != Self::Demo
    }

    /// The demo engine costs nothing, even if it ends without reporting usage.
    pub fn is_free(self) -> bool {
        self == Self::Demo
    }

    /// Whether the engine prints the id of its session at the start of each run. Engines defined by templates do not.
    pub fn names_session(self) -> bool {
        match self {
            Self::Auto | Self::Claude | Self::Codex | Self::Demo => true,
            Self::CursorAgent | Self::Custom => false,
        }
    }
}

#[derive(Debug, Error, PartialEq, Eq)]
#[error("there is no engine '{word}'; there are: {}", word_list())]
pub struct UnknownEngine {
    pub word: String,
}

pub fn by_word(word: &str) -> Result<EngineWord, UnknownEngine> {
    EngineWord::parse(word).ok_or_else(|| UnknownEngine { word: word.to_owned() })
}

/// All keywords, for messages.
pub fn word_list() -> String {
    let words: Vec<&str> = EngineWord::ALL.iter().map(|word| word.word()).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_engine_is_refused_with_those_there_are() {
        let error = by_word("nope").unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no engine 'nope'; there are: auto, claude, codex, cursor-agent, custom, demo"
        );
        for word in EngineWord::ALL {
            assert_eq!(by_word(word.word()), Ok(*word));
        }
    }
}
