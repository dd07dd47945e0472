//! Computes the views of a run: see spec/views.md.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;

use crate::attempts::Attempts;
use crate::bundle_files::{rank_file, ranks};
use crate::line_validation::LineValidator;
use crate::reader::{Error, Mode, Options, Reader, State};
use crate::record::{validate, Integers};
use crate::source::Source;
use crate::{Number, Profile, Record, Value};

/// The facts about a whole run. What has no value is None; a number that is null was not finite.
#[derive(Clone, Debug, PartialEq)]
pub enum Views {
    /// Of a toy/v1 stream.
    Toy(ToyViews),
    /// Of a metrics/v1 stream.
    Metrics(MetricsViews),
    /// Of a kaun/v1 stream.
    Kaun(KaunViews),
    /// Of a stream that follows no known format.
    None,
}

/// A run, its state and its views.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The format that the stream follows.
    pub profile: Option<Profile>,
    /// What the bytes show of its end.
    pub state: State,
    /// The facts about the run.
    pub views: Views,
}

/// The views of a toy/v1 stream, of its latest attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct ToyViews {
    /// The name of the run.
    pub run_id: Option<String>,
    /// The phase that the run is about.
    pub phase: String,
    /// Number of steps in that phase.
    pub steps: u64,
    /// Number of the last of them.
    pub last_step: Option<Number>,
    /// Their losses.
    pub loss_curve: Vec<Option<f64>>,
    /// The loss at the end.
    pub final_loss: Option<Option<f64>>,
    /// Seconds from the start to the last event.
    pub duration_seconds: Option<f64>,
    /// Why the run ended.
    pub reason: Option<String>,
    /// Of a bundle in which other ranks have streams, all ranks in order; else empty.
    pub ranks: Vec<RankViews>,
    /// The rank that came less far than all others.
    pub first_stopped: Option<u64>,
}

/// The views of the stream of one process of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RankViews {
    /// Number of the process, from 0.
    pub rank: u64,
    /// What the bytes of its stream show of its end.
    pub state: State,
    /// Number of steps.
    pub steps: u64,
    /// Number of the last of them.
    pub last_step: Option<Number>,
    /// Why it ended.
    pub reason: Option<String>,
}

/// The views of a metrics/v1 stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricsViews {
    /// Number of entries.
    pub steps: u64,
    /// Step of the last entry.
    pub last_step: Option<Number>,
    /// The loss of each entry.
    pub loss_curve: Vec<Option<f32>>,
    /// Seconds from the start to the last entry.
    pub duration_seconds: Option<f64>,
    /// Smallest, mean and largest of the finite losses.
    pub statistics: Option<[f32; 3]>,
    /// Number of the other losses.
    pub non_finite: u64,
}

/// The views of a kaun/v1 stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KaunViews {
    /// The name of the run; None for a stream outside of a bundle.
    pub run_id: Option<String>,
    /// The views of each metric, in the order of their first scalars.
    pub tags: Vec<(String, TagViews)>,
}

/// The views of one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct TagViews {
    /// Number of scalars.
    pub count: u64,
    /// The scalar with the largest step, then the largest epoch.
    pub latest: Point,
    /// The scalar with the best value.
    pub best: Option<Point>,
    smallest: Option<Point>,
    largest: Option<Point>,
    minimize: Option<bool>,
}

/// A number of any size that is whole and not negative, in its digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whole(String);

impl std::fmt::Display for Whole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Ord for Whole {
    fn cmp(&self, other: &Whole) -> std::cmp::Ordering {
        (self.0.len(), &self.0).cmp(&(other.0.len(), &other.0))
    }
}

impl PartialOrd for Whole {
    fn partial_cmp(&self, other: &Whole) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// What views give of a scalar.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The step of the scalar.
    pub step: Whole,
    /// Its epoch.
    pub epoch: Option<Whole>,
    /// Its value; None was not finite.
    pub value: Option<f64>,
}

