"""Blobs of Azure grow by blocks: only new bytes are sent, and what cannot be continued is sent whole."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopback_azure import Container, azure, served_container
from loopback_store import BUCKET, stream
from synced_runs import outcome, put, sync
from toyspec.places import opening
from toyspec.sync.run_sync import SyncSettings
from toyspec.sync.syncing import Syncing

pytest.importorskip("obstore", reason="the extra remote is not installed")
azure_containers = pytest.importorskip("toyspec.sync.azure_containers", reason="the extra azure is not installed")

TO = f"az://{BUCKET}/runs"
LOG = "runs/a/events.jsonl"
LEAST = 1 << 10


@pytest.fixture
def container(monkeypatch: pytest.MonkeyPatch) -> Iterator[Container]:
    """Serve a container in which blobs from 1 KiB on grow by blocks."""
    monkeypatch.setattr(azure_containers.AzureContainer, "least_extended", LEAST)
    monkeypatch.setattr(azure_containers, "_BACK_OFF_SECONDS", 0.001)
    with served_container() as found:
        for name, value in {**azure(found), opening.VARIABLE: "2"}.items():
            monkeypatch.setenv(name, value)
        yield found


def _grown(container: Container, run: Path, whole: bytes, step: int) -> int:
    """Let the stream grow by *step* bytes each time, and return how many bytes were reported as sent."""
    syncing = Syncing(str(run.parent), TO, SyncSettings())
    sent = 0
    for end in [*range(2 * LEAST, len(whole), step), len(whole)]:
        put(run, whole[:end])
        report = syncing.once()
        assert [] == report.runs[0].facts
        sent += report.sent
    assert whole == container.blobs[LOG].data
    return sent


def test_only_new_bytes_are_sent(container: Container, run: Path) -> None:
    """Every byte is sent once, and each version of the blob continues the one before."""
    whole = stream(2000)
    assert len(whole) == _grown(container, run, whole, 7777)
    assert len(whole) == sum(size for kind, size in container.requests if kind == "block")
    assert not [kind for kind, _ in container.requests if kind == "whole"]
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(container.versions))
    assert all(version.endswith(b"\n") for version in container.versions)


def test_small_blocks_are_joined(container: Container, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of blocks stays bounded, and large blocks are not sent again."""
    monkeypatch.setattr(azure_containers, "MOST_BLOCKS", 20)
    monkeypatch.setattr(azure_containers, "_LEAST_KEPT_BYTES", 20_000)
    whole = stream(2000)
    _grown(container, run, whole, 2000)
    sizes = [len(data) for data in container.blobs[LOG].blocks.values()]
    assert len(sizes) <= 21
    received = sum(size for kind, size in container.requests if kind == "block")
    assert len(whole) < received <= 2 * len(whole)


def test_blob_without_blocks_is_sent_whole_once(container: Container, run: Path) -> None:
    """A blob that another tool wrote in one request is written in blocks, then grows."""
    head, whole = stream(300, end=""), stream(400)
    container.keep(LOG, stream(100, end=""))
    put(run, head)
    assert len(head) == sync(run, TO).sent
    put(run, whole)
    assert len(whole) - len(head) == sync(run, TO).sent
    assert whole == container.blobs[LOG].data
    assert len(whole) == sum(size for kind, size in container.requests if kind == "block")


def test_another_tools_block_names_are_continued_or_replaced(container: Container, run: Path) -> None:
    """Names of a blob have one length: that of the others, unless it is too short to be unique."""
    head, whole = stream(300, end=""), stream(400)
    for names, sent in ((["MDEyMzQ1Njc4OTAxMjM0NTY3ODk="], len(whole) - len(head)), (["MDAwMQ=="], len(whole))):
        container.keep(LOG, head, {names[0]: head})
        put(run, whole)
        assert sent == sync(run, TO).sent
        assert whole == container.blobs[LOG].data
        lengths = {len(name) for name in container.blobs[LOG].blocks}
        assert 1 == len(lengths)


@pytest.mark.parametrize("name", ["a b", "a%20b", "ä", "a?b#c"])
def test_any_name_grows_by_blocks(container: Container, run: Path, name: str) -> None:
    """A name that an address escapes is sent under itself, and only its new lines."""
    log = f"runs/{name}/events.jsonl"
    whole = stream(400)
    put(run.parent / name, stream(300, end=""))
    sync(run, TO)
    put(run.parent / name, whole)
    assert len(whole) - len(stream(300, end="")) == sync(run, TO).sent
    assert (whole, 2) == (container.blobs[log].data, len(container.blobs[log].blocks))


