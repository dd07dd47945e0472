//! The buckets of curves that grow: `toyspec.view.pyramids` says the same in Python.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::columns::real;
use crate::step_blocks::StepBlock;

/// Step, time, epoch, last, min, max, mean, nan, offset and line.
const COLUMNS: usize = 10;
const PLACES: usize = 3;
const LAST: usize = 3;
const MIN: usize = 4;
const MAX: usize = 5;
const MEAN: usize = 6;
const NOT_FINITE: usize = 7;

/// Of a bucket, what its values come to: last, lowest, highest and mean of the finite ones, and the number of others.
type Figures = [f64; 5];

/// Level, number of points in the last bucket, and the columns.
type BucketFields<'py> = (usize, usize, Vec<Bound<'py, PyBytes>>);

/// Successive buckets of so many points each; the last one may have fewer.
#[derive(Clone, Default)]
pub(crate) struct Buckets {
    pub columns: [Vec<f64>; COLUMNS],
    pub level: usize,
    pub tail: usize,
}

impl Buckets {
    pub fn count(&self) -> usize {
        self.columns[0].len()
    }

    /// Returns half as many buckets, each of two of these.
    pub fn halved(&self) -> Buckets {
        let count = self.count();
        let is_odd = count % 2 == 1;
        let mut columns: [Vec<f64>; COLUMNS] = std::array::from_fn(|_| Vec::with_capacity(count.div_ceil(2)));
        for at in (0..count - usize::from(is_odd)).step_by(2) {
            let second = if at + 2 == count { self.tail } else { self.level };
            push(&mut columns, self.merged(at, second));
        }
        if is_odd {
            push(&mut columns, self.columns.each_ref().map(|column| column[count - 1]));
        }
        let tail = if is_odd { self.tail } else { self.level + self.tail };
        Buckets { columns, level: 2 * self.level, tail }
    }

    /// Returns the bucket at a place and the next one, which has so many points, as one.
    fn merged(&self, at: usize, second_points: usize) -> [f64; COLUMNS] {
        let one = self.columns.each_ref().map(|column| column[at]);
        let mut found = self.columns.each_ref().map(|column| column[at + 1]);
        let (first, second) = (self.level as f64 - one[NOT_FINITE], second_points as f64 - found[NOT_FINITE]);
        // Without a finite value in the first bucket, those of the second are all there are.
        if first > 0.0 && second == 0.0 {
            found[LAST..=MEAN].copy_from_slice(&one[LAST..=MEAN]);
        } else if first > 0.0 {
            found[MIN] = lower(one[MIN], found[MIN]);
            found[MAX] = higher(one[MAX], found[MAX]);
            let sum = one[MEAN] + found[MEAN];
            let is_even = one[NOT_FINITE] == 0.0 && found[NOT_FINITE] == 0.0 && second_points == self.level;
            let share = second / (first + second);
            found[MEAN] =
                if is_even && sum.is_finite() { sum / 2.0 } else { one[MEAN] * (1.0 - share) + found[MEAN] * share };
        }
        found[NOT_FINITE] += one[NOT_FINITE];
        found[NOT_FINITE + 1..].copy_from_slice(&one[NOT_FINITE + 1..]);
        found
    }
}

fn push(columns: &mut [Vec<f64>; COLUMNS], bucket: [f64; COLUMNS]) {
    for (column, figure) in columns.iter_mut().zip(bucket) {
        column.push(figure);
    }
}

/// As `min` of Python: of equal numbers, the first.
fn lower(one: f64, other: f64) -> f64 {
    if other < one {
        other
    } else {
        one
    }
}

fn higher(one: f64, other: f64) -> f64 {
    if other > one {
        other
    } else {
        one
    }
}

/// A curve that grows, as at most so many buckets.
#[pyclass(module = "toyspec_engine")]
pub(crate) struct Pyramid {
    most: usize,
    closed: Buckets,
    points: usize,
    first: [f64; PLACES],
    /// The values of the bucket that is not full yet, where its last point is, and where its first line is.
    open: Vec<f64>,
    open_place: [f64; PLACES],
    open_at: [f64; 2],
    sums: Vec<f64>,
}

#[pymethods]
impl Pyramid {
    #[new]
    fn new(most: usize) -> Pyramid {
        Pyramid {
            most,
            closed: Buckets { level: 1, tail: 1, ..Buckets::default() },
            points: 0,
            first: [f64::NAN; PLACES],
            open: Vec::new(),
            open_place: [f64::NAN; PLACES],
            open_at: [0.0; 2],
            sums: Vec::new(),
        }
    }

