from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import pytest

from command_line import command, environment
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.main import main
from toyspec.core.reading.run_files import rank_file

RUN_START = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"demo"}\n'
RUN_END = b'{"kind":"run_end","t":9.0,"reason":"completed"}\n'


def step(number: int) -> bytes:
    """Return the line of a step."""
    return b'{"kind":"step","t":1.0,"step":%d,"loss":2.5}\n' % number


class Tailed:
    """A process that follows a run; what it prints is read as it comes."""

    def __init__(self, path: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            # A process that misses what it is to see ends all the same.
            command("tail", "--idle-timeout", "20", *options, str(path)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        )

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


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    """Give the stream of a run that has begun."""
    path = tmp_path / "demo" / "events.jsonl"
    path.parent.mkdir()
    path.write_bytes(RUN_START + step(1))
    return path


def test_events_appear_as_they_are_committed(stream: Path) -> None:
    """What was there comes first, then each event once it has its LF, until the run ends."""
    with Tailed(stream.parent, "-n", "1") as tailed:
        assert b"       1.0 s  step 1  loss 2.5\n" == tailed.line()
        append(stream, step(2)[:20])
        append(stream, step(2)[20:])
        assert b"       1.0 s  step 2  loss 2.5\n" == tailed.line()
        append(stream, RUN_END)
        assert b"       9.0 s  run_end  reason completed\n" == tailed.line()
        assert b"" == tailed.line()
        assert exit_codes.OK == tailed.process.wait(timeout=300)


def test_what_happens_to_the_file_is_reported(stream: Path, tmp_path: Path) -> None:
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


@pytest.mark.parametrize(("lines", "shown"), [("0", []), ("2", [4, 5]), ("9", [1, 2, 3, 4, 5])])
def test_number_of_lines(lines: str, shown: list[int], stream: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """-n says how many of the events that were there are shown; notes do not count as events."""
    append(stream, step(2) + step(3) + b"x\n" + step(4) + step(5) + b"y\n")
    assert main(["tail", "--once", "-n", lines, str(stream)]) == exit_codes.OK
    found = [line.split("step ")[1].split()[0] for line in capsys.readouterr().out.splitlines() if "step " in line]
    assert [str(number) for number in shown] == found


def test_idle_timeout(stream: Path) -> None:
    """--idle-timeout ends following when nothing comes."""
    assert main(["tail", "--idle-timeout", "0.01", str(stream)]) == exit_codes.OK


def run_of(folder: Path, *lines: bytes) -> Path:
    """Write a run and return its stream."""
    folder.mkdir()
    path = folder / "events.jsonl"
    path.write_bytes(RUN_START + b"".join(lines))
    return path


def test_lines_of_several_runs_have_their_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names that differ at their end only stay different; a run that is named twice is followed once."""
    names = [f"llama-base-20261121-{number:03d}" for number in (1, 2)]
    paths = [run_of(tmp_path / name, step(index), RUN_END) for index, name in enumerate(names)]
    main(["tail", "--once", "-n", "2", str(paths[0].parent), str(paths[1]), str(paths[1])])
    lines = capsys.readouterr().out.splitlines()
    assert ["llama-base…61121-001", "llama-base…61121-002"] == list(dict.fromkeys(line.split()[0] for line in lines))
    assert 4 == len(lines)


def test_several_runs_are_followed_at_once(tmp_path: Path) -> None:
    """Each event is shown when it is committed, whichever run writes it, until the last run ends."""
    one, other = (run_of(tmp_path / name) for name in ("one", "other"))
    with Tailed(one, str(other.parent)) as tailed:
        assert {b"one", b"other"} == {tailed.line().split()[0] for _ in range(2)}
        seen = set()
        for number, path in enumerate((one, other, one), 1):
            append(path, step(number))
            seen.add(tailed.line().split()[0])
        assert {b"one", b"other"} == seen
        append(one, RUN_END)
        assert b"run_end" in tailed.line()
        append(other, step(9) + RUN_END)
        assert [b"step", b"run_end"] == [tailed.line().split()[3] for _ in range(2)]
        assert 0 == tailed.process.wait(300)


@pytest.mark.skipif(os.name == "nt", reason="SIGINT is sent otherwise there")
def test_interrupt_ends_following_of_several_runs(tmp_path: Path) -> None:
    """Ctrl-C ends all followers at once, with its exit code and without a traceback."""
    one, other = (run_of(tmp_path / name, step(1)) for name in ("one", "other"))
    with Tailed(one, str(other)) as tailed:
        for _ in range(4):
            tailed.line()
        tailed.process.send_signal(signal.SIGINT)
        assert (b"", b"") == tailed.process.communicate(timeout=300)
        assert exit_codes.INTERRUPTED == tailed.process.returncode


def _write_ranks(folder: Path, ends: Sequence[bytes]) -> None:
    """Write the log of a rank for each of *ends*, what it has after its first step."""
    folder.mkdir(exist_ok=True)
    for rank, end in enumerate(ends):
        start = json.dumps(json.loads(RUN_START) | {"rank": rank, "world_size": len(ends)}).encode() + b"\n"
        (folder / rank_file(rank)).write_bytes(start + step(1) + end)


def test_file_of_a_rank_is_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run is followed by its first rank, and its other ranks are named; the file of one is followed by itself."""
    _write_ranks(tmp_path / "demo", [RUN_END, step(2) + RUN_END, step(2)])
    assert exit_codes.OK == main(["tail", str(tmp_path / "demo")])
    shown = capsys.readouterr()
    assert (3, True) == (len(shown.out.splitlines()), "2 further ranks with a log; name events.rank-1" in shown.err)
    assert exit_codes.OK == main(["tail", str(tmp_path / "demo" / rank_file(1))])
    shown = capsys.readouterr()
    assert (4, "") == (len(shown.out.splitlines()), shown.err)
    files = [str(tmp_path / "demo" / rank_file(rank)) for rank in range(3)]
    assert exit_codes.OK == main(["tail", "--once", "-n", "1", *files])
    assert ["demo", "events.rank-1.jsonl", "events.rank-2.jsonl"] == [
        line.split()[0] for line in capsys.readouterr().out.splitlines()
    ]


def test_lines_have_every_member_and_the_step_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A scalar of kaun/v1 has more than its value; the columns of another program's log may name the step again."""
    scalar = {"type": "scalar", "wall_time": 1.8e9, "step": 1, "epoch": 4, "tag": "train/loss", "value": 0.5}
    (tmp_path / "kaun").mkdir()
    kaun = tmp_path / "kaun" / "events.jsonl"
    kaun.write_text(json.dumps({**scalar, "direction": "minimize", "host": "gpu7"}) + "\n")
    rows = tmp_path / "metrics_step_000000_to_step_000002.txt"
    rows.write_text("".join(json.dumps({"step": float(at), "learning/loss": 0.5}) + "\n" for at in (0, 1)))
    assert exit_codes.OK == main(["tail", "--once", str(kaun)])
    assert exit_codes.OK == main(["tail", "--once", str(rows)])
    assert [
        "step 1  train/loss 0.5  epoch 4  direction minimize  host gpu7",
        "step 0  learning/loss 0.5",
        "step 1  learning/loss 0.5",
    ] == [line[14:] for line in capsys.readouterr().out.splitlines()]
