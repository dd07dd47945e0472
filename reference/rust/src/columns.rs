//! The numbers of records as columns, without an object for each value.

use crate::line_validation::{LineValidator, Status};
use crate::schema::{member, Constant, KindTable};
use crate::tables::MAX_LINE_BYTES;
use crate::tape::{Kind, Node};
use crate::Profile;

/// Kinds of toy/v1 whose records say more than their numbers.
const SPEAKING: [&str; 6] = ["run_start", "run_end", "run_resume", "eval", "scalars", "define"];
const MILLISECONDS: f64 = 1000.0;
/// Records with more metrics than this in one piece are left to the caller.
const MAX_COLUMNS: usize = 256;

/// One metric: a value for each step that has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The name of the metric.
    pub name: String,
    /// The steps, in the order of the records.
    pub steps: Vec<i64>,
    /// The values; NaN stands for null.
    pub values: Vec<f64>,
}

/// What whole lines hold: nothing but readable records whose numbers are all that counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Columns {
    /// Number of lines, each a record.
    pub lines: u64,
    /// Number of bytes.
    pub bytes: usize,
    /// Where the last line begins.
    pub last: usize,
    /// Number of records by kind, in the order of the first of each; that of a profile without kinds is `entry`.
    pub kinds: Vec<(String, u64)>,
    /// The phase that the steps name.
    pub phase: Option<String>,
    /// The first and the last time, in seconds.
    pub times: Option<(f64, f64)>,
    /// The first and the last step.
    pub steps: Option<(i64, i64)>,
    /// The metrics of the steps.
    pub columns: Vec<Column>,
    /// Where each line is; None unless it was asked for.
    pub rows: Option<Rows>,
}

/// Where each of several steps is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// The steps.
    pub steps: Vec<i64>,
    /// The times, in seconds.
    pub times: Vec<f64>,
    /// The epochs; empty where no step has one.
    pub epochs: Vec<f64>,
}

/// Which records are taken into columns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// All that say nothing but numbers.
    All,
    /// Steps alone; those of one piece have the same metrics.
    Steps,
}

/// A part of a text of whole lines.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Records whose numbers are all that counts.
    Columns(Columns),
    /// Other lines, so many bytes.
    Lines(usize),
}

/// What one record says.
struct Said<'t> {
    kind: &'static str,
    time: Option<f64>,
    step: Option<i64>,
    phase: Option<&'static str>,
    epoch: Option<f64>,
    metrics: Vec<(Node<'t>, f64)>,
}

/// Returns what whole lines of a stream of a profile hold, in their order.
pub fn columns(text: &[u8], profile: Profile) -> Vec<Piece> {
    pieces_of(text, profile, Taken::All)
}

/// As `columns`, for steps alone, with the place of each. The steps of a piece have the same metrics and phase.
pub fn step_columns(text: &[u8], profile: Profile) -> Vec<Piece> {
    pieces_of(text, profile, Taken::Steps)
}

fn pieces_of(text: &[u8], profile: Profile, taken: Taken) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut validator = LineValidator::default();
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', text) {
        let line = &text[start..end];
        let size = end + 1 - start;
        let is_plain = line.len() <= MAX_LINE_BYTES
            && validator.validate(line, false) == Status::Readable
            && validator.problems.listed.is_empty();
        let said = validator.record(line).filter(|_| is_plain).and_then(|record| said(record, profile));
        let said = said.filter(|said| taken == Taken::All || said.is_placed());
        if !said.is_some_and(|said| take(&mut pieces, &said, size, taken)) {
            match pieces.last_mut() {
                Some(Piece::Lines(bytes)) => *bytes += size,
                _ => pieces.push(Piece::Lines(size)),
            }
        }
        start = end + 1;
    }
    pieces
}

/// Returns what a record says; None where that is more than numbers.
fn said(record: Node, profile: Profile) -> Option<Said> {
    match profile {
        Profile::Toy => said_by_event(record),
        Profile::Metrics => said_by_entry(record),
        Profile::Kaun => None,
    }
}

fn said_by_event(record: Node) -> Option<Said> {
    let parts = Parts::of(record)?;
    let tag = parts.kind.filter(|tag| tag.kind() == Kind::String)?;
    let name = std::str::from_utf8(tag.body()).ok()?;
    let table = Profile::Toy.kind(name).filter(|table| !SPEAKING.contains(&table.name))?;
    let time = parts.time_in(parts.t)?;
    if table.name != "step" {
        return Some(Said { kind: table.name, time, step: None, phase: None, epoch: None, metrics: Vec::new() });
    }
    let phase = match parts.phase {
        None => None,
        Some(phase) => Some(known_phase(table, phase)?),
    };
    let step = parts.step.and_then(step_of).filter(|_| time.is_some_and(|time| time >= 0.0))?;
    Some(Said { kind: table.name, time, step: Some(step), phase, epoch: parts.epoch, metrics: parts.metrics()? })
}

