"""``toyspec seal`` seals complete runs, names those that it cannot seal, and changes no seal unasked."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from command_line import toyspec_within as toyspec
from sealed_runs import write_run
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.main import main
from toyspec.core.command_line.progress import Progress
from toyspec.core.writing.append_file import AppendFile
from toyspec.core.writing.sealing import seal


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a directory with one complete run, as the current directory."""
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "runs" / "a")
    return tmp_path / "runs"


def test_seals_each_run_once(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first call seals, the next one finds the seal intact, and check agrees with both."""
    assert exit_codes.OK == main(["seal", "runs", "runs/a/events.jsonl"])
    assert re.fullmatch(r"runs/a/SHA256SUMS: 3 files, \d+ B\n", capsys.readouterr().out)
    before = (runs / "a" / "SHA256SUMS").read_bytes()
    assert exit_codes.OK == main(["seal", "runs"])
    assert "runs/a/SHA256SUMS: sealed before, unchanged\n" == capsys.readouterr().out
    assert before == (runs / "a" / "SHA256SUMS").read_bytes()
    assert exit_codes.OK == main(["check", "runs"])


def test_ls_and_show_name_the_seal(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both name a run that is sealed, and show whether the seal holds, which only reading all files can tell."""
    write_run(runs / "b")
    main(["seal", "runs/a"])
    capsys.readouterr()
    assert exit_codes.OK == main(["ls", "runs"])
    assert {"a": True, "b": False} == {line[0]: ", sealed" in line for line in capsys.readouterr().out.splitlines()[1:]}
    assert exit_codes.OK == main(["ls", "--where", "sealed=true", "--json", "runs"])
    assert [("runs/a/events.jsonl", True)] == [
        (run["stream"], run["sealed"]) for run in json.loads(capsys.readouterr().out)
    ]
    for directory, line in (("runs/a", "seal      intact"), ("runs/b", "")):
        assert shown_seal(directory, capsys) == line
    (runs / "a" / "flow.json").write_text("{ }")
    assert shown_seal("runs/a", capsys) == "seal      broken"


def shown_seal(directory: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the line on the seal of *directory* in `toyspec show`."""
    assert exit_codes.OK == main(["show", directory])
    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if line.strip().startswith("seal  ")]
    return "".join(lines)


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ("add", "the seal lacks 1 file, for example notes; --again adds what is new"),
        ("edit", "the run changed since it was sealed"),
    ],
)
def test_seal_that_no_longer_holds_is_replaced_on_request(
    runs: Path, change: str, fact: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that changed since is refused; --again seals its present content, and keeps the earlier seal."""
    main(["seal", "runs"])
    (runs / "a" / ("notes" if change == "add" else "flow.json")).write_text("{ }")
    before = (runs / "a" / "SHA256SUMS").read_bytes()
    assert exit_codes.FINDINGS == main(["seal", "runs"])
    assert f"toyspec seal: runs/a/events.jsonl: {fact}" in capsys.readouterr().err
    assert exit_codes.OK == main(["seal", "--again", "runs"])
    assert "    the earlier seal is now runs/a/SHA256SUMS.prev\n" in capsys.readouterr().out
    assert before == (runs / "a" / "SHA256SUMS.prev").read_bytes()
    assert exit_codes.OK == main(["seal", "runs"]) == main(["check", "runs"])


def test_runs_that_cannot_be_sealed_are_named(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A live, a torn and a damaged run are refused with the reason; the others are sealed."""
    whole = (runs / "a" / "events.jsonl").read_bytes()
    for name, data in (("damaged", whole[9:]), ("live", whole), ("torn", whole[:-1])):
        (runs / name).mkdir()
        (runs / name / "events.jsonl").write_bytes(data)
    writer = AppendFile.reopen(str(runs / "live" / "events.jsonl"))
    assert exit_codes.FINDINGS == main(["seal", "runs"])
    writer.close()
    shown = capsys.readouterr()
    assert shown.out.endswith("4 runs: 1 sealed, 3 not sealed\n")
    facts = [line.removeprefix("toyspec seal: runs/") for line in shown.err.splitlines()]
    assert [fact.split(":")[0] for fact in facts] == [f"{name}/events.jsonl" for name in ("damaged", "live", "torn")]
    assert "damaged" in facts[0]
    assert "another writer has it open" in facts[1]
    assert "the run is not complete" in facts[2]
    assert ["a"] == [path.parent.name for path in runs.glob("*/SHA256SUMS")]


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        ([], "no run given"),
        (["-"], "standard input cannot be sealed"),
        (["nothing"], "nothing: No such file or directory"),
        (
            ["empty"],
            "empty: no events.jsonl or metrics.jsonl in this directory or below it; `toyspec doctor` names",
        ),
        (["--force", "runs"], "unexpected argument '--force'"),
    ],
)
def test_wrong_calls_are_explained(
    runs: Path, arguments: list[str], fact: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is not a run is named, with exit status 2."""
    (runs.parent / "empty").mkdir()
    assert exit_codes.USAGE == main(["seal", *arguments])
    assert fact in capsys.readouterr().err


def test_file_of_another_name_is_not_in_a_run(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A seal belongs to a run directory, so a stream under another name has none."""
    (runs / "a" / "events.jsonl").rename(runs / "log.jsonl")
    assert exit_codes.FINDINGS == main(["seal", "runs/log.jsonl"])
    assert "runs/log.jsonl: not in a run directory" in capsys.readouterr().err


def test_names_are_escaped(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name of a file never acts on the terminal."""
    main(["seal", "runs"])
    (runs / "a" / "\x1b[2J").write_bytes(b"")
    main(["seal", "runs"])
    assert "for example \\x1b[2J;" in capsys.readouterr().err


def test_read_only_directory_is_reported(runs: Path) -> None:
    """A seal that cannot be written is an error with its path, as text and not as a traceback."""
    (runs / "a" / "SHA256SUMS.new").mkdir()
    done = toyspec("seal", "runs/a")
    assert (exit_codes.USAGE, b"") == (done.returncode, done.stdout)
    assert done.stderr.startswith(b"toyspec seal: runs/a/SHA256SUMS.new: Is a directory")


def test_progress_is_shown_on_a_terminal(runs: Path) -> None:
    """Bytes done and bytes known are reported, up to the end."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    with (runs / "a" / "weights" / "big").open("wb") as file:
        file.truncate(4 << 20)
    screen = Terminal()
    ticks = iter(range(10_000))
    seal(runs / "a", on_progress=Progress("sealing", screen, clock=lambda: float(next(ticks))).update)
    assert re.search(r"sealing   *50 % of 4\.2 MB", screen.getvalue())
    assert "100 % of" in screen.getvalue()
