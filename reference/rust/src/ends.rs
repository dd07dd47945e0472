//! What the first and the last records of a short stream say of its run, for a list of many runs.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::line_validation::{LineValidator, Status};
use crate::profile::{detect, Hints};
use crate::schema::{member, Constant};
use crate::tape::{Kind, Node};
use crate::{Profile, State};

/// The phase of a run that names none.
const TRAIN: &str = "train";

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
    /// The lines up to the first step, those that end the run, and those from the last step with a loss on, each with
    /// its LF.
    pub lines: Vec<u8>,
}

/// What one record is for its run.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Start,
    End,
    /// A step of a phase, None for that of the run; whether it has a loss.
    Step(Option<&'static str>, bool),
    Other,
}

struct Seen {
    part: Part,
    start: usize,
    end: usize,
}

/// Returns what a short stream says; None where that takes more than its plain records: a file of another format or
/// with more than so many bytes, a run that was resumed, keys that repeat, integers written `1.0`.
///
/// # Errors
///
/// The file cannot be read.
pub fn ends(path: &Path, most_bytes: usize) -> io::Result<Option<Ends>> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > most_bytes as u64 {
        return Ok(None);
    }
    // One byte more than there are, so that the read that finds the end needs no larger buffer.
    let mut text = Vec::with_capacity(metadata.len() as usize + 1);
    file.take(most_bytes as u64 + 1).read_to_end(&mut text)?;
    Ok(if text.len() > most_bytes { None } else { ends_of(&text) })
}

fn ends_of(text: &[u8]) -> Option<Ends> {
    let mut validator = LineValidator::default();
    let mut profile = None;
    let (mut seen, mut run_phase, mut is_damaged, mut start) = (Vec::new(), None, false, 0);
    for end in memchr::memchr_iter(b'\n', text) {
        let line = &text[start..end];
        match validator.validate(line, start == 0) {
            Status::Blank => {}
            Status::Unreadable => is_damaged = true,
            Status::Readable => {
                let record = validator.record(line).filter(|_| validator.problems.listed.is_empty())?;
                let profile = match profile {
                    Some(profile) => profile,
                    None => *profile.insert(detect(record, Hints::default())?),
                };
                let part = part(record, profile)?;
                if part == Part::Start && run_phase.is_none() {
                    run_phase = Some(phase_of(record).unwrap_or(TRAIN));
                }
                seen.push(Seen { part, start, end: end + 1 });
            }
        }
        start = end + 1;
    }
    let profile = profile?;
    let is_closed = profile.table().last.is_none() || seen.last().is_some_and(|last| last.part == Part::End);
    let state = match is_damaged {
        true => State::Damaged,
        false if start < text.len() || !is_closed => State::Torn,
        false => State::Complete,
    };
    let lines = telling(text, &seen, run_phase.unwrap_or(TRAIN))?;
    Some(Ends { profile, state, records: seen.len() as u64, size: text.len(), lines })
}

/// Returns the lines that count; None where no step has a loss.
fn telling(text: &[u8], seen: &[Seen], run_phase: &str) -> Option<Vec<u8>> {
    let is_own = |part: Part| matches!(part, Part::Step(phase, _) if phase.unwrap_or(run_phase) == run_phase);
    let tells = |part: Part| matches!(part, Part::Step(_, true)) && is_own(part);
    let last = seen.iter().rposition(|record| tells(record.part))?;
    let first = seen[..last].iter().position(|record| is_own(record.part)).unwrap_or(last);
    let mut lines = Vec::new();
    for (index, record) in seen.iter().enumerate() {
        if index <= first || index >= last || record.part == Part::End {
            lines.extend_from_slice(&text[record.start..record.end]);
        }
    }
    Some(lines)
}

/// Returns what a record is; None where Python has to look at it.
fn part(record: Node, profile: Profile) -> Option<Part> {
    match profile {
        Profile::Metrics => Some(Part::Step(None, record.get("loss").is_some())),
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
                _ => Some(Part::Other),
            }
        }
    }
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
    use super::{ends, ends_of};
    use crate::State;

    const START: &str = "{\"kind\":\"run_start\",\"schema\":\"toy/v1\",\"t\":0.0,\"run_id\":\"r\"}\n";

    fn step(step: u32, more: &str) -> String {
        format!("{{\"kind\":\"step\",\"t\":1.0,\"step\":{step}{more}}}\n")
    }

    #[test]
    fn the_lines_around_the_first_and_the_last_loss_count() {
        let (one, two, three) = (step(1, ",\"loss\":2"), step(2, ",\"loss\":1"), step(3, ",\"loss\":0.5"));
        let other = step(9, ",\"phase\":\"eval\",\"loss\":7");
        let end = "{\"kind\":\"run_end\",\"t\":9.0,\"reason\":\"completed\"}\n";
        let found = ends_of(format!("{START}\n{one}{two}{three}{other}{end}").as_bytes()).unwrap();
        assert_eq!((State::Complete, 6), (found.state, found.records));
        assert_eq!(format!("{START}{one}{three}{other}{end}"), String::from_utf8(found.lines).unwrap());
        let torn = ends_of(format!("{START}{one}{{\"ki").as_bytes()).unwrap();
        assert_eq!(State::Torn, torn.state);
        let damaged = ends_of(format!("{START}x\n{one}").as_bytes()).unwrap();
        assert_eq!((State::Damaged, 2), (damaged.state, damaged.records));
    }

    #[test]
    fn a_file_of_at_most_so_many_bytes_is_read() {
        let path = std::env::temp_dir().join(format!("toyspec-ends-{}.jsonl", std::process::id()));
        let text = format!("{START}{}", step(1, ",\"loss\":2"));
        std::fs::write(&path, &text).unwrap();
        let size = text.len();
        let found = [size + 1, size, size - 1].map(|most| ends(&path, most).unwrap().map(|ends| ends.size));
        std::fs::remove_file(&path).unwrap();
        assert_eq!([Some(size), Some(size), None], found);
    }

    #[test]
    fn what_needs_more_than_plain_records_is_left_to_the_caller() {
        let resume = "{\"kind\":\"run_resume\",\"t\":1.0,\"from_step\":1}\n";
        for text in [
            "",
            START,
            &format!("{START}{}{resume}", step(1, ",\"loss\":1")),
            &format!("{START}{}", step(1, ",\"loss\":1,\"loss\":2")),
            &format!("{START}{}", step(1, ",\"loss\":1").replace("\"step\":1", "\"step\":1.0")),
            "{\"type\":\"scalar\",\"tag\":\"loss\",\"step\":1,\"value\":1.0,\"wall_time\":1.0}\n",
        ] {
            assert_eq!(None, ends_of(text.as_bytes()), "{text}");
        }
    }
}
