//! Logs that one of the two programs refuses, and what the other makes of them.

use std::fs;
use std::path::Path;

use tokitai_operator::metrics::MetricsLog;
use toyspec::{check_file, CheckOptions, Rule, Severity};

use crate::Row;

/// A log: what is special about it, its bytes, whether the original reads it, and the gravest finding of toyspec.
struct Case {
    what: &'static str,
    log: String,
    is_read: bool,
    finding: Option<(Rule, Severity)>,
}

const REST: &str = "\"wall_time_ms\":1.0,\"loss\":0.5,\"grad_norm\":1.0,\"throughput_samples_per_sec\":2.0";

fn cases() -> Vec<Case> {
    let whole = format!("{{\"step\":1,{REST},\"extra\":{{}}}}\n");
    let case = |what, log: String, is_read, finding| Case { what, log, is_read, finding };
    let error = |rule| Some((rule, Severity::Error));
    vec![
        case("a log as both write it", whole.clone(), true, None),
        case("no `extra`", format!("{{\"step\":1,{REST}}}\n"), true, None),
        case("a blank line", format!("\n{whole}"), true, None),
        case(
            "an unknown key",
            whole.replace("\"extra\"", "\"lr\":0.1,\"extra\""),
            true,
            Some((Rule::UnknownKey, Severity::Info)),
        ),
        case(
            "a null loss, as both write NaN",
            whole.replace("0.5", "null"),
            false,
            Some((Rule::NotReadableBySource, Severity::Info)),
        ),
        case(
            "a log that ends in half a line",
            format!("{whole}{{\"step\":2,\"wa"),
            false,
            Some((Rule::UnterminatedLine, Severity::Warning)),
        ),
        case(
            "a last line without LF",
            whole.trim_end().to_string(),
            true,
            Some((Rule::UnterminatedLine, Severity::Warning)),
        ),
        case("a key twice", whole.replace("{\"step\":1", "{\"step\":1,\"step\":1"), false, error(Rule::DuplicateKey)),
        case("a missing key", whole.replace("\"grad_norm\":1.0,", ""), false, error(Rule::MissingKey)),
        case("a step of -1", whole.replace(":1,", ":-1,"), false, error(Rule::OutOfRange)),
        case("a step of 1.0", whole.replace(":1,", ":1.0,"), false, error(Rule::WrongType)),
        case("a step of 2^32", whole.replace(":1,", ":4294967296,"), false, error(Rule::OutOfRange)),
        case("two entries on a line", whole.trim_end().to_string() + &whole, false, error(Rule::InvalidJson)),
        case("NaN as a bare word", whole.replace("0.5", "NaN"), false, error(Rule::NonFiniteNumber)),
    ]
}

/// Returns a row for each log.
pub fn rows(directory: &Path) -> Vec<Row> {
    let path = directory.join("case.jsonl");
    let rows = cases().into_iter().map(|case| {
        fs::write(&path, &case.log).expect("a log can be written");
        let is_read = MetricsLog::open(&path).is_ok();
        let options = CheckOptions { profile: Some(toyspec::Profile::Metrics), ..CheckOptions::default() };
        let report = check_file(&path, options).expect("toyspec reads the log");
        let found = report.findings.iter().map(|found| (found.rule, found.severity)).min_by_key(|found| found.1 as u8);
        let mut differences = Vec::new();
        if is_read != case.is_read {
            differences.push(format!("the original {} it", if is_read { "reads" } else { "refuses" }));
        }
        if found != case.finding {
            differences.push(format!("toyspec reports {found:?}, not {:?}", case.finding));
        }
        let original = if case.is_read { "read" } else { "refused" };
        let ours = case
            .finding
            .map_or("nothing".to_string(), |(rule, severity)| format!("{} ({})", rule.id(), severity.name()));
        let compared = format!("{}: {original} by the original; toyspec reports {ours}", case.what);
        Row { direction: "both read one log", compared, differences, agreed: "as expected" }
    });
    rows.collect()
}
