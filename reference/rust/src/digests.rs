//! What a catalog has of a run: the verdict of a check and the extremes of each metric, from one reading of its stream.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;

use crate::check::{CheckOptions, FileReport, StreamChecker};
use crate::columns::{columns, Column, Columns, Piece};
use crate::source::open_regular;
use crate::{Profile, Severity, State};

const SEAL: &str = "SHA256SUMS";
const RESUME: &[u8] = b"run_resume";

/// What one stream says.
#[derive(Debug)]
pub struct Digest {
    /// The format of the stream.
    pub profile: Profile,
    /// What its bytes show of its end.
    pub state: State,
    /// Number of readable records.
    pub records: u64,
    /// Size in bytes.
    pub size: u64,
    /// Number of findings of each rule, with its severity.
    pub findings: BTreeMap<&'static str, (Severity, u64)>,
    /// Its committed lines in order.
    pub parts: Vec<Part>,
}

/// Successive lines.
#[derive(Debug)]
pub enum Part {
    /// Lines that say more than numbers, unchanged.
    Lines(Vec<u8>),
    /// What records of numbers come to.
    Numbers(Numbers),
}

/// What successive records of nothing but numbers come to.
#[derive(Debug)]
pub struct Numbers {
    /// Number of records by kind, in the order of the first of each.
    pub kinds: Vec<(String, u64)>,
    /// The phase that the steps name.
    pub phase: Option<String>,
    /// The first and the last time, in seconds.
    pub times: Option<(f64, f64)>,
    /// The first and the last step.
    pub steps: Option<(i64, i64)>,
    /// The metrics of the steps.
    pub metrics: Vec<Extremes>,
}

/// The extremes of one metric, each value with its step.
#[derive(Debug, PartialEq)]
pub struct Extremes {
    /// The name of the metric.
    pub name: String,
    /// Number of values.
    pub count: u64,
    /// Number of values that were null.
    pub nulls: u64,
    /// The first value; NaN stands for null.
    pub first: (i64, f64),
    /// The last value.
    pub last: (i64, f64),
    /// The last value that was not null.
    pub last_finite: Option<f64>,
    /// The first of the lowest values; None where all were null.
    pub lowest: Option<(i64, f64)>,
    /// The first of the highest values.
    pub highest: Option<(i64, f64)>,
}

/// Reads the streams of runs, one after the other.
#[derive(Default)]
pub struct DigestReader {
    text: Vec<u8>,
}

impl DigestReader {
    /// Returns what a stream of at most so many bytes says; None where that takes more than its records: a file that is
    /// not regular, or of another format, a sealed run, a run that was resumed.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn read(&mut self, path: &Path, most_bytes: usize) -> io::Result<Option<Digest>> {
        let Some(file) = open_regular(path)? else { return Ok(None) };
        let metadata = file.metadata()?;
        if metadata.len() > most_bytes as u64 || path.with_file_name(SEAL).symlink_metadata().is_ok() {
            return Ok(None);
        }
        self.text.clear();
        self.text.reserve(metadata.len() as usize + 1);
        // What is written from now on belongs to the next update.
        file.take(metadata.len()).read_to_end(&mut self.text)?;
        Ok(digest(path, &self.text))
    }
}

fn digest(path: &Path, text: &[u8]) -> Option<Digest> {
    let mut checker = StreamChecker::at(path, CheckOptions::default());
    checker.feed(text);
    if !checker.begins_with_own_record() || memchr::memmem::find(text, RESUME).is_some() {
        return None;
    }
    let report = checker.finish();
    let profile = report.profile.filter(|profile| *profile != Profile::Kaun)?;
    let committed = &text[..memchr::memrchr(b'\n', text).map_or(0, |at| at + 1)];
    let mut start = 0;
    let parts = columns(committed, profile).into_iter().map(|piece| match piece {
        Piece::Lines(bytes) => {
            start += bytes;
            Part::Lines(committed[start - bytes..start].to_vec())
        }
        Piece::Columns(found) => {
            start += found.bytes;
            Part::Numbers(Numbers::of(found))
        }
    });
    let parts = parts.collect();
    Some(Digest {
        profile,
        state: report.state?,
        records: report.records,
        size: report.bytes,
        findings: counts(&report),
        parts,
    })
}

fn counts(report: &FileReport) -> BTreeMap<&'static str, (Severity, u64)> {
    let mut found: BTreeMap<&'static str, (Severity, u64)> = BTreeMap::new();
    for finding in &report.findings {
        found.entry(finding.rule.id()).or_insert((finding.severity, 0)).1 += 1;
    }
    for (rule, count) in &report.suppressed {
        if let Some((_, known)) = found.get_mut(rule) {
            *known += count;
        }
    }
    found
}

