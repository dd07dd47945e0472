//! Goes over tokens eight bytes at a time. None stands for "not proven": the exact path looks at the line then.
//!
//! The text is whole lines of UTF-8, so that no token goes past its line: no token holds a line feed.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;
const ZEROS: u64 = ONES * b'0' as u64;
const POWERS: [f64; 17] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16];
const WHOLE_POWERS: [u64; 9] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
/// Integers below it are binary64 values.
const EXACT: u64 = 1 << 53;
/// So many digits of an integer are within what binary64 holds exactly.
const SAFE_DIGITS: usize = 15;

/// A number of the grammar of JSON that is finite.
#[derive(Clone, Copy)]
pub(crate) struct Literal {
    pub start: usize,
    pub end: usize,
    /// Number of digits before the point.
    whole: usize,
    /// Number of digits after it.
    fraction: usize,
    pub is_negative: bool,
    pub has_exponent: bool,
}

impl Literal {
    /// Returns whether the number is written without fraction and exponent.
    pub fn is_integer(&self) -> bool {
        self.fraction == 0 && !self.has_exponent
    }

    /// Returns whether an integer is exact in binary64; what is not an integer is.
    pub fn is_safe(&self) -> bool {
        !self.is_integer() || self.whole <= SAFE_DIGITS
    }

    /// Returns whether the absolute value is surely below that of the first number that is not binary32.
    pub fn is_small(&self) -> bool {
        self.whole <= 38 && !self.has_exponent
    }

    /// Returns the nearest binary64 value.
    #[inline(always)]
    pub fn value(&self, text: &[u8]) -> Option<f64> {
        if !self.is_negative && !self.has_exponent && self.whole <= 8 && self.fraction <= 8 {
            let mut mantissa = number_of(word(text, self.start)?, self.whole);
            if self.fraction > 0 {
                let fraction = number_of(word(text, self.start + self.whole + 1)?, self.fraction);
                mantissa = mantissa * WHOLE_POWERS[self.fraction] + fraction;
            }
            if mantissa < EXACT {
                // Both are exact, so that the division is rounded once.
                return Some(mantissa as f64 / POWERS[self.fraction]);
            }
        }
        self.long_value(text)
    }

    fn long_value(&self, text: &[u8]) -> Option<f64> {
        let digits = text[self.start + usize::from(self.is_negative)..self.end].iter().filter(|byte| **byte != b'.');
        if !self.has_exponent && self.whole + self.fraction <= 16 {
            let mantissa = digits.fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
            if mantissa < EXACT {
                let value = mantissa as f64 / POWERS[self.fraction];
                return Some(if self.is_negative { -value } else { value });
            }
        }
        std::str::from_utf8(&text[self.start..self.end]).ok()?.parse().ok()
    }
}

/// Bytes that are looked for, in the form of words.
#[derive(Clone, PartialEq)]
pub(crate) struct Token {
    words: [u64; 2],
    masks: [u64; 2],
    /// What follows the first two words.
    rest: Box<[u8]>,
    pub length: usize,
}

impl Token {
    pub fn new(text: &str) -> Token {
        let bytes = text.as_bytes();
        let rest = bytes[bytes.len().min(16)..].into();
        let mut token = Token { words: [0; 2], masks: [0; 2], rest, length: bytes.len() };
        for (at, byte) in bytes.iter().take(16).enumerate() {
            token.words[at / 8] |= u64::from(*byte) << (8 * (at % 8));
            token.masks[at / 8] |= 0xFF << (8 * (at % 8));
        }
        token
    }

    /// Returns whether the token is at a place whose first word is `head`; false also near the end of the text.
    #[inline(always)]
    pub fn is_at_with_head(&self, head: u64, text: &[u8], at: usize) -> bool {
        head & self.masks[0] == self.words[0]
            && (self.masks[1] == 0 || word(text, at + 8).is_some_and(|tail| tail & self.masks[1] == self.words[1]))
            && (self.rest.is_empty() || text.get(at + 16..at + self.length) == Some(&*self.rest))
    }

