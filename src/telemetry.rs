//! Tracing to stderr, with every known secret and every token of ours redacted on the way out.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use secrecy::{ExposeSecret, SecretString};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::config::{LogFormat, LogSettings};

/// Our own tokens, recognised by their beginning wherever they come from.
const OWN_TOKEN: &str = "fleet_";
const OWN_TOKEN_HEX: usize = 64;
const REDACTED: &str = "[redacted]";

/// Secrets that are removed from the log; more may be added while the process runs.
#[derive(Debug, Clone, Default)]
pub struct Secrets(Arc<RwLock<Vec<SecretString>>>);

impl Secrets {
    pub fn new(secrets: Vec<SecretString>) -> Self {
        Self(Arc::new(RwLock::new(secrets)))
    }

    pub fn add(&self, secret: SecretString) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(secret);
    }

    fn redact(&self, text: &str) -> String {
        redact(text, &self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Starts logging for the whole process. An unreadable level falls back to `info`, with a warning.
pub fn start(settings: &LogSettings, secrets: Secrets) {
    // rmcp logs every request; our own spans do that already.
    let filter = EnvFilter::try_new(format!("rmcp=warn,{}", settings.level));
    let is_unreadable = filter.is_err();
    let filter = filter.unwrap_or_else(|_| EnvFilter::new("info"));
    let writer = Redacting { secrets, out: Arc::new(Mutex::new(io::stderr())) };
    // A line that cannot be written is dropped: the default reports that on stderr, and panics if stderr is closed.
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(false)
        .log_internal_errors(false);
    let started = match settings.format {
        LogFormat::Text => builder.with_target(false).try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    if started.is_ok() && is_unreadable {
        tracing::warn!(level = settings.level, "log.level cannot be parsed; logging at level info");
    }
}

/// A writer that removes secrets; one event arrives in one piece.
#[derive(Debug)]
pub struct Redacting<W> {
    pub secrets: Secrets,
    pub out: Arc<Mutex<W>>,
}

impl<W> Clone for Redacting<W> {
    fn clone(&self) -> Self {
        Self { secrets: self.secrets.clone(), out: Arc::clone(&self.out) }
    }
}

impl<W: Write> Write for Redacting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = self.secrets.redact(&String::from_utf8_lossy(bytes));
        self.out.lock().unwrap_or_else(PoisonError::into_inner).write_all(text.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}

impl<'a, W: Write + 'a> MakeWriter<'a> for Redacting<W> {
    type Writer = Self;

    fn make_writer(&'a self) -> Self::Writer {
        self.clone()
    }
}

fn redact(text: &str, secrets: &[SecretString]) -> String {
    let known = secrets.iter().map(ExposeSecret::expose_secret).filter(|secret| !secret.is_empty());
    let text = known.fold(text.to_owned(), |text, secret| text.replace(secret, REDACTED));
    redact_own(&text)
}

fn redact_own(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(OWN_TOKEN) {
        let (before, found) = rest.split_at(at);
        clean.push_str(before);
        let n_hex = found[OWN_TOKEN.len()..].bytes().take_while(u8::is_ascii_hexdigit).count();
        let length = OWN_TOKEN.len() + n_hex;
        clean.push_str(if n_hex >= OWN_TOKEN_HEX { REDACTED } else { &found[..length] });
        rest = &found[length..];
    }
    clean.push_str(rest);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_our_own_tokens_never_pass() {
        let own = format!("fleet_{}", "a1".repeat(32));
        let out = Arc::new(Mutex::new(Vec::new()));
        let secrets = Secrets::new(vec![SecretString::from("coder-secret"), SecretString::from("")]);
        let mut writer = Redacting { secrets: secrets.clone(), out: Arc::clone(&out) };
        secrets.add(SecretString::from("late-secret"));
        writer
            .write_all(
                format!("a coder-secret late-secret b {own} c fleet_mcp_key fleet_12 {own}").as_bytes(),
            )
            .unwrap();
        let written = String::from_utf8(out.lock().unwrap().clone()).unwrap();
        assert_eq!(written, "a [redacted] [redacted] b [redacted] c fleet_mcp_key fleet_12 [redacted]");
    }
}
