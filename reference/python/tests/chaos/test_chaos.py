"""The chaos finds what is wrong: a record that was acknowledged and not logged, doubled, or copied in part."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.accounting import LOG, Cut, account, cut_of, followed
from chaos.bucket import Bucket
from chaos.players import left_alone
from chaos.states import ACKNOWLEDGED, REFUSED, TRIED, States

TESTS = Path(__file__).resolve().parents[1]


def line(number: int) -> bytes:
    """Return the record *number* as a writer logs it."""
    values = {"number": number, "double": 2 * number}
    return json.dumps({"kind": "scalars", "t": 1.0, "step": number, "values": values}).encode() + b"\n"


def log(*numbers: int) -> bytes:
    """Return a log of some records."""
    return b"".join(map(line, numbers))


def states(tmp_path: Path, acknowledged: int) -> States:
    """Return the states of a writer that was killed after so many records, within the next one."""
    made = States(tmp_path / "states")
    for number in range(1, acknowledged + 1):
        made[number] = ACKNOWLEDGED
    made[acknowledged + 1] = TRIED
    return made


def test_log_with_all_records_is_right(tmp_path: Path) -> None:
    """The record within which a writer was killed may be there or not, and those of a side file are there."""
    made = states(tmp_path, 4)
    (tmp_path / f"{LOG}.prev").write_bytes(log(1, 2))
    (tmp_path / f"{LOG}.torn-100").write_bytes(log(3))
    for end in (log(4), log(4, 5)):
        (tmp_path / LOG).write_bytes(end)
        found = account(tmp_path, made, [])
        assert ([], 5, 4, 0) == (found.wrong, found.tried, found.acknowledged, found.taken)


@pytest.mark.parametrize(
    ("data", "fact"),
    [
        (log(1, 2, 4), "acknowledged records are in no file: 3"),
        (log(1, 2, 3, 3, 4), "not in order, or twice"),
        (log(1, 2, 3, 4, 6), "no writer wrote: 6"),
        (log(1, 2, 3) + line(4).replace(b"8", b"9"), "a wrong record"),
        (log(1, 2) + line(3)[:-5] + line(4), "cannot be read"),
    ],
)
def test_wrong_log_is_seen(tmp_path: Path, data: bytes, fact: str) -> None:
    """A record that is lost, doubled, invented, changed or joined is named."""
    (tmp_path / LOG).write_bytes(data)
    assert any(fact in wrong for wrong in account(tmp_path, states(tmp_path, 4), []).wrong)


def test_refused_record_need_not_be_there(tmp_path: Path) -> None:
    """What a writer says that it dropped is not lost."""
    made = states(tmp_path, 2)
    made[2] = REFUSED
    (tmp_path / LOG).write_bytes(log(1))
    assert not account(tmp_path, made, []).wrong


def test_cut_explains_what_it_took(tmp_path: Path) -> None:
    """Only the records behind a cut, and the one that is joined with half a line, may be missing."""
    whole = log(1, 2, 3)
    cut = cut_of(whole, len(log(1)) + 4)
    assert Cut(frozenset({2, 3}), last=3, is_in_line=True) == cut
    (tmp_path / LOG).write_bytes(log(1, 5))
    found = account(tmp_path, states(tmp_path, 5), [cut])
    assert ([], 3) == (found.wrong, found.taken)
    (tmp_path / LOG).write_bytes(log(5))
    assert ["1"] == [wrong.rpartition(": ")[2] for wrong in account(tmp_path, states(tmp_path, 5), [cut]).wrong]
    assert Cut(frozenset({3}), last=3, is_in_line=False) == cut_of(whole, len(log(1, 2)))


def test_follower_is_compared() -> None:
    """After a change of file, it begins again; the last part is the log."""
    assert not followed("1\n2\n# truncated\n1\n3\n", log(1, 3))
    assert followed("1\n2\n", log(1, 2, 3))
    assert followed("1\n2\n2\n3\n", log(1, 2, 3))
    assert followed("1\n2\n3\n# gap\n", log(1, 2))


def test_bucket_looks_at_versions() -> None:
    """Half a line, and a version that is gone, are named; one with another name is not gone, an empty one is whole."""
    bucket = Bucket(random.Random(1))
    bucket.kept(f"runs/a/{LOG}", b"")
    bucket.kept(f"runs/a/{LOG}", log(1))
    bucket.kept(f"runs/a/{LOG}", log(1, 2))
    bucket.kept(f"runs/a/{LOG}.prev-1", log(1, 2))
    bucket.kept(f"runs/a/{LOG}", log(7))
    assert not bucket.wrong
    bucket.kept(f"runs/a/{LOG}", log(7)[:-1])
    bucket.kept(f"runs/a/{LOG}", log(9, 10))
    assert ["half a line", "lost a version", "lost a version"] == [
        re.sub(r".*(half a line|lost a version).*", r"\1", wrong) for wrong in bucket.wrong
    ]


def test_process_that_goes_on_is_named(tmp_path: Path) -> None:
    """One that does not end in time is named and ended; this one, and those of others, are left alone."""
    words = [sys.executable, "-c", "print(flush=True); input()"]
    environment = {**os.environ, "MARK": str(tmp_path)}
    with subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline(), "it has begun: before, the system knows neither words nor environment"
        assert [" ".join(words)] == left_alone(str(tmp_path), 0.1)
        assert -signal.SIGKILL == process.wait(30)
    assert [] == left_alone(str(tmp_path), 0.0)


@pytest.mark.parametrize(("forget", "status"), [(0, 0), (50, 1)])
def test_some_seconds_of_chaos(tmp_path: Path, forget: int, status: int) -> None:
    """Nothing is wrong; a writer that acknowledges what it has not logged is found, and the seed is named."""
    pytest.importorskip("obstore", reason="the extra remote is not installed")
    pytest.importorskip("duckdb", reason="the extra catalog is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "chaos", "--minutes", "0.2", "--seed", "5", "--forget", str(forget)],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert status == done.returncode, done.stdout + done.stderr
    assert ("in no file" in done.stdout) == bool(forget)
    assert ("nox -s chaos -- --minutes 0.2 --seed 5" in done.stdout) == bool(forget)
