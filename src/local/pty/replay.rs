//! Keeps the newest output of a terminal for clients that attach later.

use std::collections::VecDeque;

use bytes::Bytes;

/// As much as a real agent keeps.
const CAPACITY: usize = 64 * 1024;

#[derive(Debug, Default)]
pub(super) struct Replay {
    bytes: VecDeque<u8>,
}

impl Replay {
    pub(super) fn push(&mut self, chunk: &[u8]) {
        let kept = &chunk[chunk.len().saturating_sub(CAPACITY)..];
        let n_over = (self.bytes.len() + kept.len()).saturating_sub(CAPACITY);
        self.bytes.drain(..n_over);
        self.bytes.extend(kept);
    }

    pub(super) fn contents(&self) -> Bytes {
        self.bytes.iter().copied().collect::<Vec<u8>>().into()
    }
}

#[cfg(test)]
mod tests {
    use super::{CAPACITY, Replay};

    #[test]
    fn only_the_newest_bytes_are_kept() {
        let mut replay = Replay::default();
        replay.push(b"gone");
        replay.push(&vec![b'a'; CAPACITY - 3]);
        replay.push(b"end");
        let expected = [vec![b'a'; CAPACITY - 3], b"end".to_vec()].concat();
        assert_eq!(replay.contents(), expected);
    }

    #[test]
    fn a_chunk_beyond_the_capacity_keeps_its_tail() {
        let mut replay = Replay::default();
        replay.push(b"gone");
        replay.push(&[b"head".to_vec(), vec![b'b'; CAPACITY]].concat());
        assert_eq!(replay.contents(), vec![b'b'; CAPACITY]);
    }
}
