"""A place that is kept in step by processes that are killed, and by one that goes along with the training."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import toyspec
from command_line import command, environment
from command_line import toyspec as call
from loopback_store import Store, silence, status, stream
from synced_runs import LOG, TO
from toyspec.core.places import place

pytest.importorskip("obstore", reason="the extra remote is not installed")


@contextmanager
def watching(runs: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Keep the place in step from another process, which is killed at the end."""
    arguments = ["sync", "--watch", "--every", "0.02", str(runs), TO]
    with subprocess.Popen(
        command(*arguments), env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def await_object(store: Store, size: int) -> None:
    """Return as soon as the place has at least *size* bytes of the log."""
    deadline = time.monotonic() + 300
    while len(store.get(LOG) or b"") < size:
        assert time.monotonic() < deadline, f"the place has {len(store.get(LOG) or b'')} of {size} bytes"
        time.sleep(0.005)


def test_training_that_keeps_a_place_in_step(store: Store, tmp_path: Path) -> None:
    """Records arrive while the run goes on, and close returns when the place has everything."""
    where = toyspec.Sync(TO, every=0.02)
    with toyspec.start_run(tmp_path / "runs", run_id="a", sync=where) as run:
        run.step(loss=2.0)
        await_object(store, 1)
        first = store.get(LOG)
        run.step(loss=1.0)
    assert first is not None
    assert first.endswith(b"\n")
    assert (tmp_path / "runs" / "a" / "events.jsonl").read_bytes() == store.get(LOG)


def test_run_says_that_its_place_was_given_up(store: Store, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Another run at the address stays; the log of this one says that nothing more is sent, while it goes on."""
    store.put(LOG, stream(3, run_id="other"))
    with toyspec.start_run(tmp_path / "runs", run_id="a", sync=toyspec.Sync(TO, every=0.02)) as run:
        deadline = time.monotonic() + 300
        while not (notes := [each.value for each in toyspec.read(run.events_path) if each.kind == "note"]):
            assert time.monotonic() < deadline
            run.step(loss=1.0)
            time.sleep(0.05)
        run.step(loss=2.0)
    assert ["mirror"] == [note["topic"] for note in notes]
    assert "its events.jsonl is of another run" in notes[0]["text"]
    assert notes[0]["text"] in capfd.readouterr().err
    assert stream(3, run_id="other") == store.get(LOG)


def test_place_that_is_away_costs_the_training_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The run is written, its end waits as long as is allowed, the reason is said once, and a command completes."""
    store.every = status(403)
    where = toyspec.Sync(TO, every=0.02, wait=20.0, patience=0.0)
    with toyspec.start_run(tmp_path / "runs", run_id="a", sync=where) as run:
        for _ in range(20):
            run.step(loss=2.0)
            time.sleep(0.01)
    said = capfd.readouterr().err
    assert 1 == said.count("403 Forbidden")
    assert f"s3://bucket/runs/a: not complete; `toyspec sync {tmp_path}/runs {TO}` sends what is missing" in said
    assert "AKIA" not in said
    store.every = None
    assert 0 == call("sync", str(tmp_path / "runs"), TO).returncode
    assert (tmp_path / "runs" / "a" / "events.jsonl").read_bytes() == store.get(LOG)


def test_end_of_a_run_is_sent_again_until_it_is_there(
    store: Store, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A place that is away for a moment at the end gets everything; the reason is said once."""
    left = [403] * 3
    store.every = lambda handler: bool(left) and status(left.pop())(handler)
    with toyspec.start_run(tmp_path / "runs", run_id="a", sync=toyspec.Sync(TO, every=60.0, wait=60.0)) as run:
        run.step(loss=2.0)
    assert (1, []) == (capfd.readouterr().err.count("403 Forbidden"), left)
    assert (tmp_path / "runs" / "a" / "events.jsonl").read_bytes() == store.get(LOG)


def test_end_of_a_run_waits_no_longer_than_allowed(
    store: Store, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A place that hangs holds up the end of a run for *wait* seconds, and the process goes on by itself."""
    store.every = silence(1.0)
    with toyspec.start_run(tmp_path / "runs", run_id="a", sync=toyspec.Sync(TO, wait=0.2, patience=0.0)) as run:
        run.step(loss=2.0)
    # Had it waited for the place, nothing would be left to send.
    said = capfd.readouterr().err
    assert f"{TO}: the rest of the run is still being sent, by process " in said
    store.every = None
    number = int(said.rpartition(" ")[2])
    deadline = time.monotonic() + 300
    while Path(f"/proc/{number}").exists() and time.monotonic() < deadline:
        if os.waitpid(number, os.WNOHANG)[0]:
            break
        time.sleep(0.05)


def test_killed_at_any_moment(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever the process is killed and started again, every version is whole lines that continue the one before."""
    monkeypatch.setenv(place.VARIABLE, "10")
    chance = random.Random(7)
    runs = tmp_path / "runs"
    (runs / "a").mkdir(parents=True)
    path = runs / "a" / "events.jsonl"
    whole = stream(110_000)
    written = 0
    with path.open("ab", buffering=0) as file:
        for kill in range(6):
            with watching(runs) as process:
                if not kill:
                    written += file.write(whole[:50_000])
                    await_object(store, 1)
                until = time.monotonic() + chance.uniform(0.6, 1.4)
                while time.monotonic() < until:
                    written += file.write(whole[written : written + chance.randrange(100_000)])
                    time.sleep(0.01)
                process.send_signal(signal.SIGKILL)
        file.write(whole[written:])
    before = len(store.requests)
    with watching(runs) as process:
        while len(store.requests) == before:
            time.sleep(0.01)
        await_object(store, len(whole))
        process.send_signal(signal.SIGINT)
        assert 0 == process.wait(300)
    versions = store.versions[LOG]
    assert whole == versions[-1]
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(versions))
    assert all(version.endswith(b"\n") for version in versions)
    assert [LOG] == list(store.versions)


def test_companion_that_gives_up_ends_as_it_should(tmp_path: Path) -> None:
    """While its training goes on, its standard input is open: the interpreter does not abort, and says why."""
    order = toyspec.Sync("https://example.invalid/runs").order(tmp_path / "events.jsonl")
    with subprocess.Popen(
        [sys.executable, "-m", order.module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(order.line + b"\n")
        process.stdin.flush()
        assert 1 == process.wait(300)
        said = process.stderr.read().decode()
    assert said.startswith("toyspec: ")
    assert "Fatal" not in said
