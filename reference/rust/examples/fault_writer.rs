//! Writes the requested records, one for each line of input, for the fault runner: see conformance/faults/programs.py.

use std::fmt::Display;
use std::io::BufRead;

use toyspec::{Exist, Map, Number, Options, Profile, Reader, Value, Writer};

fn text(text: &str) -> Value {
    Value::String(text.to_string())
}

fn number(text: &str) -> Result<Value, String> {
    Number::parse(text).map(Value::Number).ok_or_else(|| format!("{text:.20} is not a number"))
}

fn map(members: Vec<(&str, Value)>) -> Map {
    let mut map = Map::default();
    for (key, value) in members {
        map.insert(key, value);
    }
    map
}

fn step(digits: &str) -> Result<Map, String> {
    Ok(map(vec![("kind", text("step")), ("phase", text("train")), ("step", number(digits)?), ("loss", number("0.5")?)]))
}

fn entry(digits: &str) -> Result<Map, String> {
    let mut entry = map(vec![("step", number(digits)?), ("extra", Value::Object(Map::default()))]);
    for key in ["wall_time_ms", "loss", "grad_norm", "throughput_samples_per_sec"] {
        entry.insert(key, number("0.5")?);
    }
    Ok(entry)
}

fn note(rest: &str) -> Result<Map, String> {
    let (digits, size) = rest.split_once(' ').ok_or("a note needs a step and a size")?;
    let size: usize = size.parse().map_err(|_| "a size is a number")?;
    Ok(map(vec![("kind", text("note")), ("text", text(&"x".repeat(size))), ("step", number(digits)?)]))
}

fn record(command: &str, rest: &str) -> Result<Map, String> {
    match command {
        "start" => Ok(map(vec![("kind", text("run_start")), ("run_id", text("demo"))])),
        "resume" => Ok(map(vec![("kind", text("run_resume")), ("from_step", number(rest)?)])),
        "step" => step(rest),
        "note" => note(rest),
        "entry" => entry(rest),
        "end" => Ok(map(vec![("kind", text("run_end")), ("reason", text("completed"))])),
        _ => Err("no such command".to_string()),
    }
}

/// What is hostile, by name; None where Rust has no such value.
fn value(name: &str) -> Option<Result<Map, String>> {
    let nested = (0..100).fold(Value::Array(Vec::new()), |inner, _| Value::Array(vec![inner]));
    match name {
        "long-integer" => Some(step(&format!("1{}", "0".repeat(400)))),
        "zeros" => Some(step("007")),
        "deep" => Some(Ok(map(vec![("kind", text("mine")), ("m", nested)]))),
        "long" => Some(note("1000 17000000")),
        "no-kind" => Some(Ok(map(vec![("m", text(""))]))),
        _ => None,
    }
}

fn obey(writer: &mut Option<Writer>, command: &str, rest: &str) -> Result<String, String> {
    let said = |error: &dyn Display| error.to_string();
    match command {
        "open" => {
            let (exist, directory) = rest.split_once(' ').ok_or("a directory is missing")?;
            let exist = match exist {
                "fail" => Exist::Fail,
                "resume" => Exist::Resume,
                _ => Exist::Replace,
            };
            *writer = Some(Writer::open(directory, exist).map_err(|error| said(&error))?);
        }
        "append" => *writer = Some(Writer::append(rest, Profile::Metrics).map_err(|error| said(&error))?),
        "close" => *writer = None,
        "dropped" => return Ok(format!("ok {}", writer.as_ref().map_or(0, Writer::dropped))),
        "read" => {
            for record in Reader::open(rest, Options::default()).map_err(|error| said(&error))? {
                record.map_err(|error| said(&error))?;
            }
        }
        "fork" => return Ok("untestable safe Rust does not fork".to_string()),
        _ => {
            let asked = if command == "value" { value(rest) } else { Some(record(command, rest)) };
            let Some(asked) = asked else { return Ok("untestable Rust has no such value".to_string()) };
            let writer = writer.as_mut().ok_or("nothing is open")?;
            writer.write_record(&asked?).map_err(|error| said(&error))?;
        }
    }
    Ok("ok".to_string())
}

fn main() {
    let mut writer = None;
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let (command, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let answer = obey(&mut writer, command, rest).unwrap_or_else(|error| format!("failed {error}"));
        println!("{}", answer.replace('\n', " "));
    }
}
