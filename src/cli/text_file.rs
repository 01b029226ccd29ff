//! Reads a text from a file given on the command line; `-` is standard input.

use std::io::Read;
use std::path::Path;

use super::error::CliError;

pub(super) fn read(file: &Path) -> Result<String, CliError> {
    let mut text = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    read.map_err(|source| CliError::File { path: file.to_owned(), source })
}
