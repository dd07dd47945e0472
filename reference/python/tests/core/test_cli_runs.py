"""What `show`, `ls` and `compare` say about runs; their output as a whole is in transcripts/."""

from __future__ import annotations

import io
import json
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import toyspec
from fixed_runs import fixed_runs
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.figures import duration, figure, when
from toyspec.core.command_line.main import main
from toyspec.core.command_line.tables import csv_row
from toyspec.core.runs import summary as ends
from toyspec.core.runs.curves import Curve, sparkline
from toyspec.core.runs.run import list_runs
from toyspec.core.runs.summary import summarize_run

RUNS = fixed_runs("runs")
HOSTILE = '\x1b[2J\u009b31m\u202e\u2028\n::error::x ##[command]y\x7f"'


def write_run(directory: Path, *events: dict[str, Any], tail: bytes = b"") -> Path:
    """Write *events* after a run_start, and *tail* after them; return the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    start = {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": directory.name}
    lines = b"".join(json.dumps(event, ensure_ascii=False).encode() + b"\n" for event in (start, *events))
    (directory / "events.jsonl").write_bytes(lines + tail)
    return directory


def steps(*losses: float | None, first: int = 1, **more: Any) -> list[dict[str, Any]]:
    """Return a step event for each loss."""
    return [{"kind": "step", "t": 1.0, "step": step, "loss": loss, **more} for step, loss in enumerate(losses, first)]


def end(**members: Any) -> dict[str, Any]:
    """Return a run_end event."""
    return {"kind": "run_end", "t": 9.0, "reason": "completed", **members}


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    """Return what `toyspec ls --json` prints."""
    main(["ls", "--json", *arguments])
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_show_of_many_runs_leads_to_ls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A directory of runs where one run is expected gives an error that names the command that lists them."""
    assert exit_codes.USAGE == main(["show", str(tmp_path)])
    shown = capsys.readouterr().err
    assert "; `toyspec doctor` names what is in it\n" in shown
    assert f"`toyspec ls {tmp_path}` lists the runs below it\n" in shown
    assert exit_codes.USAGE == main(["show", str(tmp_path / "nothing")])
    assert "toyspec ls" not in capsys.readouterr().err


def test_ls_lists_a_run_with_two_streams_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run that has events as well as metrics is one run; a metrics log alone is one too."""
    entry = b'{"step":1,"wall_time_ms":1.0,"loss":2.5,"grad_norm":1.0,"throughput_samples_per_sec":1.0,"extra":{}}\n'
    for name in ("a/events.jsonl", "a/metrics.jsonl", "b/metrics.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(entry)
    expected = [str(tmp_path / "a/events.jsonl"), str(tmp_path / "b/metrics.jsonl")]
    assert expected == [run["stream"] for run in listed(capsys, str(tmp_path))]
    assert expected == [run["stream"] for run in listed(capsys, "--full", str(tmp_path))]


def test_ls_orders_as_the_library_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The order of `ls`, and each final loss, are those of list_runs."""
    write_run(tmp_path / "a", *steps(3.0, 2.0), end(final_loss=1.5))
    write_run(tmp_path / "b", *steps(3.0, 1.0))
    write_run(tmp_path / "c", *steps(3.0, None))
    write_run(tmp_path / "d", *steps(0.5), end(final_loss=None))
    write_run(tmp_path / "e")
    write_run(tmp_path / "f", *steps(0.1, 0.2), {"kind": "run_resume", "t": 1.0, "from_step": 0}, *steps(1.2))
    write_run(tmp_path / "g", *steps(1.1, phase="eval"))
    expected = [(run.facts.run, run.facts.final_loss) for run in list_runs(tmp_path)]
    found = [(Path(each["path"]).name, each["final_loss"]) for each in listed(capsys, str(tmp_path))]
    assert expected == found
    assert ["b", "f", "a", "c", "d", "e", "g"] == [name for name, _ in found]