impl Summary {
    /// Returns the views of the stream at a path, which may be the directory of a bundle.
    pub fn of_path(path: impl AsRef<Path>, options: &Options) -> Result<Summary, Error> {
        let path = path.as_ref();
        let mut found = summarized(|| Reader::<Source<File>>::open(path, salvage(options)))?;
        if let (Views::Toy(views), true) = (&mut found.views, path.is_dir()) {
            let others = ranks(path).map_err(|error| Error::Io(path.to_path_buf(), error))?;
            if !others.is_empty() {
                views.ranks.push(RankViews::of(0, found.state, views));
            }
            let options = Options { profile: Some(Profile::Toy), ..options.clone() };
            for rank in others {
                let other = Summary::of_path(path.join(rank_file(rank)), &options)?;
                if let Views::Toy(of_rank) = &other.views {
                    views.ranks.push(RankViews::of(rank, other.state, of_rank));
                }
            }
            views.first_stopped = first_stopped(&views.ranks);
        }
        if let Views::Kaun(views) = &mut found.views {
            views.run_id = path.is_dir().then(|| run_id_of(path)).flatten();
        }
        Ok(found)
    }

    /// Returns the views of a stream that is held in memory.
    pub fn of_bytes(stream: &[u8], options: &Options) -> Result<Summary, Error> {
        summarized(|| Ok(Reader::new(Cursor::new(stream), salvage(options))))
    }
}

impl RankViews {
    fn of(rank: u64, state: State, views: &ToyViews) -> RankViews {
        let ToyViews { steps, last_step, reason, .. } = views.clone();
        RankViews { rank, state, steps, last_step, reason }
    }

    /// Returns what orders ranks by how far they came; the length comes first, since steps have any number of digits.
    fn came_to(&self) -> Option<(usize, String)> {
        self.last_step.as_ref().and_then(Number::integer_text).map(|digits| (digits.len(), digits))
    }
}

/// Returns the rank that came least far; of several, the only one whose stream is not complete.
fn first_stopped(ranks: &[RankViews]) -> Option<u64> {
    let lowest = ranks.iter().map(RankViews::came_to).min()?;
    let mut left: Vec<&RankViews> = ranks.iter().filter(|rank| rank.came_to() == lowest).collect();
    if left.len() > 1 {
        left.retain(|rank| rank.state != State::Complete);
    }
    match left[..] {
        [first] => Some(first.rank),
        _ => None,
    }
}

fn salvage(options: &Options) -> Options {
    Options { mode: Mode::Salvage, ..options.clone() }
}

/// Reads a stream twice: what a later attempt supersedes is known at the end.
fn summarized<R: Read>(open: impl Fn() -> Result<Reader<R>, Error>) -> Result<Summary, Error> {
    let mut attempts = Attempts::default();
    for record in open()? {
        attempts.learn(&record?);
    }
    let mut reader = open()?;
    let mut toy = ToyRecords::default();
    let mut metrics = MetricsViews::default();
    let mut kaun = KaunScalars::default();
    for record in &mut reader {
        let record = record?;
        match record.profile {
            Some(Profile::Toy) if attempts.is_latest(&record) => toy.take(&Members::of(&record)),
            Some(Profile::Metrics) => metrics.take(&Members::of(&record)),
            Some(Profile::Kaun) => kaun.take(&Members::of(&record)),
            _ => {}
        }
    }
    let report = reader.report();
    let views = match report.profile {
        Some(Profile::Toy) => Views::Toy(toy.views()),
        Some(Profile::Metrics) => Views::Metrics(metrics.with_statistics()),
        Some(Profile::Kaun) => Views::Kaun(kaun.views()),
        None => Views::None,
    };
    Ok(Summary { profile: report.profile, state: report.state, views })
}

/// A record of a known kind without its invalid members.
struct Members<'r> {
    record: &'r Record,
    kind: Option<&'r str>,
    invalid: Vec<String>,
}