    /// Returns whether the token is at a place; false also near the end of the text.
    #[inline(always)]
    pub fn is_at(&self, text: &[u8], at: usize) -> bool {
        word(text, at).is_some_and(|head| self.is_at_with_head(head, text, at))
    }
}

#[inline(always)]
pub(crate) fn word(text: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(text.get(at..at + 8)?.try_into().ok()?))
}

#[inline(always)]
pub(crate) fn byte(text: &[u8], at: usize) -> u8 {
    text.get(at).copied().unwrap_or(0)
}

/// Returns the number of digits that a word begins with.
#[inline(always)]
fn digits_in(word: u64) -> usize {
    let digits = word ^ ZEROS;
    // A byte above 9 sets its highest bit; what it carries spoils only bytes after it.
    let others = (digits.wrapping_add(ONES * 0x76) | digits) & HIGHS;
    others.trailing_zeros() as usize / 8
}

/// Returns the value of the first `count` digits of a word, 1 to 8.
#[inline(always)]
fn number_of(word: u64, count: usize) -> u64 {
    let digits = (word ^ ZEROS) << (64 - 8 * count);
    let pairs = (digits.wrapping_mul(10) + (digits >> 8)) & 0x00FF_00FF_00FF_00FF;
    let fours = (pairs.wrapping_mul(100) + (pairs >> 16)) & 0x0000_FFFF_0000_FFFF;
    fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xFFFF_FFFF
}

#[inline(always)]
fn skip_digits(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let count = digits_in(word(text, at)?);
        at += count;
        if count < 8 {
            return Some(at);
        }
    }
}

/// Goes over a number.
#[inline(always)]
pub(crate) fn number(text: &[u8], start: usize) -> Option<Literal> {
    let is_negative = byte(text, start) == b'-';
    let first = start + usize::from(is_negative);
    let mut end = skip_digits(text, first)?;
    let whole = end - first;
    if whole == 0 || whole > 200 || whole > 1 && byte(text, first) == b'0' {
        return None;
    }
    let mut fraction = 0;
    if byte(text, end) == b'.' {
        let point = end;
        end = skip_digits(text, end + 1)?;
        fraction = end - point - 1;
        if fraction == 0 {
            return None;
        }
    }
    let has_exponent = byte(text, end) | 0x20 == b'e';
    if has_exponent {
        let digits = end + 1 + usize::from(matches!(byte(text, end + 1), b'+' | b'-'));
        end = skip_digits(text, digits)?;
        // With two digits of an exponent, no number of two hundred digits overflows.
        if end == digits || end > digits + 2 {
            return None;
        }
    }
    Some(Literal { start, end, whole, fraction, is_negative, has_exponent })
}

/// Goes over an integer that is not negative; returns its value and where it ends.
#[inline(always)]
pub(crate) fn count(text: &[u8], start: usize) -> Option<(u64, usize)> {
    let head = word(text, start)?;
    let digits = digits_in(head);
    if digits == 0 || digits > 1 && head as u8 == b'0' {
        return None;
    }
    let mut value = number_of(head, digits);
    let mut end = start + digits;
    if digits == 8 {
        let tail = word(text, end)?;
        let more = digits_in(tail);
        if more > SAFE_DIGITS - 8 {
            return None;
        }
        if more > 0 {
            value = value * WHOLE_POWERS[more] + number_of(tail, more);
            end += more;
        }
    }
    if matches!(byte(text, end), b'.' | b'e' | b'E') {
        return None;
    }
    Some((value, end))
}

/// Goes over an integer that is not negative; with `floats` it may have a fraction and an exponent. Returns its value
/// and where it ends.
#[inline(always)]
pub(crate) fn integer(text: &[u8], start: usize, floats: bool) -> Option<(u64, usize)> {
    count(text, start).or_else(|| if floats { integer_as_float(text, start) } else { None })
}

