//! Reads Coder's token again from its file when Coder refuses the current one.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use tokio_util::sync::CancellationToken;

use crate::app::Fleet;
use crate::coder::Client;
use crate::config::check::read_token;

/// Watches a token file until `stop`; acts only while Coder refuses the current token.
pub(super) async fn follow(
    fleet: Fleet,
    coder: Client,
    (file, interval): (PathBuf, Duration),
    mut used: SecretString,
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = stop.cancelled() => return,
        }
        if fleet.health().now().refused.is_none() {
            continue;
        }
        if let Ok(token) = read_token(&file)
            && token.expose_secret() != used.expose_secret()
        {
            tracing::info!("the token file has changed; trying the new token");
            coder.token_replace(token.clone());
            fleet.poll_now();
            used = token;
        }
    }
}
