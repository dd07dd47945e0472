//! Checks streams and bundles from the command line: see spec/checking.md.

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{json, Value as Json};
use toyspec::{
    cause_of, check_file, check_source, find_streams, no_stream, printable, CheckOptions, Excerpt, FileReport, Finding,
    Found, Profile, Rule, Severity, Source,
};

const USAGE: &str = "\
usage: toyspec-rs check [OPTION…] PATH…

PATH is a run directory, a stream, a directory with runs below it, or - for standard input.

  --format text|json     form of the output; default: text
  --profile PROFILE      toy/v1, metrics/v1 or kaun/v1; default: found out from the first record
  --select RULE[,RULE…]  report only these rules
  --ignore RULE[,RULE…]  do not report these rules
  --max-line-bytes N     longest line that is checked; default: MAX_LINE_BYTES
  --workers N            threads that check a stream of 32 MiB or more; 0: one per core; default: 1

exit status: 0 no finding of severity error; 1 there is one; 2 wrong usage, or a path that could not be read";

fn usage() -> String {
    USAGE.replace("MAX_LINE_BYTES", &toyspec::MAX_LINE_BYTES.to_string())
}

/// What the command line asks for.
#[derive(Default)]
struct Command {
    options: CheckOptions,
    is_json: bool,
    paths: Vec<PathBuf>,
}

/// The verdict on one path.
enum Verdict {
    File(PathBuf, FileReport),
    Failure(PathBuf, String),
    /// A file below a directory that was named, in another format: it is not a run.
    Skipped(PathBuf, String),
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if arguments.iter().any(|word| word == "--help" || word == "-h") {
        println!("{}", usage());
        return ExitCode::SUCCESS;
    }
    match parse(&arguments) {
        Err(failure) => {
            eprintln!("toyspec-rs: {}\n{}", printable(&failure), usage());
            ExitCode::from(2)
        }
        // Who no longer reads the output does not want the rest; the status stays what it was.
        Ok(command) => ExitCode::from(run(&command)),
    }
}

fn parse(arguments: &[OsString]) -> Result<Command, String> {
    let mut command = Command::default();
    let mut words = arguments.iter();
    if words.next().is_none_or(|word| word != "check") {
        return Err("the command is `check`".to_string());
    }
    let mut only_paths = false;
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        if only_paths || !text.starts_with('-') || text == "-" {
            command.paths.push(PathBuf::from(word));
        } else if text == "--" {
            only_paths = true;
        } else {
            let (name, own) = text.split_once('=').map_or((&*text, None), |(name, own)| (name, Some(own.to_string())));
            let value = own.or_else(|| words.next().map(|next| next.to_string_lossy().into_owned()));
            set(&mut command, name, &value.ok_or(format!("{name} needs a value"))?)?;
        }
    }
    if command.paths.is_empty() {
        return Err("no path is named".to_string());
    }
    Ok(command)
}

fn set(command: &mut Command, name: &str, value: &str) -> Result<(), String> {
    let rules = || {
        let named = value.split(',').map(|id| Rule::of(id).ok_or(format!("no rule is named {id}")));
        named.collect::<Result<Vec<Rule>, String>>()
    };
    match name {
        "--format" if value == "json" || value == "text" => command.is_json = value == "json",
        "--profile" => {
            command.options.profile = Some(Profile::of(value).ok_or(format!("no profile is named {value}"))?);
        }
        "--select" => command.options.select.extend(rules()?),
        "--ignore" => command.options.ignore.extend(rules()?),
        "--max-line-bytes" => match value.parse() {
            Ok(number) if number > 0 => command.options.max_line_bytes = number,
            _ => return Err(format!("{value} is not a number of bytes")),
        },
        "--workers" => match value.parse() {
            Ok(0) => command.options.threads = std::thread::available_parallelism().map_or(1, usize::from),
            Ok(number) => command.options.threads = number,
            Err(_) => return Err(format!("{value} is not a number of threads")),
        },
        _ => return Err(format!("{name} {value} is not an option")),
    }
    Ok(())
}

fn run(command: &Command) -> u8 {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut verdicts = Vec::new();
    let (mut status, mut totals) = (0, [0; 3]);
    for path in &command.paths {
        for verdict in verdicts_on(path, &command.options) {
            status = status.max(match &verdict {
                Verdict::Failure(..) => 2,
                Verdict::Skipped(..) => 0,
                Verdict::File(_, report) => u8::from(!report.valid),
            });
            if let Verdict::File(_, report) = &verdict {
                add(&mut totals, report);
            }
            if command.is_json {
                verdicts.push(verdict);
            } else if show(&mut out, &verdict).is_err() {
                return status;
            }
        }
    }
    if command.is_json {
        let _ = writeln!(out, "{}", ascii(&report(&verdicts, totals).to_string()));
    }
    let _ = out.flush();
    status
}

fn verdicts_on(path: &Path, options: &CheckOptions) -> Vec<Verdict> {
    if path.as_os_str() == "-" {
        return vec![verdict(path.to_path_buf(), check_source(Source::new(io::stdin().lock()), "", options.clone()))];
    }
    let is_own = |found: &Path| found == path || found.parent() == Some(path);
    let checked = find_streams(path).into_iter().map(|found| match found {
        Found::Stream(path) => match (check_file(&path, options.clone()), is_own(&path)) {
            (Ok(FileReport { look: Some(look), .. }), false) => Verdict::Skipped(path, look),
            (report, _) => verdict(path, report),
        },
        Found::NoStream(path) => Verdict::File(path, no_stream(options.clone())),
        Found::Failure(path, error) => Verdict::Failure(path, cause_of(&error)),
    });
    let mut checked: Vec<Verdict> = checked.collect();
    let skipped = checked.iter().filter(|verdict| matches!(verdict, Verdict::Skipped(..))).count();
    if skipped > 0 && !checked.iter().any(|verdict| matches!(verdict, Verdict::File(..))) {
        let what = match skipped {
            1 => "1 file of another format was".to_string(),
            count => format!("{count} files of other formats were"),
        };
        checked.push(Verdict::Failure(path.to_path_buf(), format!("no run is here or below; {what} skipped")));
    }
    checked
}

