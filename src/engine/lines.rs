//! Splits the output of engines into lines of limited length.

/// The maximum length of a line; the rest of a longer line is dropped.
const MAX_LINE: usize = 1024 * 1024;

/// Splits a stream of bytes into lines; holds at most one line.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    partial: Vec<u8>,
}

impl Lines {
    /// Adds bytes and passes each completed line to `each`.
    pub(crate) fn push(&mut self, bytes: &[u8], each: &mut dyn FnMut(&str)) {
        let mut pieces = bytes.split(|byte| *byte == b'\n');
        let mut piece = pieces.next().unwrap_or_default();
        for next in pieces {
            self.keep(piece);
            each(&String::from_utf8_lossy(&self.partial));
            self.partial.clear();
            piece = next;
        }
        self.keep(piece);
    }

    /// Passes on a last line without a line break.
    pub(crate) fn finish(self, each: &mut dyn FnMut(&str)) {
        if !self.partial.is_empty() {
            each(&String::from_utf8_lossy(&self.partial));
        }
    }

    fn keep(&mut self, piece: &[u8]) {
        let room = MAX_LINE.saturating_sub(self.partial.len());
        self.partial.extend_from_slice(&piece[..piece.len().min(room)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_however_the_bytes_arrive() {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        for piece in ["on", "e\ntw", "o\n\nthr", "ee"] {
            lines.push(piece.as_bytes(), &mut |line| seen.push(line.to_owned()));
        }
        lines.finish(&mut |line| seen.push(line.to_owned()));
        assert_eq!(seen, ["one", "two", "", "three"]);
    }

    #[test]
    fn an_endless_line_is_cut_and_the_next_one_is_whole_again() {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        let flood = vec![b'x'; MAX_LINE];
        for piece in [&flood[..], &flood[..], b"\nshort\n"] {
            lines.push(piece, &mut |line| seen.push(line.len()));
        }
        assert_eq!(seen, [MAX_LINE, 5]);
        assert!(lines.partial.capacity() <= 2 * MAX_LINE);
    }
}
