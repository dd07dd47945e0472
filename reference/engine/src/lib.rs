//! The checker of toyspec as a module of Python. `toyspec.core.engine` decides whether it is used.

mod batch;
mod checker;
mod columns;
mod digests;
mod ends;
mod failures;
mod packing;
mod pyramids;
mod reports;
mod step_blocks;
mod streams;
mod tensorboard;
mod walk;

use pyo3::prelude::*;

/// Checks streams in Rust; used by the package toyspec only.
#[pymodule]
fn toyspec_engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    failures::note_places();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("EngineFailure", module.py().get_type::<failures::EngineFailure>())?;
    module.add_class::<checker::Options>()?;
    module.add_class::<checker::Checker>()?;
    module.add_class::<batch::Batch>()?;
    module.add_class::<walk::Walk>()?;
    module.add_class::<step_blocks::StepBlock>()?;
    module.add_class::<pyramids::Pyramid>()?;
    module.add_class::<packing::Packing>()?;
    module.add_function(wrap_pyfunction!(step_blocks::step_blocks, module)?)?;
    module.add_function(wrap_pyfunction!(columns::folded, module)?)?;
    module.add_function(wrap_pyfunction!(ends::ends_of_all, module)?)?;
    module.add_function(wrap_pyfunction!(digests::digests_of_all, module)?)?;
    module.add_function(wrap_pyfunction!(tensorboard::tensorboard_lines, module)?)?;
    module.add_function(wrap_pyfunction!(failures::fail, module)?)
}
