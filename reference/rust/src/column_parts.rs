//! Reads the numbers of a long text on several threads.

use std::panic::resume_unwind;
use std::thread;

use crate::columns::{step_columns, Piece};
use crate::Profile;

/// What a thread reads at once. Pieces of a text are not longer, so that it can be read again from near a line.
const PART_BYTES: usize = 1 << 18;

/// As `step_columns`, on at most so many threads.
pub fn step_columns_on(text: &[u8], profile: Profile, threads: usize) -> Vec<Piece> {
    let parts = parts_of(text, text.len() / PART_BYTES);
    let mut shares = parts.chunks(parts.len().div_ceil(threads.max(1)));
    let read = |share: &[&[u8]]| share.iter().flat_map(|part| step_columns(part, profile)).collect::<Vec<_>>();
    thread::scope(|scope| {
        let first = shares.next().unwrap_or_default();
        let others: Vec<_> = shares.map(|share| scope.spawn(move || read(share))).collect();
        let mut found = read(first);
        for other in others {
            found.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        found
    })
}

/// Returns at most so many parts of a text, whole lines of about equal size.
fn parts_of(text: &[u8], most: usize) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    let mut start = 0;
    for number in 1..=most.max(1) {
        let least = (text.len() / most.max(1) * number).max(start);
        let end = memchr::memchr(b'\n', &text[least..]).map_or(text.len(), |at| least + at + 1);
        let end = if number == most.max(1) { text.len() } else { end };
        parts.push(&text[start..end]);
        start = end;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::{parts_of, step_columns, step_columns_on, Piece, PART_BYTES};
    use crate::Profile;

    const LINES: &str = concat!(
        "{\"kind\":\"step\",\"t\":1.5,\"step\":1,\"loss\":2.5,\"lr\":null}\n",
        "{\"kind\":\"step\",\"t\":2.5,\"step\":2,\"loss\":1.5,\"lr\":0.5}\n",
        "{\"kind\":\"step\",\"phase\":\"eval\",\"t\":3.5,\"step\":2,\"loss\":1.5}\n",
        "{\n",
    );

    /// Parts begin where lines do, and are the whole text.
    #[test]
    fn parts_are_whole_lines() {
        let text = b"one\ntwo\n\nthree and four\nfive";
        for most in 0..12 {
            let parts = parts_of(text, most);
            assert_eq!((most.max(1), &text[..]), (parts.len(), &*parts.concat()));
            assert!(parts.iter().all(|part| part.is_empty() || part.ends_with(b"\n") || part.ends_with(b"five")));
        }
    }

    #[test]
    fn threads_change_nothing() {
        let text = LINES.repeat(3 * PART_BYTES / LINES.len());
        for profile in [Profile::Toy, Profile::Metrics, Profile::Kaun] {
            let alone = step_columns(text.as_bytes(), profile);
            for threads in [0, 2, 3] {
                assert!(values(&alone) == values(&step_columns_on(text.as_bytes(), profile, threads)));
            }
        }
    }

    /// Returns step and value of each point of the loss, and the number of bytes of other lines.
    fn values(pieces: &[Piece]) -> (Vec<(i64, u64)>, usize) {
        let (mut found, mut left) = (Vec::new(), 0);
        for piece in pieces {
            match piece {
                Piece::Lines(bytes) => left += bytes,
                Piece::Columns(columns) => {
                    let loss = &columns.columns[0];
                    found.extend(loss.steps.iter().copied().zip(loss.values.iter().map(|value| value.to_bits())));
                }
            }
        }
        (found, left)
    }
}
