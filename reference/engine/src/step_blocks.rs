//! Steps whose numbers stay in the engine: Python adds them to pyramids and asks for their extremes.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use toyspec::{step_columns_on, Columns, Extremes, Piece, Profile, Rows};

use crate::columns::{opened_fields, OpenedFields};
use crate::digests::{extremes, ExtremesFields};
use crate::failures::{caught, failure};

/// Successive steps.
#[pyclass(frozen, module = "toyspec_engine")]
pub(crate) struct StepBlock(Columns);

/// A piece of whole lines, with a block of its steps; without one, it is lines that Python reads.
#[derive(Default, IntoPyObject)]
pub(crate) struct BlockPiece {
    bytes: usize,
    lines: u64,
    last: usize,
    block: Option<StepBlock>,
}

/// Returns what whole lines of a stream of a profile hold, in their order, read on at most so many threads.
#[pyfunction]
pub(crate) fn step_blocks(
    py: Python<'_>,
    data: &Bound<'_, PyBytes>,
    profile: &str,
    threads: usize,
) -> PyResult<Vec<BlockPiece>> {
    let profile = Profile::of(profile).ok_or_else(|| PyValueError::new_err("no such profile"))?;
    let text = data.as_bytes();
    let pieces = py.detach(|| caught(|| step_columns_on(text, profile, threads))).map_err(|place| failure(&place))?;
    Ok(pieces.into_iter().map(block_piece).collect())
}

fn block_piece(piece: Piece) -> BlockPiece {
    match piece {
        Piece::Lines(bytes) => BlockPiece { bytes, ..BlockPiece::default() },
        Piece::Columns(found) => {
            BlockPiece { bytes: found.bytes, lines: found.lines, last: found.last, block: Some(StepBlock(found)) }
        }
    }
}

#[pymethods]
impl StepBlock {
    #[getter]
    fn kinds(&self) -> Vec<(String, u64)> {
        self.0.kinds.clone()
    }

    #[getter]
    fn phase(&self) -> Option<&str> {
        self.0.phase.as_deref()
    }

    /// The first and the last time, in seconds.
    #[getter]
    fn times(&self) -> Option<(f64, f64)> {
        self.0.times
    }

    /// The first and the last step.
    #[getter]
    fn steps(&self) -> Option<(i64, i64)> {
        self.0.steps
    }

    #[getter]
    fn names(&self) -> Vec<&str> {
        self.0.columns.iter().map(|column| column.name.as_str()).collect()
    }

    #[getter]
    fn minimized(&self) -> Vec<(String, bool)> {
        self.0.minimized.clone()
    }

    /// Returns the extremes of each metric.
    fn extremes(&self) -> Vec<ExtremesFields> {
        self.0.columns.iter().filter_map(Extremes::of).map(extremes).collect()
    }

    /// Returns step, time and epoch of the last line.
    fn last_place(&self) -> Option<(f64, f64, f64)> {
        let rows = self.0.rows.as_ref()?;
        Some((*rows.steps.last()? as f64, *rows.times.last()?, rows.epochs.last().copied().unwrap_or(f64::NAN)))
    }

    /// Returns all numbers.
    fn opened<'py>(&self, py: Python<'py>) -> OpenedFields<'py> {
        opened_fields(py, &self.0)
    }
}

impl StepBlock {
    /// Returns where the values of a column are, and the values.
    pub fn points(&self, column: usize) -> (&Rows, &[f64]) {
        let rows = self.0.places.get(column).or(self.0.rows.as_ref());
        let values = self.0.columns.get(column).map_or(&[][..], |column| &column.values);
        rows.map_or((&NO_ROWS, &[]), |rows| (rows, values))
    }
}

static NO_ROWS: Rows = Rows { steps: Vec::new(), times: Vec::new(), epochs: Vec::new() };
