//! Tracing to stderr, with secrets redacted.
