//! Records in the tagged form of the protocol.

use serde_json::{json, Map as JsonMap, Value as Json};
use toyspec::{binary32_text, binary64_text, Map, Number, NumberPlace, Profile, Value};

const TAGS: [&str; 4] = ["int", "float", "f32", "object"];

/// Returns the tagged form of a record.
/// Without a profile, every number is what its text says.
pub fn tag_record(profile: Option<Profile>, record: &Map) -> Json {
    tag_members(record, |key| profile.map_or(NumberPlace::NONE, |profile| profile.number_place(record, key)))
}

fn tag_members(members: &Map, place: impl Fn(&str) -> NumberPlace) -> Json {
    tagged_object(members.iter().map(|(key, value)| (key.to_string(), tag(value, place(key)))).collect())
}

fn tag(value: &Value, place: NumberPlace) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => (*value).into(),
        Value::String(text) => text.as_str().into(),
        Value::Number(number) => tag_number(number, place),
        Value::Array(items) => items.iter().map(|item| tag(item, place.item())).collect(),
        Value::Object(members) => tag_members(members, |key| place.inside(key)),
    }
}

/// Returns the tagged form of members that have one.
pub fn tagged_object(members: JsonMap<String, Json>) -> Json {
    if members.len() == 1 && members.keys().all(|key| TAGS.contains(&key.as_str())) {
        return json!({ "object": members });
    }
    Json::Object(members)
}

fn tag_number(number: &Number, place: NumberPlace) -> Json {
    if let (Some(text), false) = (number.integer_text(), place.is_number()) {
        return json!({ "int": text });
    }
    let short = number.as_f32();
    if place.is_binary32() && short.is_finite() {
        return json!({"f32": binary32_text(short)});
    }
    json!({"float": binary64_text(number.as_f64())})
}

/// Returns the record that a tagged value stands for.
pub fn untag_record(tagged: &Json) -> Result<Map, String> {
    match untag(tagged)? {
        Value::Object(members) => Ok(members),
        _ => Err(format!("a record is not an object: {tagged}")),
    }
}

fn untag(tagged: &Json) -> Result<Value, String> {
    Ok(match tagged {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::String(text) => Value::String(text.clone()),
        Json::Array(items) => Value::Array(items.iter().map(untag).collect::<Result<_, _>>()?),
        Json::Number(number) => return Err(format!("the bare number {number} has no tag")),
        Json::Object(members) => {
            let mut pairs = members.iter();
            match (pairs.next(), pairs.next()) {
                (Some((tag, Json::String(text))), None) if TAGS[..3].contains(&tag.as_str()) => {
                    Value::Number(untag_number(tag, text).ok_or_else(|| format!("{text:?} is not a number"))?)
                }
                (Some((tag, Json::Object(inner))), None) if tag == "object" => Value::Object(untag_members(inner)?),
                _ => Value::Object(untag_members(members)?),
            }
        }
    })
}

fn untag_members(members: &JsonMap<String, Json>) -> Result<Map, String> {
    members.iter().map(|(key, value)| Ok((key.clone(), untag(value)?))).collect()
}

fn untag_number(tag: &str, text: &str) -> Option<Number> {
    match tag {
        "int" => Number::parse(text).filter(Number::is_integer),
        "f32" => text.parse::<f64>().ok().map(|number| Number::from(number as f32)),
        _ => text.parse::<f64>().ok().map(Number::from),
    }
}