fn said_by_entry(record: Node) -> Option<Said> {
    let parts = Parts::of(record)?;
    let time = parts.time_in(parts.wall_time_ms)?.map(|time| time / MILLISECONDS);
    let step = parts.step.and_then(step_of)?;
    // What the schema does not declare is not a metric of an entry.
    let table = Profile::Metrics.kind("entry")?;
    if parts.numbers.iter().any(|(key, _)| member(table.fields, &key.string()).is_none()) {
        return None;
    }
    Some(Said { kind: "entry", time, step: Some(step), phase: None, epoch: parts.epoch, metrics: parts.metrics()? })
}

impl Said<'_> {
    fn is_placed(&self) -> bool {
        self.step.is_some() && self.time.is_some()
    }
}

/// The members of a record, by what they are for.
#[derive(Default)]
struct Parts<'t> {
    kind: Option<Node<'t>>,
    t: Option<Node<'t>>,
    wall_time_ms: Option<Node<'t>>,
    step: Option<Node<'t>>,
    phase: Option<Node<'t>>,
    epoch: Option<f64>,
    extra: Option<Node<'t>>,
    numbers: Vec<(Node<'t>, f64)>,
}

impl<'t> Parts<'t> {
    /// Returns the members of a record; None where a key has an escape, or a number is not finite.
    fn of(record: Node<'t>) -> Option<Parts<'t>> {
        let mut parts = Parts::default();
        for (key, value) in record.members() {
            match key.body() {
                b"kind" => parts.kind = Some(value),
                b"t" => parts.t = Some(value),
                b"wall_time_ms" => parts.wall_time_ms = Some(value),
                b"step" => parts.step = Some(value),
                b"phase" => parts.phase = Some(value),
                // Anything but an object is a member like others, which is rare.
                b"extra" if value.kind() == Kind::Object => parts.extra = Some(value),
                b"extra" => return None,
                // One that is not a number does not count.
                b"epoch" => parts.epoch = finite(value),
                b"layer" | b"head" | b"token_id" => {}
                _ => parts.numbers.extend(metric(key, value)?),
            }
        }
        Some(parts)
    }

    /// Returns a time that may be missing; None where it is not a number.
    fn time_in(&self, time: Option<Node>) -> Option<Option<f64>> {
        time.map_or(Some(None), |value| finite(value).map(Some))
    }

    /// Returns the metrics, those of the extra first; None where two of them have the same name.
    fn metrics(self) -> Option<Vec<(Node<'t>, f64)>> {
        let Some(extra) = self.extra else { return Some(self.numbers) };
        let mut found = Vec::with_capacity(self.numbers.len() + 4);
        for (key, value) in extra.members() {
            found.extend(metric(key, value)?);
        }
        let is_twice = |key: &Node| found.iter().any(|(other, _)| other.body() == key.body());
        if self.numbers.iter().any(|(key, _)| is_twice(key)) {
            return None;
        }
        found.extend(self.numbers);
        (found.len() <= MAX_COLUMNS).then_some(found)
    }
}

/// Returns the value of a member that is a number or null; Some(None) for others. None where the caller reads the line.
fn metric<'t>(key: Node<'t>, value: Node<'t>) -> Option<Option<(Node<'t>, f64)>> {
    if key.body().contains(&b'\\') {
        return None;
    }
    match value.kind() {
        Kind::Null => Some(Some((key, f64::NAN))),
        Kind::Number => finite(value).map(|number| Some((key, number))),
        _ => Some(None),
    }
}

