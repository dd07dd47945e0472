//! Splits a stream of bytes into lines at LF, in pieces of any size.

use crate::tables::EXCERPT_BYTES;

/// One committed line.
#[derive(Clone, Copy)]
pub(crate) struct Line<'a> {
    /// Line number, from 1.
    pub number: u64,
    /// Byte offset of its first byte, from 0.
    pub offset: u64,
    /// Number of bytes before the LF.
    pub length: u64,
    /// The bytes before the LF; None where there are more than the limit.
    pub data: Option<&'a [u8]>,
    /// The first bytes of a line that is longer than the limit.
    pub head: &'a [u8],
}

/// Cuts what is fed into committed lines. A line beyond the limit is counted and never held.
pub(crate) struct Splitter {
    limit: usize,
    /// Number of the line that the next byte belongs to.
    pub number: u64,
    /// Byte offset after the last LF.
    pub committed: u64,
    /// Bytes after the last LF.
    pub pending: u64,
    held: Vec<u8>,
    /// No other byte than NUL came after the last LF.
    pub all_nul: bool,
}

impl Splitter {
    pub fn new(limit: usize) -> Splitter {
        Splitter { limit, number: 1, committed: 0, pending: 0, held: Vec::new(), all_nul: true }
    }

    /// Returns the number of bytes fed so far.
    pub fn size(&self) -> u64 {
        self.committed + self.pending
    }

    /// Takes the bytes up to the first LF of `chunk` and returns how many they are; gives `each` the line that they
    /// commit.
    pub fn feed_one<T>(&mut self, chunk: &[u8], each: impl FnOnce(Line) -> T) -> (usize, Option<T>) {
        let Some(end) = memchr::memchr(b'\n', chunk) else {
            self.extend(chunk);
            return (chunk.len(), None);
        };
        let piece = &chunk[..end];
        let length = self.pending + end as u64;
        let (number, offset) = (self.number, self.committed);
        let fits = length <= self.limit as u64;
        let given = if self.pending == 0 {
            each(Line { number, offset, length, data: fits.then_some(piece), head: &piece[..end.min(EXCERPT_BYTES)] })
        } else {
            self.hold(piece, length);
            let held = self.held.as_slice();
            each(Line {
                number,
                offset,
                length,
                data: fits.then_some(held),
                head: &held[..held.len().min(EXCERPT_BYTES)],
            })
        };
        self.skip(1, length + 1 - self.pending);
        (end + 1, Some(given))
    }

    /// Returns the first bytes after the last LF.
    pub fn fragment_head(&self) -> &[u8] {
        &self.held[..self.held.len().min(EXCERPT_BYTES)]
    }

    /// Counts whole lines, `size` bytes together with what is pending, that were checked elsewhere.
    pub fn skip(&mut self, lines: u64, size: u64) {
        self.number += lines;
        self.committed += self.pending + size;
        self.drop_fragment();
    }

    /// Forgets the bytes after the last LF, as if they had not been fed.
    pub fn drop_fragment(&mut self) {
        self.pending = 0;
        self.all_nul = true;
        self.held.clear();
        // The memory of one long line is not kept.
        self.held.shrink_to(1 << 20);
    }

    fn extend(&mut self, piece: &[u8]) {
        self.all_nul &= piece.iter().all(|&byte| byte == 0);
        self.pending += piece.len() as u64;
        self.hold(piece, self.pending);
    }

    /// Holds the next piece of a line of `length` bytes so far; of one that is too long, only its first bytes.
    fn hold(&mut self, piece: &[u8], length: u64) {
        if length > self.limit as u64 {
            self.held.truncate(EXCERPT_BYTES);
            self.held.shrink_to(EXCERPT_BYTES);
            let room = EXCERPT_BYTES - self.held.len();
            self.held.extend_from_slice(&piece[..piece.len().min(room)]);
        } else {
            self.held.extend_from_slice(piece);
        }
    }
}

/// Returns whether a line holds nothing but white space.
pub(crate) fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
}