#[inline(never)]
fn integer_as_float(text: &[u8], start: usize) -> Option<(u64, usize)> {
    let literal = number(text, start).filter(|literal| !literal.is_integer())?;
    let value = literal.value(text)?;
    let integer = value as u64;
    (integer as f64 == value && integer < EXACT).then_some((integer, literal.end))
}

/// Returns where a string ends whose opening quote is before `at`; `escapes` says whether it may have some.
#[inline(always)]
pub(crate) fn string(text: &[u8], mut at: usize, escapes: bool) -> Option<usize> {
    loop {
        let word = word(text, at)?;
        let quote = word ^ (ONES * b'"' as u64);
        let backslash = word ^ (ONES * b'\\' as u64);
        let found = (quote.wrapping_sub(ONES) & !quote
            | backslash.wrapping_sub(ONES) & !backslash
            | word.wrapping_sub(ONES * 0x20) & !word)
            & HIGHS;
        if found == 0 {
            at += 8;
            continue;
        }
        at += found.trailing_zeros() as usize / 8;
        match byte(text, at) {
            b'"' => return Some(at + 1),
            b'\\' if escapes => at = escape(text, at)?,
            _ => return None,
        }
    }
}

/// Returns where an escape ends that stands for a whole character.
fn escape(text: &[u8], at: usize) -> Option<usize> {
    match byte(text, at + 1) {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(at + 2),
        b'u' => {
            let hex = text.get(at + 2..at + 6)?;
            if !hex.iter().all(u8::is_ascii_hexdigit) {
                return None;
            }
            let is_half = |hex: &[u8]| matches!(hex[0], b'd' | b'D') && hex[1] >= b'8';
            if !is_half(hex) {
                return Some(at + 6);
            }
            let low = text.get(at + 6..at + 12)?;
            let is_pair = !is_low(hex) && low.starts_with(b"\\u") && is_half(&low[2..]) && is_low(&low[2..]);
            (is_pair && low[2..].iter().all(u8::is_ascii_hexdigit)).then_some(at + 12)
        }
        _ => None,
    }
}

/// Returns whether the digits of a half of a surrogate pair are those of the second half.
fn is_low(hex: &[u8]) -> bool {
    matches!(hex[1] | 0x20, b'c'..=b'f')
}

#[inline(always)]
pub(crate) fn space(text: &[u8], mut at: usize) -> usize {
    while matches!(byte(text, at), b' ' | b'\t') {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::{count, number};
    use crate::test_random::{rounds, Random};

    /// A number that is taken in has the value that the standard library reads, to the last bit.
    #[test]
    fn values_are_the_nearest() {
        let mut random = Random::new(3);
        let mut digits = |most: usize| -> String {
            let length = 1 + random.below(most);
            (0..length).map(|_| char::from(b'0' + random.below(10) as u8)).collect()
        };
        for round in 0..rounds(1_000_000) {
            let whole = digits(if round % 7 == 0 { 30 } else { 9 });
            let fraction = digits(if round % 5 == 0 { 30 } else { 9 });
            let text = match round % 4 {
                0 => whole,
                1 => format!("-{whole}.{fraction}"),
                2 => format!("{whole}.{fraction}e-{}", digits(2)),
                _ => format!("{whole}.{fraction}"),
            };
            let padded = format!("{text}, and more after it");
            if let Some(literal) = number(padded.as_bytes(), 0) {
                assert_eq!(text.len(), literal.end);
                let value = literal.value(padded.as_bytes()).unwrap();
                assert_eq!(text.parse::<f64>().unwrap().to_bits(), value.to_bits(), "{text}");
            } else {
                assert!(text.trim_start_matches('-').starts_with('0') && text.len() > 1, "{text}");
            }
            if let Some((value, end)) = count(padded.as_bytes(), 0) {
                assert_eq!((text.parse(), text.len()), (Ok(value), end));
            }
        }
    }
}