impl Numbers {
    fn of(columns: Columns) -> Numbers {
        let Columns { kinds, phase, times, steps, columns, .. } = columns;
        Numbers { kinds, phase, times, steps, metrics: columns.iter().filter_map(Extremes::of).collect() }
    }
}

impl Extremes {
    /// Returns the extremes of a column; None for an empty one.
    pub fn of(column: &Column) -> Option<Extremes> {
        let points = || column.steps.iter().copied().zip(column.values.iter().copied());
        let known = || points().filter(|(_, value)| !value.is_nan());
        Some(Extremes {
            count: column.values.len() as u64,
            nulls: column.values.iter().filter(|value| value.is_nan()).count() as u64,
            first: points().next()?,
            last: points().last()?,
            last_finite: column.values.iter().rfind(|value| !value.is_nan()).copied(),
            lowest: known().reduce(|best, point| if point.1 < best.1 { point } else { best }),
            highest: known().reduce(|best, point| if point.1 > best.1 { point } else { best }),
            name: column.name.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{digest, Column, DigestReader, Extremes, Part};
    use crate::State;

    #[test]
    fn a_run_comes_to_its_findings_and_extremes() {
        let text = concat!(
            "{\"kind\":\"run_start\",\"schema\":\"toy/v1\",\"t\":0.0,\"run_id\":\"r\"}\n",
            "{\"kind\":\"step\",\"t\":1.0,\"step\":1,\"loss\":2.5}\n",
            "{\"kind\":\"step\",\"t\":2.0,\"step\":2,\"loss\":null}\n",
            "{\"kind\":\"step\",\"t\":3.0,\"step\":3,\"loss\":2.5}\n",
            "{\"kind\":\"st",
        );
        let found = digest(Path::new("r/other.jsonl"), text.as_bytes()).unwrap();
        assert_eq!((State::Torn, 4, text.len() as u64), (found.state, found.records, found.size));
        assert!(found.findings.values().all(|(_, count)| *count == 1) && !found.findings.is_empty());
        let [Part::Lines(start), Part::Numbers(numbers)] = &found.parts[..] else { panic!("{found:?}") };
        assert!(text.as_bytes().starts_with(start));
        assert_eq!((Some((1.0, 3.0)), Some((1, 3))), (numbers.times, numbers.steps));
        let loss = &numbers.metrics[0];
        assert_eq!(
            ("loss", 3, 1, (3, 2.5), Some((1, 2.5))),
            (&*loss.name, loss.count, loss.nulls, loss.last, loss.lowest)
        );
        let resumed = text.replace("{\"kind\":\"st", "{\"kind\":\"run_resume\",\"t\":3.0,\"from_step\":2}\n");
        assert!(digest(Path::new("r/other.jsonl"), resumed.as_bytes()).is_none());
        assert!(digest(Path::new("r/other.jsonl"), b"{}\n").is_none());
    }

    #[test]
    fn the_first_of_the_extremes_counts() {
        let values = vec![2.0, f64::NAN, 1.0, 3.0, 1.0, 3.0, f64::NAN];
        let found = Extremes::of(&Column { name: "loss".to_string(), steps: (1..8).collect(), values }).unwrap();
        assert_eq!((Some((3, 1.0)), Some((4, 3.0))), (found.lowest, found.highest));
        assert_eq!(((1, 2.0), Some(3.0), 7, 2), (found.first, found.last_finite, found.count, found.nulls));
        assert_eq!((7, true), (found.last.0, found.last.1.is_nan()));
    }

    #[test]
    fn what_takes_more_than_its_records_has_no_digest() {
        let folder = std::env::temp_dir().join(format!("toyspec-digests-{}", std::process::id()));
        let stream = folder.join("events.jsonl");
        fs::create_dir_all(&folder).unwrap();
        let text = "{\"kind\":\"run_start\",\"schema\":\"toy/v1\",\"t\":0.0,\"run_id\":\"r\"}\n";
        fs::write(&stream, text).unwrap();
        let has_digest = |most_bytes| DigestReader::default().read(&stream, most_bytes).unwrap().is_some();
        let by_size = [has_digest(text.len() - 1), has_digest(text.len()), has_digest(text.len() + 1)];
        fs::write(folder.join("SHA256SUMS"), "").unwrap();
        let is_sealed_read = has_digest(text.len());
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(([false, true, true], false), (by_size, is_sealed_read));
    }
}
