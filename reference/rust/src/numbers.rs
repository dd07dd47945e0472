//! The canonical text of numbers: see spec/encoding.md.

/// Returns the canonical text of a finite number: the shortest digits that read back to it.
pub fn binary64_text(number: f64) -> String {
    layout(ryu::Buffer::new().format_finite(number))
}

/// Returns the canonical text of a finite binary32 number: the shortest digits that read back to it by way of binary64.
pub fn binary32_text(number: f32) -> String {
    // The binary64 value nearest to 7.038531e-26 is the middle between these two, and reads back as the even one.
    match number.to_bits() & 0x7FFF_FFFF {
        0x15AE_43FD => layout(if number < 0.0 { "-7.0385307e-26" } else { "7.0385307e-26" }),
        0x15AE_43FE => layout(if number < 0.0 { "-7.038531e-26" } else { "7.038531e-26" }),
        _ => layout(ryu::Buffer::new().format_finite(number)),
    }
}

/// Returns the digits of a number of JSON whose value is an integer, None of any other: text of digits only is exact,
/// any other text stands for the nearest binary64 value.
pub(crate) fn integer_of(literal: &str) -> Option<String> {
    let digits = literal.strip_prefix('-').unwrap_or(literal);
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(if digits == "0" { digits } else { literal }.to_string());
    }
    let value: f64 = literal.parse().ok()?;
    // The sum has no sign of zero.
    (value.fract() == 0.0).then(|| format!("{:.0}", value + 0.0))
}

/// Gives the digits of a decimal the layout of the specification: plain where the point falls within or near them.
fn layout(shortest: &str) -> String {
    let (sign, text) = shortest.strip_prefix('-').map_or(("", shortest), |text| ("-", text));
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let leading = all.len() - all.trim_start_matches('0').len();
    let digits = all.trim_matches('0');
    if digits.is_empty() {
        return format!("{sign}0.0");
    }
    // Digits before the point.
    let point = whole.len() as i32 - leading as i32 + exponent;
    let count = digits.len() as i32;
    if point > 16 || point <= -5 {
        let (first, rest) = digits.split_at(1);
        let dot = if rest.is_empty() { "" } else { "." };
        return format!("{sign}{first}{dot}{rest}e{}", point - 1);
    }
    if point <= 0 {
        return format!("{sign}0.{}{digits}", "0".repeat(-point as usize));
    }
    if point >= count {
        return format!("{sign}{digits}{}.0", "0".repeat((point - count) as usize));
    }
    let (before, after) = digits.split_at(point as usize);
    format!("{sign}{before}.{after}")
}

#[cfg(test)]
mod tests {
    use super::{binary32_text, binary64_text};
    use crate::test_random::{rounds, Random};

    /// Returns the digits of a text and where its point is, whatever the layout.
    fn parts(text: &str) -> (String, i32) {
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.trim_start_matches('-').split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{}{fraction}", whole.trim_start_matches('-'));
        let leading = all.len() - all.trim_start_matches('0').len();
        let point = whole.trim_start_matches('-').len() as i32 - leading as i32 + exponent.parse::<i32>().unwrap();
        (all.trim_matches('0').to_string(), point)
    }

    /// Demands that two spellings have the same digits, or that `own` is the even one of two that are equally close.
    fn assert_shortest(own: &str, other: &str, exact: &str) {
        let (own, other, exact) = (parts(own), parts(other), parts(exact));
        if own != other {
            let lower = own.0.clone().min(other.0.clone());
            assert_eq!((own.1, own.0.len()), (other.1, other.0.len()));
            assert_eq!(format!("{lower}5"), exact.0, "not between {own:?} and {other:?}");
            assert!(own.0.ends_with(['2', '4', '6', '8']), "{own:?} is not even");
        }
    }

    /// The digits are those that the standard library finds by another algorithm, which rounds halves up, and read
    /// back to the same number.
    #[test]
    fn digits_are_the_shortest() {
        let mut random = Random::new(1);
        let powers = (0..2046).map(|exponent| f64::from_bits(exponent << 52));
        let doubles: Vec<f64> = (0..rounds(1_000_000)).map(|_| f64::from_bits(random.next())).chain(powers).collect();
        for number in doubles.into_iter().filter(|number| number.is_finite() && *number != 0.0) {
            let text = binary64_text(number);
            assert_eq!(text.parse::<f64>().unwrap().to_bits(), number.to_bits());
            assert_shortest(&text, &format!("{number:e}"), &format!("{number:.30}"));
        }
        for number in (0..rounds(1_000_000)).map(|_| f32::from_bits(random.next() as u32)) {
            if number.is_finite() && number != 0.0 {
                let text = binary32_text(number);
                assert_eq!((text.parse::<f64>().unwrap() as f32).to_bits(), number.to_bits());
                assert_shortest(&text, &format!("{number:e}"), &format!("{number:.30}"));
            }
        }
    }

    /// The layout is that of the table of the specification.
    #[test]
    fn layout_is_that_of_the_specification() {
        let known = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e-5, "0.00001"),
            (1.5e-6, "1.5e-6"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e16"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e308"),
            (2_f64.powi(-44), "5.684341886080802e-14"),
            (-123.25, "-123.25"),
            (1234567890123456.7, "1234567890123456.8"),
        ];
        for (number, text) in known {
            assert_eq!(text, binary64_text(number));
        }
        assert_eq!("3.4028235e38", binary32_text(f32::MAX));
        assert_eq!("0.1", binary32_text(0.1));
        assert_eq!("7.0385307e-26", binary32_text(f32::from_bits(0x15AE_43FD)));
        assert_eq!("-7.038531e-26", binary32_text(-f32::from_bits(0x15AE_43FE)));
    }
}