    /// Adds a point at a place: step, time and epoch; `at` are offset and line.
    fn add(&mut self, place: (f64, f64, f64), value: f64, at: (f64, f64)) {
        self.take(place.into(), value, at.into());
    }

    /// Adds the values of a column of a block; times count from `begin`, if it is given.
    fn add_block(&mut self, block: &StepBlock, column: usize, at: (f64, f64), begin: Option<f64>) {
        let (rows, values) = block.points(column);
        for (index, value) in values.iter().enumerate() {
            let time = since(rows.times[index], begin);
            let epoch = rows.epochs.get(index).copied().unwrap_or(f64::NAN);
            self.take([rows.steps[index] as f64, time, epoch], *value, at.into());
        }
    }

    /// Step, time and epoch of the first point.
    #[getter]
    fn first_places(&self) -> (f64, f64, f64) {
        self.first.into()
    }

    /// Returns the buckets at this time, the open one last.
    fn buckets<'py>(&mut self, py: Python<'py>) -> BucketFields<'py> {
        let found = self.now();
        (found.level, found.tail, found.columns.iter().map(|column| real(py, column)).collect())
    }
}

impl Pyramid {
    fn take(&mut self, place: [f64; PLACES], value: f64, at: [f64; 2]) {
        if self.points == 0 {
            self.first = place;
        }
        if self.open.is_empty() {
            self.open_at = at;
        }
        self.open_place = place;
        self.open.push(value);
        if self.open.len() < self.closed.level {
            return;
        }
        let bucket = self.open_bucket();
        self.points += self.open.len();
        self.open.clear();
        push(&mut self.closed.columns, bucket);
        if self.closed.count() >= self.most {
            self.closed.tail = self.closed.level;
            self.closed = self.closed.halved();
        }
    }

    pub fn now(&mut self) -> Buckets {
        let mut found = self.closed.clone();
        found.tail = found.level;
        if !self.open.is_empty() {
            push(&mut found.columns, self.open_bucket());
            found.tail = self.open.len();
        }
        found
    }

    fn open_bucket(&mut self) -> [f64; COLUMNS] {
        let [step, time, epoch] = self.open_place;
        let [last, min, max, mean, not_finite] = figures(&self.open, &mut self.sums);
        let [offset, line] = self.open_at;
        [step, time, epoch, last, min, max, mean, not_finite, offset, line]
    }
}

/// Returns a time as that since a beginning, NaN where that is not finite.
fn since(time: f64, begin: Option<f64>) -> f64 {
    let Some(begin) = begin else { return time };
    Some(time - begin).filter(|since| since.is_finite()).unwrap_or(f64::NAN)
}

fn figures(values: &[f64], sums: &mut Vec<f64>) -> Figures {
    sums.clear();
    sums.extend_from_slice(values);
    let sum = total(sums);
    if sum.is_finite() {
        let low = values.iter().copied().reduce(lower).unwrap_or(f64::NAN);
        let high = values.iter().copied().reduce(higher).unwrap_or(f64::NAN);
        return [values[values.len() - 1], low, high, sum / values.len() as f64, 0.0];
    }
    let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let others = (values.len() - finite.len()) as f64;
    let Some(last) = finite.last() else { return [f64::NAN, f64::NAN, f64::NAN, f64::NAN, others] };
    // The sum of the largest numbers is infinite, their mean is not.
    sums.clear();
    sums.extend(finite.iter().map(|value| value / finite.len() as f64));
    let low = finite.iter().copied().reduce(lower).unwrap_or(f64::NAN);
    let high = finite.iter().copied().reduce(higher).unwrap_or(f64::NAN);
    [*last, low, high, total(sums), others]
}

/// Returns the sum of numbers, added in pairs; they are overwritten.
fn total(numbers: &mut [f64]) -> f64 {
    let mut count = numbers.len();
    while count > 1 {
        for at in 0..count / 2 {
            numbers[at] = numbers[2 * at] + numbers[2 * at + 1];
        }
        if count % 2 == 1 {
            numbers[count / 2] = numbers[count - 1];
        }
        count = count.div_ceil(2);
    }
    numbers.first().copied().unwrap_or(0.0)
}
