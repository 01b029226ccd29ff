//! Claude Code as an engine.

mod invocation;
mod live;
mod reader;
mod wire;

use std::path::PathBuf;

use super::words::WordsReader;
use super::{Engine, EngineWord, Invocation, Reader, Request, Unfit};
use crate::domain::run::EngineOutput;

/// The oldest version whose flags and output we know. Measured with 2.1.197 and 2.1.325.
pub const MINIMUM: [u32; 2] = [2, 1];
pub const PROGRAM: &str = "claude";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claude {
    pub program: PathBuf,
}

impl Engine for Claude {
    fn word(&self) -> EngineWord {
        EngineWord::Claude
    }

    /// With settings from the user alone, Claude Code does not read them either.
    fn notes_file(&self) -> Option<&'static str> {
        Some("CLAUDE.md")
    }

    fn invocation(&self, request: &Request) -> Result<Invocation, Unfit> {
        Ok(invocation::of(&self.program, request))
    }

    fn reader(&self, request: &Request) -> Box<dyn Reader> {
        match request.output {
            EngineOutput::Words => Box::new(WordsReader::default()),
            EngineOutput::Events | EngineOutput::Parts => {
                Box::new(reader::ClaudeReader::new(request.session.spent()))
            }
        }
    }
}
