//! The lines the demo engine prints, written by its process and read by its reader.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Said {
    Session { id: String },
    Text { text: String },
    Usage { input_tokens: u64, output_tokens: u64 },
    Complete { text: String },
    Question { text: String },
    Failed { text: String },
}

impl Said {
    pub(super) fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Whatever is not one of our objects was meant for people.
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
        let said = Said::Failed { text: "two\nlines".into() };
        assert_eq!(Said::read(&said.line()), said);
        for line in ["plain", "{\"type\":\"other\"}", "{broken", ""] {
            assert_eq!(Said::read(line), Said::Text { text: line.to_owned() });
        }
    }
}
