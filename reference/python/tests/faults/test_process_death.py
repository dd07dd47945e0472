"""Faults P: the process dies, at any moment and in any way."""

from __future__ import annotations

import signal
import textwrap
from pathlib import Path

import pytest

import toyspec
from faults.crash_states import VARIANTS, Variant, committed, log, states
from faults.killing import Toll, killed
from faults.oracles import check, fix, survey
from faults.tally import IS_LONG, ROWS, count, scaled, settle
from files import in_subprocess
from toyspec.core.reading.follower import follow
from toyspec.core.reading.reader import read

LOG = log(scaled(7, 12))


KILL_COLUMNS = [
    *("writer", "record", "kills", "inside a write", "not between pages", "of these, a record without its LF"),
    *("acknowledged", "lost", "invented"),
]
KILLED = [
    ("library", 120, 20, 300),
    ("library", 3000, 40, 400),
    ("library", 300_000, 10, 200),
    ("library-synced", 3000, 5, 100),
    ("buffered", 120, 5, 200),
    ("two-writes", 120, 20, 200),
]


def reckon(toll: Toll) -> None:
    """Add *toll* to the table."""
    count("kills", toll.kills)
    count("kills inside a write", toll.inside)
    count("records acknowledged", toll.acknowledged)
    count("records lost", toll.lost)
    count("records invented", toll.invented)


@pytest.mark.parametrize(("writer", "size", "short", "long"), KILLED)
def test_p01_p02_p03_p04_a_kill_loses_nothing_that_was_acknowledged(
    writer: str, size: int, short: int, long: int
) -> None:
    """After SIGKILL all acknowledged records are there; a fragment ends between pages and is not a record.

    Not so with a writer that has a buffer, or that writes twice for a record.
    """
    kills = scaled(short, long)
    toll = killed(writer, size=size, kills=kills)
    assert kills == toll.kills
    assert toll.acknowledged
    ROWS["kills"] = ROWS["kills"] or ["| " + " | ".join(KILL_COLUMNS) + " |", "|---" * len(KILL_COLUMNS) + "|"]
    cells = [writer, f"{size:,} bytes", toll.kills, toll.inside, toll.unexplained, toll.unterminated]
    ROWS["kills"].append(
        f"| {' | '.join(map(str, cells))} | {toll.acknowledged:,} | {toll.lost:,} | {toll.invented:,} |"
    )
    if writer.startswith("library"):
        reckon(toll)
        assert (0, 0, 0, 0) == (toll.lost, toll.invented, toll.unexplained, toll.unterminated)
    else:
        assert toll.lost if writer == "buffered" else toll.unterminated


@pytest.mark.parametrize("variant", VARIANTS)
def test_p02_p03_p07_c09_d01_d02_d04_every_crash_state_is_read_right(variant: Variant, tmp_path: Path) -> None:
    """Wherever the log is cut and whatever comes behind: what was written is read, and nothing else."""
    for state in states(LOG, variant):
        expected = committed(state, LOG)
        found, _ = survey(state)
        count("crash states tried")
        assert (0, 0) == settle(expected, expected, found), state
        if IS_LONG:
            check(state)
            fix(state, tmp_path)


ENDINGS = {
    "sigterm": ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, None),
    "exit": ("os._exit(3)", 3, None),
    "abort": ("os.abort()", -signal.SIGABRT, None),
    "segfault": ("ctypes.string_at(0)", -signal.SIGSEGV, None),
    "sys.exit": ("sys.exit(4)", 4, "aborted"),
    "exception": ("raise RuntimeError('out of luck')", 1, "errored"),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_p05_p04_no_ending_depends_on_a_flush(name: str, tmp_path: Path) -> None:
    """However the process goes, each record is there; run_end only where Python still runs."""
    act, status, _ = ENDINGS[name]
    program = f"""
        import ctypes, os, resource, signal, sys, toyspec
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with toyspec.RunWriter(sys.argv[1]) as run:
            run.run_start()
            for step in range(1, 51):
                run.step(step, loss=0.5)
            {act}
    """
    done = in_subprocess(textwrap.dedent(program), str(tmp_path / "run"))
    count("kills")
    assert status == done.returncode
    kinds = [record.kind for record in read(tmp_path / "run")]
    leaves = name in ("sys.exit", "exception")
    assert ["run_start", *["step"] * 50, *["run_end"] * leaves] == kinds


@pytest.mark.parametrize("pieces", [1, 7, 100])
def test_p02_p07_a_follower_holds_what_is_torn(pieces: int, tmp_path: Path) -> None:
    """Whatever part of a line a look finds, a record comes once and whole, with any character."""
    stream = tmp_path / "events.jsonl"
    stream.write_bytes(b"")
    parts = iter([LOG[start : start + pieces] for start in range(0, len(LOG), pieces)])

    def write_on(_: float) -> None:
        with stream.open("ab") as file:
            file.write(next(parts, b""))

    items = list(follow(stream, sleep=write_on))
    found = [bytes(item.raw) for item in items if isinstance(item, toyspec.Record)]
    assert LOG.split(b"\n")[:-1] == found
