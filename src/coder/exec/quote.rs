//! Quotes any text and bytes so that a shell reproduces them unchanged.

use std::fmt::Write;

/// Bytes per line; each may take four characters, and a terminal cuts lines at 4,096.
const BYTES_PER_LINE: usize = 900;

/// Quotes any text as one word of a shell command.
pub(super) fn word(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Commands that print exactly these bytes, in printable ASCII: input passes through JSON and a terminal in line
/// mode, and only ASCII survives both.
pub(super) fn printing(bytes: &[u8]) -> String {
    let mut script = String::with_capacity(bytes.len() * 2);
    for line in bytes.chunks(BYTES_PER_LINE) {
        script.push_str("printf '");
        line.iter().for_each(|byte| push_escaped(&mut script, *byte));
        script.push_str("'\n");
    }
    script
}

fn push_escaped(script: &mut String, byte: u8) {
    match byte {
        b'%' => script.push_str("%%"),
        b'\\' => script.push_str("\\\\"),
        b'\'' => script.push_str("\\047"),
        // A leading hyphen would turn the line into an option.
        b'-' => script.push_str("\\055"),
        b' '..=b'~' => script.push(char::from(byte)),
        // Writing to a string is infallible.
        _ => drop(write!(script, "\\{byte:03o}")),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{printing, word};

    fn output_of(script: &str) -> Vec<u8> {
        // One argument takes 128 KiB at most.
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), script).unwrap();
        let output = Command::new("sh").arg(file.path()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        output.stdout
    }

    #[test]
    fn every_byte_comes_back_through_short_plain_lines() {
        let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
        let script = printing(&bytes);
        assert!(
            script.lines().all(|line| line.len() < 4_000 && line.bytes().all(|b| matches!(b, b' '..=b'~')))
        );
        assert!(output_of(&script) == bytes);
    }

    #[test]
    fn a_word_is_one_word_whatever_is_in_it() {
        let text = "a'b \"c\" $HOME `id` \\ * ; & | <> \n ü % -n";
        assert_eq!(output_of(&format!("printf '%s' {}", word(text))), text.as_bytes());
    }
}
