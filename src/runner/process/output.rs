//! Bounds the output of engines: lines of limited length, and the end of a long text.

use crate::domain::text::tail;

/// How much of an answer is kept.
const MAX_TEXT: usize = 64 * 1024;

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
        let cut = self.kept.len() - tail(&self.kept, MAX_TEXT).len();
        self.kept.drain(..cut);
        self.n_dropped += cut;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
