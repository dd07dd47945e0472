//! Lets tokitai-operator 0.1.0 read what toyspec writes and the other way round, and prints what came of it as JSON.
//!
//! It fails where a result differs from what the documentation of toyspec says.

mod entries;
mod refusals;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use entries::{differences, random_entries};
use serde_json::{json, Value as Json};
use tokitai_operator::metrics::{MetricsEntry, MetricsLog};
use toyspec::{Mode, Options, Profile, Reader, Summary, Views, Writer};

/// So many entries are written in each direction.
const ENTRIES: usize = 10_000;

/// One comparison: who wrote and who read, what was compared, and how many values differed.
pub struct Row {
    pub direction: &'static str,
    pub compared: String,
    pub differences: Vec<String>,
    /// The result where nothing differs.
    pub agreed: &'static str,
}

fn main() -> ExitCode {
    let directory = std::env::temp_dir().join(format!("toyspec-originals-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory can be made");
    let rows = compared(&directory);
    let _ = fs::remove_dir_all(&directory);
    let made: Vec<Json> = rows.iter().map(object).collect();
    println!("{}", json!({"original": "tokitai-operator", "version": "0.1.0", "profile": "metrics/v1", "rows": made}));
    ExitCode::from(u8::from(rows.iter().any(|row| !row.differences.is_empty())))
}

fn object(row: &Row) -> Json {
    let shown: Vec<&String> = row.differences.iter().take(5).collect();
    let result = if shown.is_empty() { row.agreed.to_string() } else { format!("{} differ", row.differences.len()) };
    json!({"direction": row.direction, "compared": row.compared, "result": result, "shown": shown})
}

fn compared(directory: &Path) -> Vec<Row> {
    let all = random_entries(ENTRIES);
    let (theirs, ours) = (directory.join("theirs.jsonl"), directory.join("ours.jsonl"));
    write_theirs(&theirs, &all);
    write_ours(&ours, &all);
    let bits = format!("{ENTRIES} random entries, each number bit for bit");
    let mut rows = vec![
        row("the original writes, toyspec reads", bits.clone(), differences(&all, &read_ours(&theirs))),
        row("toyspec writes, the original reads", bits, differences(&all, &read_theirs(&ours))),
        row(
            "the original and toyspec read one log",
            "smallest, mean and largest loss, bit for bit".into(),
            sums(&ours),
        ),
    ];
    let (first, second) = all.split_at(ENTRIES / 2);
    for (name, starts_with_theirs) in [("mixed-1.jsonl", true), ("mixed-2.jsonl", false)] {
        let mixed = directory.join(name);
        for (part, is_theirs) in [(first, starts_with_theirs), (second, !starts_with_theirs)] {
            if is_theirs {
                write_theirs(&mixed, part)
            } else {
                write_ours(&mixed, part)
            }
        }
        let mut found = differences(&all, &read_ours(&mixed));
        found.extend(differences(&all, &read_theirs(&mixed)));
        let direction = if starts_with_theirs {
            "toyspec appends to the original's log"
        } else {
            "the original appends to toyspec's log"
        };
        rows.push(row(direction, format!("{ENTRIES} entries, read by both"), found));
    }
    rows.extend(refusals::rows(directory));
    rows
}

fn row(direction: &'static str, compared: String, differences: Vec<String>) -> Row {
    Row { direction, compared, differences, agreed: "no difference" }
}

fn write_theirs(path: &Path, entries: &[MetricsEntry]) {
    let mut log = MetricsLog::open(path).expect("the original opens its log");
    for entry in entries {
        log.record(entry.clone()).expect("the original writes an entry");
    }
}

fn write_ours(path: &Path, entries: &[MetricsEntry]) {
    let mut writer = Writer::append(path, Profile::Metrics).expect("toyspec opens the log");
    for entry in entries {
        writer.write_record(&entries::record_of(entry)).expect("toyspec writes an entry");
    }
}

fn read_theirs(path: &Path) -> Vec<MetricsEntry> {
    MetricsLog::open(path).expect("the original reads the log").iter().cloned().collect()
}

fn read_ours(path: &Path) -> Vec<MetricsEntry> {
    let options = Options { mode: Mode::Strict, ..Options::default() };
    let reader = Reader::open(path, options).expect("toyspec opens the log");
    reader.map(|record| entries::entry_of(&record.expect("toyspec reads the log").value)).collect()
}

fn sums(path: &Path) -> Vec<String> {
    let theirs = MetricsLog::open(path).expect("the original reads the log").summary();
    let Views::Metrics(ours) = Summary::of_path(path, &Options::default()).expect("toyspec reads the log").views else {
        return vec!["the log is not in metrics/v1".to_string()];
    };
    let [least, mean, greatest] = ours.statistics.unwrap_or_default();
    let pairs = [(theirs.loss_min, least), (theirs.loss_mean, mean), (theirs.loss_max, greatest)];
    let differ = pairs.into_iter().filter(|(one, two)| one.to_bits() != two.to_bits());
    differ.map(|(one, two)| format!("{one:e} and {two:e}")).collect()
}
