//! What is known of a stream that follows no known format.

use crate::lines::Line;
use crate::tape::Node;

/// A stream that follows no known format: where it begins, and what its first record has.
pub(crate) struct Foreign {
    pub line: u64,
    pub offset: u64,
    /// The first keys of the first readable record.
    pub keys: Option<Vec<String>>,
}

impl Foreign {
    pub fn of(line: Line, record: Option<Node>) -> Foreign {
        let keys = record.map(|record| record.keys());
        Foreign { line: line.number, offset: line.offset, keys }
    }
}
