//! What the first and the last records of a short stream say of its run, for a list of many runs.

use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use crate::check::Fast;
use crate::line_validation::{LineValidator, Status};
use crate::profile::{detect, Hints};
use crate::record_numbers::{counts, finite, in_seconds, number_or_null};
use crate::schema::{member, Constant};
use crate::source::open_regular;
use crate::tables::MAX_LINE_BYTES;
use crate::tape::{Kind, Node};
use crate::{Profile, State};

/// The phase of a run that names none.
const TRAIN: &str = "train";
/// The kind of a record between the ends that changes what lists show.
const SETTINGS: &[u8] = b"run_config";

/// A short stream that was read completely.
#[derive(Clone, Debug, PartialEq)]
pub struct Ends {
    /// The format of the stream.
    pub profile: Profile,
    /// What its bytes show of its end.
    pub state: State,
    /// Number of records.
    pub records: u64,
    /// Size in bytes.
    pub size: usize,
    /// The first line, if it starts the run, without its LF.
    pub start: Option<Vec<u8>>,
    /// The last line that ends the run, without its LF.
    pub end: Option<Vec<u8>>,
    /// The first and the last step of the run's own phase.
    pub steps: (i64, i64),
    /// The first and the last time, in seconds.
    pub times: (f64, f64),
    /// The loss of the last of these steps that has one; NaN stands for null.
    pub loss: f64,
}

/// Reads the ends of short streams, one after the other.
#[derive(Default)]
pub struct EndsReader {
    validator: LineValidator,
    toy: Option<Fast>,
    metrics: Option<Fast>,
    text: Vec<u8>,
}

/// What one record is for its run.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Start,
    End,
    /// A step of a phase, None for that of the run; whether it has a loss.
    Step(Option<&'static str>, bool),
    /// Values that are steps of the run where no step is before them.
    Values,
    Other,
}

/// Lines of a stream, each with its LF.
enum Seen {
    One(Part, Range<usize>),
    /// Records that neither begin nor end the run.
    Many(Range<usize>),
}

/// What was seen of a stream.
struct Scanned {
    profile: Profile,
    seen: Vec<Seen>,
    records: u64,
    is_damaged: bool,
    run_phase: &'static str,
    /// Where the fragment at the end begins.
    end: usize,
}

