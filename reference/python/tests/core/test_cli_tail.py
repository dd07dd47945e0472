from __future__ import annotations

import os
from pathlib import Path
from typing import Self

from command_line import started
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.main import main

RUN_START = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"demo"}\n'
RUN_END = b'{"kind":"run_end","t":9.0,"reason":"completed"}\n'


def step(number: int) -> bytes:
    """Return the line of a step."""
    return b'{"kind":"step","t":1.0,"step":%d,"loss":2.5}\n' % number


class Tailed:
    """A process that follows a run; what it prints is read as it comes."""

    def __init__(self, path: Path, *options: str) -> None:
        # A process that misses what it is to see ends all the same.
        self.process = started("tail", "--idle-timeout", "20", *options, str(path))

    def line(self) -> bytes:
        """Return the next line of output."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def note(self) -> bytes:
        """Return the next line on standard error."""
        assert self.process.stderr is not None
        return self.process.stderr.readline()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def append(path: Path, data: bytes) -> None:
    """Add *data* to the stream as a writer does."""
    with open(path, "ab", buffering=0) as file:
        file.write(data)


def test_what_happens_to_the_file_is_reported(tmp_path: Path) -> None:
    """A bad line, a stream that is not there yet and one that is replaced are reported on standard error."""
    with Tailed(tmp_path / "later") as tailed:
        assert tailed.note().endswith(b"waiting for %s\n" % os.fsencode(tmp_path / "later"))
        (tmp_path / "later").mkdir()
        (tmp_path / "later" / "events.jsonl").write_bytes(RUN_START + b"x\n")
        assert b"run_start" in tailed.line()
        assert b"/events.jsonl:2: invalid-json  " in tailed.note()
        (tmp_path / "new").write_bytes(RUN_START + step(7) + RUN_END)
        os.replace(tmp_path / "new", tmp_path / "later" / "events.jsonl")
        assert b"was replaced" in tailed.note()
        assert b"run_start" in tailed.line()
        assert b"step 7" in tailed.line()


def test_idle_timeout(tmp_path: Path) -> None:
    """--idle-timeout ends following when nothing comes."""
    assert main(["tail", "--idle-timeout", "0.01", str(run_of(tmp_path / "demo"))]) == exit_codes.OK


def run_of(folder: Path, *lines: bytes) -> Path:
    """Write a run and return its stream."""
    folder.mkdir()
    path = folder / "events.jsonl"
    path.write_bytes(RUN_START + b"".join(lines))
    return path


def test_several_runs_are_followed_at_once(tmp_path: Path) -> None:
    """Each event is shown once it has its LF, whichever run writes it, until the last run ends."""
    one, other = (run_of(tmp_path / name) for name in ("one", "other"))
    with Tailed(one, str(other.parent)) as tailed:
        assert {b"one", b"other"} == {tailed.line().split()[0] for _ in range(2)}
        seen = set()
        for number, path in enumerate((one, other, one), 1):
            append(path, step(number)[:20])
            append(path, step(number)[20:])
            seen.add(tailed.line().split()[0])
        assert {b"one", b"other"} == seen
        append(one, RUN_END)
        assert b"run_end" in tailed.line()
        append(other, step(9) + RUN_END)
        assert [b"step", b"run_end"] == [tailed.line().split()[3] for _ in range(2)]
        assert 0 == tailed.process.wait(300)
