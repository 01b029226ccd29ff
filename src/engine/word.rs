//! The words by which people choose an engine.

use std::fmt;

use thiserror::Error;

use crate::domain::word_enum::word_enum;

word_enum! {
    /// Every engine there is, and the word for "whichever is installed".
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
    /// The scripted engine calls no tools, so that it waits for nobody.
    pub fn calls_tools(self) -> bool {
        self != Self::Demo
    }

    /// The scripted engine costs nothing, whether it says so or is ended before.
    pub fn is_free(self) -> bool {
        self == Self::Demo
    }

    /// Does it say at the start of each run in which session it has the message? Others are known by templates only.
    pub fn names_session(self) -> bool {
        match self {
            Self::Auto | Self::Claude | Self::Codex | Self::Demo => true,
            Self::CursorAgent | Self::Custom => false,
        }
    }
}

#[derive(Debug, Error, PartialEq, Eq)]
#[error("there is no engine '{word}'; there are: {}", words())]
pub struct UnknownEngine {
    pub word: String,
}

pub fn by_word(word: &str) -> Result<EngineWord, UnknownEngine> {
    EngineWord::parse(word).ok_or_else(|| UnknownEngine { word: word.to_owned() })
}

/// All of them, for people.
pub fn words() -> String {
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
