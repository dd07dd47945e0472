from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Self

import pytest

from command_line import command, environment, toyspec
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.main import main

RUN_START = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"demo"}\n'
RUN_END = b'{"kind":"run_end","t":9.0,"reason":"completed"}\n'


class Followed:
    """A process that checks a live stream; what it prints is read as it comes."""

    def __init__(self, path: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            # A process that misses what it is to see ends all the same.
            command("check", "--follow", "--format", "jsonl", "--idle-timeout", "600", *options, str(path)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            text=False,
        )

    def next(self) -> dict[str, Any]:
        """Return the next object that is printed."""
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def rest(self) -> tuple[int, list[dict[str, Any]], bytes]:
        """Wait for the end; return exit status, the other objects and what is on standard error."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        # communicate() would miss what readline() has taken into its buffer.
        output, errors = self.process.stdout.read(), self.process.stderr.read()
        return self.process.wait(timeout=300), [json.loads(line) for line in output.splitlines()], errors

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    """Give the stream of a run that has begun."""
    path = tmp_path / "demo" / "events.jsonl"
    path.parent.mkdir()
    path.write_bytes(RUN_START)
    return path


def append(path: Path, data: bytes) -> None:
    """Add *data* to the stream as a writer does."""
    with open(path, "ab", buffering=0) as file:
        file.write(data)


def test_findings_appear_while_the_run_goes_on(stream: Path) -> None:
    """A finding is shown as soon as its line is committed, once, and the run's end ends the command."""
    with Followed(stream.parent) as followed:
        append(stream, b"x\n")
        assert ("invalid-json", 2) == ((found := followed.next())["rule"], found["line"])
        append(stream, b'{"kind":"step","t":1.0}')
        append(stream, b"\n")
        assert ("missing-key", 3) == ((found := followed.next())["rule"], found["line"])
        append(stream, RUN_END)
        code, rest, errors = followed.rest()
    assert (exit_codes.FINDINGS, b"") == (code, errors)
    assert ["file", "summary"] == [item["type"] for item in rest]
    assert "damaged" == rest[0]["state"]


def test_run_that_has_ended(stream: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Following a run that is over checks it and ends, with the same output as without --follow."""
    append(stream, b"x\n" + RUN_END)
    assert main(["check", str(stream.parent)]) == exit_codes.FINDINGS
    once = capsys.readouterr().out
    begun = time.monotonic()
    assert main(["check", "--follow", "--idle-timeout", "600", str(stream.parent)]) == exit_codes.FINDINGS
    assert time.monotonic() - begun < 300
    assert once == capsys.readouterr().out


def test_idle_timeout(stream: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--idle-timeout ends the command; what only the end shows is reported then."""
    assert main(["check", "--follow", "--idle-timeout", "0.01", str(stream)]) == exit_codes.OK
    assert "run-end-missing" in capsys.readouterr().out


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_interrupt_shows_the_verdict(stream: Path) -> None:
    """Ctrl-C ends following with the verdict so far and status 130."""
    append(stream, b"x\n")
    with Followed(stream) as followed:
        followed.next()
        followed.process.send_signal(signal.SIGINT)
        code, rest, errors = followed.rest()
    assert (exit_codes.INTERRUPTED, b"") == (code, errors)
    assert ["finding", "file", "summary"] == [item["type"] for item in rest]


@pytest.mark.parametrize("change", ["truncated", "replaced", "regrown"])
def test_another_stream_is_checked_again(change: str, stream: Path, tmp_path: Path) -> None:
    """After a truncation or replacement, also by the same length, the check starts over and reports it."""
    append(stream, b"x\n")
    other = RUN_START.replace(b"0.0", b"0.5") + b"y\n"
    with Followed(stream) as followed:
        assert "invalid-json" == followed.next()["rule"]
        if change == "replaced":
            (tmp_path / "new").write_bytes(other)
            os.replace(tmp_path / "new", stream)
        else:
            stream.write_bytes(other[:10] if change == "truncated" else other)
        assert followed.process.stderr is not None
        note = followed.process.stderr.readline()
        if change == "truncated":
            append(stream, other[10:])
        assert "invalid-json" == followed.next()["rule"]
        append(stream, RUN_END)
        code, rest, errors = followed.rest()
    assert exit_codes.FINDINGS == code
    assert note.endswith(b"checking it again from its start\n")
    assert b"" == errors
    assert 2 == next(item for item in rest if item["type"] == "file")["records"]


def test_live_standard_input() -> None:
    """Standard input can be followed; its end is the end."""
    done = toyspec("check", "--follow", "-", stdin=RUN_START + b"x\n")
    assert done.returncode == exit_codes.FINDINGS
    assert b"-:2: invalid-json" in done.stdout


def test_nothing_to_follow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A path without a stream is one that cannot be read."""
    assert main(["check", "--follow", str(tmp_path)]) == exit_codes.USAGE
    assert main(["check", "--follow", str(tmp_path / "none")]) == exit_codes.USAGE
    assert capsys.readouterr().out.count("could not be read") == 2


def test_repair_of_a_followed_stream(stream: Path) -> None:
    """Cutting the fragment off is not a new stream: what was shown is not shown again."""
    append(stream, b"x\n{")
    with Followed(stream.parent) as followed:
        assert "invalid-json" == followed.next()["rule"]
        os.truncate(stream, stream.stat().st_size - 1)
        append(stream, b"y\n" + RUN_END)
        assert ("invalid-json", 3) == ((found := followed.next())["rule"], found["line"])
        code, rest, errors = followed.rest()
    assert (exit_codes.FINDINGS, b"") == (code, errors)
    assert ["file", "summary"] == [item["type"] for item in rest]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
def test_fifo_is_checked_as_it_comes(tmp_path: Path) -> None:
    """A FIFO can be followed; its end is the end."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with Followed(fifo) as followed:
        with open(fifo, "wb", buffering=0) as writer:
            writer.write(RUN_START + b"x\n")
            assert "invalid-json" == followed.next()["rule"]
            writer.write(RUN_END)
        code, rest, errors = followed.rest()
    assert (exit_codes.FINDINGS, b"") == (code, errors)
    assert ["file", "summary"] == [item["type"] for item in rest]
