//! Decides whether a string is a date-time: see spec/encoding.md.

const DAYS: [u32; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// Returns whether the text is a date and time that exist, with a zone.
pub(crate) fn is_date_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() < 20 || !has_form(&bytes[..19], b"dddd-dd-ddTdd:dd:dd") {
        return false;
    }
    let Some(minutes) = without_fraction(&bytes[19..]).and_then(zone_minutes) else {
        return false;
    };
    let (hour, minute, second) = (number(&bytes[11..13]), number(&bytes[14..16]), number(&bytes[17..19]));
    if !is_date(bytes) || hour > 23 || minute > 59 || second > 60 {
        return false;
    }
    // A leap second is inserted at the end of a day in UTC, whatever the zone shows.
    second < 60 || ((hour * 60 + minute) as i32 - minutes).rem_euclid(1440) == 1439
}

fn has_form(text: &[u8], form: &[u8]) -> bool {
    let fits = |(&c, &f): (&u8, &u8)| if f == b'd' { c.is_ascii_digit() } else { c == f };
    text.len() == form.len() && text.iter().zip(form).all(fits)
}

fn number(digits: &[u8]) -> u32 {
    digits.iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0'))
}

fn is_date(text: &[u8]) -> bool {
    let (year, month, day) = (number(&text[..4]), number(&text[5..7]), number(&text[8..10]));
    if !(1..=12).contains(&month) {
        return false;
    }
    let leap = month == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    (1..=DAYS[month as usize - 1] + u32::from(leap)).contains(&day)
}

fn without_fraction(rest: &[u8]) -> Option<&[u8]> {
    if rest.first() != Some(&b'.') {
        return Some(rest);
    }
    let digits = rest[1..].iter().take_while(|c| c.is_ascii_digit()).count();
    (digits > 0).then(|| &rest[1 + digits..])
}

/// Returns the offset from UTC in minutes, None where the text is not a zone.
fn zone_minutes(zone: &[u8]) -> Option<i32> {
    if zone == b"Z" {
        return Some(0);
    }
    let (sign, rest) = zone.split_first()?;
    if !matches!(sign, b'+' | b'-') || !has_form(rest, b"dd:dd") {
        return None;
    }
    let (hours, minutes) = (number(&rest[..2]), number(&rest[3..]));
    let offset = (hours * 60 + minutes) as i32;
    (hours <= 23 && minutes <= 59).then_some(if *sign == b'-' { -offset } else { offset })
}
