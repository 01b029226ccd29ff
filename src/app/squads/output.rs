//! The output of members: complete in the store, read in pages.

use chrono::{DateTime, Utc};

use super::ShowOutput;
use crate::app::Fleet;
use crate::app::caller::Caller;
use crate::app::error::Error;
use crate::domain::id::SquadId;
use crate::domain::run::RunStream;
use crate::domain::squad::Member;

/// The first pages of a member's two streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SquadOutput {
    pub stdout: OutputPage,
    pub stderr: OutputPage,
}

/// A page of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputPage {
    pub offset: u64,
    pub bytes: Vec<u8>,
    /// The number of bytes that can be read.
    pub kept: u64,
    /// The number of bytes that were written.
    pub written: u64,
    /// The stream is complete.
    pub is_final: bool,
    /// When the output was removed because of its age.
    pub removed_at: Option<DateTime<Utc>>,
}

impl Fleet {
    pub async fn squad_output(&self, caller: &Caller, request: ShowOutput) -> Result<OutputPage, Error> {
        let unknown = || Error::SquadNotFound(request.squad.clone());
        let id = request.squad.parse().map(SquadId).map_err(|_| unknown())?;
        let squad = self.squad_of(caller, id).await?;
        let member = squad.members.iter().find(|member| member.id.to_string() == request.member);
        let member = member.ok_or_else(|| Error::MemberNotFound(request.member.clone()))?;
        self.member_output(member, request.stream, request.offset, request.limit).await
    }

    /// The reason why a member did not run takes the place of its stderr.
    pub(super) async fn member_output(
        &self,
        member: &Member,
        stream: RunStream,
        offset: u64,
        limit: u64,
    ) -> Result<OutputPage, Error> {
        let is_final = member.is_ended();
        let run = match &member.run {
            Some(run) => self.store().run_by_id(run.id).await?,
            None => None,
        };
        if let Some(run) = run.filter(|run| run.written(stream) > 0 || !run.is_without_trace()) {
            let page = self.run_output(run.id, stream, offset, limit).await?;
            let (kept, written, removed_at) = (page.kept, page.written, page.removed_at);
            return Ok(OutputPage { offset, bytes: page.bytes, kept, written, is_final, removed_at });
        }
        let text = match stream {
            RunStream::Stdout => String::new(),
            RunStream::Stderr => member.reason().unwrap_or_default(),
        };
        let clamped = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(text.len());
        let bytes = &text.as_bytes()[clamped(offset)..clamped(offset.saturating_add(limit))];
        let written = text.len() as u64;
        let bytes = bytes.to_vec();
        Ok(OutputPage { offset, bytes, kept: written, written, is_final, removed_at: None })
    }
}
