//! A stream that is checked on several threads has the findings that it has on one.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::check::fast_test::disordered;
use crate::check::split::{feed_rest, Division};
use crate::check::{CheckOptions, FileReport, StreamChecker};
use crate::test_random::Random;

const START: &str = "{\"kind\":\"run_start\",\"schema\":\"toy/v1\",\"t\":0.0,\"run_id\":\"r\"}\n";

fn options(limit: usize) -> CheckOptions {
    CheckOptions { max_line_bytes: limit, ..CheckOptions::default() }
}

fn alone(text: &[u8], limit: usize) -> FileReport {
    let mut checker = StreamChecker::named("events.jsonl", options(limit));
    checker.feed(text);
    checker.finish()
}

/// Returns the report of several threads, and the number of lines that were taken in without the exact path.
fn divided(text: &[u8], limit: usize, first: usize, division: Division) -> (FileReport, u64) {
    let mut checker = StreamChecker::named("events.jsonl", options(limit));
    let (before, mut rest) = text.split_at(first.min(text.len()));
    checker.feed(before);
    let mut size = before.len() as u64;
    let counted = |bytes| {
        size += bytes;
        true
    };
    feed_rest(&mut checker, &mut rest, division, counted).unwrap();
    assert_eq!(size, text.len() as u64);
    let lines = checker.lines_taken_fast();
    (checker.finish(), lines)
}

fn assert_alike(text: &[u8], random: &mut Random, limit: usize) {
    let division = Division { workers: 2 + random.below(4), block_bytes: 1 + random.below(600) };
    let first = random.below(600);
    let (found, _) = divided(text, limit, first, division);
    assert_eq!(format!("{:?}", alone(text, limit)), format!("{found:?}"), "{}", String::from_utf8_lossy(text));
}

fn streams(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            streams(&path, found);
        } else if path.extension().is_some_and(|end| end == "jsonl") {
            found.push(path);
        }
    }
}

