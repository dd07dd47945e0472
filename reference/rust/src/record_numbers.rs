//! What one record says with numbers, where nothing else of it counts.

use crate::schema::{member, Constant, KindTable};
use crate::tables::BINARY32_LIMIT;
use crate::tape::{Kind, Node};
use crate::Profile;

/// Kinds of toy/v1 of whose records nothing but the time counts; those of all others have metrics, or say more.
const SILENT: [&str; 5] = ["note", "sample", "artifact", "region_enter", "region_exit"];
/// Members by which a note counts what the log lacks: such a note says more than its time.
const COUNTS_OF_A_NOTE: [&str; 2] = ["left_out", "dropped"];
const MILLISECONDS: f64 = 1000.0;
/// Records with more metrics than this are left to the caller.
pub(crate) const MAX_METRICS: usize = 256;

/// A number, after the place where it is.
pub(crate) type Placed<'t, T> = (Node<'t>, T);

/// What one record says.
#[derive(Default)]
pub(crate) struct Said<'t> {
    pub kind: &'static str,
    /// In seconds.
    pub time: Option<Placed<'t, f64>>,
    pub step: Option<Placed<'t, i64>>,
    pub phase: Option<&'static str>,
    pub epoch: Option<Placed<'t, f64>>,
    /// Whether smaller values of its metric are better.
    pub minimize: Option<bool>,
    /// Name and value of each metric; NaN stands for null.
    pub metrics: Vec<(String, Placed<'t, f64>)>,
}

/// Returns what a record says; None where that is more than numbers.
pub(crate) fn said<'t>(record: Node<'t>, profile: Profile) -> Option<Said<'t>> {
    match profile {
        Profile::Toy => said_by_event(record),
        Profile::Metrics => said_by_entry(record),
        Profile::Kaun => said_by_scalar(record),
    }
}

fn said_by_event<'t>(record: Node<'t>) -> Option<Said<'t>> {
    let parts = Parts::of(record)?;
    let tag = parts.kind.filter(|tag| tag.kind() == Kind::String)?;
    let name = std::str::from_utf8(tag.body()).ok()?;
    let table = Profile::Toy.kind(name)?;
    let time = time_in(parts.t)?;
    if SILENT.contains(&table.name) {
        if COUNTS_OF_A_NOTE.iter().any(|key| record.get(key).is_some()) {
            return None;
        }
        return Some(Said { kind: table.name, time, ..Said::default() });
    }
    if table.name != "step" {
        return None;
    }
    let phase = match parts.phase {
        None => None,
        Some(phase) => Some(known_phase(table, phase)?),
    };
    let step = parts.step.and_then(step_of).filter(|_| time.is_some_and(|(_, time)| time >= 0.0))?;
    let epoch = parts.epoch;
    Some(Said { kind: table.name, time, step: Some(step), phase, epoch, minimize: None, metrics: parts.metrics()? })
}

fn said_by_entry<'t>(record: Node<'t>) -> Option<Said<'t>> {
    let parts = Parts::of(record)?;
    let time = time_in(parts.wall_time_ms)?.map(|(place, time)| (place, in_seconds(time, Profile::Metrics)));
    let step = parts.step.and_then(step_of)?;
    // What the schema does not declare is not a metric of an entry.
    let table = Profile::Metrics.kind("entry")?;
    if parts.numbers.iter().any(|(key, _)| member(table.fields, key).is_none()) {
        return None;
    }
    if !counts(record) {
        return None;
    }
    let epoch = parts.epoch;
    Some(Said { kind: "entry", time, step: Some(step), epoch, metrics: parts.metrics()?, ..Said::default() })
}

/// Returns whether an entry counts, which may lack a loss: with one that is not binary32 or null, it does not.
pub(crate) fn counts(entry: Node) -> bool {
    entry.get("loss").is_none_or(|loss| match loss.kind() {
        Kind::Null => true,
        _ => finite(loss).is_some_and(|loss| loss.abs() < BINARY32_LIMIT),
    })
}

fn said_by_scalar(record: Node) -> Option<Said> {
    let mut said = Said { kind: "scalar", ..Said::default() };
    let (mut is_scalar, mut tag, mut value) = (false, None, None);
    for (key, node) in record.members() {
        match key.body() {
            b"type" => is_scalar = node.kind() == Kind::String && node.body() == b"scalar",
            b"step" => said.step = Some(step_of(node)?),
            b"wall_time" => said.time = Some((node, finite(node)?)),
            b"epoch" => said.epoch = Some((node, finite(node)?)),
            b"tag" if node.kind() == Kind::String => tag = Some(node.string().into_owned()),
            b"value" => value = Some((node, number_or_null(node)?)),
            b"minimize" if matches!(node.kind(), Kind::True | Kind::False) => {
                said.minimize = Some(node.kind() == Kind::True);
            }
            b"tag" | b"minimize" => return None,
            other if other.contains(&b'\\') => return None,
            _ => {}
        }
    }
    said.metrics.push((tag?, value?));
    (is_scalar && said.step.is_some()).then_some(said)
}

