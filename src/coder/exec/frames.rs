//! Splits a script's output at a random mark, buffering no more than the mark's length.

use bytes::{Bytes, BytesMut};
use uuid::Uuid;

/// A part of the output.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Bytes(Bytes),
    Mark,
}

/// Finds the mark in a stream.
#[derive(Debug)]
pub(super) struct Frames {
    mark: Vec<u8>,
    /// How far the search may advance, by the byte at the mark's last position.
    jumps: [usize; 256],
    buffer: BytesMut,
}

/// An unguessable mark; it never appears in a command line.
pub(super) fn fresh_mark() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

impl Frames {
    pub(super) fn new(mark: &str) -> Self {
        let mark = mark.as_bytes().to_vec();
        let mut jumps = [mark.len(); 256];
        for (at, byte) in mark.iter().enumerate().take(mark.len().saturating_sub(1)) {
            jumps[usize::from(*byte)] = mark.len() - 1 - at;
        }
        Self { mark, jumps, buffer: BytesMut::new() }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete part. Bytes that may begin a mark wait for further input.
    pub(super) fn next(&mut self) -> Option<Piece> {
        let (before, is_found) = self.search();
        if before > 0 {
            return Some(Piece::Bytes(self.buffer.split_to(before).freeze()));
        }
        if !is_found {
            return None;
        }
        let _mark = self.buffer.split_to(self.mark.len());
        Some(Piece::Mark)
    }

    /// How many bytes certainly precede the next mark, and whether that mark is complete.
    fn search(&self) -> (usize, bool) {
        let mut at = 0;
        while let Some(window) = self.buffer.get(at..at + self.mark.len()) {
            if window == self.mark {
                return (at, true);
            }
            at += window.last().map_or(1, |last| self.jumps[usize::from(*last)]);
        }
        // The search never advances past a possible beginning of the mark.
        (at.min(self.buffer.len()), false)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, prop, proptest};

    use super::{Frames, Piece};

    /// The output, joined between marks, when the input arrives in parts of this size.
    fn cut(mark: &str, input: &[u8], size: usize) -> Vec<Vec<u8>> {
        let mut frames = Frames::new(mark);
        let mut found = vec![Vec::new()];
        for part in input.chunks(size) {
            frames.push(part);
            while let Some(piece) = frames.next() {
                match piece {
                    Piece::Bytes(bytes) => found.last_mut().unwrap().extend_from_slice(&bytes),
                    Piece::Mark => found.push(Vec::new()),
                }
            }
        }
        assert!(frames.buffer.len() < mark.len());
        found
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        #[test]
        fn everything_between_marks_comes_out_however_it_arrives(
            parts in prop::collection::vec(prop::collection::vec(prop::sample::select(b"abc".to_vec()), 0..12), 1..6),
            size in 1_usize..9,
        ) {
            // The parts hold beginnings of the mark, but never all of it.
            let parts: Vec<Vec<u8>> = parts.into_iter().filter(|part| !part.windows(4).any(|w| w == b"abca")).collect();
            let mark = b"abca|";
            let input = parts.iter().flat_map(|part| [part.as_slice(), mark]).collect::<Vec<_>>().concat();
            let mut expected = parts;
            expected.push(Vec::new());
            assert_eq!(cut("abca|", &input, size), expected);
        }
    }

    #[test]
    fn less_than_a_mark_is_held_back() {
        let mut frames = Frames::new("0123");
        frames.push(b"hello01");
        assert_eq!(frames.next(), Some(Piece::Bytes("hell".into())));
        assert_eq!(frames.next(), None);
    }
}
