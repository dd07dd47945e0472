//! Resolves the escapes of JSON strings, half surrogate pairs included.

use std::borrow::Cow;

/// Returns the bytes of a string whose escapes are well formed: UTF-8, half a surrogate pair encoded as if it were
/// a character.
pub(crate) fn unescaped(body: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = memchr::memchr(b'\\', body) else {
        return Cow::Borrowed(body);
    };
    let mut out = body[..first].to_vec();
    let mut at = first;
    while at < body.len() {
        if body[at] != b'\\' {
            let end = memchr::memchr(b'\\', &body[at..]).map_or(body.len(), |n| at + n);
            out.extend_from_slice(&body[at..end]);
            at = end;
            continue;
        }
        let (code, length) = escape(&body[at..]);
        push(&mut out, code);
        at += length;
    }
    Cow::Owned(out)
}

/// Returns the first escape of a string that is half a surrogate pair.
pub(crate) fn lone_surrogate(body: &[u8]) -> Option<&[u8]> {
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &body[at..]) {
        at += found;
        let (code, length) = escape(&body[at..]);
        if (0xD800..0xE000).contains(&code) {
            return Some(&body[at..at + length]);
        }
        at += length;
    }
    None
}

/// Returns the text of unescaped bytes, half a surrogate pair as U+FFFD.
pub(crate) fn shown(bytes: &[u8]) -> Cow<'_, str> {
    with_surrogates(bytes, |_| "\u{FFFD}".to_string())
}

/// Returns the text of unescaped bytes, half a surrogate pair as its escape.
pub(crate) fn visible(bytes: &[u8]) -> Cow<'_, str> {
    with_surrogates(bytes, |code| format!("\\u{code:04x}"))
}

fn with_surrogates(bytes: &[u8], text_of: impl Fn(u32) -> String) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        // No other sequence begins so: the bytes around it are UTF-8.
        if bytes[at] == 0xED && bytes.get(at + 1).is_some_and(|&next| next >= 0xA0) {
            let code = 0xD000 | u32::from(bytes[at + 1] & 0x3F) << 6 | u32::from(bytes[at + 2] & 0x3F);
            out.extend_from_slice(text_of(code).as_bytes());
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

/// Returns the code of the escape, or pair of escapes, at the start, and its length.
fn escape(text: &[u8]) -> (u32, usize) {
    let code = match text[1] {
        b'b' => 8,
        b'f' => 12,
        b'n' => 10,
        b'r' => 13,
        b't' => 9,
        b'u' => return unicode_escape(text),
        other => u32::from(other),
    };
    (code, 2)
}

fn unicode_escape(text: &[u8]) -> (u32, usize) {
    let high = hex(&text[2..6]);
    if (0xD800..0xDC00).contains(&high) && text.len() >= 12 && &text[6..8] == b"\\u" {
        let low = hex(&text[8..12]);
        if (0xDC00..0xE000).contains(&low) {
            return (0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00), 12);
        }
    }
    (high, 6)
}

fn hex(digits: &[u8]) -> u32 {
    digits.iter().fold(0, |code, &digit| code << 4 | (digit as char).to_digit(16).unwrap_or(0))
}

fn push(out: &mut Vec<u8>, code: u32) {
    if let Some(character) = char::from_u32(code) {
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    } else {
        out.extend([0xE0 | (code >> 12) as u8, 0x80 | (code >> 6 & 0x3F) as u8, 0x80 | (code & 0x3F) as u8]);
    }
}