impl EndsReader {
    /// Returns what a short stream says; None where that takes more than its plain records: a file of another format or
    /// with more than so many bytes, a run that was resumed or whose settings changed, keys that repeat, integers written `1.0`.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn read(&mut self, path: &Path, most_bytes: usize) -> io::Result<Option<Ends>> {
        let Some(file) = open_regular(path)? else { return Ok(None) };
        let metadata = file.metadata()?;
        if metadata.len() > most_bytes as u64 {
            return Ok(None);
        }
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        text.reserve(metadata.len() as usize + 1);
        // What is written from now on belongs to the next list.
        let read = file.take(metadata.len()).read_to_end(&mut text);
        let found = read.map(|_| self.ends_of(&text));
        self.text = text;
        found
    }

    fn ends_of(&mut self, text: &[u8]) -> Option<Ends> {
        if memchr::memmem::find(text, SETTINGS).is_some() {
            return None;
        }
        let Scanned { profile, seen, records, is_damaged, run_phase, end } = self.scan(text)?;
        let is_ended = matches!(seen.last(), Some(Seen::One(Part::End, _)));
        let state = match is_damaged {
            true => State::Damaged,
            false if end < text.len() || profile.table().last.is_some() && !is_ended => State::Torn,
            false => State::Complete,
        };
        let is_own = |part: Part| matches!(part, Part::Step(phase, _) if phase.unwrap_or(run_phase) == run_phase);
        let tells = |part: Part| matches!(part, Part::Step(_, true)) && is_own(part);
        let first = self.first(text, &seen, profile, is_own)?;
        if self.first(text, &seen, profile, |part| part == Part::Values || is_own(part))? != first {
            return None;
        }
        let (last, telling) = (self.last(text, &seen, profile, is_own)?, self.last(text, &seen, profile, tells)?);
        let begin = self.first_time(lines_of(text, 0..first.end), text, profile)?;
        let finish = self.first_time(lines_back(text, telling.start..end), text, profile)?;
        let mut of_step = |range: &Range<usize>| {
            self.validator.validate(&text[range.start..range.end - 1], range.start == 0);
            let record = self.validator.record(&text[range.start..range.end - 1])?;
            Some((record.get("step")?.literal().parse().ok()?, record.get("loss").map(number_or_null)))
        };
        let ((first, _), (last, _), (_, loss)) = (of_step(&first)?, of_step(&last)?, of_step(&telling)?);
        let whole = |wanted: Part| {
            let mut lines = seen.iter().rev().filter_map(|piece| match piece {
                Seen::One(part, range) if *part == wanted => Some(text[range.start..range.end - 1].to_vec()),
                _ => None,
            });
            lines.next()
        };
        Some(Ends {
            profile,
            state,
            records,
            size: text.len(),
            start: whole(Part::Start),
            end: whole(Part::End),
            steps: (first, last),
            times: (begin, finish),
            loss: loss??,
        })
    }

    /// Goes over all lines: quickly over the plain ones, as all but the first and the last mostly are.
    fn scan(&mut self, text: &[u8]) -> Option<Scanned> {
        let end = memchr::memrchr(b'\n', text).map_or(0, |at| at + 1);
        let is_utf8 = simdutf8::basic::from_utf8(&text[..end]).is_ok();
        let (mut profile, mut run_phase, mut start) = (None, None, 0);
        let (mut seen, mut records, mut is_damaged) = (Vec::new(), 0, false);
        while start < end {
            if let Some(fast) = profile.filter(|_| is_utf8).and_then(|profile| self.fast(profile)) {
                let taken = fast.records(&text[start..end], MAX_LINE_BYTES);
                if taken.lines > 0 {
                    seen.push(Seen::Many(start..start + taken.bytes));
                    records += taken.lines;
                    start += taken.bytes;
                    continue;
                }
            }
            let next = start + 1 + memchr::memchr(b'\n', &text[start..end])?;
            let line = &text[start..next - 1];
            match self.validator.validate(line, start == 0) {
                Status::Blank => {}
                Status::Unreadable => is_damaged = true,
                Status::Readable => {
                    let record = self.validator.record(line).filter(|_| self.validator.problems.listed.is_empty())?;
                    let profile = match profile {
                        Some(profile) => profile,
                        None => *profile.insert(detect(record, Hints::default())?),
                    };
                    let part = part(record, profile)?;
                    if part == Part::Start {
                        // One that comes later decides on what was read before.
                        seen.is_empty().then_some(())?;
                        run_phase = Some(phase_of(record).unwrap_or(TRAIN));
                    }
                    seen.push(Seen::One(part, start..next));
                    records += 1;
                }
            }
            start = next;
        }
        Some(Scanned { profile: profile?, seen, records, is_damaged, run_phase: run_phase.unwrap_or(TRAIN), end })
    }

    fn fast(&mut self, profile: Profile) -> Option<&mut Fast> {
        let slot = match profile {
            Profile::Toy => &mut self.toy,
            Profile::Metrics => &mut self.metrics,
            Profile::Kaun => return None,
        };
        Some(slot.get_or_insert_with(|| Fast::new(profile)))
    }

    /// Returns the first line whose part is one; None without one, or where Python has to look at a record.
    fn first(
        &mut self,
        text: &[u8],
        seen: &[Seen],
        profile: Profile,
        is_one: impl Fn(Part) -> bool + Copy,
    ) -> Option<Range<usize>> {
        for piece in seen {
            let found = match piece {
                Seen::One(part, range) => is_one(*part).then(|| range.clone()),
                Seen::Many(range) => self.find(lines_of(text, range.clone()), text, profile, is_one)?,
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// As `first`, from the last line on.
    fn last(
        &mut self,
        text: &[u8],
        seen: &[Seen],
        profile: Profile,
        is_one: impl Fn(Part) -> bool + Copy,
    ) -> Option<Range<usize>> {
        for piece in seen.iter().rev() {
            let found = match piece {
                Seen::One(part, range) => is_one(*part).then(|| range.clone()),
                Seen::Many(range) => self.find(lines_back(text, range.clone()), text, profile, is_one)?,
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Returns the time of the first of `lines` that counts and has one; None where Python has to look at a record.
    fn first_time(&mut self, lines: impl Iterator<Item = Range<usize>>, text: &[u8], profile: Profile) -> Option<f64> {
        for range in lines {
            let line = &text[range.start..range.end - 1];
            if self.validator.validate(line, range.start == 0) != Status::Readable {
                continue;
            }
            let record = self.validator.record(line)?;
            let kind = record.get("kind").filter(|kind| kind.kind() == Kind::String).map(|kind| kind.string());
            let (key, counted) = match profile {
                Profile::Metrics => ("wall_time_ms", counts(record)),
                _ => ("t", kind.is_some_and(|kind| profile.kind(&kind).is_some())),
            };
            let time = record.get(key).filter(|time| counted && time.kind() == Kind::Number);
            if let Some(time) = time {
                return finite(time).map(|time| in_seconds(time, profile));
            }
        }
        None
    }

    /// Returns the first of `lines` whose part is one; None where Python has to look at a record.
    #[allow(clippy::option_option)]
    fn find(
        &mut self,
        mut lines: impl Iterator<Item = Range<usize>>,
        text: &[u8],
        profile: Profile,
        is_one: impl Fn(Part) -> bool,
    ) -> Option<Option<Range<usize>>> {
        lines
            .find_map(|range| {
                let line = &text[range.start..range.end - 1];
                self.validator.validate(line, range.start == 0);
                match self.validator.record(line).and_then(|record| part(record, profile)) {
                    None => Some(None),
                    Some(part) => is_one(part).then_some(Some(range)),
                }
            })
            .map_or(Some(None), |found| found.map(Some))
    }
}

/// Yields the whole lines in a range of a text, each with its LF.
fn lines_of(text: &[u8], range: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut start = range.start;
    memchr::memchr_iter(b'\n', &text[range.clone()]).map(move |at| {
        let line = start..range.start + at + 1;
        start = line.end;
        line
    })
}

/// Yields the same from the last line on.
fn lines_back(text: &[u8], range: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut end = range.end;
    std::iter::from_fn(move || {
        (end > range.start).then(|| {
            let line = &text[range.start..end - 1];
            let start = memchr::memrchr(b'\n', line).map_or(range.start, |at| range.start + at + 1);
            start..std::mem::replace(&mut end, start)
        })
    })
}

/// Returns what a record is; None where Python has to look at it.
fn part(record: Node, profile: Profile) -> Option<Part> {
    match profile {
        Profile::Metrics if !counts(record) => Some(Part::Other),
        Profile::Metrics => is_placed(record).then(|| Part::Step(None, record.get("loss").is_some())),
        Profile::Kaun => None,
        Profile::Toy => {
            let Some(kind) = record.get("kind").filter(|kind| kind.kind() == Kind::String) else {
                return Some(Part::Other);
            };
            match &*kind.string() {
                "run_resume" => None,
                "run_start" => Some(Part::Start),
                "run_end" => Some(Part::End),
                "step" => step(record),
                "scalars" => Some(Part::Values),
                _ => Some(Part::Other),
            }
        }
    }
}

/// Whether an entry has a plain step and a time, so that it counts as it is read here.
fn is_placed(entry: Node) -> bool {
    let (Some(step), Some(time)) = (entry.get("step"), entry.get("wall_time_ms")) else { return false };
    let is_step = step.kind() == Kind::Number && step.literal().parse::<i64>().is_ok_and(|step| step >= 0);
    is_step && time.kind() == Kind::Number
}

/// Returns what a step is: one without a valid number and time counts as another record.
fn step(record: Node) -> Option<Part> {
    let (Some(step), Some(time)) = (record.get("step"), record.get("t")) else { return Some(Part::Other) };
    if step.kind() != Kind::Number || time.kind() != Kind::Number {
        return Some(Part::Other);
    }
    let step: i64 = step.literal().parse().ok()?;
    let time: f64 = time.literal().parse().ok()?;
    if step < 0 || time < 0.0 {
        return Some(Part::Other);
    }
    Some(Part::Step(phase_of(record), record.get("loss").is_some()))
}

/// Returns the phase that a record names; an invalid one counts as none.
fn phase_of(record: Node) -> Option<&'static str> {
    let phase = record.get("phase").filter(|phase| phase.kind() == Kind::String)?;
    let schema = member(Profile::Toy.kind("step")?.fields, "phase")?;
    let mut known = schema.values.iter().filter_map(|value| match value {
        Constant::Text(text) => Some(*text),
        Constant::Integer(_) => None,
    });
    known.find(|text| phase.is_named(text))
}

#[cfg(test)]
mod tests {
    use super::{Ends, EndsReader};
    use crate::State;

    fn ends_of(text: &[u8]) -> Option<Ends> {
        EndsReader::default().ends_of(text)
    }

    const START: &str = "{\"kind\":\"run_start\",\"schema\":\"toy/v1\",\"t\":0.0,\"run_id\":\"r\"}\n";

    fn step(step: u32, more: &str) -> String {
        format!("{{\"kind\":\"step\",\"t\":1.0,\"step\":{step}{more}}}\n")
    }

    #[test]
    fn the_first_and_the_last_step_and_loss_count() {
        let (one, two, three) = (step(1, ",\"loss\":2"), step(2, ",\"loss\":null"), step(3, ""));
        let other = step(9, ",\"phase\":\"eval\",\"loss\":7");
        let end = "{\"kind\":\"run_end\",\"t\":9.0,\"reason\":\"completed\"}\n";
        let found = ends_of(format!("{START}\n{one}{two}{three}{other}{end}").as_bytes()).unwrap();
        assert_eq!((State::Complete, 6, (1, 3), (0.0, 9.0)), (found.state, found.records, found.steps, found.times));
        assert_eq!((true, Some(START.trim().into())), (found.loss.is_nan(), found.start));
        assert_eq!(Some(end.trim().into()), found.end);
        let torn = ends_of(format!("{START}{one}{{\"ki").as_bytes()).unwrap();
        assert_eq!((State::Torn, 2.0, (0.0, 1.0)), (torn.state, torn.loss, torn.times));
        let damaged = ends_of(format!("{START}x\n{one}").as_bytes()).unwrap();
        assert_eq!((State::Damaged, 2), (damaged.state, damaged.records));
    }

    #[test]
    fn steps_of_the_phase_of_the_run_count() {
        let start = START.replace("}\n", ",\"phase\":\"eval\"}\n");
        let (own, named) = (step(1, ",\"loss\":3"), step(2, ",\"phase\":\"eval\",\"loss\":2"));
        let (another, later) = (step(5, ",\"phase\":\"train\",\"loss\":1"), step(3, ",\"loss\":1.5"));
        let found = ends_of([start, own, named, later, another].concat().as_bytes()).unwrap();
        assert_eq!(((1, 3), 1.5), (found.steps, found.loss));
    }

    #[test]
    fn a_file_of_at_most_so_many_bytes_is_read() {
        let path = std::env::temp_dir().join(format!("toyspec-ends-{}.jsonl", std::process::id()));
        let text = format!("{START}{}", step(1, ",\"loss\":2"));
        std::fs::write(&path, &text).unwrap();
        let (size, mut reader) = (text.len(), EndsReader::default());
        let found = [size + 1, size, size - 1].map(|most| reader.read(&path, most).unwrap().map(|ends| ends.size));
        std::fs::remove_file(&path).unwrap();
        assert_eq!([Some(size), Some(size), None], found);
    }

    #[test]
    fn what_needs_more_than_plain_records_is_left_to_the_caller() {
        let resume = "{\"kind\":\"run_resume\",\"t\":1.0,\"from_step\":1}\n";
        let settings = "{\"kind\":\"run_config\",\"t\":1.0,\"config\":{}}\n";
        for text in [
            "",
            START,
            &format!("{START}{}{resume}", step(1, ",\"loss\":1")),
            &format!("{START}{settings}{}", step(1, ",\"loss\":1")),
            &format!("{START}{}", step(1, ",\"loss\":1,\"loss\":2")),
            &format!("{START}{}", step(1, ",\"loss\":\"x\"")),
            &format!("{}{START}", step(1, ",\"loss\":1")),
            &format!("{{\"kind\":\"scalars\",\"t\":1,\"step\":7,\"values\":{{}}}}\n{}", step(9, ",\"loss\":1")),
            &format!("{START}{}", step(1, ",\"loss\":1").replace("\"step\":1", "\"step\":1.0")),
            "{\"type\":\"scalar\",\"tag\":\"loss\",\"step\":1,\"value\":1.0,\"wall_time\":1.0}\n",
        ] {
            assert_eq!(None, ends_of(text.as_bytes()), "{text}");
        }
    }
}
