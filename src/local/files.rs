//! Reads and writes state files of the embedded Coder; errors name the file.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::LocalError;
use crate::files::{self, Durability};

/// The version of the file format; files of another version are refused.
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StateFile<T> {
    format: u32,
    content: T,
}

/// The bytes of a state file.
pub(crate) fn encode<T: Serialize>(content: &T) -> io::Result<Vec<u8>> {
    Ok(serde_json::to_vec(&StateFile { format: FORMAT, content })?)
}

/// The content of a state file; none if it does not exist.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, LocalError> {
    let problem = |problem: String| LocalError::StateFile { path: path.to_owned(), problem };
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(problem(error.to_string())),
    };
    let written: StateFile<serde_json::Value> =
        serde_json::from_slice(&bytes).map_err(|error| problem(error.to_string()))?;
    if written.format != FORMAT {
        return Err(problem(format!("it has format {}, and this version supports {FORMAT}", written.format)));
    }
    serde_path_to_error::deserialize(written.content).map(Some).map_err(|error| problem(error.to_string()))
}

/// All state files of a directory, by name. A partly written file was never in force.
pub(crate) fn read_all<T: DeserializeOwned>(directory: &Path) -> Result<Vec<T>, LocalError> {
    files::sweep(directory).map_err(LocalError::directory(directory))?;
    let entries = std::fs::read_dir(directory).map_err(LocalError::directory(directory))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(LocalError::directory(directory))?.path();
        // An earlier version used another extension for temporary files.
        if path.extension().is_some_and(|extension| extension == "json") {
            paths.push(path);
        }
    }
    paths.sort();
    let read = paths.iter().map(|path| read(path));
    Ok(read.collect::<Result<Vec<Option<T>>, _>>()?.into_iter().flatten().collect())
}

/// Makes a directory that only our user can access.
pub(crate) fn private_directory(path: &Path) -> Result<(), LocalError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(LocalError::directory(path))
}

/// Writes a file that only our user can access.
pub(crate) fn private_file(path: &Path, content: &str) -> Result<(), LocalError> {
    files::replace(path, content.as_bytes(), Durability::Synced).map_err(LocalError::directory(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_what_a_crash_left_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.json");
        assert_eq!(read::<Vec<u8>>(&path).unwrap(), None);
        files::replace(&path, &encode(&vec![1_u8, 2]).unwrap(), Durability::Cached).unwrap();
        for left in [".fleet-b", "a.json.fresh"] {
            std::fs::write(directory.path().join(left), "{\"form").unwrap();
        }
        assert_eq!(read::<Vec<u8>>(&path).unwrap(), Some(vec![1, 2]));
        assert_eq!(read_all::<Vec<u8>>(directory.path()).unwrap(), vec![vec![1, 2]]);
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named_with_its_problem() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.json");
        let problem_of = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let error = read::<Vec<u8>>(&path).unwrap_err().to_string();
            error.replace(&directory.path().display().to_string(), "DIR")
        };
        assert_eq!(
            [problem_of("{\"format\":1,"), problem_of("{\"format\":9,\"content\":[]}")],
            [
                "cannot use the state file DIR/a.json: EOF while parsing a value at line 1 column 12; \
                 move it away to continue without it",
                "cannot use the state file DIR/a.json: it has format 9, and this version supports 1; \
                 move it away to continue without it",
            ]
        );
    }
}
