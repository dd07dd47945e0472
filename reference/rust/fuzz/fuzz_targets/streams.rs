//! What has to hold for any bytes: for the reader in every mode and however they arrive, the checker, the canonical
//! form of what was read, and a writer that finds them as the stream of its run.

#![no_main]

use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use toyspec::{
    check_source, encode, CheckOptions, Exist, Map, Mode, Number, Options, Reader, Record, Report, State, Value,
    Writer,
};

static RUN: LazyLock<PathBuf> = LazyLock::new(|| {
    let run = std::env::temp_dir().join(format!("toyspec-fuzz-rust-{}", std::process::id())).join("run");
    fs::create_dir_all(&run).expect("a folder can be made");
    run
});

/// Gives few bytes at a time.
struct Pieces<'a>(&'a [u8]);

impl Read for Pieces<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.0.len().min(into.len()).min(1 + self.0.len() % 7);
        into[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

/// Returns the records that a mode gives, whether it refuses the stream, and the account.
fn read(source: impl Read, size: usize, mode: Mode) -> (Vec<Record>, bool, Report) {
    let mut reader = Reader::new(source, Options { mode, name: "events.jsonl".into(), ..Options::default() });
    let mut records = Vec::new();
    let mut is_refused = false;
    for item in reader.by_ref() {
        match item {
            Ok(record) => records.push(record),
            Err(_) => is_refused = true,
        }
    }
    let report = reader.report();
    assert_eq!(report.committed + report.fragment + report.gap_bytes, size as u64);
    assert_eq!(report.records, records.len() as u64);
    (records, is_refused, report)
}

fn raws(records: &[Record]) -> Vec<&[u8]> {
    records.iter().map(|record| record.raw.as_slice()).collect()
}

/// A record in canonical form reads back, and has the same form once more.
fn write_again(record: &Record) {
    let Some(profile) = record.profile else { return };
    let Ok(line) = encode(profile, &record.value) else { return };
    let (back, is_refused, _) = read(&line[..], line.len(), Mode::Salvage);
    assert!(!is_refused && back.len() == 1, "one line gives one record");
    let value: &Map = &back[0].value;
    assert_eq!(encode(profile, value).expect("what was written can be written"), line);
}

/// Returns the record that a resumed stream goes on with, or begins with.
fn next_record(is_begun: bool) -> Map {
    let text = |text: &str| Value::String(text.to_string());
    let mut record = Map::default();
    record.insert("kind", text(if is_begun { "run_resume" } else { "run_start" }));
    if is_begun {
        record.insert("from_step", Value::Number(Number::from(0)));
    } else {
        record.insert("run_id", text("r"));
    }
    record
}

/// A writer that resumes leaves a stream, or goes on after its last LF and keeps the rest beside it.
fn resume(data: &[u8], whole: &Report) {
    let stream = RUN.join("events.jsonl");
    let committed = data.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    let side_file = RUN.join(format!("events.jsonl.torn-{committed}"));
    fs::write(&stream, data).expect("the stream can be written");
    let opened = Writer::open(&*RUN, Exist::Resume);
    assert!(opened.is_err() || whole.gap_bytes == 0, "damage is refused");
    let written = opened.and_then(|mut writer| writer.write_record(&next_record(whole.records > 0)));
    let found = fs::read(&stream).expect("the stream is there");
    if written.is_err() {
        assert_eq!(found, data);
        return;
    }
    assert!(found.len() > committed && found[..committed] == data[..committed]);
    if committed < data.len() {
        assert_eq!(fs::read(&side_file).expect("the rest is kept"), &data[committed..]);
        fs::remove_file(&side_file).expect("it can be removed");
    }
}

fuzz_target!(|data: &[u8]| {
    let (all, _, whole) = read(data, data.len(), Mode::Salvage);
    let (pieced, _, again) = read(Pieces(data), data.len(), Mode::Salvage);
    assert_eq!(raws(&all), raws(&pieced));
    assert_eq!((whole.state, whole.fragment, whole.gap_bytes), (again.state, again.fragment, again.gap_bytes));
    for mode in [Mode::Strict, Mode::Tail, Mode::Prefix] {
        let (some, is_refused, report) = read(data, data.len(), mode);
        assert_eq!(raws(&some), raws(&all[..some.len()]));
        assert_eq!(report.state, whole.state);
        match mode {
            Mode::Strict => assert_eq!(is_refused, whole.state != State::Complete),
            Mode::Tail => assert_eq!(is_refused, whole.gap_bytes > 0),
            _ => assert!(!is_refused),
        }
    }
    let verdict = check_source(data, "events.jsonl", CheckOptions::default()).expect("memory can be read");
    assert_eq!((verdict.state, verdict.records, verdict.bytes), (Some(whole.state), whole.records, data.len() as u64));
    for finding in &verdict.findings {
        assert!(finding.line >= 1 && finding.offset <= data.len() as u64);
        assert!(!finding.message.chars().any(char::is_control), "a message is inert");
    }
    all.iter().for_each(write_again);
    resume(data, &whole);
});