impl<'r> Members<'r> {
    fn of(record: &'r Record) -> Members<'r> {
        let table = match record.profile {
            Some(Profile::Metrics) => Profile::Metrics.kind("entry"),
            profile => profile.zip(record.kind.as_deref()).and_then(|(profile, kind)| profile.kind(kind)),
        };
        let mut validator = LineValidator::default();
        validator.validate(&record.raw, false);
        let (Some(table), Some(node), Some(profile)) = (table, validator.record(&record.raw), record.profile) else {
            return Members { record, kind: None, invalid: Vec::new() };
        };
        let found = validate(table, node, Integers::of(profile));
        Members { record, kind: Some(table.name), invalid: found.invalid_fields().map(String::from).collect() }
    }

    fn is(&self, kind: &str) -> bool {
        self.kind == Some(kind)
    }

    fn get(&self, name: &str) -> Option<&'r Value> {
        if self.kind.is_none() || self.invalid.iter().any(|invalid| invalid == name) {
            return None;
        }
        self.record.value.get(name)
    }

    fn text(&self, name: &str) -> Option<String> {
        self.get(name).and_then(Value::as_str).map(String::from)
    }

    fn number(&self, name: &str) -> Option<&'r Number> {
        match self.get(name)? {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }

    /// Returns a number or null.
    fn measure(&self, name: &str) -> Option<Option<f64>> {
        self.get(name).map(Value::as_f64)
    }

    /// Returns a number as the integer next to it towards zero, also where the schema wants an integer.
    fn truncated(&self, name: &str) -> Option<Whole> {
        match self.record.value.get(name)? {
            Value::Number(number) => {
                let float = number.as_f64();
                let digits = number.integer_text().unwrap_or_else(|| format!("{:.0}", float.trunc().abs()));
                let digits = digits.trim_start_matches('-').to_string();
                (float > -1.0 && float.is_finite()).then_some(Whole(digits))
            }
            _ => None,
        }
    }
}

/// What counts of the records of a toy/v1 stream.
#[derive(Default)]
struct ToyRecords {
    start: Option<(Option<String>, Option<String>)>,
    steps: Vec<ToyStep>,
    end: Option<(Option<Option<f64>>, Option<String>)>,
    time: Option<f64>,
}

struct ToyStep {
    phase: Option<String>,
    step: Number,
    loss: Option<Option<f64>>,
}

impl ToyRecords {
    fn take(&mut self, members: &Members) {
        let time = members.number("t").map(Number::as_f64);
        self.time = time.or(self.time);
        if members.is("run_start") && self.start.is_none() {
            self.start = Some((members.text("run_id"), members.text("phase")));
        } else if members.is("run_end") {
            self.end = Some((members.measure("final_loss"), members.text("reason")));
        } else if members.is("run_resume") {
            // The run goes on after its end.
            self.end = None;
        } else if let (true, Some(step), Some(_)) = (members.is("step"), members.number("step"), time) {
            let (phase, loss) = (members.text("phase"), members.measure("loss"));
            self.steps.push(ToyStep { phase, step: step.clone(), loss });
        }
    }

    fn views(self) -> ToyViews {
        let (run_id, phase) = self.start.unwrap_or_default();
        let (final_loss, reason) = self.end.unwrap_or_default();
        let phase = phase.unwrap_or_else(|| "train".to_string());
        let is_own = |step: &&ToyStep| step.phase.as_ref().is_none_or(|own| *own == phase);
        let steps: Vec<&ToyStep> = self.steps.iter().filter(is_own).collect();
        let loss_curve: Vec<Option<f64>> = steps.iter().filter_map(|step| step.loss).collect();
        ToyViews {
            run_id,
            steps: steps.len() as u64,
            last_step: steps.last().map(|step| step.step.clone()),
            final_loss: final_loss.or(loss_curve.last().copied()),
            loss_curve,
            duration_seconds: self.time,
            reason,
            phase,
            ranks: Vec::new(),
            first_stopped: None,
        }
    }
}

impl MetricsViews {
    /// Returns the loss of the last entry.
    pub fn final_loss(&self) -> Option<Option<f32>> {
        self.loss_curve.last().copied()
    }

    fn take(&mut self, members: &Members) {
        let required = Profile::Metrics.kind("entry").into_iter().flat_map(|kind| kind.fields);
        let mut required = required.filter(|field| field.required);
        let (true, Some(step), Some(time)) = (
            required.all(|field| members.get(field.name).is_some()),
            members.number("step"),
            members.number("wall_time_ms"),
        ) else {
            return;
        };
        self.steps += 1;
        self.last_step = Some(step.clone());
        self.duration_seconds = Some(time.as_f64() / 1000.0);
        self.loss_curve.push(members.number("loss").map(Number::as_f32));
    }

