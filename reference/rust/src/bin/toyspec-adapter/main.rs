//! Lets the conformance runner test this crate: see conformance/PROTOCOL.md.

mod answers;
mod summaries;
mod tagging;

use std::io::{self, BufRead, Read, Write};
use std::process::ExitCode;

use answers::Adapter;
use base64::engine::general_purpose::STANDARD as BASE64;
use base64::Engine as _;
use serde_json::{json, Value as Json};

const USAGE: &str = "usage: toyspec-adapter --hello | --lines | --oneshot ROLE [--option value …]";

/// The exit status that says that the crate cannot do what is asked.
const UNTESTABLE: u8 = 77;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let status = match words.as_slice() {
        ["--hello"] => say(&hello()).map(|()| 0),
        ["--lines"] => answer_lines().map(|()| 0),
        ["--oneshot", role, options @ ..] => answer_once(role, options),
        _ => {
            eprintln!("{USAGE}");
            Ok(2)
        }
    };
    match status {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("toyspec-adapter: {error}");
            ExitCode::from(3)
        }
    }
}

fn hello() -> Json {
    json!({"hello": {"protocol": 1, "name": "toyspec-rs", "language": "Rust", "version": env!("CARGO_PKG_VERSION"),
        "roles": ["reader", "summarizer", "writer", "canonical-writer", "checker", "follower"],
        "profiles": ["toy/v1", "metrics/v1", "kaun/v1"], "revisions": ["1.4"], "lines": true,
        "capabilities": ["line_limit", "bundle", "ranks", "seal", "session", "latest_attempt", "findings_offset", "own_kinds", "media"]}})
}

fn say(message: &Json) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(format!("{message}\n").as_bytes())?;
    out.flush()
}

fn answer_lines() -> io::Result<()> {
    say(&hello())?;
    let mut adapter = Adapter::default();
    for line in io::stdin().lock().split(b'\n') {
        let mut answer;
        let line = line?;
        match serde_json::from_slice::<Json>(&line) {
            Ok(mut asked) => {
                let stream = BASE64.decode(asked["stream"].as_str().unwrap_or_default()).map_err(io::Error::other)?;
                answer = adapter.answer(&asked, stream);
                if let Some(stream) = answer.stream.take() {
                    answer.message["stream"] = BASE64.encode(stream).into();
                }
                answer.message["id"] = asked["id"].take();
            }
            Err(error) => answer = unread(&line, &error).into(),
        }
        say(&answer.message)?;
    }
    Ok(())
}

/// Returns the answer to a request that is not JSON, or that has a string with half a surrogate pair.
fn unread(line: &[u8], error: &serde_json::Error) -> Json {
    let text = String::from_utf8_lossy(line).replace("\\ud", "\\ue");
    match serde_json::from_str::<Json>(&text) {
        Ok(mut asked) => {
            json!({"id": asked["id"].take(), "untestable": "a string of Rust has no half of a surrogate pair"})
        }
        Err(_) => json!({"id": 0, "error": error.to_string()}),
    }
}

fn answer_once(role: &str, options: &[&str]) -> io::Result<u8> {
    let mut asked = json!({"role": role});
    for pair in options.chunks_exact(2) {
        let key = pair[0].trim_start_matches("--").replace('-', "_");
        asked[key] = pair[1].parse::<u64>().map_or_else(|_| pair[1].into(), Json::from);
    }
    let mut adapter = Adapter::default();
    if role == "follower" {
        asked["follower"] = 0.into();
        for line in io::stdin().lock().split(b'\n') {
            line?;
            say(&adapter.answer(&asked, Vec::new()).message)?;
        }
        return Ok(0);
    }
    let mut input = Vec::new();
    io::stdin().lock().read_to_end(&mut input)?;
    if role.ends_with("writer") {
        let mut records = Vec::new();
        for line in input.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice::<Json>(line) {
                Ok(record) => records.push(record),
                Err(error) => return Ok(status(&unread(line, &error))),
            }
        }
        asked["records"] = records.into();
        let answer = adapter.answer(&asked, Vec::new());
        io::stdout().lock().write_all(&answer.stream.unwrap_or_default())?;
        return Ok(status(&answer.message));
    }
    let answer = adapter.answer(&asked, input);
    say(&answer.message)?;
    Ok(status(&answer.message))
}

fn status(answer: &Json) -> u8 {
    for (key, status) in [("error", 3), ("untestable", UNTESTABLE)] {
        if let Some(reason) = answer.get(key).and_then(Json::as_str) {
            eprintln!("{reason}");
            return status;
        }
    }
    u8::from(
        !(matches!(answer["outcome"].as_str(), Some("read" | "written"))
            || answer["valid"] == json!(true)
            || answer.get("summary").is_some()),
    )
}
