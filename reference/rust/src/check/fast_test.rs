//! What the fast path takes in has no findings on the exact path; it leaves everything else alone.

use crate::check::fast::Fast;
use crate::check::StreamChecker;
use crate::check::{CheckOptions, FileReport};
use crate::test_random::{rounds, Random};
use crate::Profile;

const TOY: [&str; 22] = [
    r#"{"kind":"step","t":1.5,"step":7,"loss":1.0,"step":8}"#,
    r#"{"kind":"note","t":-1.0,"text":""}"#,
    r#"{"kind":"step","t":1.5,"loss":2.25}"#,
    r#"{"kind":"tap","step":1,"region":"r"}"#,
    r#"{"kind":"tap","t":2.0,"step":1,"region":"r","histogram":[1,2,3]}"#,
    r#"{"kind":"op_timing","t":2.0,"step":9,"buckets":{"b":1,"a":2,"b":3}}"#,
    r#"{"kind":"step","phase":"train","t":1.5,"step":7,"loss":2.25,"lr":1e-4,"grad_norm":null,"tokens":4096}"#,
    r#"{"kind": "step", "t": 1.75, "step": 8, "loss": 2.0, "extra": {"a": 1.0, "b": null, "c": 3}}"#,
    r#"{"kind":"step","step":9,"loss":1.0,"t":2,"phase":"eval"}"#,
    r#"{"kind":"tap","t":2.0,"step":9,"region":"a/\"b\"","shape":[2,3],"sparsity":0.5,"gram":[[1.0,null],[]]}"#,
    r#"{"kind":"grad","t":2.0,"step":9,"param":"p","l2":1.0,"head":null,"per_head_l2":[1.0,2.5e-3]}"#,
    r#"{"kind":"op_timing","t":2.0,"step":9,"buckets":{"z":1,"a":2,"m":3},"compute_us":12}"#,
    r#"{"kind":"drift","t":2.0,"step":9,"param":"p","cos_to_init":1.0005,"l2_to_init":0.0,"freq":0.0}"#,
    r#"{"kind":"sample","t":2.5,"prompt":"\u00e9\n","text":"é 𝄞 \ud834\udd1e"}"#,
    r#"{"kind":"eval","t":2.5,"name":"n","extra":{"deep":{"x":[1,{"y":"z"}],"w":true},"u":12345678901234567890}}"#,
    r#"{"kind":"note","t":123456789.12345679,"text":""}"#,
    r#"{"kind":"system","t":2.5,"memory_used_bytes":900719925474099,"extra":{}}"#,
    r#"{"kind":"region_enter","t":3.0,"region":"r"}"#,
    r#"{"kind":"region_exit","t":3.0,"region":"r"}"#,
    r#"{"kind":"run_resume","t":3.0,"from_step":7}"#,
    r#"{"kind":"compare","t":3.0,"step":9,"baseline_run_id":"b","verdict":"par"}"#,
    r#"{"kind":"run_end","t":9.0,"reason":"completed","final_step":9,"final_loss":2}"#,
];
const STARTS: [&str; 4] = [",\"t\":0.0", "", ",\"t\":1,\"phase\":\"eval\"", ",\"t\":0.5,\"config\":{\"subsample\":2}"];
const METRICS: [&str; 5] = [
    r#"{,"step":1,"wall_time_ms":10.5,"loss":2.5,"grad_norm":1.0,"throughput_samples_per_sec":64.0}"#,
    r#"{"step":1,"wall_time_ms":10.5,"loss":2.5,"grad_norm":1.0}"#,
    r#"{"step":1,"wall_time_ms":10.5,"loss":2.5,"grad_norm":1.0,"throughput_samples_per_sec":64.0,"extra":{}}"#,
    r#"{"step":2,"wall_time_ms":20,"loss":3.4e38,"grad_norm":1e-3,"throughput_samples_per_sec":0,"extra":{"a":1}}"#,
    r#"{ "wall_time_ms":30.0, "step":3, "loss":1.0,"grad_norm":1.0,"throughput_samples_per_sec":null }"#,
];
const KAUN: [&str; 3] = [
    r#"{"type":"scalar","step":1,"tag":"x"}"#,
    r#"{"type":"scalar","step":1,"wall_time":1780219812.5,"tag":"train/loss","value":2.5,"minimize":true,"epoch":0}"#,
    r#"{"type":"scalar","step":1,"tag":"x","value":null,"minimize":false}"#,
];
const TOKENS: [&str; 36] = [
    "null",
    "true",
    "-0",
    "-5.5",
    "007",
    "-0.0",
    "1e400",
    "1e99",
    "1E+5",
    "01",
    "1.",
    "1.0",
    "-1",
    "9007199254740993",
    "4294967296",
    "3.4028235677973366e38",
    "\"\"",
    "\"\\ud800\"",
    "\"a\\",
    "{}",
    "[]",
    "{\"a\":1,\"a\":2}",
    ",",
    ":",
    " ",
    "\t",
    "\r",
    "\n",
    "\0",
    "\u{7f}",
    "\u{2028}",
    "\"step\":3,",
    "\"t\":0.0,",
    "\"phase\":\"serve\",",
    "\"loss\":NaN,",
    "123456789012345678901234567890.5",
];

