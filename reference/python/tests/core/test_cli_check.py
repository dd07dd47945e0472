from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

from command_line import toyspec_within as toyspec
from fixed_runs import fixed_runs
from toyspec.core.checker import check, check_bytes
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.main import main
from toyspec.core.commands.report_formats import FormatOptions, open_format

RUNS = fixed_runs("runs")
RUN_START = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"demo"}\n'
RUN_END = b'{"kind":"run_end","t":9.0,"reason":"completed"}\n'
WARNING = b'{"kind":"step","t":1.0,"step":1}\n{"kind":"step","t":2.0,"step":3}\n'
INFO = b'{"kind":"news","t":1.0}\n'
ERROR = b'{"kind":"step","t":1.0}\n'


@pytest.mark.parametrize(
    ("content", "codes"),
    [
        (b"", (0, 0, 0)),
        (INFO, (0, 0, 1)),
        (WARNING, (0, 1, 1)),
        (ERROR, (1, 1, 1)),
    ],
    ids=["clean", "info", "warning", "error"],
)
def test_fail_on(content: bytes, codes: tuple[int, int, int], tmp_path: Path) -> None:
    """The exit status is 1 exactly when a finding is at or above --fail-on; the default is error."""
    (tmp_path / "log.jsonl").write_bytes(RUN_START + content + RUN_END)
    path = str(tmp_path / "log.jsonl")
    found = tuple(main(["check", "--fail-on", severity, path]) for severity in ("error", "warning", "info"))
    assert codes == found
    assert codes[0] == main(["check", path])


def test_fail_on_counts_what_is_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An info that text does not show still counts for --fail-on info."""
    (tmp_path / "log.jsonl").write_bytes(RUN_START + INFO + RUN_END)
    assert main(["check", "--fail-on", "info", str(tmp_path / "log.jsonl")]) == exit_codes.FINDINGS
    assert "unknown-kind" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "code"),
    [(RUN_START + RUN_END, 0), (RUN_START, 1), (RUN_START + b"x", 1), (RUN_START + b"x\n" + RUN_END, 1), (b"", 1)],
    ids=["complete", "no-end", "fragment", "damaged", "empty"],
)
def test_require_complete(content: bytes, code: int, tmp_path: Path) -> None:
    """--require-complete asks for the state, whichever findings are left."""
    (tmp_path / "log.jsonl").write_bytes(content)
    path = str(tmp_path / "log.jsonl")
    assert code == main(["check", "--require-complete", "--select", "bad-format", path])
    assert main(["check", "--select", "bad-format", path]) == exit_codes.OK


CHAT = b'{"type":"user","message":"hi"}\n'
CHAT_LOOK = "the first record is not of a known format: keys type, message"


def folder(root: Path, **streams: bytes) -> Path:
    """Return *root* with a directory for each of *streams*."""
    for name, data in streams.items():
        (root / name).mkdir()
        (root / name / "events.jsonl").write_bytes(data)
    return root


@pytest.mark.parametrize("workers", ["1", "2"])
def test_walk_skips_what_is_not_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str], workers: str) -> None:
    """Below a directory, a file of another format is counted, and named where infos are shown; it fails nothing."""
    root = folder(tmp_path, chat=CHAT * 400, demo=RUN_START + RUN_END)
    assert main(["check", "--workers", workers, "--require-complete", str(root)]) == exit_codes.OK
    assert "1 run: complete · no findings · 1 file of another format skipped (see -v)\n" == capsys.readouterr().out
    assert main(["check", "-v", str(root)]) == exit_codes.OK
    assert f"{root}/chat/events.jsonl: skipped  {CHAT_LOOK}\n" in capsys.readouterr().out
    assert main(["check", "--format", "json", str(root)]) == exit_codes.OK
    report = json.loads(capsys.readouterr().out)
    assert [{"path": f"{root}/chat/events.jsonl", "message": CHAT_LOOK}] == report["skipped"]
    assert 1 == report["summary"]["files"]
    assert main(["check", "--format", "github", "-v", str(root)]) == exit_codes.OK
    assert f"::notice file={root}/chat/events.jsonl,title=skipped::{CHAT_LOOK}\n" in capsys.readouterr().out


@pytest.mark.parametrize("streams", [{}, {"chat": CHAT}])
def test_walk_that_finds_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str], streams: dict[str, bytes]) -> None:
    """A directory without a run gives 2 and one sentence, also beside a run; what is not a run does not count."""
    (tmp_path / "run.jsonl").write_bytes(RUN_START + RUN_END)
    root = tmp_path / "runs"
    root.mkdir()
    folder(root, **streams)
    assert main(["check", str(root), str(tmp_path / "run.jsonl")]) == exit_codes.USAGE
    shown = capsys.readouterr().out
    assert f"{root}: no run in this directory or below it; " in shown or f"{root}: no events.jsonl" in shown
    assert ("skipped 1 file of another format" in shown) == bool(streams)


def test_directory_with_a_log_that_nothing_recognizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What it has is counted, and `toyspec doctor` says more; a key that is named makes one of the files a run."""
    (tmp_path / "losses.csv").write_bytes(b"a,b\n1,2.5\n2,2.25\n")
    (tmp_path / "notes.txt").write_bytes(b"nothing to see\n")
    assert main(["check", str(tmp_path)]) == exit_codes.USAGE
    first, last = capsys.readouterr().out.splitlines()
    assert first.endswith("below it; `toyspec doctor` names what is there")
    assert "2 files of another format skipped (see -v)" in last
    assert main(["check", "--step-key", "a", str(tmp_path)]) == exit_codes.OK
    assert main(["check", "--step-key", "NOPE", str(tmp_path / "losses.csv")]) == exit_codes.USAGE
    assert "no record has the key NOPE; the records have: a, b" in capsys.readouterr().out