def test_ls_goes_on_behind_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A damaged run is listed by what can be read of it, with its state."""
    write_run(tmp_path / "bad", *steps(3.0), tail=b"x\n")
    write_run(tmp_path / "good", *steps(4.0), end())
    states = [(each["state"], each["final_loss"]) for each in listed(capsys, str(tmp_path))]
    assert [("damaged", 3.0), ("complete", 4.0)] == states


def test_ls_says_what_it_did_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose middle was not read is marked as such in JSON, and on a terminal below the table."""
    monkeypatch.setattr(ends, "WHOLE_BYTES", 0)
    path = write_run(tmp_path / "long", *steps(*[2.5] * 5000), end()) / "events.jsonl"
    assert ["ends"] == [each["read"] for each in listed(capsys, str(tmp_path))]
    assert ["whole"] == [each["read"] for each in listed(capsys, "--full", str(tmp_path))]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    data = path.read_bytes()
    path.write_bytes(data[:100_000] + b"\n" + data[100_000:])
    main(["ls", str(tmp_path)])
    told = capsys.readouterr().out
    assert "complete?" in told
    assert "--full" in told
    main(["ls", "--full", str(tmp_path)])
    told = capsys.readouterr().out
    assert "damaged" in told
    assert "--full" not in told


def test_show_names_a_command_that_works_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A shell takes a path with spaces as one word."""
    run = write_run(tmp_path / "a b" / "r", *steps(2.0))
    main(["show", str(run)])
    said = " ".join(capsys.readouterr().out.split())
    command = said[said.index("see `toyspec check") :].partition("`")[2].partition("`")[0]
    assert ["toyspec", "check", str(run)] == shlex.split(command)


def test_show_fits_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path that is too long for the first line has a line of its own on a terminal; other programs get one line."""
    run = write_run(tmp_path / ("long-" * 8), *steps(2.5), end())
    main(["show", str(run)])
    assert str(run / "events.jsonl") in capsys.readouterr().out.splitlines()[0]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    main(["show", "--color", "never", str(run)])
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert f"{'long-' * 8}  complete  toy/v1" == first
    assert second.endswith("long-/events.jsonl")
    assert len(second) <= 60


