"""What `seal` and `repair` must not change, and what they ask; their answers are in transcripts/changes.txt."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from sealed_runs import write_run
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.main import main
from toyspec.core.writing.run_writer import RunWriter

COMMITTED = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"torn"}\n{"kind":"note","t":1.0,"text":"x"}\n'
FRAGMENT = b'{"kind":"step","\x1b[2J\xff\n'[:-1]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a directory with one complete run, as the current directory."""
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "runs" / "a")
    return tmp_path / "runs"


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("\x1b[2J", "the seal lacks 1 file, for example \\x1b[2J; --again adds what is new"),
        ("flow.json", "the run changed since it was sealed"),
    ],
)
def test_seal_that_no_longer_holds_is_replaced_on_request(
    runs: Path, name: str, fact: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that changed since is refused; --again seals its present content, and keeps the earlier seal."""
    main(["seal", "runs"])
    (runs / "a" / name).write_text("{ }")
    before = (runs / "a" / "SHA256SUMS").read_bytes()
    assert exit_codes.FINDINGS == main(["seal", "runs"])
    assert f"toyspec seal: runs/a/events.jsonl: {fact}" in capsys.readouterr().err
    if name == "flow.json":
        assert exit_codes.OK == main(["show", "runs/a"])
        assert "  seal      broken\n" in capsys.readouterr().out
    assert exit_codes.OK == main(["seal", "--again", "runs"])
    assert "    the earlier seal is now runs/a/SHA256SUMS.prev\n" in capsys.readouterr().out
    assert before == (runs / "a" / "SHA256SUMS.prev").read_bytes()
    assert exit_codes.OK == main(["seal", "runs"]) == main(["check", "runs"])


def test_seal_that_cannot_be_written_is_an_error(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is named, as text and not as a traceback."""
    (runs / "a" / "SHA256SUMS.new").mkdir()
    assert exit_codes.USAGE == main(["seal", "runs/a"])
    assert capsys.readouterr().err.startswith("toyspec seal: runs/a/SHA256SUMS.new: Is a directory")


@pytest.fixture
def torn(tmp_path: Path) -> Path:
    """Give a run whose stream ends in half a record."""
    path = tmp_path / "torn"
    path.mkdir()
    (path / "events.jsonl").write_bytes(COMMITTED + FRAGMENT)
    return path


class _Answers(io.StringIO):
    """A keyboard with prepared answers."""

    def isatty(self) -> bool:
        return True


def state(directory: Path) -> tuple[bytes, list[bytes]]:
    """Return the stream in *directory* and the fragments beside it."""
    stream = (directory / "events.jsonl").read_bytes()
    return stream, [path.read_bytes() for path in sorted(directory.glob("*.torn-*"))]


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("YES\n", 0), ("n\n", 1), ("\n", 1), ("", 1), (None, 2)])
def test_repair_asks_first(
    answer: str | None, code: int, torn: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is cut before a person says yes; anything else and the end of input mean no; a pipe is not asked."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n") if answer is None else _Answers(answer))
    assert code == main(["repair", str(torn)])
    shown = capsys.readouterr().out
    assert (answer is not None) == ("[y/N]" in shown)
    assert answer is None or 'after the last of 2 records: {"kind":"step","\\x1b[2J\\xff\n' in shown
    assert state(torn) == ((COMMITTED, [FRAGMENT]) if code == 0 else (COMMITTED + FRAGMENT, []))


def test_repair_leaves_a_live_writer_and_a_damaged_stream_alone(torn: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither is touched, the status is 1, and the other streams are repaired all the same."""
    for name in ("damaged", "live"):
        (torn.parent / name).mkdir()
    damaged = b"x\n" + COMMITTED + FRAGMENT
    (torn.parent / "damaged" / "events.jsonl").write_bytes(damaged)
    with RunWriter(torn.parent / "live") as writer:
        writer.run_start()
        before = state(torn.parent / "live")
        assert exit_codes.FINDINGS == main(["repair", "--yes", str(torn.parent)])
        assert before == state(torn.parent / "live")
    shown = capsys.readouterr()
    assert "line 1 is damaged" in shown.err
    assert "live/events.jsonl: " in shown.err
    assert shown.out.endswith("3 streams: 1 repaired, 2 left unchanged\n")
    assert ((damaged, []), (COMMITTED, [FRAGMENT])) == (state(torn.parent / "damaged"), state(torn))
