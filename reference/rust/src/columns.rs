//! The numbers of records as columns, without an object for each value.

use crate::layouts::{Layout, Layouts};
use crate::line_validation::{LineValidator, Status};
use crate::record_numbers::{said, MAX_METRICS};
use crate::tables::MAX_LINE_BYTES;
use crate::Profile;

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
    /// Where the values of each metric are, for lines that have one of several; empty unless it was asked for.
    pub places: Vec<Rows>,
    /// What the last line of a metric says that says whether smaller values are better.
    pub minimized: Vec<(String, bool)>,
    /// The layout of the last line, if each column has one value of it, in order.
    last_layout: Option<u64>,
}

/// Where each of several steps is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// The steps.
    pub steps: Vec<i64>,
    /// The times, in seconds.
    pub times: Vec<f64>,
    /// The epochs, NaN where a step has none; empty where no step has one.
    pub epochs: Vec<f64>,
}

/// Which records are taken into columns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// All that say nothing but numbers.
    All,
    /// Steps alone, with their places; those of one piece have the same metrics. Scalars, each of some metric.
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
    let mut layouts = Layouts::default();
    let mut start = 0;
    while start < text.len() {
        let (layout, end) = if let Some((layout, end)) = layouts.read(text, start) {
            (Some(layout), end)
        } else {
            let Some(length) = memchr::memchr(b'\n', &text[start..]) else { break };
            let end = start + length + 1;
            let layout = layout_of(&mut validator, &text[start..end], profile);
            (layout.map(|layout| layouts.add(layout)), end)
        };
        let size = end - start;
        let layout = layout.filter(|layout| taken == Taken::All || layout.step.is_some() && layout.time.is_some());
        if !layout.is_some_and(|layout| take(&mut pieces, layout, size, taken)) {
            match pieces.last_mut() {
                Some(Piece::Lines(bytes)) => *bytes += size,
                _ => pieces.push(Piece::Lines(size)),
            }
        }
        start = end;
    }
    pieces
}

/// Returns the layout of a line, with its line feed, that says nothing but numbers.
fn layout_of(validator: &mut LineValidator, whole: &[u8], profile: Profile) -> Option<Layout> {
    let line = &whole[..whole.len() - 1];
    let is_plain = line.len() <= MAX_LINE_BYTES
        && validator.validate(line, false) == Status::Readable
        && validator.problems.listed.is_empty();
    let record = validator.record(line).filter(|_| is_plain)?;
    Layout::of(whole, record, said(record, profile)?, profile)
}

