//! The output lines of the demo engine, written by its process and read by its reader.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum DemoLine {
    Session { id: String },
    Text { text: String },
    Usage { input_tokens: u64, output_tokens: u64 },
    Complete { text: String },
    Question { text: String },
    Failed { text: String },
}

impl DemoLine {
    pub(super) fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Any other line is plain text.
    pub(super) fn read(line: &str) -> Self {
        let object = line.starts_with('{').then(|| serde_json::from_str(line).ok()).flatten();
        object.unwrap_or_else(|| Self::Text { text: line.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_come_back_and_anything_else_is_text() {
        let failed = DemoLine::Failed { text: "two\nlines".into() };
        assert_eq!(DemoLine::read(&failed.line()), failed);
        for line in ["plain", "{\"type\":\"other\"}", "{broken", ""] {
            assert_eq!(DemoLine::read(line), DemoLine::Text { text: line.to_owned() });
        }
    }
}
