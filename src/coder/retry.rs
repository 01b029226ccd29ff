//! Decides which failed calls are retried, and when.

use std::num::NonZeroU32;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use chrono::Utc;

use super::error::{CoderError, ErrorKind, Outcome};
use super::request::Effect;

/// How often and with which pauses a call is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// All attempts together; one means no retry.
    pub attempts: NonZeroU32,
    pub base_delay: Duration,
    pub max_delay: Duration,
}

impl RetryPolicy {
    /// Runs `send` until it succeeds, fails permanently or the attempts are used up.
    pub(super) async fn run<T, F, Fut>(self, effect: Effect, send: F) -> Result<T, CoderError>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, CoderError>>,
    {
        send.retry(self.backoff())
            .when(|error| is_repeatable(effect, error) && !self.outlasts_backoff(error))
            .adjust(|error, delay| delay.map(|delay| rate_limit_wait(error).unwrap_or(delay)))
            .notify(|error, delay| tracing::debug!(%error, ?delay, "call to Coder failed; retrying"))
            .await
    }

    /// A rate limit that resets after the last possible retry is left to the caller, since waiting here would hold
    /// shared resources.
    fn outlasts_backoff(self, error: &CoderError) -> bool {
        rate_limit_wait(error).is_some_and(|wait| wait > self.max_delay)
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

/// Reads are repeatable after any error that a repeat may cure; writes only if they surely had no effect.
fn is_repeatable(effect: Effect, error: &CoderError) -> bool {
    let hopeless = error.kind() == ErrorKind::Setup || matches!(error, CoderError::TooLarge { .. });
    let untouched = matches!(error.kind(), ErrorKind::RateLimited { .. });
    match error.outcome() {
        Outcome::NotSent => !hopeless,
        Outcome::Refused => untouched,
        Outcome::Unclear => effect == Effect::Read && !hopeless,
    }
}

/// How long Coder asks us to wait.
fn rate_limit_wait(error: &CoderError) -> Option<Duration> {
    let ErrorKind::RateLimited { retry_at: Some(retry_at) } = error.kind() else {
        return None;
    };
    Some((retry_at - Utc::now()).to_std().unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, StatusCode};

    use std::num::NonZeroU32;
    use std::time::Duration;

    use super::{CoderError, Effect, RetryPolicy, is_repeatable};
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
    fn a_call_waits_for_a_rate_limit_that_opens_soon_and_for_no_other() {
        let (base_delay, max_delay) = (Duration::from_millis(200), Duration::from_secs(5));
        let policy = RetryPolicy { attempts: NonZeroU32::MIN, base_delay, max_delay };
        let outlasts_backoff = |status, seconds: &str| {
            let headers = HeaderMap::from_iter([("retry-after".parse().unwrap(), seconds.parse().unwrap())]);
            policy.outlasts_backoff(&answered(status, &headers))
        };
        let outlasting =
            [outlasts_backoff(429, "4"), outlasts_backoff(429, "60"), outlasts_backoff(500, "60")];
        assert_eq!(outlasting, [false, true, false]);
    }
}
