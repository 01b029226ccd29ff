//! Loads the recorded replies of a real Coder server by the number their file name starts with.

use serde_json::Value;
use std::fs;
use std::path::PathBuf;

/// One recorded exchange, or a recorded timeline in `raw["rows"]`.
pub(crate) struct Fixture {
    pub(crate) raw: Value,
}

impl Fixture {
    pub(crate) fn status(&self) -> u16 {
        let status = self.raw["status"].as_u64().expect("this fixture has a status");
        u16::try_from(status).expect("a status code is small")
    }

    pub(crate) fn body(&self) -> &Value {
        &self.raw["body"]
    }

    /// The rows of a recorded timeline.
    pub(crate) fn rows(&self) -> &[Value] {
        self.raw["rows"].as_array().expect("this fixture is a timeline")
    }
}

/// Loads the one fixture whose file name starts with `prefix`, such as `"048"`.
pub(crate) fn fixture(prefix: &str) -> Fixture {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/coder");
    let mut found: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("the fixture folder is there")
        .map(|entry| entry.expect("a fixture's directory entry is readable").path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)))
        .collect();
    assert_eq!(found.len(), 1, "exactly one fixture starts with {prefix:?}: {found:?}");
    let text = fs::read_to_string(found.remove(0)).expect("the fixture is readable");
    Fixture { raw: serde_json::from_str(&text).expect("the fixture is JSON") }
}
