"""What `show`, `ls` and `compare` print on a terminal, of live and of hostile runs; the rest is in transcripts/."""

from __future__ import annotations

import json
import re
import sys
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import pytest

import toyspec
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.figures import duration, figure, metric_figure, share, size, when
from toyspec.core.command_line.main import main
from toyspec.core.command_line.tables import csv_row, width
from toyspec.core.runs import summary as ends
from toyspec.core.runs.curves import Curve, sparkline

HOSTILE = '\x1b[2J\x1b]52;c;eA==\x07\u009b31m\u202e\u2028\r\n::error::x ##[command]y <b>&\t\x7f=1+1"'


def write_run(directory: Path, *events: dict[str, Any], tail: bytes = b"", **start: Any) -> Path:
    """Write *events* after a run_start, and *tail* after them; return the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    first = {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": directory.name, **start}
    lines = b"".join(json.dumps(event, ensure_ascii=False).encode() + b"\n" for event in (first, *events))
    (directory / "events.jsonl").write_bytes(lines + tail)
    return directory


def steps(*losses: float | None) -> list[dict[str, Any]]:
    """Return a step event for each loss."""
    return [{"kind": "step", "t": 1.0, "step": step, "loss": loss} for step, loss in enumerate(losses, 1)]


def end(**members: Any) -> dict[str, Any]:
    """Return a run_end event."""
    return {"kind": "run_end", "t": 9.0, "reason": "completed", **members}


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Return what a command prints, which ends well."""
    assert exit_codes.OK == main(list(map(str, arguments)))
    return capsys.readouterr().out


def on_terminal(patch: pytest.MonkeyPatch, columns: int) -> None:
    """Let standard output be a terminal of this width without colours."""
    patch.setattr(sys.stdout, "isatty", lambda: True)
    patch.setenv("NO_COLOR", "1")
    patch.setenv("COLUMNS", str(columns))


def test_ls_says_what_it_did_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose middle was not read is marked as such on a terminal, below the table too."""
    on_terminal(monkeypatch, 80)
    monkeypatch.setattr(ends, "WHOLE_BYTES", 0)
    path = write_run(tmp_path / "long", *steps(*[2.5] * 5000), end()) / "events.jsonl"
    data = path.read_bytes()
    path.write_bytes(data[:100_000] + b"\n" + data[100_000:])
    for option, state in (("--hidden", "complete?"), ("--full", "damaged")):
        told = printed(capsys, "ls", option, tmp_path)
        assert state in told
        assert ("--full" in told) == (option == "--hidden")


def test_show_fits_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path that is too long for the first line has a line of its own on a terminal."""
    run = write_run(tmp_path / ("long-" * 8), *steps(2.5), end())
    on_terminal(monkeypatch, 60)
    first, second, *_ = printed(capsys, "show", run).splitlines()
    assert f"{'long-' * 8}  complete  toy/v1" == first
    assert second.endswith("long-/events.jsonl")
    assert len(second) <= 60


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_table_fits_the_terminal(
    columns: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line is wider than the terminal, no two runs look alike, and what was hidden is named."""
    for number in range(4):
        start: dict[str, Any] = {"config": {"lr": 0.1**number}, "started_at": f"2026-11-2{number}T10:00:00Z"}
        logged = {"kind": "scalars", "t": 2.0, "step": 2, "values": {"val/acc": 0.5}}
        write_run(tmp_path / f"llama-base-lr{number}-20261121-001", *steps(2.0 - number), logged, end(), **start)
    on_terminal(monkeypatch, columns)
    lines = printed(capsys, "ls", "--columns", "val/acc,lr,missing", "-n", "3", tmp_path).splitlines()
    assert all(width(line) <= columns for line in lines)
    assert 3 == len({line.split()[0] for line in lines[1:4]})
    assert "3 of 4 runs" in lines[4]
    assert (columns < 200) == ("hidden for lack of room: " in " ".join(lines))
    assert ("val/acc" in lines[0]) == (columns > 40)


@pytest.mark.parametrize("columns", [20, 50, 200])
def test_runs_that_do_not_fit_a_terminal_are_named(
    columns: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a comparison of any width a run has a column or is named as hidden, the last first."""
    runs = [f"run-of-a-sweep-{number}" for number in range(6)]
    for run in runs:
        write_run(tmp_path / run, config={"name": run})
    on_terminal(monkeypatch, columns)
    shown, _, note = printed(capsys, "compare", tmp_path).partition("hidden for")
    kept = shown.splitlines()[0].split()
    assert runs[: len(kept)] == kept
    hidden = ", ".join(runs[len(kept) :])
    note = " ".join(note.split())
    assert note.startswith(f"lack of room: {hidden}; a pipe gets every column") if hidden else not note


def test_every_finding_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of each rule a check lists 100 findings and counts the rest; show counts all."""
    run = write_run(tmp_path / "a", *({"kind": "note", "t": 1.0} for _ in range(130)), end())
    assert "130 missing-key" in printed(capsys, "show", run)
    assert exit_codes.FINDINGS == main(["check", str(run)])
    lines = capsys.readouterr().out.splitlines()
    assert 101 == len([line for line in lines if ": missing-key  " in line])
    assert f"{run}/events.jsonl: missing-key  30 more findings, counted but not listed" in lines
    assert "1 run: complete · 130 errors" == lines[-1]


def test_earlier_logs_of_a_run_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second start under a run id moves the log that is there; its values are in no curve of the run."""
    for loss in (3.0, 2.0, 1.0):
        with toyspec.start_run(tmp_path, run_id="a", git=None) as run:
            run.log(loss=loss)
    capsys.readouterr()
    for said, option in (("complete, 2 earlier logs", ()), ('"earlier_logs":2', ("--json",))):
        assert said in printed(capsys, "ls", tmp_path, *option)
    names = "events.jsonl.prev, events.jsonl.prev-1"
    assert f"2 earlier logs of this run: {names}" in printed(capsys, "show", tmp_path / "a")
    said = "1 run: complete · no findings · 2 earlier logs not checked"
    assert f"{said}: {names}\n" == printed(capsys, "check", tmp_path)


@pytest.mark.parametrize("kind", ["step", "log"])
@pytest.mark.parametrize(
    ("starts", "counts"),
    [
        (((1, 20), (21, 30)), (0, 0)),
        (((1, 20), (19, 30)), (0, 0)),
        (((1, 20), (18, 30)), (0, 3)),
        (((1, 40), (1, 12), (12, 13)), (0, 40, 0)),
    ],
)
def test_steps_that_a_later_start_supersedes_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, starts: Any, counts: Any
) -> None:
    """Where they are more than a tenth, the writer, `ls` and `show` say how many."""
    for (first, last), count in zip(starts, counts, strict=True):
        with toyspec.start_run(tmp_path, run_id="a", git=None, exist="resume") as run:
            for step in range(first, last + 1):
                run.step(step, loss=1.0) if kind == "step" else run.log({"loss": 1.0}, step=step)
        told = capsys.readouterr().err
        assert (f"after step {first - 1} and supersedes {count} of" in told) if count else told == ""
    for command, said in (("ls", f"{max(counts)} steps superseded"), ("show", f"supersedes {max(counts)} steps")):
        assert (said in printed(capsys, command, tmp_path / "a")) == any(counts)


