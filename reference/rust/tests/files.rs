//! What the corpus cannot show: locks, what is left beside a stream, and the command.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{json, Value as Json};
use toyspec::{CheckOptions, End, Exist, Follower, Options, Profile, Reader, Rule, State, WriteError, Writer};

/// An empty directory of one test.
fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("toyspec-rs-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

fn start(writer: &mut Writer) {
    writer.write(&json!({"kind": "run_start", "schema": "toy/v1", "run_id": "r"})).unwrap();
}

fn state(path: &std::path::Path) -> State {
    let mut reader = Reader::open(path, Options::default()).unwrap();
    assert!(reader.all(|record| record.is_ok()));
    reader.report().state
}

/// A run is torn until it is ended; then it is complete, its end names the last step, and a checker finds nothing.
#[test]
fn a_run_is_complete_once_it_is_ended() {
    let run = folder("ended").join("r");
    let mut writer = Writer::open(&run, Exist::Fail).unwrap();
    start(&mut writer);
    writer.write(&json!({"kind": "step", "step": 1, "loss": 2.5})).unwrap();
    assert_eq!(State::Torn, state(&run));
    writer.end(&End::Completed).unwrap();
    assert_eq!(State::Complete, state(&run));
    let report = toyspec::check_file(&run.join("events.jsonl"), CheckOptions::default()).unwrap();
    assert_eq!((true, Vec::new()), (report.valid, report.findings));
    let text = fs::read_to_string(run.join("events.jsonl")).unwrap();
    assert_eq!((3, text.len() as u64), (report.records, report.bytes));
    assert!(text.ends_with("\"reason\":\"completed\",\"final_step\":1,\"final_loss\":2.5}\n"), "{text}");
}

/// A stream that is held is refused in each way of opening it, and is free once its writer is gone.
#[test]
fn a_stream_has_one_writer() {
    let run = folder("lock");
    let mut writer = Writer::open(&run, Exist::Resume).unwrap();
    start(&mut writer);
    for exist in [Exist::Replace, Exist::Resume] {
        assert!(matches!(Writer::open(&run, exist), Err(WriteError::Locked(_))));
    }
    assert!(matches!(Writer::open(&run, Exist::Fail), Err(WriteError::Exists(_))));
    drop(writer);
    assert!(Writer::open(&run, Exist::Resume).is_ok());
}

/// Who goes on keeps the fragment beside the stream, writes run_resume first, and does not let t go back.
#[test]
fn a_torn_stream_goes_on_after_its_last_line() {
    let run = folder("resume");
    let path = run.join("events.jsonl");
    let committed = "{\"kind\":\"run_start\",\"schema\":\"toy/v1\",\"t\":50.0,\"run_id\":\"r\"}\n";
    fs::write(&path, format!("{committed}{{\"kind\":\"st")).unwrap();
    let mut writer = Writer::open(&run, Exist::Resume).unwrap();
    let step = json!({"kind": "step", "step": 1, "t": 3.0});
    assert!(matches!(writer.write(&step), Err(WriteError::Refused(..))));
    // A start that is refused changes nothing.
    assert_eq!(format!("{committed}{{\"kind\":\"st"), fs::read_to_string(&path).unwrap());
    writer.write(&json!({"kind": "run_resume", "from_step": 0})).unwrap();
    let side_file = run.join(format!("events.jsonl.torn-{}", committed.len()));
    assert_eq!("{\"kind\":\"st", fs::read_to_string(side_file).unwrap());
    writer.write(&step).unwrap();
    let lines: Vec<Json> =
        fs::read_to_string(&path).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let times: Vec<f64> = lines.iter().map(|line| line["t"].as_f64().unwrap()).collect();
    assert!(times.is_sorted() && times[0] == 50.0, "{times:?}");
}

/// A complete or damaged stream is not resumed, a replaced one is kept, and a refused record leaves no trace.
#[test]
fn what_is_there_is_not_lost() {
    let run = folder("exist");
    let path = run.join("events.jsonl");
    let damaged = "{\"kind\":\"note\",\"t\":0.5,\"text\":\"\"}\nnot JSON\n";
    fs::write(&path, damaged).unwrap();
    assert!(matches!(Writer::open(&run, Exist::Resume), Err(WriteError::State(_, State::Damaged))));
    let mut writer = Writer::open(&run, Exist::Replace).unwrap();
    start(&mut writer);
    assert_eq!(damaged, fs::read_to_string(run.join("events.jsonl.prev")).unwrap());
    let before = fs::read(&path).unwrap();
    for wrong in [json!({"kind": "step"}), json!({"kind": "run_start"}), json!([1]), json!({"step": 1})] {
        assert!(matches!(writer.write(&wrong), Err(WriteError::Refused(..))), "{wrong}");
    }
    assert_eq!(before, fs::read(&path).unwrap());
    writer.end(&End::Errored("lost".to_string())).unwrap();
    // A run goes on after its end.
    let mut writer = Writer::open(&run, Exist::Resume).unwrap();
    assert!(matches!(writer.write(&json!({"kind": "note", "text": "early"})), Err(WriteError::Refused(..))));
    writer.write(&json!({"kind": "run_resume", "from_step": 0})).unwrap();
    writer.end(&End::Completed).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!((2, 1), (text.matches("run_end").count(), text.matches("run_resume").count()));
}

/// Streams without an end are appended to, and what is not finite is null.
#[test]
fn metrics_are_appended() {
    let path = folder("metrics").join("metrics.jsonl");
    for step in 1..=2 {
        let mut writer = Writer::append(&path, Profile::Metrics).unwrap();
        let entry = json!({"step": step, "wall_time_ms": 1.5, "loss": f64::NAN, "grad_norm": 0.1_f32,
            "throughput_samples_per_sec": 1e39});
        writer.write(&entry).unwrap();
    }
    let line = |step| {
        let rest =
            "\"wall_time_ms\":1.5,\"loss\":null,\"grad_norm\":0.1,\"throughput_samples_per_sec\":null,\"extra\":{}";
        format!("{{\"step\":{step},{rest}}}\n")
    };
    assert_eq!(line(1) + &line(2), fs::read_to_string(path).unwrap());
}

/// A follower waits for a file that is not there, and gives a record once its LF is.
#[test]
fn a_follower_gives_what_is_committed() {
    let path = folder("follow").join("events.jsonl");
    let mut follower = Follower::new(&path, None);
    assert!(follower.look().unwrap().is_empty());
    let mut file = fs::File::create(&path).unwrap();
    file.write_all(b"{\"kind\":\"note\"}").unwrap();
    assert!(follower.look().unwrap().is_empty());
    file.write_all(b"\n").unwrap();
    assert_eq!(1, follower.look().unwrap().len());
}

/// A checker that is fed lines gives what it finds in them once.
#[test]
fn findings_are_given_as_lines_come() {
    let mut checker = toyspec::StreamChecker::named("metrics.jsonl", CheckOptions::default());
    checker.feed(b"{\"step\":1,\"wall_time_ms\":1.0}\n");
    let found: Vec<u64> = checker.take().iter().map(|finding| finding.line).collect();
    assert_eq!(vec![1, 1, 1], found);
    assert!(checker.take().is_empty());
}

fn check(arguments: &[&str], input: &[u8]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toyspec-rs"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

/// The status says whether there is an error, and a path that cannot be read does not hide the others.
#[test]
fn the_command_tells_by_its_status() {
    let path = folder("command").join("metrics.jsonl");
    fs::write(&path, "{\"step\":1,\"wall_time_ms\":1.0}\n").unwrap();
    let path = path.to_str().unwrap();
    assert_eq!(Some(0), check(&["check", "-"], b"").0);
    assert_eq!(Some(1), check(&["check", path], b"").0);
    assert_eq!(Some(0), check(&["check", path, "--ignore", "missing-key"], b"").0);
    assert_eq!(Some(2), check(&["check"], b"").0);
    assert_eq!(Some(2), check(&["check", "--select", "no-such-rule", path], b"").0);
    let (status, output) = check(&["check", "--format=json", "/does/not/exist", path], b"");
    let report: Json = serde_json::from_str(&output).unwrap();
    assert_eq!(Some(2), status);
    assert_eq!(json!({"files": 1, "errors": 3, "warnings": 0, "infos": 0}), report["summary"]);
    assert_eq!("/does/not/exist", report["errors"][0]["path"]);
}

/// A key that repeats is named as readers give it, not as it is written.
#[test]
fn a_repeated_key_is_named() {
    let (_, output) = check(&["check", "-"], b"{\"kind\":\"note\",\"t\":1.0,\"text\":\"\",\"te\\u0078t\":\"\"}\n");
    assert!(output.contains("key `text` "), "{output}");
}

/// No character of a log acts on a terminal, in either form.
#[test]
fn output_is_inert() {
    let line = "{\"t\":1.0,\"kind\":\"\u{1b}[2J\u{9b}\u{202e}\\u001b]0;x\",\"\u{202e}\u{85}\":1}\n"
        .replace('\u{1b}', "\\u001b");
    for form in ["text", "json"] {
        let (_, output) = check(&["check", "--format", form, "-"], line.as_bytes());
        assert!(output.contains("unknown-kind"), "{output}");
        let acts = |c: &char| c.is_control() && *c != '\n' || matches!(c, '\u{202a}'..='\u{202e}' | '\u{85}');
        assert_eq!(None, output.chars().find(acts), "{output}");
    }
}

/// A bit that flipped in the seal itself is shown: the message has as many digits of both digests as tell them apart.
#[test]
fn a_changed_digit_of_a_seal_is_shown() {
    let run = folder("sealed");
    let stream = run.join("metrics.jsonl");
    fs::write(&stream, "").unwrap();
    let options = CheckOptions { select: [Rule::SealBroken].into(), ..CheckOptions::default() };
    let of_nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let message = |sealed: &str| {
        fs::write(run.join("SHA256SUMS"), format!("{sealed}  metrics.jsonl\n")).unwrap();
        let report = toyspec::check_file(&stream, options.clone()).unwrap();
        report.findings.into_iter().map(|finding| finding.message).collect::<Vec<_>>()
    };
    assert_eq!(Vec::<String>::new(), message(of_nothing));
    for (changed, shown) in [(0, 12), (11, 12), (12, 13), (63, 64)] {
        let mut sealed = of_nothing.to_string();
        sealed.replace_range(changed..=changed, if &sealed[changed..=changed] == "5" { "4" } else { "5" });
        let expected = format!("its SHA-256 is {}…, expected {}…", &of_nothing[..shown], &sealed[..shown]);
        let messages = message(&sealed);
        assert_eq!((1, true), (messages.len(), messages[0].contains(&expected)), "{messages:?}");
    }
}