fn verdict(path: PathBuf, report: io::Result<FileReport>) -> Verdict {
    match report {
        Ok(report) => Verdict::File(path, report),
        Err(error) => Verdict::Failure(path, cause_of(&error)),
    }
}

/// Adds the findings of a report, those that are not listed included, by severity.
fn add(totals: &mut [u64; 3], report: &FileReport) {
    for finding in &report.findings {
        totals[finding.severity as usize] += 1;
    }
    for (id, count) in &report.suppressed {
        let severity = Rule::of(id).map(|rule| rule.severity(report.profile.unwrap_or(Profile::Toy), false));
        totals[severity.unwrap_or(Severity::Error) as usize] += count;
    }
}

fn show(out: &mut impl Write, verdict: &Verdict) -> io::Result<()> {
    match verdict {
        Verdict::Failure(path, message) => {
            out.flush()?;
            eprintln!("{}: {}", printable(&path.to_string_lossy()), printable(message));
            Ok(())
        }
        Verdict::Skipped(path, look) => {
            writeln!(out, "{}: skipped, {}", printable(&path.to_string_lossy()), printable(look))
        }
        Verdict::File(path, report) => {
            let path = path.to_string_lossy();
            for finding in &report.findings {
                show_finding(out, &path, finding)?;
            }
            for (rule, count) in &report.suppressed {
                writeln!(out, "{}: {count} more findings of {rule}", printable(&path))?;
            }
            let state = report.state.map_or("no stream", |state| state.name());
            let valid = if report.valid { "valid" } else { "not valid" };
            writeln!(out, "{}: {valid}, {state}, {} records", printable(&path), report.records)
        }
    }
}

fn show_finding(out: &mut impl Write, path: &str, finding: &Finding) -> io::Result<()> {
    let sidecar = finding.sidecar.map_or_else(String::new, |name| format!(" in {name}"));
    let (severity, rule) = (finding.severity.name(), finding.rule.id());
    let (message, help) = (printable(&finding.message), &finding.help);
    writeln!(out, "{}:{}: {severity}: {message}{sidecar} [{rule}]", printable(path), finding.line)?;
    if let Some(excerpt) = &finding.excerpt {
        show_excerpt(out, finding.line, excerpt)?;
    }
    writeln!(out, "    help: {help}")
}

/// Shows a part of the line, and a mark below the place.
fn show_excerpt(out: &mut impl Write, line: u64, excerpt: &Excerpt) -> io::Result<()> {
    let (head, tail) = excerpt.data.split_at((excerpt.mark - excerpt.start).min(excerpt.data.len()));
    let [head, tail] = [head, tail].map(|part| String::from_utf8_lossy(part).into_owned());
    let head = format!("{}{}", if excerpt.start > 0 { "…" } else { "" }, printable(&head));
    let gutter = line.to_string();
    writeln!(out, "    {gutter} | {head}{}", printable(&tail))?;
    let (margin, indent) = (" ".repeat(gutter.len()), " ".repeat(head.chars().count()));
    writeln!(out, "    {margin} | {indent}^ byte {}", excerpt.mark)
}

/// Returns the report in the form of `schemas/report/v1/report.json`.
fn report(verdicts: &[Verdict], totals: [u64; 3]) -> Json {
    let (mut files, mut errors, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
    for verdict in verdicts {
        match verdict {
            Verdict::Failure(path, message) => {
                errors.push(json!({"path": path.to_string_lossy(), "message": message}));
            }
            Verdict::Skipped(path, look) => {
                skipped.push(json!({"path": path.to_string_lossy(), "message": look}));
            }
            Verdict::File(path, report) => files.push(json!({
                "path": path.to_string_lossy(), "profile": report.profile.map(Profile::name),
                "state": report.state.map(|state| state.name()), "valid": report.valid, "records": report.records,
                "bytes": report.bytes, "findings": report.findings.iter().map(finding_json).collect::<Vec<_>>(),
                "suppressed": report.suppressed,
            })),
        }
    }
    let summary = json!({"files": files.len(), "errors": totals[0], "warnings": totals[1], "infos": totals[2]});
    json!({"toyspec": env!("CARGO_PKG_VERSION"), "files": files, "errors": errors, "skipped": skipped, "summary": summary})
}

/// Returns JSON in ASCII, so that no character of a log acts on a terminal. Others are in strings only.
fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        if (' '..='~').contains(&character) {
            out.push(character);
        } else {
            let units =
                character.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
            out += &units;
        }
    }
    out
}

fn finding_json(finding: &Finding) -> Json {
    let mut value = json!({"rule": finding.rule.id(), "severity": finding.severity.name(), "line": finding.line,
        "offset": finding.offset, "pointer": finding.pointer, "message": finding.message, "help": &finding.help});
    if let Some(sidecar) = finding.sidecar {
        value["sidecar"] = sidecar.into();
    }
    value
}
