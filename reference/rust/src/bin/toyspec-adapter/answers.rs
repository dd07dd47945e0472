//! Answers requests by calling the library.

use std::collections::HashMap;
use std::path::Path;

use base64::engine::general_purpose::STANDARD as BASE64;
use base64::Engine as _;
use serde_json::{json, Value as Json};
use toyspec::{
    check_file, check_run_id, check_source, encode, find_streams, no_stream, ranks, Attempts, CheckOptions, Composer,
    End, Error, Exist, Finding, Followed, Follower, Found, Gap, Map, Mode, Options, Profile, Reader, Record,
    WriteError, Writer,
};

use crate::summaries::summarize;
use crate::tagging::{tag_record, untag_record};

/// An answer without its id; the stream of a writer is separate.
pub struct Answer {
    pub message: Json,
    pub stream: Option<Vec<u8>>,
}

impl From<Json> for Answer {
    fn from(message: Json) -> Self {
        Answer { message, stream: None }
    }
}

/// Answers one request after the other.
#[derive(Default)]
pub struct Adapter {
    followers: HashMap<u64, Follower>,
    /// Writers that keep their streams, by their directories.
    held: HashMap<String, Writer>,
}

impl Adapter {
    /// Returns the answer to a request, whose stream is separate.
    pub fn answer(&mut self, asked: &Json, stream: Vec<u8>) -> Answer {
        let answer = match asked["role"].as_str() {
            Some("reader") => read(asked, &stream).map(Answer::from),
            Some("checker") => check(asked, &stream).map(Answer::from),
            Some("canonical-writer") => canonical(asked),
            Some("writer") if asked["release"].is_string() => self.release(asked),
            Some("writer") if asked["directory"].is_null() => written(asked),
            Some("writer") => self.write_bundle(asked).map(Answer::from),
            Some("follower") => self.follow(asked).map(Answer::from),
            Some("summarizer") => summarize(asked, &stream).map(Answer::from),
            role => Ok(json!({"untestable": format!("no role {role:?}")}).into()),
        };
        answer.unwrap_or_else(|error| json!({ "error": error }).into())
    }

    fn write_bundle(&mut self, asked: &Json) -> Result<Json, String> {
        match bundle(asked, &records(asked)?, media(asked)?) {
            Ok(held) => {
                let directory = asked["directory"].as_str().unwrap_or_default();
                self.held.extend(held.map(|writer| (directory.to_string(), writer)));
                Ok(json!({"outcome": "written"}))
            }
            Err(WriteError::Io(path, error)) => Err(format!("{}: {error}", path.display())),
            Err(refused) => Ok(json!({"outcome": "refused", "reason": refused.to_string()})),
        }
    }

    fn release(&mut self, asked: &Json) -> Result<Answer, String> {
        let directory = asked["release"].as_str().unwrap_or_default();
        self.held.remove(directory).ok_or_else(|| format!("no writer holds {directory}"))?;
        Ok(json!({"outcome": "written"}).into())
    }

    fn follow(&mut self, asked: &Json) -> Result<Json, String> {
        let number = asked["follower"].as_u64().unwrap_or_default();
        let Some(path) = asked["path"].as_str() else {
            self.followers.remove(&number);
            return Ok(json!({"items": []}));
        };
        let limit = asked["max_line_bytes"].as_u64().map(|limit| limit as usize);
        let follower = self.followers.entry(number).or_insert_with(|| Follower::new(path, limit));
        let items = follower.look().map_err(|error| format!("{path}: {error}"))?;
        Ok(json!({"items": items.iter().map(item_message).collect::<Vec<_>>()}))
    }
}

pub fn profile(asked: &Json) -> Option<Profile> {
    asked["profile"].as_str().and_then(Profile::of)
}

