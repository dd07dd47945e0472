//! Writes a small log with tokitai-operator 0.1.0: `cargo run --example sample -- PATH`.

use std::collections::BTreeMap;
use std::path::Path;

use tokitai_operator::metrics::{MetricsEntry, MetricsLog};

fn main() {
    let path = std::env::args().nth(1).expect("the path of the log to write");
    let mut log = MetricsLog::open(Path::new(&path)).expect("the log can be opened");
    for step in 1..=6u16 {
        log.record(MetricsEntry {
            step: step.into(),
            wall_time_ms: f64::from(step) * 12.5,
            loss: if step == 5 { f32::NAN } else { 2.0 / f32::from(step) },
            grad_norm: 0.1 * f32::from(step),
            throughput_samples_per_sec: 512.0,
            extra: BTreeMap::from([("router_entropy".to_string(), 1.0 / f32::from(step))]),
        })
        .expect("an entry can be written");
    }
}