/// Adds a record to the columns that come last, or begins new ones; returns false where it has too many metrics.
fn take(pieces: &mut Vec<Piece>, said: &Layout, size: usize, taken: Taken) -> bool {
    let fits = |columns: &Columns| match taken {
        _ if columns.last_layout == Some(said.id) => true,
        Taken::All => said.step.is_none() || columns.steps.is_none() || columns.phase.as_deref() == said.phase,
        Taken::Steps => said.is_scalar() || columns.is_alike(said),
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
    fn is_alike(&self, said: &Layout) -> bool {
        let has_epochs = self.rows.as_ref().is_some_and(|rows| !rows.epochs.is_empty());
        self.phase.as_deref() == said.phase
            && has_epochs == said.epoch.is_some()
            && self.columns.len() == said.names.len()
            && said.names.iter().enumerate().all(|(place, name)| self.place_of(place, name).is_some())
    }

    fn take(&mut self, said: &Layout, size: usize) -> bool {
        if self.last_layout == Some(said.id) {
            self.take_alike(said, size);
            return true;
        }
        self.last_layout = None;
        if self.columns.len() + said.names.len() > 2 * MAX_METRICS {
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
        if let Some(rows) = &mut self.rows {
            rows.take(said);
        }
        for (place, (name, value)) in said.names.iter().zip(&said.values).enumerate() {
            let index = self.index_of(place, name);
            self.columns[index].steps.push(step);
            self.columns[index].values.push(*value);
            if self.rows.is_some() && said.is_scalar() {
                self.places.resize_with(self.columns.len(), Rows::default);
                self.places[index].take(said);
            }
            if let Some(minimize) = said.minimize {
                match self.minimized.iter_mut().find(|(other, _)| other == name) {
                    Some((_, known)) => *known = minimize,
                    None => self.minimized.push((name.clone(), minimize)),
                }
            }
        }
        self.last_layout = self.is_in_order(said).then_some(said.id);
        true
    }

    /// Returns whether the columns are those of a step, in its order, and nothing else is here.
    fn is_in_order(&self, said: &Layout) -> bool {
        let names = || self.columns.iter().map(|column| &column.name);
        !said.is_scalar() && self.kinds.len() == 1 && names().eq(&said.names)
    }

    /// Takes in a step of the layout of the one before.
    fn take_alike(&mut self, said: &Layout, size: usize) {
        self.last = self.bytes;
        self.lines += 1;
        self.bytes += size;
        self.kinds[0].1 += 1;
        if let Some(time) = said.time {
            self.times = Some((self.times.map_or(time, |(first, _)| first), time));
        }
        let step = said.step.unwrap_or_default();
        self.steps = Some((self.steps.map_or(step, |(first, _)| first), step));
        if let Some(rows) = &mut self.rows {
            rows.take(said);
        }
        for (column, value) in self.columns.iter_mut().zip(&said.values) {
            column.steps.push(step);
            column.values.push(*value);
        }
    }

    /// Returns the index of the column of a metric; mostly, it is at the place that the metric has in its record.
    fn place_of(&self, place: usize, name: &str) -> Option<usize> {
        if self.columns.get(place).is_some_and(|column| column.name == name) {
            return Some(place);
        }
        self.columns.iter().position(|column| column.name == name)
    }

    /// Returns the index of the column of a metric, a new one where there is none.
    fn index_of(&mut self, place: usize, name: &str) -> usize {
        self.place_of(place, name).unwrap_or_else(|| {
            self.columns.push(Column { name: name.to_string(), steps: Vec::new(), values: Vec::new() });
            self.columns.len() - 1
        })
    }
}

impl Rows {
    /// Adds a step; scalars of one metric may lack an epoch.
    fn take(&mut self, said: &Layout) {
        self.steps.extend(said.step);
        self.times.extend(said.time);
        self.epochs.extend(said.epoch.or(said.is_scalar().then_some(f64::NAN)));
    }
}

#[cfg(test)]
mod tests {
    use super::{columns, step_columns, Column, Columns, Piece};
    use crate::tables::MAX_LINE_BYTES;
    use crate::test_random::{rounds, Random};
    use crate::Profile;

    const LINES: [&str; 8] = [
        r#"{"kind":"step","t":1.5,"step":1,"loss":2.5,"extra":{"acc":null,"n":2},"epoch":0.5}"#,
        r#"{"kind":"step","phase":"eval","t":1.5,"step":12,"loss":null,"lr":1e-3,"layer":1}"#,
        r#"{"kind":"tap","t":2,"step":3,"layer":0,"stats":{"rms":1.0}}"#,
        r#"{"step":7,"wall_time_ms":5.0,"loss":0.25,"extra":{"lr":0.5}}"#,
        r#"{"type":"scalar","step":3,"epoch":1,"tag":"loss","value":0.5,"wall_time":1.5}"#,
        r#"{"type":"scalar","step":3,"tag":"acc","value":null,"minimize":true,"wall_time":2}"#,
        r#"{"type":"scalar","step":4,"tag":"\u006c","value":1}"#,
        "{",
    ];
    const NUMBERS: [&str; 16] = [
        "0",
        "-0",
        "7",
        "-3",
        "01",
        "1.",
        "1.5",
        "2.50",
        "1e5",
        "1E-300",
        "1e999",
        "null",
        "true",
        "12345678901234567",
        "9223372036854775808",
        "\"1\"",
    ];

    /// Each line alone is read without a known layout: whole texts say the same.
    #[test]
    fn notes_that_count_what_the_log_lacks_are_left_to_the_caller() {
        for account in [r#""left_out":{"x":1}"#, r#""dropped":{"step":2}"#, r#""left\u005fout":{}"#] {
            let line = format!("{{\"kind\":\"note\",\"t\":2.0,\"text\":\"\",{account}}}\n");
            assert_eq!(vec![Piece::Lines(line.len())], columns(line.as_bytes(), Profile::Toy));
        }
    }

    #[test]
    fn known_layouts_change_nothing() {
        let mut random = Random::new(3);
        let mut by_columns = 0;
        for round in 0..rounds(2_000) {
            let profile = [Profile::Toy, Profile::Metrics, Profile::Kaun][round % 3];
            let mut text = String::new();
            for _ in 0..1 + random.below(8) {
                let line = LINES[random.below(LINES.len())];
                let parts: Vec<&str> = line.split_inclusive(':').collect();
                let at = random.below(parts.len());
                let number = parts[at].find(|first: char| first.is_ascii_digit()).filter(|_| random.below(2) == 0);
                for (index, part) in parts.iter().enumerate() {
                    let Some(start) = number.filter(|_| index == at) else {
                        text += part;
                        continue;
                    };
                    let digits = part[start..].find(|next: char| !next.is_ascii_digit()).unwrap_or(part.len() - start);
                    text += &part[..start];
                    text += NUMBERS[random.below(NUMBERS.len())];
                    text += &part[start + digits..];
                }
                text += ["\n", "\n", "\n", "\r\n", " \n"][random.below(5)];
            }
            for read in [columns, step_columns] {
                let whole = read(text.as_bytes(), profile);
                let alone: Vec<Piece> =
                    text.split_inclusive('\n').flat_map(|line| read(line.as_bytes(), profile)).collect();
                assert_eq!(points(&alone), points(&whole), "{text}");
                by_columns += points(&whole).len();
            }
        }
        assert!(by_columns > rounds(2_000), "{by_columns}");
    }

    /// Returns the values of all columns in an order of their own, and the bytes that are left to the caller.
    fn points(pieces: &[Piece]) -> Vec<String> {
        let mut left = 0;
        let mut found = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Lines(bytes) => left += bytes,
                Piece::Columns(columns) => {
                    for column in &columns.columns {
                        let each = column.steps.iter().zip(&column.values);
                        found.extend(
                            each.map(|(step, value)| format!("{} {step} {value:?} {:?}", column.name, columns.phase)),
                        );
                    }
                    let rows = columns.rows.iter().chain(&columns.places);
                    found
                        .extend(rows.flat_map(|rows| rows.steps.iter().zip(&rows.times)).map(|row| format!("{row:?}")));
                }
            }
        }
        found.sort();
        found.push(left.to_string());
        found
    }

    #[test]
    fn records_that_say_more_than_numbers_are_left_alone() {
        let lines = concat!(
            "{\"kind\":\"run_start\",\"schema\":\"toy/v1\",\"t\":0.0,\"run_id\":\"r\"}\n",
            "{\"kind\":\"step\",\"t\":1.0,\"step\":1,\"loss\":2.5,\"extra\":{\"acc\":null}}\n",
            "{\"kind\":\"note\",\"t\":2.0,\"text\":\"\"}\n",
            "{\"kind\":\"step\",\"t\":3.0,\"step\":2,\"phase\":\"eval\",\"loss\":1}\n",
            "{\"kind\":\"step\",\"t\":3.0,\"step\":-2,\"loss\":1}\n",
            "{\"kind\":\"step\",\"t\":3.0,\"step\":3,\"loss\":1,\"extra\":{\"name\":\"x\"}}\n",
            "{\"kind\":\"step\",\"t\":3.0,\"step\":3,\"loss\":1,\"flag\":true}\n",
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
        assert_eq!(43 + 63 + 54 + 2 + 1, *rest);
        assert_eq!(Columns::default().bytes, 0);
    }

    /// Scalars of several metrics share columns, and each column has its places.
    #[test]
    fn scalars_share_columns() {
        let lines = concat!(
            "{\"type\":\"scalar\",\"step\":3,\"tag\":\"loss\",\"value\":0.5,\"wall_time\":1.5}\n",
            "{\"type\":\"scalar\",\"step\":3,\"tag\":\"acc\",\"value\":1,\"minimize\":false,\"wall_time\":2}\n",
            "{\"type\":\"scalar\",\"step\":4,\"tag\":\"loss\",\"value\":0.25,\"wall_time\":3}\n",
        );
        let found = step_columns(lines.as_bytes(), Profile::Kaun);
        let [Piece::Columns(all)] = &found[..] else { panic!("{found:?}") };
        let column = |name: &str, steps, values| Column { name: name.to_string(), steps, values };
        assert_eq!(vec![column("loss", vec![3, 4], vec![0.5, 0.25]), column("acc", vec![3], vec![1.0])], all.columns);
        let times: Vec<_> = all.places.iter().map(|rows| rows.times.clone()).collect();
        assert_eq!((vec![vec![1.5, 3.0], vec![2.0]], &vec![("acc".to_string(), false)]), (times, &all.minimized));
    }

    /// A line that is longer than the limit only by its numbers is left to the caller too.
    #[test]
    fn known_layouts_keep_the_limit() {
        let line = |t| format!("{{\"kind\":\"note\",\"t\":{t},\"text\":\"{}\"}}\n", "x".repeat(MAX_LINE_BYTES - 33));
        let found = columns((line("1.5") + &line("1.75")).as_bytes(), Profile::Toy);
        let [Piece::Columns(one), Piece::Lines(rest)] = &found[..] else { panic!("{} pieces", found.len()) };
        assert_eq!((MAX_LINE_BYTES + 1, MAX_LINE_BYTES + 2), (one.bytes, *rest));
    }
}
