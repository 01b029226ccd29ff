//! Client messages to a terminal, and their wire format.

use serde::Deserialize;

/// One message of a client to a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PtyInput {
    /// Typed or piped input.
    Data(String),
    Resize {
        width: u16,
        height: u16,
    },
}

#[derive(Deserialize)]
struct Frame {
    #[serde(default)]
    data: String,
    #[serde(default)]
    width: u16,
    #[serde(default)]
    height: u16,
}

/// Parses the JSON objects of one message. A size with a zero is ignored, as by a real agent.
pub(super) fn parse(message: &[u8]) -> serde_json::Result<Vec<PtyInput>> {
    let mut inputs = Vec::new();
    for frame in serde_json::Deserializer::from_slice(message).into_iter::<Frame>() {
        let Frame { data, width, height } = frame?;
        if !data.is_empty() {
            inputs.push(PtyInput::Data(data));
        }
        if width > 0 && height > 0 {
            inputs.push(PtyInput::Resize { width, height });
        }
    }
    Ok(inputs)
}

#[cfg(test)]
mod tests {
    use super::{PtyInput, parse};

    #[test]
    fn one_message_may_hold_data_and_sizes() {
        let message =
            br#"{"data":"ls\n"} {"width":80,"height":24} {"width":80} {"data":"x","width":1,"height":2}"#;
        let expected = vec![
            PtyInput::Data("ls\n".to_owned()),
            PtyInput::Resize { width: 80, height: 24 },
            PtyInput::Data("x".to_owned()),
            PtyInput::Resize { width: 1, height: 2 },
        ];
        assert_eq!(parse(message).unwrap(), expected);
    }

    #[test]
    fn what_is_not_json_is_refused() {
        assert!(parse(b"ls\n").is_err());
    }
}