@pytest.mark.parametrize("options", [(), ("--require-complete",), ("--format", "json"), ("--workers", "2")])
def test_named_file_of_another_format_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    """What is named, or is in the directory that is named, has to be a run: one error, status 1."""
    root = folder(tmp_path, chat=CHAT) / "chat"
    for path in (root, root / "events.jsonl"):
        assert main(["check", *options, str(path)]) == exit_codes.FINDINGS
        assert 1 == capsys.readouterr().out.count(CHAT_LOOK)
    assert main(["check", "-q", "--profile", "kaun/v1", str(root)]) == exit_codes.OK


def test_bundle_without_stream(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run without its stream is an error of the bundle, with no line number."""
    (tmp_path / "run.json").write_bytes(b"{}")
    assert main(["check", str(tmp_path)]) == exit_codes.FINDINGS
    first, *_, last = capsys.readouterr().out.splitlines()
    assert f"{tmp_path}: stream-missing  no events.jsonl or metrics.jsonl in this directory or below it" == first
    assert last == "1 run: without a stream · 1 error"


def test_run_with_two_streams_is_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The streams of a run are one run, which is as well as the worse of them; others count alone."""
    for name, content in (("a/events.jsonl", RUN_START + RUN_END), ("a/metrics.jsonl", b"{"), ("b/metrics.jsonl", b"")):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    main(["check", "--ignore", "run-id-mismatch", str(tmp_path)])
    assert "\n2 runs: 2 torn · 2 warnings\n" in capsys.readouterr().out
    main(["check", "--ignore", "run-id-mismatch", str(tmp_path / "a/events.jsonl"), str(tmp_path / "b")])
    assert "\n2 runs: 1 complete, 1 torn · 1 warning\n" in capsys.readouterr().out


@pytest.mark.parametrize("workers", ["2", "0"])
def test_workers(workers: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The output does not depend on how many processes check."""
    assert main(["check", "-v", str(RUNS)]) == exit_codes.FINDINGS
    alone = capsys.readouterr().out
    assert main(["check", "-v", "--workers", workers, str(RUNS)]) == exit_codes.FINDINGS
    assert alone == capsys.readouterr().out


def test_text_tells_what_the_library_finds(capsys: pytest.CaptureFixture[str]) -> None:
    """Every finding of the library is one line of text with path, line, rule and message, in order."""
    main(["check", "-v", "-q", str(RUNS)])
    expected = [
        f"{file.path}:{finding.line}: {finding.rule}  {finding.message}"
        for file in check(RUNS).files
        for finding in file.findings
    ]
    assert expected
    assert expected == capsys.readouterr().out.splitlines()


def test_many_findings_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beyond 100 findings of a rule only their number is reported, and the summary has them all."""
    (tmp_path / "log.jsonl").write_bytes(RUN_START + ERROR * 130 + RUN_END)
    main(["check", "--format", "text", str(tmp_path / "log.jsonl")])
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if ": missing-key  " in line]) == 101
    assert f"{tmp_path}/log.jsonl: missing-key  30 more findings, counted but not listed" in lines
    assert lines[-1] == "1 run: complete · 130 errors"


