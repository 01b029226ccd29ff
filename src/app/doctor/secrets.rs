//! Searches files for tokens: fleet tokens by form and hash, the Coder token by its text.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use secrecy::SecretString;

use crate::app::tokens::texts_in;
use crate::coder::Client;
use crate::store::RawFile;

/// Limits the read per file, so that the check of a large database ends soon.
const MOST_BYTES: u64 = 256 << 20;
const CHUNK: usize = 1 << 20;
/// More than the longest token, so that a token across two chunks is found in the second.
const OVERLAP: usize = 512;
/// Limits the lookups for a file full of token-like text.
const MOST_TOKENS: usize = 1_000;

/// Tokens found in one file.
#[derive(Debug, Default)]
pub(super) struct FileFinding {
    pub(super) file: PathBuf,
    /// Texts in the form of a fleet token.
    pub(super) ours: Vec<SecretString>,
    pub(super) has_coder_token: bool,
}

/// Reads each file once; missing logs are skipped.
pub(super) fn search(
    database: Vec<(PathBuf, RawFile)>,
    logs: &[PathBuf],
    coder: &Client,
) -> io::Result<Vec<FileFinding>> {
    let mut found = Vec::new();
    for (path, file) in database {
        found.push(search_file(&path, file, coder)?);
    }
    for path in logs {
        match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => found.push(search_file(path, opened?, coder)?),
        }
    }
    Ok(found)
}

fn search_file(path: &Path, file: impl Read, coder: &Client) -> io::Result<FileFinding> {
    let mut input = file.take(MOST_BYTES);
    let mut found = FileFinding { file: path.to_owned(), ..FileFinding::default() };
    let mut texts = HashSet::new();
    let mut window = Vec::with_capacity(CHUNK + OVERLAP);
    loop {
        window.drain(..window.len().saturating_sub(OVERLAP));
        let n_read = input.by_ref().take(CHUNK as u64).read_to_end(&mut window)?;
        if n_read == 0 {
            found.ours = texts.into_iter().map(SecretString::from).collect();
            return Ok(found);
        }
        found.has_coder_token |= coder.token_is_in(&window);
        texts.extend(texts_in(&window).take(MOST_TOKENS.saturating_sub(texts.len())));
    }
}