fn read(asked: &Json, stream: &[u8]) -> Result<Json, String> {
    let mut options = Options { profile: profile(asked), ..Options::default() };
    options.mode = match asked["mode"].as_str() {
        Some("strict") => Mode::Strict,
        Some("prefix") => Mode::Prefix,
        Some("salvage") => Mode::Salvage,
        _ => Mode::Tail,
    };
    if let Some(limit) = asked["max_line_bytes"].as_u64() {
        options.max_line_bytes = limit as usize;
    }
    let is_latest = asked["view"] == json!("latest");
    match asked["directory"].as_str() {
        Some(directory) => {
            let name = asked["name"].as_str();
            let path = Path::new(directory).join(name.unwrap_or_default());
            let reader = Reader::open(path, options).map_err(|error| error.to_string())?;
            let mut answer = account(reader, is_latest)?;
            if name.is_none() {
                answer["ranks"] = ranks(directory).map_err(|error| error.to_string())?.into();
            }
            Ok(answer)
        }
        None => {
            options.name = asked["name"].as_str().unwrap_or_default().to_string();
            account(Reader::new(stream, options), is_latest)
        }
    }
}

fn account<R: std::io::Read>(mut reader: Reader<R>, is_latest: bool) -> Result<Json, String> {
    let mut records: Vec<Record> = Vec::new();
    let mut refused = None;
    for item in &mut reader {
        match item {
            Ok(record) => records.push(record),
            Err(Error::Io(path, error)) => return Err(format!("{}: {error}", path.display())),
            Err(error) => refused = Some(error),
        }
    }
    if is_latest {
        let mut attempts = Attempts::default();
        records.iter().for_each(|record| attempts.learn(record));
        records.retain(|record| attempts.is_latest(record));
    }
    let report = reader.report();
    let records: Vec<Json> = records.iter().map(|record| tag_record(report.profile, &record.value)).collect();
    let mut answer = json!({
        "outcome": if refused.is_none() { "read" } else { "fails" }, "profile": report.profile.map(Profile::name),
        "state": report.state.name(), "records": records, "count": report.records, "committed": report.committed,
        "fragment": report.fragment, "gap_bytes": report.gap_bytes,
        "gaps": report.gaps.iter().map(gap_message).collect::<Vec<_>>(),
    });
    if let (Some(_), Some(gap)) = (&refused, report.gaps.first()) {
        answer["error"] = json!({"line": gap.line, "offset": gap.offset, "reason": gap.reason});
    }
    Ok(answer)
}

fn item_message(item: &Followed) -> Json {
    match item {
        Followed::Record(record) => json!({"record": tag_record(record.profile, &record.value)}),
        Followed::Gap(gap) => json!({"gap": gap_message(gap)}),
        Followed::Event(event) => json!({"event": event.name()}),
    }
}

fn gap_message(gap: &Gap) -> Json {
    json!({"offset": gap.offset, "length": gap.length, "reason": gap.reason})
}

fn check(asked: &Json, stream: &[u8]) -> Result<Json, String> {
    let mut options = CheckOptions { profile: profile(asked), ..CheckOptions::default() };
    if let Some(limit) = asked["max_line_bytes"].as_u64() {
        options.max_line_bytes = limit as usize;
    }
    let report = match asked["directory"].as_str() {
        None => check_source(stream, asked["name"].as_str().unwrap_or_default(), options),
        Some(directory) if asked["name"].is_string() => {
            check_file(&Path::new(directory).join(asked["name"].as_str().unwrap_or_default()), options)
        }
        Some(directory) => match find_streams(Path::new(directory)).into_iter().next() {
            Some(Found::Stream(path)) => check_file(&path, options),
            Some(Found::Failure(_, error)) => Err(error),
            _ => Ok(no_stream(options)),
        },
    };
    let report = report.map_err(|error| error.to_string())?;
    Ok(json!({
        "profile": report.profile.map(Profile::name), "state": report.state.map(|state| state.name()),
        "valid": report.valid, "suppressed": report.suppressed,
        "findings": report.findings.iter().map(finding_message).collect::<Vec<_>>(),
    }))
}

fn finding_message(finding: &Finding) -> Json {
    let mut message = json!({"rule": finding.rule.id(), "severity": finding.severity.name(), "line": finding.line,
        "offset": finding.offset, "pointer": finding.pointer});
    if let Some(sidecar) = finding.sidecar {
        message["sidecar"] = sidecar.into();
    }
    message
}

