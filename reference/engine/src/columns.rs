//! Gives the numbers of records as buffers, without an object of Python for each value.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use toyspec::{columns, Column, Piece, Profile};

use crate::failures::{caught, failure};

/// Name, steps and values; the numbers are in the layout of this machine, 64 bits each.
type ColumnFields<'py> = (String, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// A piece of whole lines. Without columns, it is lines that Python reads.
#[derive(IntoPyObject)]
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
}

/// Returns what whole lines of a stream of a profile hold, in their order.
#[pyfunction]
#[pyo3(name = "columns")]
pub(crate) fn columns_of<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyBytes>,
    profile: &str,
) -> PyResult<Vec<PieceFields<'py>>> {
    let profile = Profile::of(profile).ok_or_else(|| PyValueError::new_err("no such profile"))?;
    let text = data.as_bytes();
    let pieces = py.detach(|| caught(|| columns(text, profile))).map_err(|place| failure(&place))?;
    Ok(pieces.into_iter().map(|piece| fields(py, piece)).collect())
}

fn fields(py: Python<'_>, piece: Piece) -> PieceFields<'_> {
    match piece {
        Piece::Lines(bytes) => PieceFields {
            bytes,
            lines: 0,
            last: 0,
            kinds: Vec::new(),
            phase: None,
            times: None,
            steps: None,
            columns: Vec::new(),
        },
        Piece::Columns(found) => PieceFields {
            bytes: found.bytes,
            lines: found.lines,
            last: found.last,
            kinds: found.kinds,
            phase: found.phase,
            times: found.times,
            steps: found.steps,
            columns: found.columns.into_iter().map(|column| buffers(py, column)).collect(),
        },
    }
}

fn buffers(py: Python<'_>, column: Column) -> ColumnFields<'_> {
    let steps: Vec<u8> = column.steps.iter().flat_map(|step| step.to_ne_bytes()).collect();
    let values: Vec<u8> = column.values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    (column.name, PyBytes::new(py, &steps), PyBytes::new(py, &values))
}
