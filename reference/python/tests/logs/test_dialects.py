"""Every dialect on a sample of its program, and on what breaks logs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command_line import toyspec_within as toyspec
from property_examples import PROFILE, examples
from sample_rows import SOURCES, sample_of
from toyspec import check_bytes, follow, history, list_runs, read
from toyspec.core.command_line.main import main
from toyspec.core.findings import HEAD_BYTES
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.reading.records import Row
from toyspec.logs.dialects import Keys, TimeUnit, dialect_of, dialects
from toyspec.logs.documents import DocumentCutter
from toyspec.logs.mapping import ReadAs, time_of
from toyspec.view.scans import ScannedRun

EVERY = 29 if PROFILE == "quick" else 7
"""How many bytes apart the ends of prefixes are."""


def rows_of(source: Any, **options: Any) -> list[Row]:
    """Return the rows of a log."""
    rows = list(read(source, mode="salvage", **options))
    assert all(isinstance(row, Row) for row in rows)
    return rows  # type: ignore[return-value]


@pytest.mark.parametrize("name", SOURCES)
def test_every_prefix_and_chunking(name: str) -> None:
    """Bytes without a name are recognized; pieces of any size give the rows up to the last committed record."""
    data = sample_of(name).read_bytes()
    whole = rows_of(sample_of(name))
    read_as = DialectChoice().choose(data)
    assert read_as is not None
    assert name == read_as.use.name
    for end in range(0, len(data), EVERY):
        feed = read_as.feed()
        rows = [row for at in range(0, end, 11) for row in feed.feed(data[at : min(at + 11, end)])]
        assert [row.raw for row in whole[: len(rows)]] == [row.raw for row in rows]
        fragment = feed.fragment()
        assert end == feed.committed + (0 if fragment is None else fragment.length)


@pytest.mark.parametrize("name", SOURCES)
@settings(max_examples=examples(25), deadline=None)
@given(data=st.data())
def test_reader_and_checker_are_total(name: str, data: st.DataObject) -> None:
    """Whatever is overwritten in a sample, nothing is raised, and every byte is accounted for."""
    path = sample_of(name)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=6))
    reading = read(bytes(content), mode="salvage", dialect=name)
    list(reading)
    report = reading.report
    assert len(content) == report.committed_bytes + report.fragment_bytes + report.gap_bytes
    checked = check_bytes(bytes(content), dialect=name)
    assert (report.state, report.records) == (checked.state, checked.records)


LOGS = [json.loads(line) for line in Path(__file__).parents[1].joinpath("recognition.jsonl").read_bytes().splitlines()]


@pytest.mark.parametrize("expected", LOGS, ids=lambda log: str(log["log"])[:30].encode("unicode_escape").decode())
def test_short_log_is_read_as_it_is_meant(expected: dict[str, Any]) -> None:
    """The keys of step, time, epoch and phase, the notes, the rows and the findings of `recognition.jsonl`."""
    data = expected["log"].encode()
    reading = read(data, mode="salvage")
    rows = [[row.step, row.time, row.values] for row in reading if isinstance(row, Row)]
    found: dict[str, Any] = {"dialect": None} | {key: expected[key] for key in ("about", "log") if key in expected}
    read_as = reading.report.dialect
    if read_as is not None:
        found |= {"dialect": read_as.name, "step": read_as.step}
        choices = {"time": read_as.time, "epoch": read_as.epoch, "phase": read_as.phase}
        report = check_bytes(data)
        checked = [[each.rule, each.line, each.pointer, each.message] for each in report.findings]
        notes = [] if report.dialect is None else list(report.dialect.notes)
        others = {"notes": notes, "findings": checked}
        found |= {"rows": rows} | {name: value for name, value in (choices | others).items() if value}
    # Text, in which NaN is equal to NaN.
    assert json.dumps(expected, sort_keys=True) == json.dumps(found, sort_keys=True)


@pytest.mark.parametrize("name", ["hf-trainer", "json-array"])
def test_document_on_one_line_without_an_end_is_followed(tmp_path: Path, name: str) -> None:
    """A document needs no LF: who follows or looks at it has its rows, and those of what replaces it."""
    path = tmp_path / "log.json"
    path.write_text(json.dumps(json.loads(sample_of(name).read_bytes())))
    expected = [row.values for row in rows_of(path)]
    assert expected
    assert repr(expected) == repr([row.values for row in follow(path, idle_seconds=0) if isinstance(row, Row)])
    file = ScannedRun(str(path))
    file.read()
    assert (name, len(expected)) == (
        file.scan.summary.dialect and file.scan.summary.dialect.name,
        file.scan.summary.records,
    )
    file.close()


def test_step_key_is_a_choice() -> None:
    """The first key that the records have is guessed; the user may name another."""
    data = b'{"epoch":1,"step":10,"loss":1}\n{"epoch":2,"step":20,"loss":1}\n'

    assert [10, 20] == [row.step for row in rows_of(data)]
    assert [1, 2] == [row.step for row in rows_of(data, dialect=DialectChoice(keys=Keys(step="epoch")))]


def test_dialects_are_off_when_none_is_asked_for() -> None:
    """Without dialects the log of another program is of an unknown format, as the specification says."""
    (finding,) = check_bytes(b'{"step":1,"loss":2.5}\n', dialect=None).findings
    assert "unknown-format" == finding.rule
    assert read(b'{"step":1,"loss":2.5}\n', dialect=None).report.dialect is None


@pytest.mark.parametrize("end", [b"", b'{"step":4,"loss":2.0}\n'])
def test_nul_bytes_of_a_power_loss_hide_no_short_log(end: bytes) -> None:
    """A log is known by its lines before the NUL bytes; data with a NUL byte in its first line is none."""
    head = b'{"step":1,"loss":2.5}\n{"step":2,"loss":2.25}\n'
    nul = bytes(40) + (b"\n" if end else b"")
    reading = read(head + nul + end, mode="salvage")
    assert [1, 2, *([4] if end else [])] == [row.step for row in reading if isinstance(row, Row)]
    (finding,) = check_bytes(head + nul + end).findings
    assert ("nul-bytes", "error" if end else "warning", 3) == (finding.rule, finding.severity, finding.line)
    assert "repair" not in finding.help
    assert read(b"\0" + head, mode="salvage").report.dialect is None


def test_unknown_dialect_is_an_error() -> None:
    """A dialect that does not exist is named, with those that do."""
    with pytest.raises(ValueError, match=r"unknown dialect 'nope'; choose one of .*hf-trainer"):
        read(b"", dialect="nope")


def test_document_is_read_in_bounded_memory() -> None:
    """An object longer than the limit is a gap; those around it are read."""
    cutter = DocumentCutter("rows", max_line_bytes=20)
    data = b'{"a":[{"x":1}],"rows":[{"s":1},{"s":"' + b"x" * 9000 + b'"},\n{"s":[{"t":2}]}]}\n'
    lines = [line for at in range(len(data)) for line in cutter.feed(data[at : at + 1])]
    assert [b'{"s":1}', None, b'{"s":[{"t":2}]}'] == [line.data for line in lines]
    assert [1, 1, 2] == [line.number for line in lines]
    assert all(line.data is None or data[line.offset :].startswith(line.data) for line in lines)
    assert len(data) == cutter.committed


def test_long_cell_costs_no_more_than_its_length() -> None:
    """Digits without end are read once, whatever follows them: each form tried from each digit would take hours."""
    for cell in ("9" * 1_000_000, "9" * 1_000_000 + "x", "1" * 500_000 + "." + "1" * 500_000 + "e"):
        rows = rows_of(f"step,loss\n1,{cell}\n2,0.5\n".encode())
        assert [1, 2] == [row.step for row in rows]


def test_long_object_of_a_document_shows_its_start() -> None:
    """Of an object that is longer than the limit, only the first bytes are kept, however it comes."""
    long = b'{"text":"' + b"x" * 5 * HEAD_BYTES + b'"}'
    for size in (7, HEAD_BYTES, len(long)):
        cutter = DocumentCutter("", max_line_bytes=20)
        data = b"[" + long + b"]"
        (line,) = (line for at in range(0, len(data), size) for line in cutter.feed(data[at : at + size]))
        assert (None, long[:HEAD_BYTES], len(long)) == (line.data, line.head, line.length)


def test_dialect_of_the_user_is_chosen_by_its_name() -> None:
    """Neither another dialect of the user nor one that toyspec ships is taken for it."""
    table: dict[str, Any] = {"title": "x", "rank": "guess", "form": {"type": "lines"}, "recognize": {"keys": ["loss"]}}
    own = [dialect_of({"name": name, "step": [key], **table}) for name, key in [("x", "a"), ("y", "b"), ("csv", "c")]]
    data = b'{"a":1,"b":2,"c":3,"loss":0.5}\n'
    steps = {name: rows_of(data, dialect=DialectChoice(name, own=own))[0].step for name in ("y", "x", "csv")}
    assert {"y": 2, "x": 1, "csv": 3} == steps


@pytest.mark.parametrize("status", ['["finished"]', "{}", "null", '"other"', "1"])
def test_end_that_says_nothing_known_is_not_an_end(status: str) -> None:
    """What a program writes where others write why it ended may be anything."""
    lines = b'{"type":"set","key":"loss","value":0.5,"step":1,"timestamp":1780300000}\n'
    dialect = next(each.name for each in dialects() if each.end is not None and each.end.equals == "finished")
    ends = [row.end for row in rows_of(lines + b'{"type":"finished","status":%s}\n' % status.encode(), dialect=dialect)]
    assert [None, None] == ends
    (*_, end) = rows_of(lines + b'{"type":"finished","status":"failed"}\n', dialect=dialect)
    assert {"reason": "errored"} == end.end


def test_log_that_ended_stays_ended() -> None:
    """What a program writes after the line of its end, as an upload does, opens nothing again."""
    value = b'{"type":"set","key":"loss","value":0.5,"step":%d,"timestamp":1780300000}\n'
    data = value % 1 + b'{"type":"finished","status":"failed"}\n' + value % 2
    dialect = next(each.name for each in dialects() if each.end is not None and each.end.equals == "finished")
    ended = {size: check_bytes(data[:size], dialect=dialect).dialect for size in (len(value % 1), len(data))}
    assert ["unknown", "yes"] == [facts.ended for facts in ended.values() if facts is not None]


CLOCKS = {"run-seconds", "run-clock", "any"}
DATES = {"unix", "date-time", "any"}
TIMES: list[tuple[object, float | None, set[str]]] = [
    *((text, seconds, CLOCKS) for text, seconds in {
        "0:01:02": 62.0, "1:02:03.5": 3723.5, "1 day, 2:03:04": 93784.0, "12 days, 0:00:01": 1036801.0,
        "999999:59:59": 3599999999.0,
    }.items()),
    *((text, seconds, DATES) for text, seconds in {
        "1970-01-01T00:01:00Z": 60.0, "1970-01-01 00:01:00": 60.0, "1970-01-01T01:01:00+01:00": 60.0,
        "1970-01-02": 86400.0,
    }.items()),
    *((text, None, set[str]()) for text in (
        "tomorrow", "02:03", "0:60:00", "0:00:60", "5", "12.5", "0" * 32 + ":00:00:00",
    )),
]  # fmt: skip
UNIX = {
    1e8: 1e8, 1.7e9: 1.7e9, 9.9e10: 9.9e10, 1e11: 1e8, 1.7e12: 1.7e9, 1e14: 1e8, 1.7e15: 1.7e9, 1e17: 1e8,
    1.7e18: 1.7e9, 1e20: None, 99999999.0: None, 12.5: None, -5.0: None,
}  # fmt: skip


@pytest.mark.parametrize("unit", get_args(TimeUnit))
def test_times_are_those_of_their_unit(unit: TimeUnit) -> None:
    """Unix times are known by their magnitude, clocks and dates by their form; a number is of the declared unit."""
    for text, seconds, units in TIMES:
        origin = "run" if units is CLOCKS else "unix"
        assert (None if seconds is None or unit not in units else (seconds, origin)) == time_of(text, unit), text
    for value, unix in UNIX.items():
        expected: dict[str, tuple[float, str] | None] = {
            "unix": None if unix is None else (unix, "unix"),
            "unix-seconds": (value, "unix"),
            "unix-milliseconds": (value / 1000, "unix"),
            "run-seconds": (value, "run"),
        }
        expected["any"] = (value, "run") if value < 1e8 else expected["unix"]
        assert expected.get(unit) == time_of(value, unit), value
    assert [None] * 4 == [time_of(value, unit) for value in (1e300, -1e300, True, None)]


def test_wrong_dialect_is_refused() -> None:
    """A document that is not a dialect names the member that is wrong."""
    with pytest.raises(ValueError, match="step"):
        dialect_of({"name": "x", "title": "x", "rank": "guess", "form": {"type": "lines"}, "recognize": {}})
    assert ReadAs(dialect=dialects()[0]).use.step is None


def test_newest_checkpoint_is_the_run(tmp_path: Path) -> None:
    """Each checkpoint has the whole log until then, so only the last one is a run."""
    path = sample_of("hf-trainer")
    for step in (5, 10, 100):
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}" / path.name).write_bytes(path.read_bytes())
    assert [str(tmp_path / "checkpoint-100" / path.name)] == [run.path for run in list_runs(tmp_path)]
    (tmp_path / path.name).write_bytes(path.read_bytes())
    assert [str(tmp_path / path.name)] == [run.path for run in list_runs(tmp_path)]


def test_doctor_breaks_no_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a narrow terminal the command stands below its format, whole; what it needs is on a line of its own."""
    (tmp_path / "metrics.jsonl").write_bytes(b'{"iter":1,"loss":2.5}\n')
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert 0 == main(["doctor", "--color", "never", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    assert f"    `toyspec show {tmp_path / 'metrics.jsonl'}`" in lines
    assert '    needs --step-key unless the step is "iter"' in lines


def test_command_line_says_how_a_log_is_read(tmp_path: Path) -> None:
    """Each command names the dialect and the key of the step; the key can be named."""
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"epoch":1,"iter":10,"loss":2.5}\n{"epoch":2,"iter":20,"loss":2.0}\n')
    done = toyspec("check", str(path))
    assert b'read as: metrics-jsonl dialect, step = "iter"\n    help: name the key with --step-key' in done.stdout
    assert 0 == done.returncode
    assert b'step = "epoch"' in toyspec("check", "--step-key", "epoch", str(path)).stdout
    assert b'metrics-jsonl dialect, step = "iter"' in toyspec("show", str(path)).stdout
    assert b"step 20" in toyspec("tail", "--once", str(path)).stdout
    assert 1 == toyspec("check", "--dialect", "none", str(path)).returncode
    wrong = toyspec("check", "--dialect", "hf-trainr", str(path))
    assert (2, True) == (wrong.returncode, b"did you mean 'hf-trainer'?" in wrong.stderr)
    report = json.loads(toyspec("check", "--format", "json", str(path)).stdout)
    assert {
        "name": "metrics-jsonl",
        "choice": "guessed",
        "step": "iter",
        "time": None,
        "epoch": "epoch",
        "phase": None,
    } == (report["files"][0]["dialect"])
    listed = json.loads(toyspec("ls", "--json", "--sort", "best.loss", "--columns", "loss", str(path)).stdout)
    assert {"loss": 2.0, "best.loss": 2.0} == listed[0]["columns"]


def test_each_step_that_goes_back_is_counted(tmp_path: Path) -> None:
    """As many as a rule lists are listed; where steps start again, three lines are named and the others counted."""
    path = tmp_path / "log.jsonl"
    back = [value for step in range(10, 310) for value in (step, step - 1)]
    path.write_text("".join(f'{{"step":{step},"loss":2.5}}\n' for step in back))
    found = json.loads(toyspec("check", "--format", "json", str(path)).stdout)["files"][0]
    listed = [each for each in found["findings"] if each["rule"] == "step-goes-backwards"]
    assert 300 == len(listed) + found["suppressed"]["step-goes-backwards"]
    path.write_text("".join(f'{{"step":{step},"loss":2.5}}\n' for _ in range(50) for step in (1, 2, 3)))
    assert b"start again at lines 4, 7, 10 and 46 more: several trainings?" in toyspec("check", str(path)).stdout


@pytest.mark.parametrize(
    ("header", "form"), [("", "step {} loss: {}\n"), ("", '{{"step":{},"loss":{}}}\n'), ("step,loss\n", "{},{}\n")]
)
def test_each_training_of_a_file_is_an_attempt(tmp_path: Path, header: str, form: str) -> None:
    """Views show the last one, and the others apart, as they do with what a resumption supersedes."""
    path, steps = tmp_path / "train.log", range(1, 301)
    path.write_text(header + "".join(form.format(step, fit + step / 1000) for fit in range(3) for step in steps))
    assert [2 + step / 1000 for step in steps] == history(path)["loss"]
    assert [fit for fit in (1, 2, 3) for _ in steps] == history(path, attempts="all")["attempt"]
    assert b"attempts  3; the last is shown" in toyspec("show", str(path)).stdout
    file = ScannedRun(str(path))
    file.read()
    lasts = [curve["loss"].buckets().columns["last"][-1] for curve in (file.scan.latest, *file.scan.abandoned)]
    assert [2.3, 0.3, 1.3] == lasts
    file.close()