fn canonical(asked: &Json) -> Result<Answer, String> {
    let profile = profile(asked).ok_or("the request has no profile")?;
    let mut stream = Vec::new();
    for tagged in asked["records"].as_array().into_iter().flatten() {
        match encode(profile, &untag_record(tagged)?) {
            Ok(line) => stream.extend(line),
            Err(refused) => return Ok(json!({"outcome": "refused", "reason": refused.to_string()}).into()),
        }
    }
    Ok(Answer { message: json!({"outcome": "written"}), stream: Some(stream) })
}

fn written(asked: &Json) -> Result<Answer, String> {
    let profile = profile(asked).ok_or("the request has no profile")?;
    if profile != Profile::Toy {
        return appended(profile, &records(asked)?);
    }
    let mut composer = Composer::new(profile);
    let mut stream = Vec::new();
    for record in records(asked)? {
        match composer.compose(&record, composer.t()) {
            Ok((line, next)) => {
                stream.extend(line);
                composer = next;
            }
            Err(refused) => return Ok(json!({"outcome": "refused", "reason": refused.to_string()}).into()),
        }
    }
    Ok(Answer { message: json!({"outcome": "written"}), stream: Some(stream) })
}

/// Writes records with a writer, into a directory of their own.
fn appended(profile: Profile, records: &[Map]) -> Result<Answer, String> {
    let directory = std::env::temp_dir().join(format!("adapter-{}", std::process::id()));
    let path = directory.join(profile.file());
    let done = Writer::append(&path, profile)
        .and_then(|mut writer| records.iter().try_for_each(|record| writer.write_record(record)));
    let stream = std::fs::read(&path);
    // A stream whose first record was refused was not created.
    let _ = std::fs::remove_dir_all(&directory);
    match (done, stream) {
        (Ok(()), Ok(stream)) => Ok(Answer { message: json!({"outcome": "written"}), stream: Some(stream) }),
        (Ok(()), Err(error)) => Err(error.to_string()),
        (Err(refused), _) => Ok(json!({"outcome": "refused", "reason": refused.to_string()}).into()),
    }
}

fn records(asked: &Json) -> Result<Vec<Map>, String> {
    asked["records"].as_array().into_iter().flatten().map(untag_record).collect()
}

/// Returns the contents of the files of media records, in their order.
fn media(asked: &Json) -> Result<Vec<Vec<u8>>, String> {
    let contents = asked["media"].as_array().into_iter().flatten();
    contents.map(|text| BASE64.decode(text.as_str().unwrap_or_default()).map_err(|error| error.to_string())).collect()
}

/// Writes the records of a request into its directory; returns the writer where it is to keep the stream.
fn bundle(asked: &Json, records: &[Map], media: Vec<Vec<u8>>) -> Result<Option<Writer>, WriteError> {
    let mut media = media.into_iter();
    let directory = Path::new(asked["directory"].as_str().unwrap_or_default());
    let profile = profile(asked).unwrap_or(Profile::Toy);
    let run_id = asked["run_id"].as_str().unwrap_or_default();
    check_run_id(run_id).map_err(|refused| WriteError::Refused(directory.to_path_buf(), refused))?;
    let mut writer = match (asked["exist"].as_str(), profile) {
        (Some("replace"), Profile::Toy) => Writer::open(directory, Exist::Replace)?,
        (Some("fail"), Profile::Toy) => Writer::open(directory, Exist::Fail)?,
        (Some("resume"), Profile::Toy) => Writer::open(directory, Exist::Resume)?,
        _ => Writer::append(directory.join(profile.file()), profile)?,
    };
    for record in records {
        let is_media = record.get("kind").and_then(|kind| kind.as_str()) == Some("media");
        match is_media.then(|| media.next()).flatten() {
            Some(content) => writer.write_media_record(record, &content)?,
            None => writer.write_record(record)?,
        }
    }
    if asked["end"] == json!("held") {
        return Ok(Some(writer));
    }
    let has_ended = records.iter().any(|record| record.get("kind").and_then(|kind| kind.as_str()) == Some("run_end"));
    if has_ended || profile != Profile::Toy {
        return Ok(None);
    }
    match asked["end"].as_str() {
        Some("closed") => writer.end(&End::Completed),
        Some("interrupted") => writer.end(&End::Interrupted),
        Some("errored") => writer.end(&End::Errored(asked["error"].as_str().unwrap_or_default().to_string())),
        _ => Ok(()),
    }
    .map(|()| None)
}
