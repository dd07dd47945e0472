//! What a writer does when the system fails, or others touch its files. Linux only: strace injects the failures.
#![cfg(target_os = "linux")]

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use nix::fcntl::{fcntl, FcntlArg};
use nix::libc;
use serde_json::{json, Value as Json};
use toyspec::{Exist, Profile, WriteError, Writer};

/// An empty directory of one test.
fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("toyspec-faults-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

fn start(writer: &mut Writer) -> Result<(), WriteError> {
    writer.write(&json!({"kind": "run_start", "schema": "toy/v1", "run_id": "r"}))
}

fn lines(path: &Path) -> Vec<Json> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.ends_with('\n'), "{text:?}");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line:?}: {error}"))).collect()
}

/// The names of the files in a directory.
fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Whether a record lock on the whole file can be taken through another descriptor.
fn can_lock(path: &Path) -> bool {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    fcntl(&file, FcntlArg::F_OFD_SETLK(&whole_file())).is_ok()
}

fn whole_file() -> libc::flock {
    libc::flock { l_type: libc::F_WRLCK as libc::c_short, l_whence: 0, l_start: 0, l_len: 0, l_pid: 0 }
}

/// A program of its own: resumes, or starts, the run in a directory, and writes steps; prints what came of each.
#[test]
#[ignore = "other tests run it as a program"]
fn child() {
    let Ok(directory) = std::env::var("TOYSPEC_CHILD_RUN") else { return };
    let steps = std::env::var("TOYSPEC_CHILD_STEPS").unwrap_or_default().parse().unwrap_or(5);
    let mut writer = match Writer::open(&directory, Exist::Resume) {
        Ok(writer) => writer,
        Err(error) => return println!("open: {error}"),
    };
    let is_new = fs::metadata(Path::new(&directory).join("events.jsonl")).map_or(0, |data| data.len()) == 0;
    let begun = if is_new { start(&mut writer) } else { writer.write(&json!({"kind": "run_resume", "from_step": 0})) };
    println!("begin: {begun:?}");
    let filler = "x".repeat(200);
    for step in 1..=steps {
        let written = writer.write(&json!({"kind": "step", "step": step, "filler": filler}));
        println!("step {step}: {}", written.map_or_else(|error| error.to_string(), |()| "written".to_string()));
    }
    println!("dropped: {}", writer.dropped());
    println!("end: {:?}", writer.end(&toyspec::End::Completed).map_err(|error| error.to_string()));
}

