//! Claude Code as an engine.

mod invocation;
mod live;
mod reader;
mod wire;

use std::path::PathBuf;

use super::plain_text::PlainTextReader;
use super::{Engine, EngineWord, Invocation, InvocationError, Reader, Request};
use crate::domain::run::EngineOutput;

/// The oldest supported version. Measured with 2.1.197 and 2.1.325.
pub const MINIMUM: [u32; 2] = [2, 1];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claude {
    pub program: PathBuf,
}

impl Engine for Claude {
    fn word(&self) -> EngineWord {
        EngineWord::Claude
    }

    /// Claude Code does not read this file itself, because only the user's settings apply.
    fn notes_file(&self) -> Option<&'static str> {
        Some("CLAUDE.md")
    }

    fn invocation(&self, request: &Request) -> Result<Invocation, InvocationError> {
        Ok(invocation::of(&self.program, request))
    }

    fn reports_usage(&self, output: EngineOutput) -> bool {
        output != EngineOutput::Text
    }

    fn reader(&self, request: &Request) -> Box<dyn Reader> {
        match request.output {
            EngineOutput::Text => Box::new(PlainTextReader::default()),
            EngineOutput::Events | EngineOutput::Parts => {
                Box::new(reader::ClaudeReader::new(request.session.usage_before()))
            }
        }
    }
}
