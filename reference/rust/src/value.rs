//! Values of records, in which no number is lost.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use crate::tape::{Kind, Node};

/// A JSON value. Numbers keep what their JSON text shows: integers of any length, and whether one was written as an integer.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Value {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    Array(Vec<Value>),
    Object(Map),
}

/// The members of an object, in the order of their bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Map(Vec<(String, Value)>);

/// A number of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Number(Repr);

#[derive(Clone, Debug, PartialEq)]
enum Repr {
    Int(i64),
    /// An integer as it is written: one that is too large for the others, or -0.
    Written(Box<str>),
    Binary64(f64),
    Binary32(f32),
}

impl Number {
    /// Returns the number that a text stands for, None where it is none of JSON.
    pub fn parse(text: &str) -> Option<Number> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.starts_with('0') && digits[1..].starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let is_integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_integer {
            let number: f64 = text.parse().ok()?;
            return digits.starts_with(|c: char| c.is_ascii_digit()).then_some(Number(Repr::Binary64(number)));
        }
        match text.parse() {
            Ok(0) if text.starts_with('-') => Some(Number(Repr::Written(text.into()))),
            Ok(number) => Some(Number(Repr::Int(number))),
            Err(_) => Some(Number(Repr::Written(text.into()))),
        }
    }

    /// Returns whether the number is an integer: written, or given, without fraction and exponent.
    pub fn is_integer(&self) -> bool {
        matches!(self.0, Repr::Int(_) | Repr::Written(_))
    }

    /// Returns the same number as an integer, None where its value is none.
    pub(crate) fn integer_value(&self) -> Option<Number> {
        match self.0 {
            // The sum has no sign of zero.
            Repr::Binary64(number) if number.fract() == 0.0 => Number::parse(&format!("{:.0}", number + 0.0)),
            Repr::Int(_) | Repr::Written(_) => Some(self.clone()),
            _ => None,
        }
    }

    /// Returns the digits of an integer, zero without a sign.
    pub fn integer_text(&self) -> Option<String> {
        match &self.0 {
            Repr::Int(number) => Some(number.to_string()),
            Repr::Written(text) if text.trim_start_matches(['-', '0']).is_empty() => Some("0".to_string()),
            Repr::Written(text) => Some(text.to_string()),
            _ => None,
        }
    }

    /// Returns the number as a 64-bit integer, None where it is none.
    pub fn as_i64(&self) -> Option<i64> {
        match &self.0 {
            Repr::Int(number) => Some(*number),
            Repr::Written(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// Returns the nearest binary64 value; an integer beyond its range gives an infinity.
    pub fn as_f64(&self) -> f64 {
        match &self.0 {
            // An integer has no sign of zero, and the sum has none either.
            Repr::Written(text) => text.parse::<f64>().unwrap_or(f64::NAN) + 0.0,
            Repr::Int(number) => *number as f64,
            Repr::Binary64(number) => *number,
            Repr::Binary32(number) => f64::from(*number),
        }
    }

    /// Returns the nearest binary32 value: that of the nearest binary64 value.
    pub fn as_f32(&self) -> f32 {
        match self.0 {
            Repr::Binary32(number) => number,
            _ => self.as_f64() as f32,
        }
    }
}

impl From<i64> for Number {
    fn from(number: i64) -> Self {
        Number(Repr::Int(number))
    }
}

impl From<f64> for Number {
    fn from(number: f64) -> Self {
        Number(Repr::Binary64(number))
    }
}

impl From<f32> for Number {
    fn from(number: f32) -> Self {
        Number(Repr::Binary32(number))
    }
}

impl Map {
    /// Returns the value of a member.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Gives a member a value; returns the one that it had.
    pub fn insert(&mut self, key: impl Into<String>, value: Value) -> Option<Value> {
        let key = key.into();
        match self.0.iter_mut().find(|(name, _)| *name == key) {
            Some((_, old)) => Some(std::mem::replace(old, value)),
            None => {
                self.0.push((key, value));
                None
            }
        }
    }

    /// Returns the members in the order of their bytes.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut Value)> {
        self.0.iter_mut().map(|(key, value)| (key.as_str(), value))
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn of(object: Node) -> Map {
        Map(object.members().map(|(key, value)| (key.string().into_owned(), Value::of(value))).collect())
    }
}

/// Makes a map; the keys have to differ.
impl FromIterator<(String, Value)> for Map {
    fn from_iter<T: IntoIterator<Item = (String, Value)>>(members: T) -> Self {
        Map(members.into_iter().collect())
    }
}

impl Value {
    pub(crate) fn of(node: Node) -> Value {
        match node.kind() {
            Kind::Null => Value::Null,
            Kind::True => Value::Bool(true),
            Kind::False => Value::Bool(false),
            Kind::Number => Number::parse(node.literal()).map_or(Value::Null, Value::Number),
            Kind::Array => Value::Array(node.items().map(Value::of).collect()),
            Kind::Object => Value::Object(Map::of(node)),
            _ => Value::String(node.string().into_owned()),
        }
    }

    /// Returns the text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the nearest binary64 value of a number.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Number(number) => Some(number.as_f64()),
            _ => None,
        }
    }

    /// Returns a number that is an integer of 64 bits.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Number(number) => number.as_i64(),
            _ => None,
        }
    }
}

impl From<serde_json::Value> for Value {
    fn from(value: serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Value::Null,
            serde_json::Value::Bool(value) => Value::Bool(value),
            serde_json::Value::Number(number) => match number.as_i64() {
                Some(integer) => Value::Number(integer.into()),
                None => Number::parse(&number.to_string()).map_or(Value::Null, Value::Number),
            },
            serde_json::Value::String(text) => Value::String(text),
            serde_json::Value::Array(items) => Value::Array(items.into_iter().map(Value::from).collect()),
            serde_json::Value::Object(members) => {
                Value::Object(members.into_iter().map(|(key, value)| (key, value.into())).collect())
            }
        }
    }
}

/// An integer of more than 64 bits is given as the nearest binary64 value.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::Number(number) => match number.as_i64() {
                Some(integer) => serializer.serialize_i64(integer),
                None => serializer.serialize_f64(number.as_f64()),
            },
            Value::String(text) => serializer.serialize_str(text),
            Value::Array(items) => {
                let mut sequence = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    sequence.serialize_element(item)?;
                }
                sequence.end()
            }
            Value::Object(members) => members.serialize(serializer),
        }
    }
}

impl Serialize for Map {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        for (key, value) in self.iter() {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::Number;

    #[test]
    fn numbers_that_json_does_not_have_are_none() {
        for text in ["007", "-01", "00", "01.5", "", "-", "x", "+1", "Infinity", "NaN"] {
            assert_eq!(Number::parse(text), None, "{text}");
        }
        for text in ["0", "-0", "7", "0.5", "-0.5", "1e3", "10", "100000000000000000000"] {
            assert!(Number::parse(text).is_some(), "{text}");
        }
    }
}