/// Runs the child by a command that takes it as its last words; returns what it prints.
fn run_child(run: &Path, words: &[&str], steps: u32) -> String {
    let own = std::env::current_exe().unwrap();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(own).args(["--ignored", "--exact", "child", "--nocapture"]);
    command.env("TOYSPEC_CHILD_RUN", run).env("TOYSPEC_CHILD_STEPS", steps.to_string());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Reports that a test was left out for a reason; in CI, where it must run, fails it.
fn left_out(reason: &str) {
    assert!(std::env::var_os("CI").is_none(), "this test must run in CI: {reason}");
    // The harness keeps what `println!` says in a test that passes.
    writeln!(std::io::stderr(), "left out: {reason}").unwrap();
}

/// Returns why a command does not succeed, None if it does.
fn unavailable(words: &[&str]) -> Option<String> {
    match Command::new(words[0]).args(&words[1..]).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!("{}: {}", words[0], String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Some(format!("{}: {error}", words[0])),
    }
}

/// Runs the child with failures injected into its calls on some path; None, with a report, if they cannot be traced.
fn run_traced(run: &Path, path: &Path, inject: &[&str], steps: u32) -> Option<String> {
    if let Some(reason) =
        unavailable(&["strace", "-qq", "-o", "/dev/null", "-e", "inject=write:error=EIO:when=1", "true"])
    {
        left_out(&format!("system calls cannot be traced: {reason}"));
        return None;
    }
    let path = path.to_str().unwrap().to_string();
    let mut words = vec!["strace", "-f", "-qq", "-o", "/dev/null", "-P", &path];
    let injected: Vec<String> = inject.iter().map(|what| format!("inject={what}")).collect();
    for what in &injected {
        words.extend(["-e", what]);
    }
    Some(run_child(run, &words, steps))
}

/// Three runs that replace one another leave three logs, and a stream without a byte moves nothing.
#[test]
fn no_earlier_log_is_lost() {
    let run = folder("replaced");
    for number in 1..=4 {
        let mut writer = Writer::open(&run, Exist::Replace).unwrap();
        start(&mut writer).unwrap();
        writer.write(&json!({"kind": "note", "text": number.to_string()})).unwrap();
    }
    let expected = ["events.jsonl", "events.jsonl.prev", "events.jsonl.prev-1", "events.jsonl.prev-2"];
    assert_eq!(expected, *names(&run));
    for (name, number) in expected.into_iter().zip(["4", "3", "1", "2"]) {
        assert_eq!(number, lines(&run.join(name))[1]["text"], "{name}");
    }
    fs::write(run.join("events.jsonl"), "").unwrap();
    start(&mut Writer::open(&run, Exist::Replace).unwrap()).unwrap();
    assert_eq!(expected, *names(&run));
    assert_eq!("3", lines(&run.join("events.jsonl.prev"))[1]["text"]);
}

/// A fragment of any length is kept, beside one of the same place.
#[test]
fn every_fragment_is_kept() {
    let run = folder("fragments");
    let mut writer = Writer::open(&run, Exist::Fail).unwrap();
    start(&mut writer).unwrap();
    drop(writer);
    let path = run.join("events.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    for (fragment, suffix) in [("a".repeat(200_000), ""), ("b".repeat(3), "-2"), ("c".to_string(), "-3")] {
        fs::write(&path, format!("{whole}{fragment}")).unwrap();
        let mut writer = Writer::open(&run, Exist::Resume).unwrap();
        writer.write(&json!({"kind": "run_resume", "from_step": 0})).unwrap();
        let kept = fs::read_to_string(run.join(format!("events.jsonl.torn-{}{suffix}", whole.len()))).unwrap();
        assert_eq!((fragment.len(), true), (kept.len(), kept == fragment));
        assert_eq!("run_resume", lines(&path)[1]["kind"]);
    }
}

/// A start whose first record is refused leaves every file as it was.
#[test]
fn a_refused_start_changes_nothing() {
    let run = folder("refused");
    let wrong = json!({"kind": "step", "step": 1});
    for exist in [Exist::Fail, Exist::Replace, Exist::Resume] {
        let mut writer = Writer::open(&run, exist).unwrap();
        assert!(matches!(writer.write(&wrong), Err(WriteError::Refused(..))));
        assert!(names(&run).is_empty());
    }
    let torn = "{\"kind\":\"run_start\",\"t\":0.0,\"run_id\":\"r\"}\n{\"kind\"";
    fs::write(run.join("events.jsonl"), torn).unwrap();
    for exist in [Exist::Replace, Exist::Resume] {
        let mut writer = Writer::open(&run, exist).unwrap();
        assert!(matches!(writer.write(&wrong), Err(WriteError::Refused(..))));
        assert_eq!(["events.jsonl"], *names(&run));
        assert_eq!(torn, fs::read_to_string(run.join("events.jsonl")).unwrap());
    }
    let entries = run.join("metrics.jsonl");
    let mut writer = Writer::append(&entries, Profile::Metrics).unwrap();
    assert!(matches!(writer.write(&wrong), Err(WriteError::Refused(..))));
    assert!(!entries.exists());
}

/// What another program may hold is seen, and what is held is seen by others: by record locks as Java takes them.
#[test]
fn record_locks_are_taken() {
    let run = folder("locks");
    let path = run.join("events.jsonl");
    let mut writer = Writer::open(&run, Exist::Fail).unwrap();
    start(&mut writer).unwrap();
    assert!(!can_lock(&path));
    drop(writer);
    assert!(can_lock(&path));
    let other = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    fcntl(&other, FcntlArg::F_OFD_SETLK(&whole_file())).unwrap();
    for exist in [Exist::Resume, Exist::Replace] {
        assert!(matches!(Writer::open(&run, exist), Err(WriteError::Locked(_))));
    }
    drop(other);
    assert!(Writer::open(&run, Exist::Resume).is_ok());
}

/// A system without locks does not stand for another writer.
#[test]
fn missing_locks_do_not_mean_another_writer() {
    let run = folder("no-locks").join("r");
    for error in ["ENOLCK", "EOPNOTSUPP"] {
        let inject = [format!("flock:error={error}"), format!("fcntl:error={error}:when=1")];
        let injected: Vec<&str> = inject.iter().map(String::as_str).collect();
        let Some(output) = run_traced(&run, &run.join("events.jsonl"), &injected, 2) else { return };
        assert!(output.contains("step 2: written"), "{output}");
        fs::remove_file(run.join("events.jsonl")).unwrap();
    }
}

/// A stream that another writer moves away between opening and locking is not written to.
#[test]
fn a_stream_moved_before_its_lock_is_let_go() {
    let run = folder("moved");
    let path = run.join("events.jsonl");
    start(&mut Writer::open(&run, Exist::Fail).unwrap()).unwrap();
    let (old, mover) = (run.join("old.jsonl"), run.clone());
    let moving = std::thread::spawn(move || {
        sleep(Duration::from_millis(700));
        fs::rename(mover.join("events.jsonl"), mover.join("old.jsonl")).unwrap();
        start(&mut Writer::open(&mover, Exist::Fail).unwrap()).unwrap();
    });
    let output = run_traced(&run, &path, &["flock:delay_enter=1500000:when=1"], 2);
    moving.join().unwrap();
    if let Some(output) = output {
        assert!(output.contains("step 2: written"), "{output}");
        assert_eq!((1, 5), (lines(&old).len(), lines(&path).len()));
    }
}

/// A stream that is gone and cannot be started again for good closes its writer: the old file is nowhere.
#[test]
fn a_stream_that_cannot_be_started_again_ends_writing() {
    let run = folder("taken-place").join("r");
    let mut writer = Writer::open(&run, Exist::Fail).unwrap();
    start(&mut writer).unwrap();
    fs::remove_dir_all(&run).unwrap();
    fs::write(&run, "a file where the directory was").unwrap();
    sleep(Duration::from_millis(1100));
    let note = json!({"kind": "note", "text": "x"});
    assert!(matches!(writer.write(&note), Err(WriteError::Io(..))));
    assert!(matches!(writer.write(&note), Err(WriteError::Closed(_))));
}

/// Something other than a regular file is refused at once, and stays where it is.
#[test]
fn only_regular_files_are_streams() {
    let run = folder("special");
    let path = run.join("events.jsonl");
    let mut sockets = Vec::new();
    for kind in ["directory", "pipe", "device", "socket"] {
        match kind {
            "directory" => fs::create_dir(&path).unwrap(),
            "pipe" => assert!(Command::new("mkfifo").arg(&path).status().unwrap().success()),
            "device" => symlink("/dev/null", &path).unwrap(),
            _ => sockets.push(UnixListener::bind(&path).unwrap()),
        }
        for exist in [Exist::Replace, Exist::Resume] {
            let refused = Writer::open(&run, exist);
            assert!(matches!(refused, Err(WriteError::NotAFile(_))), "{kind}: {refused:?}");
        }
        assert!(matches!(Writer::append(&path, Profile::Kaun), Err(WriteError::NotAFile(_))));
        assert_eq!(["events.jsonl"], *names(&run));
        if kind == "directory" {
            fs::remove_dir(&path).unwrap()
        } else {
            fs::remove_file(&path).unwrap()
        }
    }
}

/// Records that find no room are counted, and a note says how many, once a later one fits.
#[test]
fn writing_goes_on_after_a_full_disk() {
    let run = folder("full").join("r");
    let path = run.join("events.jsonl");
    let Some(output) = run_traced(&run, &path, &["write:error=ENOSPC:when=3..5"], 5) else { return };
    assert!(output.contains("step 2: ") && output.contains("No space left on device"), "{output}");
    assert!(output.contains("dropped: 2") && output.contains("end: Ok"), "{output}");
    let found = lines(&path);
    let kinds: Vec<&str> = found.iter().map(|line| line["kind"].as_str().unwrap()).collect();
    assert_eq!(["run_start", "step", "note", "step", "step", "run_end"], *kinds, "{output}");
    assert_eq!("2 records dropped here: No space left on device", found[2]["text"]);
}

/// A first record that cannot be written leaves no file.
#[test]
fn a_start_that_fails_leaves_no_file() {
    let run = folder("first").join("r");
    let Some(output) = run_traced(&run, &run.join("events.jsonl"), &["write:error=EIO:when=1"], 1) else { return };
    assert!(output.contains("begin: Err"), "{output}");
    assert!(names(&run).is_empty(), "{:?}", names(&run));
}

/// A failure that does not pass closes the stream for good.
#[test]
fn a_failing_disk_ends_writing() {
    let run = folder("broken").join("r");
    let path = run.join("events.jsonl");
    let Some(output) = run_traced(&run, &path, &["write:error=EIO:when=3"], 4) else { return };
    assert!(output.contains(&format!("step 2: {}: Input/output error", path.display())), "{output}");
    assert!(output.contains("step 3: ") && output.contains("the writer is closed"), "{output}");
    assert_eq!(2, lines(&path).len());
}

/// Where directories cannot be synced, a run goes on; where the disk fails, its end is not acknowledged.
#[test]
fn a_failed_sync_is_reported_and_a_missing_one_is_not() {
    let run = folder("synced").join("r");
    let Some(output) = run_traced(&run, &run, &["fsync:error=EINVAL"], 2) else { return };
    assert!(output.contains("begin: Ok") && output.contains("end: Ok"), "{output}");
    let run = folder("unsynced").join("r");
    let output = run_traced(&run, &run.join("events.jsonl"), &["fsync:error=EIO:when=1"], 2).unwrap();
    assert!(output.contains("begin: Err") && output.contains("end: Err"), "{output}");
}

/// A limit on the size of files is an error as any other: it does not end the program.
#[test]
fn a_limit_of_size_does_not_kill() {
    let run = folder("limit").join("r");
    let output = run_child(&run, &["sh", "-c", "ulimit -f 2; exec \"$@\"", "sh"], 20);
    assert!(output.contains("step 1: written") && output.contains("step 20: "), "{output}");
    assert!(output.contains("File too large"), "{output}");
    assert!(lines(&run.join("events.jsonl")).len() > 3);
}

/// Runs a part in a small file system of its own; None, with a report, if the system does not let this user mount one.
fn run_in_small_disk(run: &Path, script: &str) -> Option<String> {
    let probe = format!("mount -t tmpfs -o size=12k tmpfs {}", run.display());
    if let Some(reason) = unavailable(&["unshare", "-rm", "sh", "-c", &probe]) {
        left_out(&format!("no disk can be mounted: {reason}"));
        return None;
    }
    let own = std::env::current_exe().unwrap();
    let disk = run.display();
    let script =
        format!("mount -t tmpfs -o size=12k tmpfs {disk} && {{ {script}\n}} && cp {disk}/events.jsonl {disk}.copy");
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &script, "sh"]).arg(own).env("TOYSPEC_CHILD_RUN", run);
    command.env("TOYSPEC_CHILD_STEPS", "400");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