@pytest.mark.parametrize("killed_after", ["block", "list"])
def test_killed_between_blocks_and_list(
    container: Container, run: Path, monkeypatch: pytest.MonkeyPatch, killed_after: str
) -> None:
    """Blocks without a list change nothing; the next process sends them again, with no loss and nothing twice."""
    head, whole = stream(300, end=""), stream(400)
    put(run, head)
    sync(run, TO)
    put(run, whole)
    commit = azure_containers.AzureContainer._commit

    def killed(self: object, *arguments: object) -> str:
        if killed_after == "list":
            commit(self, *arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(azure_containers.AzureContainer, "_commit", killed)
        with pytest.raises(KeyboardInterrupt):
            sync(run, TO)
    assert (head if killed_after == "block" else whole) == container.blobs[LOG].data
    assert ("sent" if killed_after == "block" else "same") == outcome(sync(run, TO))
    assert whole == container.blobs[LOG].data


@pytest.mark.parametrize("late", ["_committed", "_stage", "_commit"])
def test_late_writer_goes_on_from_what_is_there(
    container: Container, run: Path, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    """Another writer before any request is not undone: the one that comes late compares again."""
    put(run, stream(300, end=""))
    sync(run, TO)
    put(run, stream(400))
    others = [stream(390, end=""), stream(380, end="")]
    asked = getattr(azure_containers.AzureContainer, late)

    def other_first(self: object, *arguments: object) -> object:
        if others:
            container.keep(LOG, others.pop())
        return asked(self, *arguments)

    monkeypatch.setattr(azure_containers.AzureContainer, late, other_first)
    assert "sent" == outcome(sync(run, TO))
    assert stream(400) == container.blobs[LOG].data
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(container.versions))


@pytest.mark.parametrize("earlier", [b"", stream(100, end="")])
def test_only_the_condition_protects_another_writer(
    container: Container, run: Path, monkeypatch: pytest.MonkeyPatch, earlier: bytes
) -> None:
    """A blob that appears or changes before the first block is compared, not replaced."""
    if earlier:
        container.keep(LOG, earlier)
    put(run, stream(300))
    stage = azure_containers.AzureContainer._stage
    other = stream(300, run_id="b")

    def other_first(self: object, *arguments: object) -> None:
        if container.versions[-1:] != [other]:
            container.keep(LOG, other)
        stage(self, *arguments)

    monkeypatch.setattr(azure_containers.AzureContainer, "_stage", other_first)
    assert "conflict" == outcome(sync(run, TO))
    assert other == container.blobs[LOG].data


@pytest.mark.parametrize("status", [401, 403, 501])
@pytest.mark.parametrize("kind", ["get blocks", "block", "list"])
def test_refused_blocks_are_sent_whole(container: Container, run: Path, kind: str, status: int) -> None:
    """A store that does not take signed requests gets whole streams; later streams are not tried in blocks."""
    put(run, stream(300, end=""))
    sync(run, TO)
    container.refusals[kind] = status
    put(run, stream(400))
    syncing = Syncing(str(run.parent), TO, SyncSettings())
    assert len(stream(400)) == syncing.once().sent
    assert stream(400) == container.blobs[LOG].data
    tried = len(container.requests)
    put(run.parent / "b", stream(400, run_id="b"))
    syncing.once()
    assert {"whole"} == {kind for kind, _ in container.requests[tried:]}


def test_shared_access_signature_is_enough(container: Container, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shared access signature writes blocks as a key does."""
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    monkeypatch.setenv("AZURE_STORAGE_SAS_KEY", "sv=2023-11-03&sp=rw&sig=secretsecret")
    whole = stream(2000)
    assert len(whole) == _grown(container, run, whole, 30_000)


def test_without_credentials_streams_are_sent_whole(
    container: Container, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where only obstore finds credentials, streams are sent whole."""
    monkeypatch.setattr(azure_containers, "_client", lambda container, seconds: None)
    syncing = Syncing(str(run.parent), TO, SyncSettings())
    for steps in (300, 400):
        put(run, stream(steps, end=""))
        assert len(stream(steps, end="")) == syncing.once().sent
    assert {"whole"} == {kind for kind, _ in container.requests}
    assert stream(400, end="") == container.blobs[LOG].data


@pytest.mark.parametrize("kind", ["get blocks", "list"])
def test_answers_without_content_are_asked_again(container: Container, run: Path, kind: str) -> None:
    """An empty answer with status 200 is compared and tried again; one that stays is reported with its cause."""
    put(run, stream(300, end=""))
    sync(run, TO)
    container.refusals[kind] = 200
    put(run, stream(400))
    report = sync(run, TO)
    assert "failed" == outcome(report)
    assert "the answer of the server has no " in report.runs[0].facts[0]
    del container.refusals[kind]
    assert "sent" == outcome(sync(run, TO))
    assert stream(400) == container.blobs[LOG].data


@pytest.mark.parametrize("kind", ["get blocks", "block", "list"])
def test_store_that_fails_is_reported_without_secrets(container: Container, run: Path, kind: str) -> None:
    """Each request is tried five times; the report has neither credentials nor the signed address."""
    put(run, stream(300, end=""))
    sync(run, TO)
    container.refusals[kind] = 503
    put(run, stream(400))
    before = len(container.requests)
    report = sync(run, TO)
    assert "failed" == outcome(report)
    assert 5 == [each for each, _ in container.requests[before:]].count(kind)
    text = repr(report)
    assert "503" in text
    assert not [word for word in ("sig=", "secretsecret", "se=20", "http://") if word in text]
    assert stream(300, end="") == container.blobs[LOG].data
