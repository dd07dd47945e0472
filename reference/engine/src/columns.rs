//! Gives the numbers of records as buffers, without an object of Python for each value.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use toyspec::{columns, step_columns, Column, Columns, Piece, Profile, Rows};

use crate::failures::{caught, failure};

/// Name, steps and values; the numbers are in the layout of this machine, 64 bits each.
type ColumnFields<'py> = (String, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// Steps, times and epochs, if there are any.
type RowFields<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>);

/// A piece of whole lines. Without columns, it is lines that Python reads.
#[derive(Default, IntoPyObject)]
pub(crate) struct PieceFields<'py> {
    bytes: usize,
    /// Number of lines; 0 where Python reads them.
    lines: u64,
    last: usize,
    kinds: Vec<(String, u64)>,
    phase: Option<String>,
    times: Option<(f64, f64)>,
    steps: Option<(i64, i64)>,
    columns: Vec<ColumnFields<'py>>,
    rows: Option<RowFields<'py>>,
    places: Vec<RowFields<'py>>,
    minimized: Vec<(String, bool)>,
}

/// Returns what whole lines of a stream of a profile hold, in their order.
#[pyfunction]
#[pyo3(name = "columns")]
pub(crate) fn columns_of<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyBytes>,
    profile: &str,
) -> PyResult<Vec<PieceFields<'py>>> {
    found(py, data, profile, columns)
}

/// As `columns`, for steps alone, with the place of each.
#[pyfunction]
#[pyo3(name = "step_columns")]
pub(crate) fn step_columns_of<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyBytes>,
    profile: &str,
) -> PyResult<Vec<PieceFields<'py>>> {
    found(py, data, profile, step_columns)
}

fn found<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyBytes>,
    profile: &str,
    read: fn(&[u8], Profile) -> Vec<Piece>,
) -> PyResult<Vec<PieceFields<'py>>> {
    let profile = Profile::of(profile).ok_or_else(|| PyValueError::new_err("no such profile"))?;
    let text = data.as_bytes();
    let pieces = py.detach(|| caught(|| read(text, profile))).map_err(|place| failure(&place))?;
    Ok(pieces.into_iter().map(|piece| fields(py, piece)).collect())
}

fn fields(py: Python<'_>, piece: Piece) -> PieceFields<'_> {
    match piece {
        Piece::Lines(bytes) => PieceFields { bytes, ..PieceFields::default() },
        Piece::Columns(found) => column_fields(py, &found),
    }
}

pub(crate) fn column_fields<'py>(py: Python<'py>, found: &Columns) -> PieceFields<'py> {
    PieceFields {
        bytes: found.bytes,
        lines: found.lines,
        last: found.last,
        kinds: found.kinds.clone(),
        phase: found.phase.clone(),
        times: found.times,
        steps: found.steps,
        columns: found.columns.iter().map(|column| buffers(py, column)).collect(),
        rows: found.rows.as_ref().map(|rows| row_fields(py, rows)),
        places: found.places.iter().map(|rows| row_fields(py, rows)).collect(),
        minimized: found.minimized.clone(),
    }
}

fn buffers<'py>(py: Python<'py>, column: &Column) -> ColumnFields<'py> {
    (column.name.clone(), whole(py, &column.steps), real(py, &column.values))
}

fn row_fields<'py>(py: Python<'py>, rows: &Rows) -> RowFields<'py> {
    let epochs = (!rows.epochs.is_empty()).then(|| real(py, &rows.epochs));
    (whole(py, &rows.steps), real(py, &rows.times), epochs)
}

fn whole<'py>(py: Python<'py>, numbers: &[i64]) -> Bound<'py, PyBytes> {
    PyBytes::new(py, numbers.iter().map(|number| number.to_ne_bytes()).collect::<Vec<_>>().as_flattened())
}

pub(crate) fn real<'py>(py: Python<'py>, numbers: &[f64]) -> Bound<'py, PyBytes> {
    PyBytes::new(py, numbers.iter().map(|number| number.to_ne_bytes()).collect::<Vec<_>>().as_flattened())
}

/// Returns the lowest, the highest and the mean of each `level` successive finite numbers, a power of two; the numbers
/// are in the layout of this machine. They are added in pairs, as plain Python adds them.
#[pyfunction]
pub(crate) fn folded<'py>(
    py: Python<'py>,
    values: &Bound<'py, PyBytes>,
    level: usize,
) -> PyResult<[Bound<'py, PyBytes>; 3]> {
    if !level.is_power_of_two() {
        return Err(PyValueError::new_err("the level is not a power of two"));
    }
    let (values, _) = values.as_bytes().as_chunks();
    let mut low: Vec<f64> = values.iter().map(|value| f64::from_ne_bytes(*value)).collect();
    let (mut high, mut total) = (low.clone(), low.clone());
    for _ in 0..level.trailing_zeros() {
        in_pairs(&mut low, |one, other| if other < one { other } else { one });
        in_pairs(&mut high, |one, other| if other > one { other } else { one });
        in_pairs(&mut total, |one, other| one + other);
    }
    total.iter_mut().for_each(|total| *total /= level as f64);
    Ok([real(py, &low), real(py, &high), real(py, &total)])
}

/// Returns where the lowest and the highest of the numbers are, each the first of its value; None for no numbers, and
/// where one is NaN. The numbers are in the layout of this machine.
#[pyfunction]
pub(crate) fn extremes(values: &Bound<'_, PyBytes>) -> Option<(usize, usize)> {
    let (values, _) = values.as_bytes().as_chunks();
    let first = f64::from_ne_bytes(*values.first()?);
    let (mut low, mut high) = ((0, first), (0, first));
    for (at, value) in values.iter().map(|value| f64::from_ne_bytes(*value)).enumerate() {
        if value.is_nan() {
            return None;
        }
        if value < low.1 {
            low = (at, value);
        }
        if value > high.1 {
            high = (at, value);
        }
    }
    Some((low.0, high.0))
}

/// Makes one number of each two.
fn in_pairs(numbers: &mut Vec<f64>, of_two: impl Fn(f64, f64) -> f64) {
    let half = numbers.len() / 2;
    for at in 0..half {
        numbers[at] = of_two(numbers[2 * at], numbers[2 * at + 1]);
    }
    numbers.truncate(half);
}
