//! Random entries, in the types of both programs.

use std::collections::BTreeMap;

use tokitai_operator::metrics::MetricsEntry;
use toyspec::{Map, Number, Value};

/// Returns entries whose numbers have random bits: all that are finite come up, subnormal ones too.
pub fn random_entries(count: usize) -> Vec<MetricsEntry> {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    (0..count).map(|number| random.entry(number as u32)).collect()
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn binary32(&mut self) -> f32 {
        let number = f32::from_bits((self.next() >> 32) as u32);
        // Half of the numbers are those that logs have.
        match self.next() % 2 {
            0 if number.is_finite() => number,
            _ => (self.next() % 1_000_000) as f32 / 1000.0,
        }
    }

    fn binary64(&mut self) -> f64 {
        let number = f64::from_bits(self.next());
        if number.is_finite() {
            number
        } else {
            0.1
        }
    }

    fn entry(&mut self, number: u32) -> MetricsEntry {
        let names = ["router_entropy", "per_expert_loss", "grad_clip_ratio", "é\"\\\n", ""];
        let count = (self.next() % 4) as usize;
        let extra: BTreeMap<String, f32> =
            (0..count).map(|_| (names[(self.next() % 5) as usize].to_string(), self.binary32())).collect();
        MetricsEntry {
            step: if number % 100 == 0 { (self.next() >> 32) as u32 } else { number },
            wall_time_ms: self.binary64(),
            loss: self.binary32(),
            grad_norm: self.binary32(),
            throughput_samples_per_sec: self.binary32(),
            extra,
        }
    }
}

/// Returns an entry as a record of toyspec.
pub fn record_of(entry: &MetricsEntry) -> Map {
    let short = |number: f32| Value::Number(Number::from(number));
    let extra = entry.extra.iter().map(|(key, value)| (key.clone(), short(*value))).collect();
    let members = [
        ("step", Value::Number(Number::from(i64::from(entry.step)))),
        ("wall_time_ms", Value::Number(Number::from(entry.wall_time_ms))),
        ("loss", short(entry.loss)),
        ("grad_norm", short(entry.grad_norm)),
        ("throughput_samples_per_sec", short(entry.throughput_samples_per_sec)),
        ("extra", Value::Object(extra)),
    ];
    members.into_iter().map(|(key, value)| (key.to_string(), value)).collect()
}

/// Returns a record of toyspec as an entry.
pub fn entry_of(record: &Map) -> MetricsEntry {
    let number = |key: &str| match record.get(key) {
        Some(Value::Number(number)) => number.clone(),
        other => panic!("{key} is {other:?}"),
    };
    let extra = match record.get("extra") {
        Some(Value::Object(extra)) => extra.iter().map(|(key, value)| (key.to_string(), short(value))).collect(),
        other => panic!("extra is {other:?}"),
    };
    MetricsEntry {
        step: number("step").as_i64().and_then(|step| step.try_into().ok()).expect("a step of 32 bits"),
        wall_time_ms: number("wall_time_ms").as_f64(),
        loss: number("loss").as_f32(),
        grad_norm: number("grad_norm").as_f32(),
        throughput_samples_per_sec: number("throughput_samples_per_sec").as_f32(),
        extra,
    }
}

fn short(value: &Value) -> f32 {
    match value {
        Value::Number(number) => number.as_f32(),
        other => panic!("a value of extra is {other:?}"),
    }
}

/// Returns where two logs differ.
pub fn differences(one: &[MetricsEntry], two: &[MetricsEntry]) -> Vec<String> {
    let mut found = Vec::new();
    if one.len() != two.len() {
        found.push(format!("{} entries and {}", one.len(), two.len()));
    }
    let differ = one.iter().zip(two).filter(|(one, two)| bits(one) != bits(two));
    found.extend(differ.map(|(one, two)| format!("{one:?} and {two:?}")));
    found
}

/// Returns an entry as numbers without signs of their own, so that -0.0 and 0.0 differ.
fn bits(entry: &MetricsEntry) -> (u32, u64, [u32; 3], Vec<(&str, u32)>) {
    let shorts = [entry.loss, entry.grad_norm, entry.throughput_samples_per_sec].map(f32::to_bits);
    let extra = entry.extra.iter().map(|(key, value)| (key.as_str(), value.to_bits())).collect();
    (entry.step, entry.wall_time_ms.to_bits(), shorts, extra)
}