/// Returns a time of a profile in seconds.
pub(crate) fn in_seconds(time: f64, profile: Profile) -> f64 {
    if profile == Profile::Metrics {
        time / MILLISECONDS
    } else {
        time
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
    epoch: Option<Placed<'t, f64>>,
    extra: Option<Node<'t>>,
    numbers: Vec<(String, Placed<'t, f64>)>,
    /// Whether other members are values too, which are for the caller.
    has_others: bool,
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
                b"epoch" => parts.epoch = finite(value).map(|epoch| (value, epoch)),
                b"layer" | b"head" | b"token_id" => {}
                b"nonfinite" if value.kind() == Kind::Object => {}
                _ if !matches!(value.kind(), Kind::Null | Kind::Number) => parts.has_others = true,
                _ => parts.numbers.push(metric(key, value)?),
            }
        }
        Some(parts)
    }

    /// Returns the metrics, those of the extra first; None where two of them have the same name, or there are others.
    fn metrics(self) -> Option<Vec<(String, Placed<'t, f64>)>> {
        if self.has_others {
            return None;
        }
        let mut found = Vec::with_capacity(self.numbers.len() + 4);
        for (key, value) in self.extra.iter().flat_map(|extra| extra.members()) {
            found.push(metric(key, value)?);
        }
        if self.numbers.iter().any(|(name, _)| found.iter().any(|(other, _)| other == name)) {
            return None;
        }
        found.extend(self.numbers);
        (found.len() <= MAX_METRICS).then_some(found)
    }
}

/// Returns a time that may be missing; None where it is not a number.
#[allow(clippy::option_option)]
fn time_in(time: Option<Node>) -> Option<Option<Placed<f64>>> {
    time.map_or(Some(None), |value| finite(value).map(|time| Some((value, time))))
}

/// Returns a member that is a number or null; None where the caller reads the line, since others are values too.
fn metric<'t>(key: Node<'t>, value: Node<'t>) -> Option<(String, Placed<'t, f64>)> {
    if key.body().contains(&b'\\') {
        return None;
    }
    Some((key.string().into_owned(), (value, number_or_null(value)?)))
}

/// Returns a number, NaN for null; None for a number that is not finite, and for another value.
pub(crate) fn number_or_null(value: Node) -> Option<f64> {
    match value.kind() {
        Kind::Null => Some(f64::NAN),
        _ => finite(value),
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
fn step_of(value: Node) -> Option<Placed<i64>> {
    let step = value.literal().parse().ok().filter(|step| value.kind() == Kind::Number && *step >= 0)?;
    Some((value, step))
}

/// Returns a finite number; the integer `-0` is 0.
pub(crate) fn finite(value: Node) -> Option<f64> {
    let number =
        value.literal().parse().ok().filter(|number: &f64| number.is_finite() && value.kind() == Kind::Number)?;
    Some(if value.is_integer() { number + 0.0 } else { number })
}

#[cfg(test)]
mod tests {
    use super::in_seconds;
    use crate::columns::{columns, Piece};
    use crate::Profile;

    #[test]
    fn entries_alone_count_milliseconds() {
        assert_eq!([2500.0, 2.5], [Profile::Toy, Profile::Metrics].map(|profile| in_seconds(2500.0, profile)));
    }

    #[test]
    fn entry_with_a_loss_beyond_binary32_is_left_to_the_caller() {
        let line = |loss: &str| format!("{{\"step\":7,\"wall_time_ms\":5.0,\"loss\":{loss},\"extra\":{{}}}}\n");
        let text = [line("0.25"), line("-1e300"), line("null")].concat();
        let found = columns(text.as_bytes(), Profile::Metrics);
        let [Piece::Columns(_), Piece::Lines(size), Piece::Columns(_)] = &found[..] else { panic!("{found:?}") };
        assert_eq!(line("-1e300").len(), *size);
        assert_eq!(vec![Piece::Lines(line("true").len())], columns(line("true").as_bytes(), Profile::Metrics));
    }

    #[test]
    fn entries_have_their_kind() {
        let found = columns(b"{\"step\":7,\"wall_time_ms\":5.0,\"loss\":0.25,\"extra\":{}}\n", Profile::Metrics);
        let [Piece::Columns(all)] = &found[..] else { panic!("{found:?}") };
        assert_eq!((vec![("entry".to_string(), 1)], Some((0.005, 0.005))), (all.kinds.clone(), all.times));
    }
}
