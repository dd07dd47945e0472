//! The curves of a run as one block of numbers, each halved down to what a first picture needs: what
//! `toyspec.view.curve_store` does in Python.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::pyramids::{Buckets, Pyramid};

const ITEM: usize = 8;

/// Buckets, and for each column the number of the item that it begins with, or the one value of all.
#[derive(IntoPyObject)]
pub(crate) struct LevelFields {
    count: usize,
    level: usize,
    tail: usize,
    columns: Vec<Place>,
}

#[derive(IntoPyObject)]
enum Place {
    Item(usize),
    Same(Vec<Option<f64>>),
}

/// Columns of curves, equal ones once.
#[pyclass(module = "toyspec_engine")]
#[derive(Default)]
pub(crate) struct Packing {
    data: Vec<u8>,
    /// Where columns of one digest are.
    known: HashMap<u64, Vec<(usize, usize)>>,
}

#[pymethods]
impl Packing {
    #[new]
    fn new() -> Packing {
        Packing::default()
    }

    /// Adds the buckets of a curve, then each time half as many, down to at most so many.
    fn levels(&mut self, curve: &mut Pyramid, fewest: usize) -> Vec<LevelFields> {
        let mut buckets = curve.now();
        let mut found = vec![self.level(&buckets)];
        while buckets.count() > fewest {
            buckets = buckets.halved();
            found.push(self.level(&buckets));
        }
        found
    }

    /// Returns all columns.
    fn data<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.data)
    }
}

impl Packing {
    fn level(&mut self, buckets: &Buckets) -> LevelFields {
        let columns = buckets.columns.iter().map(|column| self.place(column)).collect();
        LevelFields { count: buckets.count(), level: buckets.level, tail: buckets.tail, columns }
    }

    fn place(&mut self, column: &[f64]) -> Place {
        let is_first = |value: &f64| value.to_bits() == column[0].to_bits();
        if !column.is_empty() && column.iter().all(is_first) {
            return Place::Same(vec![Some(column[0]).filter(|value| !value.is_nan())]);
        }
        let bytes: Vec<u8> = column.iter().flat_map(|value| value.to_ne_bytes()).collect();
        let digest = column.iter().fold(0, |digest: u64, value| {
            (digest ^ value.to_bits()).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
        });
        let known = self.known.entry(digest).or_default();
        if let Some((start, _)) = known.iter().find(|(start, end)| self.data[*start..*end] == bytes) {
            return Place::Item(start / ITEM);
        }
        let start = self.data.len();
        self.data.extend_from_slice(&bytes);
        known.push((start, self.data.len()));
        Place::Item(start / ITEM)
    }
}
