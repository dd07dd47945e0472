"""Containers of Azure are kept in step as stores without an append are: streams are sent whole, on conditions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopback_azure import Container, azure, served_container
from loopback_store import BUCKET, stream
from synced_runs import outcome, put, sync
from toyspec.core.places import place
from toyspec.stores.run_sync import SyncSettings
from toyspec.stores.syncing import Syncing

pytest.importorskip("obstore", reason="the extra remote is not installed")

TO = f"az://{BUCKET}/runs"
LOG = "runs/a/events.jsonl"


@pytest.fixture
def container(monkeypatch: pytest.MonkeyPatch) -> Iterator[Container]:
    """Serve an empty container."""
    with served_container() as found:
        for name, value in {**azure(found), place.VARIABLE: "2"}.items():
            monkeypatch.setenv(name, value)
        yield found


def test_stream_is_sent_whole(container: Container, run: Path) -> None:
    """Each version of the blob has whole lines and continues the one before; nothing is sent where nothing is new."""
    syncing = Syncing(str(run.parent), TO, SyncSettings())
    for steps in (300, 400, 400, 500):
        put(run, stream(steps, end="") + b'{"kind"')
        assert [] == syncing.once().runs[0].facts
    assert [len(stream(steps, end="")) for steps in (300, 400, 500)] == container.writes
    assert stream(500, end="") == container.blobs[LOG].data
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(container.versions))


def test_watched_stream_waits_for_its_rate(container: Container, run: Path) -> None:
    """A stream that has grown by little is not due: each time costs all of it."""
    syncing = Syncing(str(run.parent), TO, SyncSettings())
    put(run, stream(300, end=""))
    syncing.once("due")
    put(run, stream(310, end=""))
    assert "waiting" == outcome(syncing.once("due"))
    put(run, stream(310))
    assert "sent" == outcome(syncing.once("due"))
    assert stream(310) == container.blobs[LOG].data


@pytest.mark.parametrize("earlier", [b"", stream(100, end="")])
def test_another_writer_is_not_undone(
    container: Container, run: Path, monkeypatch: pytest.MonkeyPatch, earlier: bytes
) -> None:
    """A blob that appears or changes between the comparison and the write is compared again, not replaced."""
    obstore = pytest.importorskip("obstore")
    if earlier:
        container.keep(LOG, earlier)
    put(run, stream(300))
    write, others = obstore.put, [stream(200, end="")]

    def other_first(*arguments: object, **options: object) -> object:
        if others:
            container.keep(LOG, others.pop())
        return write(*arguments, **options)

    monkeypatch.setattr(obstore, "put", other_first)
    assert "sent" == outcome(sync(run, TO))
    assert [*([earlier] if earlier else []), stream(200, end=""), stream(300)] == container.versions


def test_store_that_refuses_is_reported_without_secrets(container: Container, run: Path) -> None:
    """The report has the status and what to do, and neither credentials nor the answer; the blob stays."""
    put(run, stream(300, end=""))
    sync(run, TO)
    container.refusal = 403
    put(run, stream(400))
    report = sync(run, TO)
    assert ("failed", stream(300, end="")) == (outcome(report), container.blobs[LOG].data)
    assert "403" in report.runs[0].facts[0]
    assert not [word for word in ("sig=", "secretsecret", "http://") if word in repr(report)]
