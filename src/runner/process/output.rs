//! Bounds the output of engines: lines of limited length, and the end of a long text.

/// The rest of a longer line is dropped.
const MAX_LINE: usize = 1024 * 1024;
/// How much of an answer is kept.
const MAX_TEXT: usize = 64 * 1024;

/// Splits a byte stream into lines and buffers at most one of them.
#[derive(Debug, Default)]
pub(super) struct Lines {
    partial: Vec<u8>,
}

impl Lines {
    /// Adds bytes and passes on every completed line.
    pub(super) fn push(&mut self, bytes: &[u8], each: &mut dyn FnMut(&str)) {
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

    /// The last line, if it lacks a line break.
    pub(super) fn finish(self, each: &mut dyn FnMut(&str)) {
        if !self.partial.is_empty() {
            each(&String::from_utf8_lossy(&self.partial));
        }
    }

    fn keep(&mut self, piece: &[u8]) {
        let room = MAX_LINE.saturating_sub(self.partial.len());
        self.partial.extend_from_slice(&piece[..piece.len().min(room)]);
    }
}

/// The end of an engine's answer, one paragraph per line, and how much preceded it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Transcript {
    kept: String,
    n_dropped: usize,
}

impl Transcript {
    pub(crate) fn push(&mut self, text: &str) {
        self.kept.push_str(text);
        // Only now and then, since dropping moves the rest.
        if self.kept.len() > 2 * MAX_TEXT {
            self.drop_front();
        }
    }

    /// The text for people: without the final line break, and with a note about what is omitted.
    pub(crate) fn text(&self) -> String {
        let mut whole = self.clone();
        whole.drop_front();
        let kept = whole.kept.trim_end_matches('\n');
        if whole.n_dropped == 0 {
            return kept.to_owned();
        }
        format!("[{} bytes before this are omitted]\n{kept}", whole.n_dropped)
    }

    fn drop_front(&mut self) {
        let mut cut = self.kept.len().saturating_sub(MAX_TEXT);
        while !self.kept.is_char_boundary(cut) {
            cut += 1;
        }
        self.kept.drain(..cut);
        self.n_dropped += cut;
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

    #[test]
    fn a_long_text_keeps_its_end_at_a_character_boundary_and_counts_the_rest() {
        let mut transcript = Transcript::default();
        transcript.push("short\n");
        assert_eq!(transcript.text(), "short");
        for _ in 0..MAX_TEXT {
            transcript.push("äöü\n");
        }
        let text = transcript.text();
        let n_kept = text.split_once('\n').unwrap().1.len() + 1;
        let n_dropped = "short\n".len() + 7 * MAX_TEXT - n_kept;
        assert!(text.starts_with(&format!("[{n_dropped} bytes before this are omitted]\n")), "{n_kept}");
        assert!(n_kept <= MAX_TEXT && transcript.kept.len() <= 2 * MAX_TEXT);
    }
}