fn report(text: &[u8], chunk: usize, is_fast: bool, limit: usize) -> FileReport {
    let options = CheckOptions { max_line_bytes: limit, ..CheckOptions::default() };
    let mut checker = StreamChecker::named("", options);
    checker.use_fast_path(is_fast);
    text.chunks(chunk).for_each(|chunk| checker.feed(chunk));
    checker.finish()
}

fn stream(random: &mut Random, lines: &[&str]) -> Vec<u8> {
    let mut text = Vec::new();
    if lines.len() == TOY.len() {
        let rest = STARTS[random.below(STARTS.len())];
        text.extend(format!("{{\"kind\":\"run_start\",\"schema\":\"toy/v1\",\"run_id\":\"r\"{rest}}}\n").bytes());
    }
    for _ in 0..random.below(12) {
        text.extend(lines[random.below(lines.len())].as_bytes());
        text.push(b'\n');
    }
    for _ in 0..random.below(3) {
        replace_value(random, &mut text);
    }
    for _ in 0..random.below(3) {
        let at = random.below(text.len() + 1);
        let end = (at + random.below(6)).min(text.len());
        let token: Vec<u8> = match random.below(3) {
            0 => Vec::new(),
            1 => vec![random.below(256) as u8],
            _ => TOKENS[random.below(TOKENS.len())].into(),
        };
        text.splice(at..end, token);
    }
    text
}

/// Gives a member that a random place is near to another value.
fn replace_value(random: &mut Random, text: &mut Vec<u8>) {
    let start = random.below(text.len() + 1);
    let Some(colon) = text[start..].iter().position(|byte| *byte == b':') else { return };
    let at = start + colon + 1;
    let end = text[at..].iter().position(|byte| b",}]\n".contains(byte)).map_or(text.len(), |end| at + end);
    text.splice(at..end, TOKENS[random.below(TOKENS.len())].bytes());
}

/// The fast path changes nothing but the time that a verdict takes, however the bytes arrive.
#[test]
fn the_fast_path_agrees_with_the_exact_one() {
    let mut random = Random::new(20260531);
    for round in 0..rounds(30_000) {
        let lines: &[&str] = [&TOY[..], &METRICS, &KAUN][round % 3];
        let text = stream(&mut random, lines);
        let limit = if random.below(8) == 0 { 100 } else { 1 << 24 };
        let exact = report(&text, text.len().max(1), false, limit);
        let fast = report(&text, 1 + random.below(300), true, limit);
        assert_eq!(format!("{exact:?}"), format!("{fast:?}"), "{}", String::from_utf8_lossy(&text));
    }
}

