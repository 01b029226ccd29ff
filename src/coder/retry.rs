//! Which failed calls are tried again, and when.

use std::num::NonZeroU32;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use chrono::Utc;

use super::error::{CoderError, ErrorKind, Outcome};
use super::request::Effect;

/// The longest wait for a rate limit to open: Coder counts in windows of one minute.
const RATE_LIMIT_WINDOW: Duration = Duration::from_secs(60);

/// How often and how patiently a call is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// All tries together; one means never again.
    pub attempts: NonZeroU32,
    pub base_delay: Duration,
    pub max_delay: Duration,
}

impl RetryPolicy {
    /// Runs `send` until it succeeds, fails for good or the attempts are used up.
    pub(super) async fn run<T, F, Fut>(self, effect: Effect, send: F) -> Result<T, CoderError>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, CoderError>>,
    {
        send.retry(self.backoff())
            .when(|error| is_repeatable(effect, error))
            .adjust(|error, delay| delay.map(|delay| rate_limit_wait(error).unwrap_or(delay)))
            .notify(|error, delay| tracing::debug!(%error, ?delay, "call to Coder failed, trying again"))
            .await
    }

    fn backoff(self) -> ExponentialBuilder {
        let retries = usize::try_from(self.attempts.get() - 1).unwrap_or(usize::MAX);
        ExponentialBuilder::default()
            .with_jitter()
            .with_min_delay(self.base_delay)
            .with_max_delay(self.max_delay)
            .with_max_times(retries)
    }
}

/// A read may be repeated after anything that a repeat could mend. A write only when it surely had no effect.
fn is_repeatable(effect: Effect, error: &CoderError) -> bool {
    let hopeless = error.kind() == ErrorKind::Setup || matches!(error, CoderError::TooLarge { .. });
    let untouched = matches!(error.kind(), ErrorKind::RateLimited { .. });
    match error.outcome() {
        Outcome::NotSent => !hopeless,
        Outcome::Refused => untouched,
        Outcome::Unclear => effect == Effect::Read && !hopeless,
    }
}

/// How long Coder asks us to wait, within reason.
fn rate_limit_wait(error: &CoderError) -> Option<Duration> {
    let ErrorKind::RateLimited { retry_at: Some(retry_at) } = error.kind() else {
        return None;
    };
    let wait = (retry_at - Utc::now()).to_std().unwrap_or(Duration::ZERO);
    Some(wait.min(RATE_LIMIT_WINDOW))
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, StatusCode};

    use super::{CoderError, Effect, RATE_LIMIT_WINDOW, is_repeatable, rate_limit_wait};
    use crate::coder::answer::Answer;

    fn answered(status: u16, headers: &HeaderMap) -> CoderError {
        let status = StatusCode::from_u16(status).unwrap();
        CoderError::Answered(Box::new(Answer::read("x", status, headers, "")))
    }

    #[test]
    fn reads_repeat_when_unclear_and_writes_do_not() {
        let repeatable = |status| {
            let error = answered(status, &HeaderMap::new());
            (status, is_repeatable(Effect::Read, &error), is_repeatable(Effect::Write, &error))
        };
        assert_eq!(
            [400, 401, 404, 409, 429, 500, 502].map(repeatable),
            [
                (400, false, false),
                (401, false, false),
                (404, false, false),
                (409, false, false),
                (429, true, true),
                (500, true, false),
                (502, true, false),
            ]
        );
    }

    #[test]
    fn an_unusable_request_or_a_flood_is_never_repeated() {
        let request = CoderError::request("x", "no".to_owned());
        let flood = CoderError::TooLarge { operation: "x", limit: 1 };
        assert!(!is_repeatable(Effect::Read, &request) && !is_repeatable(Effect::Read, &flood));
    }

    #[test]
    fn a_rate_limit_never_holds_a_call_longer_than_its_window() {
        let headers = HeaderMap::from_iter([("retry-after".parse().unwrap(), "86400".parse().unwrap())]);
        assert_eq!(rate_limit_wait(&answered(429, &headers)), Some(RATE_LIMIT_WINDOW));
        assert_eq!(rate_limit_wait(&answered(500, &headers)), None);
    }
}