def test_a_run_that_a_writer_holds_is_running(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The lock of the writer tells a live run from one that was killed."""
    with toyspec.start_run(tmp_path, run_id="live") as run:
        run.step(loss=1.0)
        assert ["running"] == [each["state"] for each in listed(capsys, str(tmp_path))]
        main(["show", str(tmp_path / "live")])
        assert "running" in capsys.readouterr().out
    assert ["complete"] == [each["state"] for each in listed(capsys, str(tmp_path))]


def test_show_reads_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream may come from a pipe; as JSON its path is a hyphen."""
    data = (RUNS / "llama-001/events.jsonl").read_bytes()
    for options in ([], ["--json"]):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
        assert exit_codes.OK == main(["show", *options, "-"])
    text, _, shown = capsys.readouterr().out.partition("\n{")
    assert text.startswith("standard input  complete")
    found = json.loads("{" + shown)
    assert ["-"] * 3 == [found[name] for name in ("run", "path", "stream")]


def test_ls_lists_a_stream_once(capsys: pytest.CaptureFixture[str]) -> None:
    """A run that is named twice, or once more below another root, is listed once."""
    assert 6 == len(listed(capsys, str(RUNS), str(RUNS / "llama-001"), str(RUNS)))


def test_ls_without_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A directory without runs is not an error; as JSON it is an empty array."""
    assert main(["ls", str(tmp_path)]) == exit_codes.OK
    assert f"no runs below {tmp_path}; `toyspec doctor` names what else is there\n" in capsys.readouterr().err
    assert [] == listed(capsys, str(tmp_path))
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("not,a\nlog,at\nall,.\n")
    assert main(["ls", str(tmp_path)]) == exit_codes.OK
    assert "2 other files are not recognized as logs" in capsys.readouterr().err


def test_show_reads_the_latest_attempt(tmp_path: Path) -> None:
    """Steps that a resumption superseded are in no curve."""
    resume = {"kind": "run_resume", "t": 1.0, "from_step": 1}
    write_run(tmp_path / "a", *steps(3.0, 0.1, 0.2), resume, *steps(2.5, first=2), end())
    summary = summarize_run(str(tmp_path / "a"))
    assert summary.loss is not None
    assert ((1, 3.0), (2, 2.5), (2, 2.5)) == (summary.loss.first, summary.loss.last, summary.loss.lowest)
    assert [3.0, 2.5] == summary.loss.means()


def test_show_names_both_losses_where_run_end_has_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """final_loss is that of the last step record; of steps repeated without a resumption the metric has more values."""
    with toyspec.start_run(tmp_path, run_id="a", git=None) as run:
        for step, loss in [(1, 3.0), (2, 1.0), (1, 5.0), (2, 4.0)]:
            run.step(step, loss=loss)
    with toyspec.start_run(tmp_path, run_id="b", git=None) as run:
        for step, loss in [(1, 3.0), (2, 1.0)]:
            run.step(step, loss=loss)
    shown = []
    for name in ("a", "b"):
        main(["show", str(tmp_path / name)])
        shown.append(capsys.readouterr().out)
    assert "1 to 2, 4 values of the loss" in shown[0]
    assert "first 3, last 4, lowest 1 at step 2, run_end says final_loss 1\n" in shown[0]
    assert "1 to 2, 2 with a loss" in shown[1]
    assert "run_end says" not in shown[1]


def test_show_counts_every_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Findings are counted by rule, those beyond the limit of a list too."""
    write_run(tmp_path / "a", *({"kind": "note", "t": 1.0} for _ in range(130)), end())
    main(["show", str(tmp_path / "a")])
    assert "130 missing-key" in capsys.readouterr().out


def test_show_tells_a_whole_record_from_half_a_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A fragment that lacks nothing but its LF is called so, and its values are in no figure."""
    write_run(tmp_path / "a", *steps(3.0), tail=b'{"kind":"step","t":2.0,"step":2,"loss":1.0}')
    main(["show", str(tmp_path / "a")])
    shown = " ".join(capsys.readouterr().out.split())
    assert "43 bytes without LF at the end: a whole record" in shown
    assert "1 to 1, 1 with a loss" in shown


@pytest.mark.parametrize("command", [["show"], ["ls"], ["compare"], ["tail", "--once"], ["ls", "--json"]])
def test_hostile_run_is_inert(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing in a log or a name reaches the output as a control or deceptive character."""
    directory = tmp_path / HOSTILE.replace("/", "")
    write_run(directory, {"kind": "eval", "t": 1.0, "name": HOSTILE, HOSTILE: 1}, end(reason=HOSTILE, error=HOSTILE))
    start = {
        "kind": "run_start",
        "schema": HOSTILE,
        "t": 0,
        "run_id": HOSTILE,
        "started_at": HOSTILE,
        "config": {HOSTILE: HOSTILE},
    }
    content = json.dumps(start, ensure_ascii=False).encode() + b"\n" + (directory / "events.jsonl").read_bytes()
    (directory / "events.jsonl").write_bytes(content + b'{"\xff\n')
    paths = [str(directory)] * (2 if command[0] == "compare" else 1)
    assert main([*command, *paths]) == exit_codes.OK
    shown = capsys.readouterr()
    assert shown.out
    for text in shown:
        assert [] == [letter for letter in text if letter != "\n" and not letter.isprintable()]
        assert [] == [line for line in text.splitlines() if line.lstrip().startswith("::")]
        if "--json" not in command:
            assert "##[" not in text


def test_compare_shows_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A setting that two runs share is not shown; 1 and 1.0 and true are different."""
    for name, value in (("a", 1), ("b", 1.0), ("c", True)):
        directory = tmp_path / name
        directory.mkdir()
        start = {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": name, "config": {"x": value, "y": 5}}
        (directory / "events.jsonl").write_text(json.dumps(start) + "\n")
    for pair in ("ab", "bc", "ac"):
        main(["compare", *(str(tmp_path / name) for name in pair)])
        shown = capsys.readouterr().out
        assert "config.x" in shown
        assert "config.y" not in shown


@pytest.mark.parametrize(
    ("cells", "row"),
    [
        ([1, 2.5, True, None, "a"], "1,2.5,true,,a"),
        (["=1+1", "+1", "-1", "@x", "\tx", "\rx"], "'=1+1,'+1,'-1,'@x,'\\x09x,'\\x0dx"),
        ([-1, -2.5e-9], "-1,-2.5e-09"),
        (["a,b", 'say "x"', "two\nlines"], '"a,b","say ""x""",two\\x0alines'),
        (["=cmd|' /C calc'!A0"], "'=cmd|' /C calc'!A0"),
        (["\u202e=1"], "\\u202e=1"),
    ],
)
def test_csv_is_data(cells: list[Any], row: str) -> None:
    """Text that a spreadsheet would take for a formula is text; numbers stay numbers."""
    assert row == csv_row(cells)


