//! Goes over values that hold others, and over values of any type. None stands for "not proven".

use crate::check::words::{byte, number, space, string};

/// Open containers inside an open map that are gone into.
const MAX_INNER_DEPTH: usize = 32;
const MAX_UNSORTED_KEYS: usize = 32;

/// Goes over `true` or `false`.
pub(crate) fn boolean(text: &[u8], at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    let length = if rest.starts_with(b"true") { 4 } else { 5 };
    (length == 4 || rest.starts_with(b"false")).then_some(at + length)
}

/// Goes over a value of any type, all of whose integers are exact in binary64.
pub(crate) fn exact(text: &[u8], at: usize, depth: usize) -> Option<usize> {
    match byte(text, at) {
        b'{' if depth < MAX_INNER_DEPTH => object(text, at, |at| exact(text, at, depth + 1)),
        b'[' if depth < MAX_INNER_DEPTH => array(text, at, |at| exact(text, at, depth + 1)),
        b'-' | b'0'..=b'9' => number(text, at).filter(|literal| literal.is_safe()).map(|literal| literal.end),
        _ => scalar(text, at),
    }
}

/// Goes over a value of any type.
pub(crate) fn anything(text: &[u8], at: usize, depth: usize) -> Option<usize> {
    match byte(text, at) {
        b'{' if depth < MAX_INNER_DEPTH => object(text, at, |at| anything(text, at, depth + 1)),
        b'[' if depth < MAX_INNER_DEPTH => array(text, at, |at| anything(text, at, depth + 1)),
        _ => scalar(text, at),
    }
}

fn scalar(text: &[u8], at: usize) -> Option<usize> {
    match byte(text, at) {
        b'"' => string(text, at + 1, true),
        b't' | b'f' => boolean(text, at),
        b'n' => (text.get(at..at + 4)? == b"null").then_some(at + 4),
        b'-' | b'0'..=b'9' => number(text, at).map(|literal| literal.end),
        _ => None,
    }
}

/// Goes over an array.
pub(crate) fn array(text: &[u8], at: usize, mut item: impl FnMut(usize) -> Option<usize>) -> Option<usize> {
    if byte(text, at) != b'[' {
        return None;
    }
    let mut at = space(text, at + 1);
    if byte(text, at) == b']' {
        return Some(at + 1);
    }
    loop {
        at = space(text, item(at)?);
        match byte(text, at) {
            b',' => at = space(text, at + 1),
            b']' => return Some(at + 1),
            _ => return None,
        }
    }
}

/// Goes over an object whose keys differ.
pub(crate) fn object(text: &[u8], at: usize, mut value: impl FnMut(usize) -> Option<usize>) -> Option<usize> {
    if byte(text, at) != b'{' {
        return None;
    }
    let mut keys = Keys { seen: [(0, 0); MAX_UNSORTED_KEYS], count: 0, is_sorted: true };
    let mut at = space(text, at + 1);
    if byte(text, at) == b'}' {
        return Some(at + 1);
    }
    loop {
        if byte(text, at) != b'"' {
            return None;
        }
        let end = string(text, at + 1, false)?;
        if !keys.is_new(text, (at + 1, end - 1)) {
            return None;
        }
        let colon = space(text, end);
        if byte(text, colon) != b':' {
            return None;
        }
        at = space(text, value(space(text, colon + 1))?);
        match byte(text, at) {
            b',' => at = space(text, at + 1),
            b'}' => return Some(at + 1),
            _ => return None,
        }
    }
}

/// The keys of an object so far; while they are sorted, the last one is enough.
struct Keys {
    seen: [(usize, usize); MAX_UNSORTED_KEYS],
    count: usize,
    is_sorted: bool,
}

impl Keys {
    /// Returns whether a key is another one than all before; false means "not proven".
    fn is_new(&mut self, text: &[u8], key: (usize, usize)) -> bool {
        let bytes = &text[key.0..key.1];
        let (start, end) = self.seen[(self.count.max(1) - 1) % MAX_UNSORTED_KEYS];
        self.is_sorted &= self.count == 0 || text[start..end] < *bytes;
        if !self.is_sorted {
            let is_full = self.count >= MAX_UNSORTED_KEYS;
            if is_full || self.seen[..self.count].iter().any(|&(start, end)| text[start..end] == *bytes) {
                return false;
            }
        }
        self.seen[self.count % MAX_UNSORTED_KEYS] = key;
        self.count += 1;
        true
    }
}