/// Without this, the test above would hold for a fast path that takes nothing in.
#[test]
fn the_fast_path_takes_in_what_is_clean() {
    let mut text = String::from("{\"kind\":\"run_start\",\"schema\":\"toy/v1\",\"t\":0.0,\"run_id\":\"r\"}\n");
    for step in 1..=100 {
        text += &format!("{{\"kind\":\"step\",\"t\":{step}.5,\"step\":{step},\"loss\":0.1,\"extra\":{{\"a\":1}}}}\n");
    }
    let mut checker = StreamChecker::named("", CheckOptions::default());
    checker.feed(text.as_bytes());
    // The first line names the profile; the last one lies too near to the end of the text to be looked at in words.
    assert!(checker.lines_taken_fast() >= 99, "{}", checker.lines_taken_fast());
}

/// What reads only the ends of a stream relies on the same.
#[test]
fn records_are_taken_in_up_to_the_first_that_is_not_clean() {
    let mut text = String::new();
    for step in 1..=100 {
        text += &format!("{{\"kind\":\"step\",\"t\":{step}.5,\"step\":{step},\"loss\":0.1}}\n");
    }
    let clean = text.len();
    text += "{\"kind\":\"step\",\"t\":101.5,\"step\":\"x\",\"loss\":0.1}\n{\"kind\":\"step\",\"t\":102.5,\"step\":102,\"loss\":0.1}\n";
    let taken = Fast::new(Profile::Toy).records(text.as_bytes(), 1 << 24);
    assert_eq!((taken.lines, taken.bytes), (100, clean));
}

/// A key that the fast path has learned is counted in every line, as on the exact path.
#[test]
fn a_learned_key_is_counted() {
    let mut text = String::from("{\"kind\":\"run_start\",\"schema\":\"toy/v1\",\"t\":0.0,\"run_id\":\"r\"}\n");
    for step in 1..=9 {
        text += &format!("{{\"kind\":\"step\",\"t\":{step}.5,\"step\":{step},\"loss\":0.1,\"mine\":1}}\n");
    }
    text += "{\"kind\":\"run_end\",\"t\":99.0,\"reason\":\"completed\"}\n";
    let fast = report(text.as_bytes(), text.len(), true, 1 << 24);
    assert_eq!(format!("{:?}", report(text.as_bytes(), text.len(), false, 1 << 24)), format!("{fast:?}"));
    assert!(fast.findings[0].message.contains('9'), "{}", fast.findings[0].message);
}

/// Members of a step whose values have another type than the schema allows, some of them in another way too.
const WRONG: [&str; 12] = [
    "\"loss\":\"2.5\"",
    "\"loss\":2.5,\"lr\":\"\\u00e9\"",
    "\"lr\":{\"a\":[1,null]},\"tokens\":true,\"loss\":null",
    "\"lr\":[],\"wall_us\":\"1\",\"loss\":1",
    "\"extra\":[9007199254740993]",
    "\"extra\":{\"a\":\"x\"}",
    "\"grad_norm\":false,\"lr\":1e999",
    "\"lr\":\"\\ud800\"",
    "\"lr\":\"x\",\"lr\":1",
    "\"tokens\":1.5",
    "\"tokens\":null",
    "\"lr\":{\"a\":1,\"a\":2}",
];