@pytest.mark.parametrize(("count", "parts"), [(1, 1), (7, 7), (8, 4), (9, 5), (1000, 8)])
def test_curve_is_bounded(count: int, parts: int) -> None:
    """A curve keeps few means however long the series is, and each is the mean of its part."""
    curve = Curve(parts=4)
    for step in range(count):
        curve.add(step, float(step))
    means = curve.means()
    assert parts == len(means)
    fewer = curve.means(3)
    assert fewer == means if parts <= 3 else len(fewer) in (2, 3)
    assert fewer == sorted(fewer, key=lambda mean: mean or 0.0)
    assert means == sorted(means, key=lambda mean: mean or 0.0)
    assert ((0, 0.0), (count - 1, float(count - 1))) == (curve.lowest, curve.highest)


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([], ""),
        ([None, None], ""),
        ([1.0], "▁"),
        ([1.0, 1.0], "▁▁"),
        ([0.0, None, 7.0], "▁\N{MULTIPLICATION SIGN}█"),
        ([-1.7e308, 1.7e308], "▁█"),
        ([float(value) for value in range(8)], "▁▂▃▄▅▆▇█"),
    ],
)
def test_sparkline(values: list[float | None], line: str) -> None:
    """A sparkline has one sign for each value, and survives nulls and the largest numbers."""
    assert line == sparkline(values, "unicode")
    assert sparkline(values, "ascii").isascii()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.0 s"),
        (59.94, "59.9 s"),
        (60.0, "1 min 00 s"),
        (7500.0, "2 h 05 min"),
        (90000.0, "1 d 01 h"),
        (-3.0, "-3 s"),
        (1e300, "1e+300 s"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    """A time span is shown in the units that fit it."""
    assert text == duration(seconds)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2026-05-31T09:30:00Z", "2026-05-31 09:30"),
        ("2026-05-31T09:30:00.123+02:00", "2026-05-31 09:30 +02:00"),
        ("yesterday\n", "yesterday\\x0a"),
    ],
)
def test_when(text: str, shown: str) -> None:
    """A time is shown to the minute, and anything but a time is shown as it is written, escaped."""
    assert shown == when(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (1, "1"),
        (0.1 + 0.2, "0.3"),
        ([0.9, 0.95], "[0.9, 0.95]"),
        ([], "[]"),
        ({}, "{}"),
    ],
)
def test_figure(value: Any, text: str) -> None:
    """A value of a log is shown in a few characters."""
    assert text == figure(value)
