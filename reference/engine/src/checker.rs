//! A checker that is fed.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use toyspec::{CheckOptions, Profile, Rule, StreamChecker};

use crate::failures::{caught, failure};
use crate::reports::ReportFields;

/// So much is checked at most before Python may handle a signal.
const PIECE_BYTES: usize = 1 << 22;

/// How to check.
#[pyclass(frozen, module = "toyspec_engine")]
pub(crate) struct Options(pub CheckOptions);

#[pymethods]
impl Options {
    #[new]
    fn new(
        profile: Option<&str>,
        select: Vec<String>,
        ignore: Vec<String>,
        max_line_bytes: usize,
    ) -> PyResult<Options> {
        let rule = |name: &String| Rule::of(name).ok_or_else(|| unknown(name));
        let rules = |names: Vec<String>| names.iter().map(rule).collect::<PyResult<_>>();
        let profile = profile.map(|name| Profile::of(name).ok_or_else(|| unknown(name))).transpose()?;
        let (select, ignore) = (rules(select)?, rules(ignore)?);
        Ok(Options(CheckOptions { profile, select, ignore, max_line_bytes, ..CheckOptions::default() }))
    }
}

fn unknown(name: &str) -> PyErr {
    PyValueError::new_err(format!("the engine does not know {name:?}"))
}

/// Checks one stream as it is fed.
#[pyclass(module = "toyspec_engine")]
pub(crate) struct Checker {
    /// None once it is finished, or has failed.
    checker: Option<StreamChecker>,
}

#[pymethods]
impl Checker {
    #[new]
    #[pyo3(signature = (options, *, path = None, name = ""))]
    fn new(options: &Options, path: Option<PathBuf>, name: &str) -> PyResult<Checker> {
        let options = options.0.clone();
        let made = caught(|| match &path {
            Some(path) => StreamChecker::at(path, options),
            None => StreamChecker::named(name, options),
        });
        Ok(Checker { checker: Some(made.map_err(|place| failure(&place))?) })
    }

    /// Checks the lines that *data* commits.
    fn feed(&mut self, py: Python<'_>, data: &Bound<'_, PyBytes>) -> PyResult<()> {
        for piece in data.as_bytes().chunks(PIECE_BYTES) {
            let mut checker = self.take()?;
            let fed = py.detach(|| {
                caught(|| {
                    checker.feed(piece);
                    checker
                })
            });
            self.checker = Some(fed.map_err(|place| failure(&place))?);
            py.check_signals()?;
        }
        Ok(())
    }

    /// Returns the report, and what a stream without a profile looks like.
    fn finish(&mut self, py: Python<'_>) -> PyResult<(ReportFields, Option<String>)> {
        let checker = self.take()?;
        let mut report = py.detach(|| caught(|| checker.finish())).map_err(|place| failure(&place))?;
        let look = report.look.take();
        Ok((report.into(), look))
    }
}

impl Checker {
    fn take(&mut self) -> PyResult<StreamChecker> {
        self.checker.take().ok_or_else(|| PyValueError::new_err("this checker is finished"))
    }
}
