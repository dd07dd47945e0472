from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from command_line import toyspec_within as toyspec
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.main import main
from toyspec.core.writing.run_writer import RunWriter

COMMITTED = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"torn"}\n{"kind":"note","t":1.0,"text":"x"}\n'
FRAGMENT = b'{"kind":"step","\x1b[2J\xff\n'[:-1]


@pytest.fixture
def torn(tmp_path: Path) -> Path:
    """Give a run whose stream ends in half a record."""
    path = tmp_path / "runs" / "torn"
    path.mkdir(parents=True)
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


def test_fragment_is_moved_into_a_file(torn: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --yes the fragment is moved; a second repair finds nothing to do."""
    assert main(["repair", "--yes", str(torn)]) == exit_codes.OK
    assert (COMMITTED, [FRAGMENT]) == state(torn)
    shown = capsys.readouterr().out
    assert 'events.jsonl: 21 bytes after the last of 2 records: {"kind":"step","\\x1b[2J\\xff\n' in shown
    assert f"    moved to {torn}/events.jsonl.torn-{len(COMMITTED)}\n" in shown
    assert main(["repair", "--yes", str(torn)]) == exit_codes.OK
    assert "1 stream: without a fragment\n" == capsys.readouterr().out
    assert (COMMITTED, [FRAGMENT]) == state(torn)


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("YES\n", 0), ("n\n", 1), ("\n", 1), ("", 1)])
def test_asks_first(
    answer: str, code: int, torn: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without --yes nothing is cut before a person says yes; anything else, and the end of input, mean no."""
    monkeypatch.setattr(sys, "stdin", _Answers(answer))
    assert code == main(["repair", str(torn)])
    assert "[y/N]" in capsys.readouterr().out
    assert state(torn) == ((COMMITTED, [FRAGMENT]) if code == 0 else (COMMITTED + FRAGMENT, []))


def test_does_not_ask_a_pipe(torn: Path) -> None:
    """Without a terminal, --yes or --dry-run must be given."""
    done = toyspec("repair", str(torn), stdin=b"y\n")
    assert done.returncode == exit_codes.USAGE
    assert b"--yes" in done.stderr
    assert (COMMITTED + FRAGMENT, []) == state(torn)


def test_dry_run_changes_nothing(torn: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--dry-run says what would be done and does not do it."""
    assert main(["repair", "--dry-run", str(torn)]) == exit_codes.OK
    assert "21 bytes after" in capsys.readouterr().out
    assert (COMMITTED + FRAGMENT, []) == state(torn)


def test_live_writer_is_left_alone(torn: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A stream that a writer has open is not touched, and the status is 1."""
    with RunWriter(torn, exist="replace") as writer:
        writer.run_start()
        before = state(torn)
        assert main(["repair", "--yes", str(torn)]) == exit_codes.FINDINGS
        assert before == state(torn)
    assert "torn/events.jsonl: " in capsys.readouterr().err


def test_damaged_stream_is_left_alone(torn: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No cut fixes a damaged stream: it is refused, and the other streams are repaired all the same."""
    damaged = torn.parent / "damaged"
    damaged.mkdir()
    (damaged / "events.jsonl").write_bytes(b"x\n" + COMMITTED + FRAGMENT)
    assert main(["repair", "--yes", str(torn.parent)]) == exit_codes.FINDINGS
    shown = capsys.readouterr()
    assert "line 1 is damaged" in shown.err
    assert shown.out.endswith("2 streams: 1 repaired, 1 left unchanged\n")
    assert (b"x\n" + COMMITTED + FRAGMENT, []) == state(damaged)
    assert (COMMITTED, [FRAGMENT]) == state(torn)


@pytest.mark.parametrize("path", ["nowhere", "."])
def test_path_without_stream(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that is not there, or holds no stream, gives status 2."""
    monkeypatch.chdir(tmp_path)
    assert main(["repair", "--yes", path]) == exit_codes.USAGE


@pytest.mark.parametrize("arguments", [[], ["-"], ["--yes", "-"]])
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A path must be named, and standard input cannot be repaired."""
    assert main(["repair", *arguments]) == exit_codes.USAGE
    assert capsys.readouterr().err.startswith("toyspec repair: ")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes everywhere")
def test_directory_that_cannot_be_written(torn: Path) -> None:
    """Where the fragment cannot be kept, the stream is not cut."""
    torn.chmod(0o500)
    try:
        assert main(["repair", "--yes", str(torn)]) == exit_codes.USAGE
        assert (COMMITTED + FRAGMENT, []) == state(torn)
    finally:
        torn.chmod(0o700)
