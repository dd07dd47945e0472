//! The words for values and types in messages, the same in every language of this project.

use crate::escape::shortened;
use crate::numbers::{binary64_text, integer_of};
use crate::schema::{Constant, Form, Schema};
use crate::tape::{Kind, Node};

/// More characters of a string are never shown.
const SHOWN_CHARS: usize = 200;

/// Returns the JSON type of a value with the value, as a noun.
pub(crate) fn typed(value: Node) -> String {
    match value.kind() {
        Kind::Null => "null".to_string(),
        Kind::True => "the boolean true".to_string(),
        Kind::False => "the boolean false".to_string(),
        Kind::Object => "an object".to_string(),
        Kind::Array => "an array".to_string(),
        Kind::Number => format!("the number {}", shown(value)),
        _ => format!("the string {}", shown(value)),
    }
}

/// Returns what a schema asks for, as a noun.
pub(crate) fn noun(schema: &Schema) -> String {
    let noun = match schema.form {
        Form::Open => "a value",
        Form::Integer => "an integer",
        Form::Number | Form::Binary32 => "a number",
        Form::String => "a string",
        Form::Boolean => "a boolean",
        Form::OpenMap | Form::Object(_) | Form::Map(_) => "an object",
        Form::Array(..) => "an array",
    };
    format!("{noun}{}", if schema.nullable { " or null" } else { "" })
}

/// Returns a scalar as canonical JSON, cut and inert.
pub(crate) fn shown(value: Node) -> String {
    match value.kind() {
        Kind::String => text_shown(&value.string()),
        Kind::Number => shortened(&number_text(value)),
        Kind::Object => "an object".to_string(),
        Kind::Array => "an array".to_string(),
        _ => String::from_utf8_lossy(value.raw()).into_owned(),
    }
}

/// Returns a value that a schema allows, as JSON.
pub(crate) fn constant_text(constant: &Constant) -> String {
    match constant {
        Constant::Text(text) => format!("\"{text}\""),
        Constant::Integer(number) => number.to_string(),
    }
}

fn number_text(value: Node) -> String {
    if value.is_integer() {
        return integer_of(value.literal()).unwrap_or_default();
    }
    binary64_text(value.literal().parse().unwrap_or(f64::NAN))
}

fn text_shown(text: &str) -> String {
    // Cut first: a long string must not be copied whole for a message.
    let end = text.char_indices().nth(SHOWN_CHARS).map_or(text.len(), |(at, _)| at);
    let text = &text[..end];
    if text.contains(['"', '\\']) && text.chars().all(is_visible) {
        return shortened(&format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")));
    }
    shortened(&format!("\"{text}\""))
}

/// Returns whether a character is not a control, format, separator, surrogate, private or unassigned one.
fn is_visible(character: char) -> bool {
    if character.is_ascii() {
        return (' '..='~').contains(&character);
    }
    // A mark is escaped only where nothing is before it.
    let mut escaped = ['a', character].iter().collect::<String>().escape_debug().to_string();
    escaped.remove(0) == 'a' && escaped.chars().eq([character])
}

/// Returns a number in a message of a rule that relates records: 1 and 1.0 are the same there.
pub(crate) fn plain_number(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < 1e16 {
        return (number as i64).to_string();
    }
    // The form that Python gives a float.
    let text = binary64_text(number);
    let (digits, exponent) = match text.split_once('e') {
        Some((digits, exponent)) => (digits.to_string(), exponent.parse().unwrap_or(0)),
        None => match text.strip_prefix('-').unwrap_or(&text).strip_prefix("0.0000") {
            Some(rest) if number != 0.0 => (scientific(rest, number < 0.0), -5),
            _ => return text,
        },
    };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", i32::abs(exponent))
}

fn scientific(digits: &str, is_negative: bool) -> String {
    let (first, rest) = digits.split_at(1);
    let dot = if rest.is_empty() { "" } else { "." };
    format!("{}{first}{dot}{rest}", if is_negative { "-" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::plain_number;

    #[test]
    fn numbers_are_those_of_python() {
        let known = [
            (1.0, "1"),
            (-0.0, "0"),
            (0.1, "0.1"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-0.0000125, "-1.25e-05"),
            (1e16, "1e+16"),
            (1.5e-7, "1.5e-07"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
        ];
        for (number, text) in known {
            assert_eq!(text, plain_number(number));
        }
    }
}
