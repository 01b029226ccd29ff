//! Reports the agent's status to Coder: only the newest, rate-limited, without delaying the work.

use std::num::NonZeroU32;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::RunnerError;
use super::entry::{Interruption, Outcome};
use super::limits::RunnerLimits;
use super::options::CoderOptions;
use crate::coder::exec::ExecLimits;
use crate::coder::wire::AppStatusReport;
use crate::coder::{self, Client, ClientOptions, CoderError, ErrorKind, RetryPolicy, TokenOrigin};
use crate::domain::words::AppState;
use crate::domain::{question, text};

/// Coder refuses longer messages, and counts bytes.
const MAX_MESSAGE: usize = 160;
const TIMEOUT: Duration = Duration::from_secs(10);
/// The retry is done here, since a newer report may exist by then.
const ONCE: RetryPolicy =
    RetryPolicy { attempts: NonZeroU32::MIN, base_delay: Duration::ZERO, max_delay: Duration::ZERO };
const REQUESTS_PER_MINUTE: NonZeroU32 = NonZeroU32::new(480).unwrap();

/// The agent's current status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Report {
    state: AppState,
    message: String,
}

/// The sending side, which never waits.
#[derive(Debug)]
pub(super) struct Reporter(watch::Sender<Option<Report>>);

/// The receiving side.
#[derive(Debug)]
pub(super) struct Reports {
    news: watch::Receiver<Option<Report>>,
    coder: Option<(Client, CoderOptions)>,
    limits: RunnerLimits,
}

pub(super) fn start(
    coder: Option<&CoderOptions>,
    limits: RunnerLimits,
) -> Result<(Reporter, Reports), RunnerError> {
    let (reporter, news) = watch::channel(None);
    let client = |coder: &CoderOptions| {
        let options = ClientOptions {
            url: coder.url.clone(),
            token: coder.agent_token.clone(),
            token_origin: TokenOrigin::Environment,
            timeout: TIMEOUT,
            requests_per_minute: REQUESTS_PER_MINUTE,
            retry: ONCE,
            exec: ExecLimits::NORMAL,
        };
        Client::new(options).map(|client| (client, coder.clone()))
    };
    let coder = coder.map(client).transpose().map_err(RunnerError::Coder)?;
    Ok((Reporter(reporter), Reports { news, coder, limits }))
}

impl Report {
    pub(super) fn working(message: &str) -> Self {
        Self::new(AppState::Working, message)
    }

    /// A question is reported as idle: Coder has no state for it, and the agent does wait.
    pub(super) fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Complete { text } => Self::new(AppState::Complete, text),
            Outcome::Question { text } => Self::new(AppState::Idle, &question::reason(text)),
            Outcome::Failed { text, .. } => Self::new(AppState::Failure, text),
            Outcome::Interrupted {
                by:
                    by @ (Interruption::Request | Interruption::Stop | Interruption::Park | Interruption::Unbegun),
            } => Self::new(AppState::Idle, by.text()),
            Outcome::Interrupted { by: by @ Interruption::Crash } => Self::new(AppState::Failure, by.text()),
        }
    }

    /// Prepends a note about how the work was done.
    pub(super) fn noting(self, note: Option<&str>) -> Self {
        match note {
            Some(note) => Self::new(self.state, &format!("{note} {}", self.message)),
            None => self,
        }
    }

    fn new(state: AppState, message: &str) -> Self {
        Self { state, message: cut_bytes(&text::one_line(message), MAX_MESSAGE) }
    }
}

impl Reporter {
    pub(super) fn report(&self, report: Report) {
        self.0.send_replace(Some(report));
    }
}

impl Reports {
    /// Sends the newest report until the sender is gone and the last report is sent.
    pub(super) async fn send_until(mut self, stop: CancellationToken) {
        let Some((client, coder)) = self.coder.take() else { return };
        while self.news.changed().await.is_ok() {
            self.send_newest(&client, &coder).await;
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(self.limits.report_gap) => {}
            }
        }
    }

    /// Retries until the newest report is sent, or until Coder refuses it permanently.
    async fn send_newest(&mut self, client: &Client, coder: &CoderOptions) {
        let mut n_failures = 0;
        loop {
            let Some(report) = self.news.borrow_and_update().clone() else { return };
            let body = AppStatusReport {
                app_slug: coder.app_slug.clone(),
                state: report.state.word().to_owned(),
                message: report.message,
                uri: String::new(),
            };
            match client.app_status_report(&coder.agent_token, &body).await {
                Ok(()) => return,
                Err(error) if is_final(&error) => {
                    return tracing::warn!(%error, "Coder refused this report");
                }
                Err(error) => tracing::debug!(%error, n_failures, "report not sent; retrying"),
            }
            tokio::select! {
                newer = self.news.changed() => if newer.is_err() { return },
                () = tokio::time::sleep(self.limits.report_retry.pause(n_failures)) => {}
            }
            n_failures += 1;
        }
    }
}

/// Refused because of its content, not because of a rate limit.
fn is_final(error: &CoderError) -> bool {
    let is_limited = matches!(error.kind(), ErrorKind::RateLimited { .. });
    error.outcome() == coder::Outcome::Refused && !is_limited
}

/// Truncates to a number of bytes, at a character boundary, and marks the cut.
fn cut_bytes(text: &str, max_bytes: usize) -> String {
    const MARK: &str = "…";
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(max_bytes.saturating_sub(MARK.len()));
    format!("{}{MARK}", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_fit_in_bytes_and_break_no_character() {
        assert_eq!(cut_bytes("short", 160), "short");
        let cjk = "字".repeat(60);
        let cut = cut_bytes(&cjk, MAX_MESSAGE);
        assert_eq!((cut.len(), cut.chars().count()), (159, 53));
        assert_eq!(cut_bytes(&"x".repeat(161), MAX_MESSAGE), format!("{}…", "x".repeat(157)));
    }

    #[test]
    fn every_outcome_has_its_word() {
        let word = |outcome: Outcome| {
            let report = Report::of(&outcome);
            (report.state.word().to_owned(), report.message)
        };
        let text = || "two\nlines".to_owned();
        let expected = |word: &str, message: &str| (word.to_owned(), message.to_owned());
        let kind = crate::engine::FailureKind::Crashed;
        assert_eq!(word(Outcome::Complete { text: text() }), expected("complete", "two lines"));
        assert_eq!(
            word(Outcome::Question { text: text() }),
            expected("idle", "ended with a question: lines")
        );
        assert_eq!(word(Outcome::Failed { kind, text: text() }), expected("failure", "two lines"));
        let interrupted = |by| word(Outcome::Interrupted { by }).0;
        assert_eq!(
            [
                Interruption::Request,
                Interruption::Stop,
                Interruption::Park,
                Interruption::Unbegun,
                Interruption::Crash,
            ]
            .map(interrupted),
            ["idle", "idle", "idle", "idle", "failure"]
        );
    }
}