const CHILD: &str = "\"$1\" --ignored --exact child --nocapture";

/// On a full disk, nothing that was acknowledged is lost, and nothing is cut that another process wrote.
#[test]
fn a_full_disk_costs_no_record() {
    let run = folder("small");
    let Some(output) = run_in_small_disk(&run, CHILD) else { return };
    let acknowledged = output.lines().filter(|line| line.ends_with(": written")).count();
    let found = lines(&run.with_extension("copy"));
    let steps = found.iter().filter(|line| line["kind"] == "step").count();
    assert!(acknowledged > 10 && acknowledged < 400, "{output}");
    assert_eq!(acknowledged, steps);
}

/// A file that another process empties or appends to is neither grown nor cut.
#[test]
fn what_others_do_to_the_file_stays() {
    let run = folder("others").join("r");
    let path = run.join("events.jsonl");
    let mut writer = Writer::open(&run, Exist::Fail).unwrap();
    start(&mut writer).unwrap();
    OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap()
        .write_all(b"{\"kind\":\"note\",\"t\":1.0,\"text\":\"o\"}\n")
        .unwrap();
    writer.write(&json!({"kind": "step", "step": 1})).unwrap();
    File::create(&path).unwrap();
    writer.write(&json!({"kind": "step", "step": 2})).unwrap();
    assert_eq!(2, lines(&path)[0]["step"]);
}

