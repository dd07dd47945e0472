"""Reads and writes runs in stores that are not of this project, on loopback: see real_stores."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from command_line import command, environment, toyspec
from loopback_store import BUCKET, forget, stream
from real_stores import AZURITE, VERSITYGW, azurite, versitygw
from toyspec import check, follow, list_runs
from toyspec.core.places.place import place_of
from toyspec.core.places.remote_files import RemoteFile

obstore = pytest.importorskip("obstore", reason="the extra remote is not installed")

needs_s3 = pytest.mark.skipif(VERSITYGW is None, reason="versitygw is not installed; `nox -s interop_stores` does it")
needs_azure = pytest.mark.skipif(AZURITE is None, reason="Azurite is not installed; `nox -s interop_stores` does it")


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serve a bucket of S3 until the test ends, and return its address."""
    with versitygw(tmp_path / "served") as settings:
        yield from _used(settings, f"s3://{BUCKET}", monkeypatch)


@pytest.fixture
def container(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serve a container of Azure until the test ends, and return its address."""
    with azurite() as settings:
        yield from _used(settings, f"az://{BUCKET}", monkeypatch)


def _used(settings: dict[str, str], address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    forget()
    yield address
    forget()


@needs_s3
def test_runs_in_a_real_store(bucket: str) -> None:
    """Runs are listed, checked, followed while they grow, and refused to those without permission."""
    from obstore.store import S3Store

    objects = S3Store(BUCKET, client_options={"allow_http": True})
    obstore.put(objects, "runs/a/events.jsonl", stream(3000, end=""))
    obstore.put(objects, "runs/b/events.jsonl", stream(30_000, run_id="b"))
    obstore.put(objects, "runs/other.bin", b"\0")
    root = f"{bucket}/runs"
    assert [("b", 30_000), ("a", 3000)] == [(run.facts.run, run.facts.last_step) for run in list_runs(root)]
    assert ["torn", "complete"] == [report.state for report in check(root, workers=2).files]

    def grow(_: float) -> None:
        obstore.put(objects, "runs/a/events.jsonl", stream(4000))

    assert 4003 == len(list(follow(f"{root}/a", sleep=grow)))
    done = toyspec("ls", root, env={"AWS_SECRET_ACCESS_KEY": "another"})
    assert 2 == done.returncode
    assert b"403 Forbidden: the credentials do not allow it" in done.stderr
    assert b"404 Not Found: check the name of the bucket" in toyspec("ls", "s3://no-such-bucket/runs").stderr


@needs_s3
def test_two_that_are_killed_again_and_again(bucket: str, tmp_path: Path) -> None:
    """Two processes that keep one place in step, and are killed at random, lose nothing and double nothing."""
    _keep_and_kill(f"{bucket}/runs", tmp_path / "runs", stream(300_000))


@needs_azure
def test_azure(container: str, tmp_path: Path) -> None:
    """A container of Azure is kept in step by two processes that are killed, too."""
    _keep_and_kill(f"{container}/runs", tmp_path / "runs", stream(60_000))


def _keep_and_kill(to: str, runs: Path, whole: bytes) -> None:
    chance = random.Random(11)
    path = runs / "a" / "events.jsonl"
    path.parent.mkdir(parents=True)
    written, address = 0, f"{to}/a/events.jsonl"
    seen = b""
    with path.open("ab", buffering=0) as file:
        for _ in range(4):
            with _watching(runs, to), _watching(runs, to):
                until = time.monotonic() + chance.uniform(1.5, 3.0)
                while time.monotonic() < until:
                    written += file.write(whole[written : written + chance.randrange(len(whole) // 40)])
                    time.sleep(0.05)
                    seen = _longer(address, seen)
        file.write(whole[written:])
    done = toyspec("sync", str(runs), to)
    assert (0, b"") == (done.returncode, done.stderr)
    assert whole == _longer(address, seen)
    assert [address] == [entry.address for entry in place_of(to).entries(to)]


@contextmanager
def _watching(runs: Path, to: str) -> Iterator[None]:
    """Keep *to* in step from another process, which is killed at the end."""
    arguments = ["sync", "--watch", "--every", "0.05", str(runs), to]
    with subprocess.Popen(
        command(*arguments), env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield
        finally:
            process.kill()


def _longer(address: str, seen: bytes) -> bytes:
    """Return what the place has: it continues what was *seen* before, and ends with a whole line."""
    try:
        found = RemoteFile(address).read()
    except FileNotFoundError:
        found = b""
    assert found.startswith(seen)
    assert not found or found.endswith(b"\n")
    return found