@pytest.mark.parametrize(
    "command",
    [
        *("show", "ls", "compare", "tail --once", "ls --json"),
        *(f"check -v --format {style}" for style in ("text", "json", "github")),
    ],
)
def test_hostile_run_is_inert(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing in a log or a name reaches the output as a control or deceptive character, or as a command."""
    events: list[dict[str, Any]] = [
        {"kind": "eval", "t": 1.0, "name": HOSTILE, HOSTILE: 1},
        {"kind": HOSTILE, "t": 1.0},
        {"kind": "step", "t": HOSTILE, "step": 1, HOSTILE: [HOSTILE]},
        end(reason=HOSTILE, error=HOSTILE),
    ]
    start = {"run_id": HOSTILE, "started_at": HOSTILE, "config": {HOSTILE: HOSTILE}, "model": {"arch": 1, HOSTILE: 2}}
    raw = HOSTILE.encode() + b"\xff\xfe\n" + HOSTILE.encode()
    run = write_run(tmp_path / HOSTILE.replace("/", ""), *events, tail=raw, **start)
    words = command.split()
    code = main([*words, *[str(run)] * (2 if command == "compare" else 1)])
    assert (exit_codes.FINDINGS if words[0] == "check" else exit_codes.OK) == code
    shown = capsys.readouterr()
    assert shown.out
    for text in shown:
        assert [] == [letter for letter in text if letter != "\n" and not letter.isprintable()]
        lines = [line for line in text.splitlines() if line.lstrip().startswith("::")]
        own = r"::(error|warning|notice) file=[^\n]*::" if "github" in command else "(?!)"
        assert [] == [line for line in lines if not re.match(own, line)]
        assert "json" in command or "github" in command or "##[" not in text


@pytest.mark.parametrize(
    ("cells", "row"),
    [
        ([1, 2.5, True, None, "a", -1, -2.5e-9], "1,2.5,true,,a,-1,-2.5e-09"),
        (["=1+1", "+1", "-1", "@x", "\tx", "\rx"], "'=1+1,'+1,'-1,'@x,'\\x09x,'\\x0dx"),
        (["a,b", 'say "x"', "two\nlines", "\u202e=1"], '"a,b","say ""x""",two\\x0alines,\\u202e=1'),
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
    for found in (means, fewer):
        assert found == sorted(found, key=lambda mean: mean or 0.0)


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([None, None], ""),
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
    ("form", "value", "text"),
    [
        (duration, 59.94, "59.9 s"),
        (duration, 60.0, "1 min 00 s"),
        (duration, 7500.0, "2 h 05 min"),
        (duration, 90000.0, "1 d 01 h"),
        (duration, -3.0, "-3 s"),
        (duration, 1e300, "1e+300 s"),
        (when, "2026-05-31T09:30:00Z", "2026-05-31 09:30"),
        (when, "2026-05-31T09:30:00.123+02:00", "2026-05-31 09:30 +02:00"),
        (when, "2026-05-31T09:30:00+00:00", "2026-05-31 09:30"),
        (when, "yesterday\n", "yesterday\\x0a"),
        (share, 0.999, "99 %"),
        (figure, None, "null"),
        (figure, 0.1 + 0.2, "0.3"),
        (figure, {}, "{}"),
        (size, 999, "999 B"),
        (size, 1000, "1.0 kB"),
        (size, 12_345, "12.3 kB"),
        (size, 123_456, "123 kB"),
        (size, 10**16, "10000 TB"),
        (partial(metric_figure, "rss_bytes"), 1e9, "1.0 GB"),
        (partial(metric_figure, "rss_bytes"), inf, "inf"),
    ],
)
def test_figures(form: Any, value: Any, text: str) -> None:
    """Spans, times, values and sizes are shown in a few characters, and text that is none of them as it is written."""
    assert text == form(value)