def test_help_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What to do about a rule is under its first finding only."""
    (tmp_path / "log.jsonl").write_bytes(RUN_START + ERROR * 3 + RUN_END)
    main(["check", str(tmp_path / "log.jsonl")])
    shown = capsys.readouterr().out
    assert shown.count(": missing-key  ") == 3
    assert shown.count("    help: ") == 1


HOSTILE = '\x1b[2J\x1b]52;c;eA==\x07\u009b31m\u202e\u2028\r::error::x ##[command]y <b>&\t\x7f=1+1"'


@pytest.mark.parametrize("style", ["text", "json", "github"])
def test_hostile_log_is_inert(style: str, tmp_path: Path) -> None:
    """Keys, values, kinds, run ids and file names of a log reach no output as control or deceptive characters."""
    directory = tmp_path / "\x1b[31m\n::error::\u202ex"
    directory.mkdir()
    start = {"kind": "run_start", "schema": HOSTILE, "t": 0.0, "run_id": HOSTILE, "model": {"arch": 1, HOSTILE: 2}}
    lines = [start, {"kind": HOSTILE, "t": 1.0}, {"kind": "step", "t": HOSTILE, "step": 1, HOSTILE: [HOSTILE]}]
    content = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    raw = HOSTILE.encode() + b"\xff\xfe\n" + HOSTILE.encode()
    (directory / "events.jsonl").write_bytes(content.encode() + raw)
    done = toyspec("check", "-v", "--format", style, ".", cwd=tmp_path)
    assert done.returncode == exit_codes.FINDINGS
    assert b"" == done.stderr
    shown = done.stdout.decode()
    assert [] == [letter for letter in shown if letter != "\n" and not letter.isprintable()]
    if style == "text":
        assert [] == [line for line in shown.splitlines() if line.lstrip().startswith("::")]
        assert "##[" not in shown


@pytest.mark.skipif(os.name == "nt", reason="names of POSIX")
@pytest.mark.parametrize("style", ["text", "json", "github"])
def test_name_that_is_not_text(style: str, tmp_path: Path) -> None:
    """A directory whose name is not UTF-8 is checked and shown in every format."""
    directory = os.fsencode(tmp_path) + b"/\xff\x80"
    os.mkdir(directory)
    with open(directory + b"/events.jsonl", "wb") as file:
        file.write(RUN_START + b"x\n")
    done = toyspec("check", "--format", style, directory)
    assert (exit_codes.FINDINGS, b"") == (done.returncode, done.stderr)
    assert b"invalid-json" in done.stdout


class _Screen(io.StringIO):
    """A terminal that keeps what it shows."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def excerpt(line: bytes) -> tuple[list[str], str]:
    """Return the excerpt of the only finding on *line*, one item a column, and the line with its caret."""
    screen = _Screen()
    output = open_format("text", screen, FormatOptions(color="never"))
    for finding in check_bytes(RUN_START + line + b"\n" + RUN_END).findings:
        output.finding("log.jsonl", finding)
    lines = screen.getvalue().splitlines()
    at = next(index for index, text in enumerate(lines) if text.startswith("    2 | "))
    shown, caret = lines[at], lines[at + 1]
    columns: list[str] = []
    for letter in shown:
        columns += {"\u0301": [], "漢": [letter, ""]}.get(letter, [letter])
    return columns, caret


@pytest.mark.parametrize("columns", [40, 80, 120])
@pytest.mark.parametrize("after", ["", "b", "漢" * 200])
@pytest.mark.parametrize("before", ["", "a", "漢漢", "e\u0301", "\u200b", "x" * 55, "漢" * 40, "é" * 500, "x" * 10_000])
def test_caret_is_under_its_byte(before: str, after: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is cut, wide or escaped, the caret is in the column in which its byte is shown."""
    monkeypatch.setenv("COLUMNS", str(columns))
    line = f'{{"kind":"note","t":1.0,"text":"{before}","extra":NaN,"a":"{after}"}}'.encode()
    shown, caret = excerpt(line)
    column = caret.index("^")
    assert "NaN" == "".join(shown[column : column + 3])
    assert caret[column:] == f"^ byte {line.index(b'NaN')}"
    assert len(shown) <= columns


@pytest.mark.parametrize("cut", range(4))
def test_excerpt_ends_with_a_whole_character(cut: int) -> None:
    """A character that the excerpt cuts in two is left out, not shown as escapes."""
    line = f'{{"kind":"note","t":1.0,"x":NaN,"text":"{"x" * cut}{"𝄞" * 60}"}}'.encode()
    shown, _ = excerpt(line)
    assert "\\" not in shown
    assert shown[-1] == "…"