/// Returns steps whose clocks and counts go back, repeat and leave out numbers, and whose values have wrong types, far
/// more often than findings are listed.
pub(crate) fn disordered(random: &mut Random, lines: usize) -> Vec<u8> {
    let is_toy = random.below(3) > 0;
    let mut text = String::new();
    if is_toy {
        text += "{\"kind\":\"run_start\",\"schema\":\"toy/v1\",\"t\":0.0,\"run_id\":\"r\"}\n";
    }
    let (mut clock, mut step) = (100_u64, 100_u64);
    for _ in 0..lines {
        clock = clock + random.below(4) as u64 - 1;
        step = step + random.below(5) as u64 - 1;
        let phase = ["", "\"phase\":\"eval\","][usize::from(random.below(4) == 0)];
        text += &match random.below(100) {
            0 => "{\n".to_string(),
            1 if is_toy => format!("{{\"kind\":\"run_resume\",\"t\":{clock},\"from_step\":{step}}}\n"),
            2 if is_toy => format!("{{\"kind\":\"step\",\"t\":{clock},\"step\":{step},\"loss\":\"x\"}}\n"),
            3..=40 if is_toy => {
                let wrong = WRONG[random.below(WRONG.len())];
                format!("{{\"kind\":\"step\",{phase}\"t\":{clock},\"step\":{step},{wrong}}}\n")
            }
            _ if is_toy => format!("{{\"kind\":\"step\",{phase}\"t\":{clock}.5,\"step\":{step},\"loss\":2.5}}\n"),
            _ => METRICS[3].replace("\"step\":2", &format!("\"step\":{step}")) + "\n",
        };
    }
    if is_toy && random.below(2) == 0 {
        text += &format!("{{\"kind\":\"run_end\",\"t\":{clock},\"reason\":\"completed\",\"final_step\":{step}}}\n");
    }
    text.into_bytes()
}

/// Findings on the order of numbers are as many with the fast path, which counts those that are not listed.
#[test]
fn findings_that_are_not_listed_are_counted() {
    let mut random = Random::new(20261124);
    let mut counted = 0;
    for _ in 0..rounds(300) {
        let text = disordered(&mut random, 900);
        let exact = report(&text, text.len(), false, 1 << 24);
        let fast = report(&text, 1 + random.below(5000), true, 1 << 24);
        assert_eq!(format!("{exact:?}"), format!("{fast:?}"), "{}", String::from_utf8_lossy(&text));
        counted += fast.suppressed.values().sum::<u64>();
    }
    assert!(counted > 100 * rounds(300) as u64, "{counted}");
}

/// Once no more of its findings are listed, a rule on the order of numbers keeps no line from the fast path.
#[test]
fn the_fast_path_takes_in_what_is_only_counted() {
    let mut text = String::from("{\"kind\":\"run_start\",\"schema\":\"toy/v1\",\"t\":0.0,\"run_id\":\"r\"}\n");
    for step in 0..2000 {
        text += &format!("{{\"kind\":\"step\",\"t\":{}.5,\"step\":{},\"loss\":0.1}}\n", 5000 - step, step * 10);
    }
    let mut checker = StreamChecker::named("", CheckOptions::default());
    checker.feed(text.as_bytes());
    assert!(checker.lines_taken_fast() > 1800, "{}", checker.lines_taken_fast());
    let counted = checker.finish().suppressed;
    assert_eq!(Some(&1899), counted.get("step-skipped"));
    assert_eq!(Some(&1899), counted.get("time-goes-backwards"));
}

/// Once no more of them are listed, wrong types keep no line from the fast path, but those of fields that rules need.
#[test]
fn the_fast_path_counts_wrong_types() {
    let text = |member: &str| {
        let mut text = String::from("{\"kind\":\"run_start\",\"schema\":\"toy/v1\",\"t\":0.0,\"run_id\":\"r\"}\n");
        for step in 0..2000 {
            let values = format!("\"t\":{step}.5,\"step\":{step},\"loss\":0.1,\"lr\":0.1,\"tokens\":1");
            text +=
                &format!("{{\"kind\":\"step\",{}}}\n", values.replace(member, &member.replace(':', ":\"\",\"x\":")));
        }
        text
    };
    for (member, is_taken) in [("\"lr\":", true), ("\"loss\":", true), ("\"step\":", false), ("\"t\":", false)] {
        let mut checker = StreamChecker::named("", CheckOptions::default());
        checker.feed(text(member).as_bytes());
        assert_eq!(is_taken, checker.lines_taken_fast() > 1800, "{member} {}", checker.lines_taken_fast());
        assert_eq!(Some(&1900), checker.finish().suppressed.get("wrong-type"), "{member}");
    }
}