    fn with_statistics(mut self) -> MetricsViews {
        let finite: Vec<f32> = self.loss_curve.iter().filter_map(|loss| *loss).collect();
        self.non_finite = self.steps - finite.len() as u64;
        let mean = finite.iter().fold(0.0, |sum, loss| sum + f64::from(*loss)) / finite.len() as f64;
        let bounds = finite.iter().copied().reduce(f32::min).zip(finite.iter().copied().reduce(f32::max));
        self.statistics = bounds.map(|(least, greatest)| [least, mean as f32, greatest]);
        self
    }
}

/// The metrics of a kaun/v1 stream so far, and where each of them is.
#[derive(Default)]
struct KaunScalars {
    tags: Vec<(String, TagViews)>,
    places: HashMap<String, usize>,
}

impl KaunScalars {
    fn take(&mut self, members: &Members) {
        let (Some(step), Some(tag), Some(value)) =
            (members.truncated("step"), members.text("tag"), members.measure("value"))
        else {
            return;
        };
        let point = Point { step, epoch: members.truncated("epoch"), value };
        let minimize = match members.get("minimize") {
            Some(Value::Bool(minimize)) => Some(*minimize),
            _ => None,
        };
        match self.places.get(&tag) {
            Some(&place) => self.tags[place].1.take(point, minimize),
            None => {
                self.places.insert(tag.clone(), self.tags.len());
                self.tags.push((tag, TagViews::first(point, minimize)));
            }
        }
    }

    fn views(mut self) -> KaunViews {
        for (tag, views) in &mut self.tags {
            let tag = tag.to_lowercase();
            let is_smaller_better = views.minimize.unwrap_or_else(|| tag.contains("loss") || tag.contains("error"));
            let best = if is_smaller_better { &views.smallest } else { &views.largest };
            views.best.clone_from(best);
        }
        KaunViews { run_id: None, tags: self.tags }
    }
}

impl TagViews {
    fn first(point: Point, minimize: Option<bool>) -> TagViews {
        let finite = Some(point.clone()).filter(|point| point.value.is_some());
        TagViews { count: 1, latest: point, best: None, smallest: finite.clone(), largest: finite, minimize }
    }

    fn take(&mut self, point: Point, minimize: Option<bool>) {
        self.count += 1;
        self.minimize = minimize.or(self.minimize);
        let replaces = |other: &Option<Point>, is_better: fn(&f64, &f64) -> bool| match (point.value, other) {
            (Some(value), Some(Point { value: Some(other), .. })) => is_better(&value, other),
            (value, _) => value.is_some(),
        };
        if replaces(&self.smallest, f64::lt) {
            self.smallest = Some(point.clone());
        }
        if replaces(&self.largest, f64::gt) {
            self.largest = Some(point.clone());
        }
        if (&point.step, &point.epoch) > (&self.latest.step, &self.latest.epoch) {
            self.latest = point;
        }
    }
}

/// Returns what a kaun/v1 bundle calls itself: by its manifest, else by its directory.
fn run_id_of(directory: &Path) -> Option<String> {
    let by_manifest = || {
        let text = std::fs::read(directory.join("run.json")).ok()?;
        let mut validator = LineValidator::default();
        validator.validate(&text, true);
        let manifest = validator.record(&text)?;
        let kind = Profile::Kaun.table().kinds.iter().find(|kind| !kind.is_record)?;
        let found = validate(kind, manifest, Integers::of(Profile::Kaun));
        let is_invalid = found.invalid_fields().any(|field| field == "run_id");
        manifest.get("run_id").filter(|_| !is_invalid).map(|run_id| run_id.string().into_owned())
    };
    let by_directory = || {
        let absolute = std::path::absolute(directory).ok()?;
        absolute.file_name().map(|name| name.to_string_lossy().into_owned())
    };
    by_manifest().or_else(by_directory)
}