/// Returns the phase as the schema lists it.
fn known_phase(table: &'static KindTable, phase: Node) -> Option<&'static str> {
    let schema = member(table.fields, "phase").filter(|_| phase.kind() == Kind::String)?;
    let mut known = schema.values.iter().filter_map(|value| match value {
        Constant::Text(text) => Some(*text),
        Constant::Integer(_) => None,
    });
    known.find(|text| phase.is_named(text))
}

/// Returns a number that counts, written as an integer.
fn step_of(value: Node) -> Option<i64> {
    value.literal().parse().ok().filter(|step| value.kind() == Kind::Number && *step >= 0)
}

fn finite(value: Node) -> Option<f64> {
    let number = value.literal().parse().ok().filter(|number: &f64| number.is_finite());
    number.filter(|_| value.kind() == Kind::Number)
}

/// Adds a record to the columns that come last, or begins new ones; returns false where it has too many metrics.
fn take(pieces: &mut Vec<Piece>, said: &Said, size: usize, taken: Taken) -> bool {
    let fits = |columns: &Columns| match taken {
        Taken::All => said.step.is_none() || columns.steps.is_none() || columns.phase.as_deref() == said.phase,
        Taken::Steps => columns.is_alike(said),
    };
    if !matches!(pieces.last(), Some(Piece::Columns(columns)) if fits(columns)) {
        let rows = (taken == Taken::Steps).then(Rows::default);
        pieces.push(Piece::Columns(Columns { rows, ..Columns::default() }));
    }
    let Some(Piece::Columns(columns)) = pieces.last_mut() else { return false };
    columns.take(said, size)
}

impl Columns {
    /// Returns whether a step has the phase, the metrics and an epoch as those that are here.
    fn is_alike(&self, said: &Said) -> bool {
        let has_epochs = self.rows.as_ref().is_some_and(|rows| !rows.epochs.is_empty());
        self.phase.as_deref() == said.phase
            && has_epochs == said.epoch.is_some()
            && self.columns.len() == said.metrics.len()
            && said.metrics.iter().enumerate().all(|(place, (key, _))| self.place_of(place, *key).is_some())
    }

    fn take(&mut self, said: &Said, size: usize) -> bool {
        if self.columns.len() + said.metrics.len() > 2 * MAX_COLUMNS {
            return false;
        }
        self.last = self.bytes;
        self.lines += 1;
        self.bytes += size;
        match self.kinds.iter_mut().find(|(kind, _)| kind == said.kind) {
            Some((_, count)) => *count += 1,
            None => self.kinds.push((said.kind.to_string(), 1)),
        }
        if let Some(time) = said.time {
            self.times = Some((self.times.map_or(time, |(first, _)| first), time));
        }
        let Some(step) = said.step else { return true };
        if self.steps.is_none() {
            self.phase = said.phase.map(String::from);
        }
        self.steps = Some((self.steps.map_or(step, |(first, _)| first), step));
        if let (Some(rows), Some(time)) = (&mut self.rows, said.time) {
            rows.steps.push(step);
            rows.times.push(time);
            rows.epochs.extend(said.epoch);
        }
        for (place, (key, value)) in said.metrics.iter().enumerate() {
            let column = self.column(place, *key);
            column.steps.push(step);
            column.values.push(*value);
        }
        true
    }

    /// Returns the index of the column of a metric; mostly, it is at the place that the metric has in its record.
    fn place_of(&self, place: usize, key: Node) -> Option<usize> {
        let is_there = self.columns.get(place).is_some_and(|column| key.body() == column.name.as_bytes());
        if is_there {
            return Some(place);
        }
        self.columns.iter().position(|column| key.body() == column.name.as_bytes())
    }

    fn column(&mut self, place: usize, key: Node) -> &mut Column {
        let index = self.place_of(place, key).unwrap_or_else(|| {
            self.columns.push(Column { name: key.string().into_owned(), steps: Vec::new(), values: Vec::new() });
            self.columns.len() - 1
        });
        &mut self.columns[index]
    }
}

#[cfg(test)]
mod tests {
    use super::{columns, Column, Columns, Piece};
    use crate::Profile;

    #[test]
    fn records_that_say_more_than_numbers_are_left_alone() {
        let lines = concat!(
            "{\"kind\":\"run_start\",\"schema\":\"toy/v1\",\"t\":0.0,\"run_id\":\"r\"}\n",
            "{\"kind\":\"step\",\"t\":1.0,\"step\":1,\"loss\":2.5,\"extra\":{\"acc\":null,\"name\":\"x\"}}\n",
            "{\"kind\":\"note\",\"t\":2.0,\"text\":\"\"}\n",
            "{\"kind\":\"step\",\"t\":3.0,\"step\":2,\"phase\":\"eval\",\"loss\":1}\n",
            "{\"kind\":\"step\",\"t\":3.0,\"step\":-2,\"loss\":1}\n",
            "{\n",
            "\n",
        );
        let found = columns(lines.as_bytes(), Profile::Toy);
        let [Piece::Lines(_), Piece::Columns(one), Piece::Columns(two), Piece::Lines(rest)] = &found[..] else {
            panic!("{found:?}")
        };
        let kinds = vec![("step".to_string(), 1), ("note".to_string(), 1)];
        assert_eq!((2, &kinds, Some((1.0, 2.0)), Some((1, 1))), (one.lines, &one.kinds, one.times, one.steps));
        assert_eq!(vec!["acc", "loss"], one.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>());
        assert!(one.columns[0].values[0].is_nan());
        let loss = Column { name: "loss".to_string(), steps: vec![2], values: vec![1.0] };
        assert_eq!((Some("eval"), &vec![loss]), (two.phase.as_deref(), &two.columns));
        assert_eq!(43 + 2 + 1, *rest);
        assert_eq!(Columns::default().bytes, 0);
    }
}
