//! Makes text from a log inert before it reaches a terminal, a CI log or a page.

use std::borrow::Cow;

use crate::tables::MAX_MESSAGE_VALUE_CHARS;

/// Returns the text with every character escaped that moves a cursor, breaks a line or changes how others are shown.
/// A backslash stays a backslash: the result is for people, not for decoding.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| (0x20..0x7F).contains(&byte)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        let code = character as u32;
        if code < 0x20 || (0x7F..0xA0).contains(&code) {
            out += &format!("\\x{code:02x}");
        } else if is_deceptive(code) {
            out += &if code <= 0xFFFF { format!("\\u{code:04x}") } else { format!("\\U{code:08x}") };
        } else {
            out.push(character);
        }
    }
    Cow::Owned(out)
}

/// Returns inert text, cut to the number of characters that a message shows of a value.
pub(crate) fn shortened(text: &str) -> String {
    let limit = MAX_MESSAGE_VALUE_CHARS;
    let end = text.char_indices().nth(limit).map_or(text.len(), |(at, _)| at);
    let shown = printable(&text[..end]);
    if end == text.len() && shown.chars().count() <= limit {
        return shown.into_owned();
    }
    shown.chars().take(limit - 1).chain(['…']).collect()
}

/// Returns whether a character changes how the text around it is shown: marks of direction, invisible separators,
/// line and paragraph separators, the byte order mark, annotations and tags.
fn is_deceptive(code: u32) -> bool {
    matches!(code, 0xAD | 0x61C | 0x180E | 0xFEFF | 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F)
        || matches!(code, 0xFFF9..=0xFFFB | 0xE0000..=0xE007F)
}