fn corpus() -> Vec<Vec<u8>> {
    let mut paths = Vec::new();
    streams(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/cases"), &mut paths);
    paths.sort();
    paths.iter().filter_map(|path| fs::read(path).ok()).collect()
}

#[test]
fn streams_of_the_corpus_are_checked_alike() {
    let mut random = Random::new(20261122);
    for text in corpus().iter().filter(|text| text.len() < 1 << 16) {
        assert_alike(text, &mut random, 1 << 24);
    }
}

/// Several streams of the corpus after each other, with lines left out, doubled, cut and put in another order.
#[test]
fn mutated_streams_are_checked_alike() {
    let mut random = Random::new(20261123);
    let all: Vec<Vec<u8>> = corpus().into_iter().filter(|text| text.len() < 1 << 13).collect();
    if all.is_empty() {
        return; // a crate without the corpus
    }
    for _ in 0..1500 {
        let mut text = Vec::new();
        let own = &all[random.below(all.len())];
        for _ in 0..1 + random.below(4) {
            let other = if random.below(3) > 0 { own } else { &all[random.below(all.len())] };
            for line in other.split_inclusive(|byte| *byte == b'\n') {
                match random.below(30) {
                    0 => {}
                    1 => text.extend([line, line].concat()),
                    2 => text.extend(&line[..random.below(line.len() + 1)]),
                    _ => text.extend(line),
                }
            }
        }
        for _ in 0..random.below(3) {
            let at = random.below(text.len() + 1);
            text.insert(at, [b'9', b'\r', b'\n', 0xFF, b'"', b' '][random.below(6)]);
        }
        let limit = if random.below(8) == 0 { 100 } else { 1 << 24 };
        assert_alike(&text, &mut random, limit);
    }
}

/// Findings that are not listed are counted in each block.
#[test]
fn disordered_streams_are_checked_alike() {
    let mut random = Random::new(20261125);
    for _ in 0..60 {
        let text = disordered(&mut random, 900);
        let division = Division { workers: 2 + random.below(4), block_bytes: 100 + random.below(20_000) };
        let (found, _) = divided(&text, 1 << 24, random.below(60_000), division);
        assert_eq!(format!("{:?}", alone(&text, 1 << 24)), format!("{found:?}"), "{}", String::from_utf8_lossy(&text));
    }
}

/// Steps of two phases whose clocks, counts, nulls and unknown keys break rules now and then, also between blocks.
fn large(random: &mut Random, lines: usize) -> Vec<u8> {
    let mut text = START.to_string();
    let (mut clock, mut counts) = (0.0, [0, 0]);
    for _ in 0..lines {
        clock += 0.25;
        let phase = usize::from(random.below(10) == 0);
        counts[phase] += 1;
        let odd = random.below(4000);
        match odd {
            0 => counts[phase] += 2,
            1 => counts[phase] -= 1,
            2 => clock -= 1.0,
            _ => {}
        }
        let phase_member = if phase == 1 { ",\"phase\":\"eval\"" } else { "" };
        let loss = if odd == 3 { "null" } else { "2.5" };
        let more = match odd {
            4..=40 => ",\"mine\":1",
            41 => ",\"other\":{}",
            42 => ",\"lr\":\"x\"",
            _ => "",
        };
        let step = counts[phase];
        text += &format!("{{\"kind\":\"step\",\"t\":{clock},\"step\":{step}{phase_member},\"loss\":{loss}{more}}}\n");
        text += match odd {
            43 => "{\"kind\":\"mine\",\"t\":1}\n",
            44 => "{\n",
            45 => "{\"kind\":\"run_resume\",\"t\":1e9,\"from_step\":7}\n",
            46 => "\n",
            47 => "{\"kind\":\"note\",\"t\":0,\"text\":\"\u{e9}\"}\r\n",
            _ => "",
        };
    }
    text.into_bytes()
}

#[test]
fn large_streams_are_checked_alike() {
    let mut random = Random::new(7);
    for (workers, block_bytes) in [(2, 1 << 16), (3, 5_000), (5, 1_000), (4, 70_000)] {
        let text = large(&mut random, 12_000);
        let (found, _) = divided(&text, 1 << 24, 300, Division { workers, block_bytes });
        assert_eq!(format!("{:?}", alone(&text, 1 << 24)), format!("{found:?}"));
    }
}

/// Returns the reports on three texts: of one thread, and of one that gets the last but one proven, from a premise that
/// was made before the text `between`.
fn with_old_premise(before: &str, between: &str, proven: &str, after: &str) -> [FileReport; 2] {
    let mut checker = StreamChecker::named("events.jsonl", options(1 << 24));
    checker.feed(before.as_bytes());
    let mut premise = (*checker.premise(None).unwrap()).clone();
    checker.feed(between.as_bytes());
    // The last line of a text is not proven: its end is too near to be looked at in words.
    let proof = premise.prove(format!("{proven}                \n").as_bytes(), 1 << 24);
    assert_eq!(proven.len(), proof.taken.bytes);
    checker.feed_proven(proven.as_bytes(), &proof);
    checker.feed(after.as_bytes());
    [alone(format!("{before}{between}{proven}{after}").as_bytes(), 1 << 24), checker.finish()]
}

fn steps(numbers: std::ops::RangeInclusive<u64>, phase: &str) -> String {
    let line = |step| format!("{{\"kind\":\"step\"{phase},\"t\":{step}.0,\"step\":{step},\"loss\":2.5}}\n");
    numbers.map(line).collect()
}

#[test]
fn a_proof_holds_only_where_its_premise_does() {
    let train = ",\"phase\":\"train\"";
    let later_start = START.replace("\"t\":0.0", "\"t\":1.0,\"phase\":\"eval\"");
    let unknown = "{\"kind\":\"mine\",\"t\":1}\n";
    let started = format!("{START}{}{unknown}", steps(1..=5, ""));
    for [one, several] in [
        // The phase of steps that name none has changed.
        with_old_premise(&steps(1..=1, ""), &later_start, &steps(2..=3, ""), &steps(2..=9, train)),
        // The proof says nothing of clocks.
        with_old_premise(&started, "", &unknown.repeat(3), &steps(4..=9, "")),
        // The line that was proven has begun before.
        with_old_premise(&started, "{\"kind\":\"note\",\"x\":", &steps(6..=9, ""), &steps(10..=12, "")),
    ] {
        assert_eq!(format!("{one:?}"), format!("{several:?}"));
        assert!(!one.findings.is_empty());
    }
}

/// Without this, the tests above would hold for threads that prove nothing.
#[test]
fn clean_lines_are_proven_on_the_threads() {
    let mut text = START.to_string();
    for step in 1..=20_000 {
        text += &format!("{{\"kind\":\"step\",\"t\":{step}.5,\"step\":{step},\"loss\":0.1,\"extra\":{{\"a\":1}}}}\n");
    }
    let mut checker = StreamChecker::named("events.jsonl", options(1 << 24));
    let (before, rest) = text.as_bytes().split_at(START.len());
    checker.feed(before);
    let premise = checker.premise(None).unwrap();
    assert!(checker.premise(Some(premise.clone())).is_some_and(|same| std::sync::Arc::ptr_eq(&same, &premise)));
    let proof = (*premise).clone().prove(rest, 1 << 24);
    assert_eq!(19_999, proof.taken.lines);
    let (_, lines) = divided(text.as_bytes(), 1 << 24, START.len(), Division { workers: 2, block_bytes: 1 << 14 });
    // In each block, the first line and the last one take the exact path.
    assert!(lines > 19_500, "{lines}");
}

/// A source that cannot be read further, and a caller that wants no more, end the work.
#[test]
fn the_work_ends_early() {
    struct Broken(usize);
    impl Read for Broken {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(1).ok_or_else(|| io::Error::other("gone"))?;
            buffer.fill(b'\n');
            Ok(buffer.len())
        }
    }
    let division = Division { workers: 3, block_bytes: 100 };
    let mut checker = StreamChecker::named("", options(1 << 24));
    let failed = feed_rest(&mut checker, &mut Broken(20), division, |_| true);
    assert_eq!("gone", failed.unwrap_err().to_string());
    let mut checker = StreamChecker::named("", options(1 << 24));
    feed_rest(&mut checker, &mut Broken(usize::MAX), division, |_| false).unwrap();
    assert_eq!(100, checker.size());
}
