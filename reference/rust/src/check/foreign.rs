//! What is known of a stream that follows no known format.

use crate::lines::Line;
use crate::tables::LOOK_HEAD_BYTES;
use crate::tape::Node;

/// A stream that follows no known format: where it begins, and what its first record has.
pub(crate) struct Foreign {
    pub line: u64,
    pub offset: u64,
    /// The first bytes of the line.
    pub text: Vec<u8>,
    /// The keys of the first readable record.
    pub keys: Option<Vec<String>>,
}

impl Foreign {
    pub fn of(line: Line, record: Option<Node>) -> Foreign {
        let text = line.data.unwrap_or(line.head);
        let keys = record.map(|record| record.members().map(|(key, _)| key.string().into_owned()).collect());
        let text = text[..text.len().min(LOOK_HEAD_BYTES)].to_vec();
        Foreign { line: line.number, offset: line.offset, text, keys }
    }
}
