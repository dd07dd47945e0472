//! Gives the numbers of records as buffers, without an object of Python for each value.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use toyspec::{Column, Columns, Rows};

/// Name, steps and values; the numbers are in the layout of this machine, 64 bits each.
type ColumnFields<'py> = (String, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// Steps, times and epochs, if there are any.
type RowFields<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>);

/// All numbers of steps.
#[derive(IntoPyObject)]
pub(crate) struct OpenedFields<'py> {
    columns: Vec<ColumnFields<'py>>,
    rows: Option<RowFields<'py>>,
    places: Vec<RowFields<'py>>,
}

pub(crate) fn opened_fields<'py>(py: Python<'py>, found: &Columns) -> OpenedFields<'py> {
    OpenedFields {
        columns: found.columns.iter().map(|column| buffers(py, column)).collect(),
        rows: found.rows.as_ref().map(|rows| row_fields(py, rows)),
        places: found.places.iter().map(|rows| row_fields(py, rows)).collect(),
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

/// Makes one number of each two.
fn in_pairs(numbers: &mut Vec<f64>, of_two: impl Fn(f64, f64) -> f64) {
    let half = numbers.len() / 2;
    for at in 0..half {
        numbers[at] = of_two(numbers[2 * at], numbers[2 * at + 1]);
    }
    numbers.truncate(half);
}