/// A stream that is deleted or moved while it is written is there again, with all its records.
#[test]
fn a_deleted_stream_is_made_again() {
    let run = folder("deleted");
    let path = run.join("events.jsonl");
    let mut writer = Writer::open(&run, Exist::Fail).unwrap();
    start(&mut writer).unwrap();
    fs::remove_file(&path).unwrap();
    sleep(Duration::from_millis(1100));
    writer.write(&json!({"kind": "step", "step": 1})).unwrap();
    assert_eq!(2, lines(&path).len());
    fs::write(run.join("new"), "{\"kind\":\"run_start\",\"t\":0.0,\"run_id\":\"o\"}\n").unwrap();
    fs::rename(run.join("new"), &path).unwrap();
    sleep(Duration::from_millis(1100));
    writer.write(&json!({"kind": "step", "step": 2})).unwrap();
    assert_eq!((3, 1), (lines(&path).len(), lines(&run.join("events.jsonl.prev")).len()));
    assert!(!can_lock(&path));
    drop(writer);

    let path = run.join("metrics.jsonl");
    let entry = |step| {
        json!({"step": step, "wall_time_ms": 1.0, "loss": 1.0, "grad_norm": 1.0,
        "throughput_samples_per_sec": 1.0})
    };
    let mut writer = Writer::append(&path, Profile::Metrics).unwrap();
    writer.write(&entry(1)).unwrap();
    fs::rename(&path, run.join("metrics.jsonl.1")).unwrap();
    sleep(Duration::from_millis(1100));
    writer.write(&entry(2)).unwrap();
    assert_eq!(2, lines(&path)[0]["step"]);
}

/// A file in another format, or of another profile, is neither cut nor written to.
#[test]
fn foreign_files_are_left_alone() {
    let run = folder("foreign");
    let path = run.join("events.jsonl");
    let scalar = "{\"type\":\"scalar\",\"step\":1,\"tag\":\"a\",\"value\":1.0}\n";
    for content in ["{\"type\":\"user\"}\n{\"ty", "\u{1f}\u{8b}", scalar] {
        let bytes: Vec<u8> = content.chars().map(|character| character as u8).collect();
        fs::write(&path, &bytes).unwrap();
        assert!(matches!(Writer::open(&run, Exist::Resume), Err(WriteError::State(..) | WriteError::Foreign(..))));
        assert!(matches!(Writer::append(&path, Profile::Metrics), Err(WriteError::Foreign(..))));
        assert_eq!((bytes, 1), (fs::read(&path).unwrap(), names(&run).len()));
    }
}
