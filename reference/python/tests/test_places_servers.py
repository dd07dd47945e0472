"""Reads runs from an S3 server that is not of this project: versitygw, over a folder, on loopback.

``go install github.com/versity/versitygw/cmd/versitygw@latest`` builds it; these tests are skipped without it.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from command_line import toyspec
from loopback_store import BUCKET, stream
from toyspec import check, follow, list_runs
from toyspec.places import opening

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVER = shutil.which("versitygw") or shutil.which("versitygw", path=str(Path.home() / "go" / "bin"))
SECONDS = 30.0

pytestmark = pytest.mark.skipif(SERVER is None, reason="versitygw is not installed (see this module)")
obstore = pytest.importorskip("obstore", reason="the extra remote is not installed")


def free_port() -> int:
    """Return a free port on loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """Serve a bucket until the test ends; objects are put through the store that is given."""
    from obstore.store import S3Store

    assert SERVER is not None
    place = f"127.0.0.1:{free_port()}"
    root = tmp_path / "served"
    (root / BUCKET).mkdir(parents=True)
    keys = ["--access", "testkey", "--secret", "testsecret"]
    process = subprocess.Popen(
        [SERVER, "--port", place, *keys, "--quiet", "posix", str(root)], stdout=subprocess.DEVNULL
    )
    try:
        settings = {"ENDPOINT": f"http://{place}", "ACCESS_KEY_ID": "testkey", "SECRET_ACCESS_KEY": "testsecret"}
        for name, value in {**settings, "REGION": "us-east-1"}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        await_server(place)
        opening._store.cache_clear()
        yield S3Store(BUCKET, client_options={"allow_http": True})
    finally:
        opening._store.cache_clear()
        process.terminate()
        process.wait(SECONDS)


def await_server(place: str) -> None:
    """Return as soon as something listens at *place*."""
    host, _, port = place.partition(":")
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection((host, int(port)), timeout=1.0):
            return
        time.sleep(0.05)
    pytest.fail(f"nothing listens at {place}")


def test_runs_in_a_real_store(objects: object) -> None:
    """Runs are listed, checked, followed while they grow, and refused to those without permission."""
    obstore.put(objects, "runs/a/events.jsonl", stream(3000, end=""))
    obstore.put(objects, "runs/b/events.jsonl", stream(30_000, run_id="b"))
    obstore.put(objects, "runs/other.bin", b"\0")
    root = f"s3://{BUCKET}/runs"
    assert [("b", 30_000), ("a", 3000)] == [(run.name, run.last_step) for run in list_runs(root)]
    assert ["torn", "complete"] == [report.state for report in check(root, workers=2).files]

    def grow(_: float) -> None:
        obstore.put(objects, "runs/a/events.jsonl", stream(4000))

    assert 4003 == len(list(follow(f"{root}/a", sleep=grow)))
    done = toyspec("ls", root, env={"AWS_SECRET_ACCESS_KEY": "another"})
    assert 2 == done.returncode
    assert b"403 Forbidden: the credentials do not allow it" in done.stderr
    assert b"404 Not Found: check the name of the bucket" in toyspec("ls", "s3://no-such-bucket/runs").stderr
