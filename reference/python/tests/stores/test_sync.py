"""A place that is kept in step has whole lines only, and loses nothing."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

import pytest

import toyspec
from command_line import toyspec_within as command
from loopback_store import Handler, Store, stream
from synced_runs import FRAGMENT, LOG, TO, outcome, put, sync
from toyspec.stores import run_sync
from toyspec.stores.run_sync import RunSync, SyncReport, SyncSettings
from toyspec.stores.syncing import Syncing, target_of

pytest.importorskip("obstore", reason="the extra remote is not installed")


def test_ranks_media_and_annotations_are_of_the_log(store: Store, run: Path) -> None:
    """What was logged and annotated arrives: logs of ranks in whole lines, media before their records."""
    picture = f"media/{'0' * 64}.png"
    put(run, stream(5))
    put(run, stream(5, end="") + FRAGMENT, "events.rank-1.jsonl")
    put(run, b"earlier\n", "events.rank-1.jsonl.prev")
    put(run, b'{"at":"2026-01-01T00:00:00Z","name":"x"}\n{"at"', "annotations.jsonl")
    put(run, b"PNG", picture)
    put(run, b"weights", "media/checkpoint.bin")
    report = sync(run)
    assert ("sent", len(FRAGMENT), True) == (outcome(report), report.runs[0].fragment, report.runs[0].is_ended)
    there = {name.removeprefix("runs/a/"): store.get(name) for name in store.versions}
    assert {
        picture: b"PNG",
        "events.rank-1.jsonl.prev": b"earlier\n",
        "events.jsonl": stream(5),
        "events.rank-1.jsonl": stream(5, end=""),
        "annotations.jsonl": b'{"at":"2026-01-01T00:00:00Z","name":"x"}\n',
    } == there
    sent = [request.path.partition("/runs/a/")[2] for request in store.requests if request.method == "PUT"]
    assert [picture, "annotations.jsonl"] == [sent[0], sent[-1]]


def test_annotations_there_stay(store: Store, run: Path) -> None:
    """Annotations that were added at the place are not undone, and the log arrives all the same."""
    mine, more = b'{"name":"mine"}\n', b'{"name":"there"}\n'
    put(run, stream(5, end=""))
    put(run, mine, "annotations.jsonl")
    sync(run)
    store.put("runs/a/annotations.jsonl", mine + more)
    put(run, stream(5))
    assert "ahead" == outcome(sync(run))
    put(run, mine + b'{"name":"another"}\n', "annotations.jsonl")
    report = sync(run)
    assert ["its annotations.jsonl has other lines; use another place, or --keep-both"] == report.runs[0].facts
    assert (mine + more, stream(5)) == (store.get("runs/a/annotations.jsonl"), store.get(LOG))


def test_second_call_lists_and_sends_nothing(store: Store, run: Path) -> None:
    """What is in step costs one list for all runs."""
    put(run, stream(5))
    put(run, b"{}", "run.json")
    put(run.parent / "b", stream(5, run_id="b"))
    sync(run)
    before = len(store.requests)
    again = sync(run)
    assert [(0, "same"), (0, "same")] == [(each.sent, each.outcome) for each in again.runs]
    assert ["list-type"] == [each.query.partition("=")[0] for each in store.requests[before:]]


def test_empty_stream_is_sent_when_it_has_records(store: Store, run: Path) -> None:
    """One that was cut to nothing is brought there as such; the next records follow, and no pass lasts for ever."""
    syncing = Syncing(str(run.parent), TO, SyncSettings())
    put(run, b"")
    sync(run)
    store.put(LOG, b"")
    syncing.once("all")
    put(run, stream(500, end=""))
    assert ["sent", "same"] == [outcome(syncing.once()) for _ in range(2)]
    assert stream(500, end="") == store.get(LOG)


@pytest.mark.parametrize(("seconds", "max_delay"), [(30.0, None), (240.0, None), (240.0, 12.0), (240.0, 2.0)])
def test_cost_of_a_stream_that_grows(store: Store, run: Path, seconds: float, max_delay: float | None) -> None:
    """A stream is sent whole each time: at most 64 KiB a second beside its end, or after the delay that is chosen."""
    whole = stream(16_000, end="")
    assert len(whole) > 1 << 20
    now = 0.0
    settings = SyncSettings(max_delay=max_delay)
    one = RunSync(str(run), f"{TO}/a", target_of(TO), settings, clock=lambda: now)
    sent, latest = 0, 0.0
    while now < seconds:
        now += seconds / 120
        put(run, whole[: int(len(whole) * now / seconds)])
        result = one.bring("due")
        sent += result.sent
        latest = now if result.sent else latest
        assert now - latest < (max_delay or len(whole) / (1 << 16)) + seconds / 120
    assert max_delay is not None or sent <= seconds * (1 << 16)
    assert one.bring("all").sent <= len(whole)
    assert whole == store.get(LOG)


def test_end_of_a_run_is_not_waited_for(store: Store, run: Path) -> None:
    """What is new waits while the run goes on, and is sent once it has ended."""
    one = RunSync(str(run), f"{TO}/a", target_of(TO), SyncSettings(), clock=lambda: 0.0)
    outcomes = []
    for steps, end in ((500, ""), (501, ""), (501, "completed")):
        put(run, stream(steps, end=end))
        outcomes.append(one.bring("due").outcome)
    assert ["sent", "waiting", "sent"] == outcomes
    assert stream(501) == store.get(LOG)


def test_replaced_streams_are_kept(store: Store, run: Path) -> None:
    """A run that is started twice more has three streams there as here."""
    for loss in range(3):
        with toyspec.start_run(run.parent, run_id="a") as writer:
            for _ in range(30):
                writer.step(loss=float(loss))
        assert "sent" == outcome(sync(run))
    names = ["events.jsonl", "events.jsonl.prev", "events.jsonl.prev-1"]
    assert names == sorted(path.name for path in run.iterdir())
    assert [(run / name).read_bytes() for name in names] == [store.get(f"runs/a/{name}") for name in names]


def test_fragment_that_was_moved_is_sent(store: Store, run: Path) -> None:
    """Once a writer has moved the fragment to a side file, that is sent, and the stream goes on."""
    put(run, stream(5, end="") + FRAGMENT)
    report = sync(run)
    assert (len(FRAGMENT), stream(5, end="")) == (report.runs[0].fragment, store.get(LOG))
    assert [("torn", True)] == [(file.state, file.valid) for file in toyspec.check(f"{TO}/a").files]
    with toyspec.start_run(run.parent, run_id="a", exist="resume") as writer:
        writer.step(loss=1.0)
    assert "sent" == outcome(sync(run))
    assert (run / "events.jsonl").read_bytes() == store.get(LOG)
    assert FRAGMENT == store.get(f"{LOG}.torn-{len(stream(5, end=''))}")


def test_another_run_there_stays(store: Store, run: Path) -> None:
    """A log of another run is not replaced; with --keep-both it gets another name first, and always the same."""
    put(run, stream(5))
    store.put(LOG, stream(7, run_id="other"))
    done = command("sync", str(run.parent), TO)
    assert (1, stream(7, run_id="other")) == (done.returncode, store.get(LOG))
    assert b"its events.jsonl is of another run; use another place, or --keep-both" in done.stderr
    assert b"1 run \xe2\x86\x92 s3://bucket/runs: 1 of another run there" in done.stdout
    assert 0 == command("sync", "--keep-both", str(run.parent), TO).returncode
    (kept,) = (key for key in store.objects if ".prev-" in key)
    assert (stream(7, run_id="other"), stream(5)) == (store.objects[kept], store.get(LOG))


@pytest.mark.parametrize("to", ["s3", "directory"])
def test_another_run_of_the_same_size_is_a_conflict(store: Store, run: Path, tmp_path: Path, to: str) -> None:
    """A log there with as many bytes, written later than the one here, is compared by its content."""
    put(run, stream(5, run_id="a"))
    place = TO if to == "s3" else str(tmp_path / "mirror")
    sync(run, place)
    put(run, stream(5, run_id="b"))
    later = time.time() + 3600
    store.times = dict.fromkeys(store.times, later)
    if to == "directory":
        os.utime(tmp_path / "mirror" / "a" / "events.jsonl", (later, later))
    assert "conflict" == outcome(sync(run, place))


def test_longer_log_there_stays(store: Store, run: Path) -> None:
    """A folder that was set back does not shorten what the place has."""
    put(run, stream(5, end=""))
    store.put(LOG, stream(9, end=""))
    report = sync(run)
    assert ("ahead", 0) == (outcome(report), report.runs[0].sent)
    assert stream(9, end="") == store.get(LOG)


def test_stream_that_was_replaced_without_a_side_file(store: Store, run: Path) -> None:
    """Whoever has sent a log knows that it was replaced, and keeps the earlier one there."""
    syncing = Syncing(str(run.parent), TO, SyncSettings())
    put(run, stream(5))
    syncing.once()
    put(run, stream(6, run_id="new"))
    (result,) = syncing.once().runs
    (kept,) = (key for key in store.objects if ".prev-" in key)
    assert (stream(5), stream(6, run_id="new")) == (store.objects[kept], store.get(LOG))
    assert [f"its events.jsonl was another one; it is kept as {kept.rpartition('/')[2]}"] == result.facts


def test_copy_that_was_answered_and_not_made_is_made_again(store: Store, run: Path) -> None:
    """A proxy's page with status 200 does not make a copy of the earlier log, which stays until there is one."""
    syncing = Syncing(str(run.parent), TO, SyncSettings())
    put(run, stream(5))
    syncing.once()
    put(run, stream(6, run_id="new"))
    answered = 0

    def sign_in(handler: Handler) -> bool:
        nonlocal answered
        if "x-amz-copy-source" not in handler.headers or answered:
            return False
        answered += 1
        handler.answer(200, b"<html><body>Sign in</body></html>")
        return True

    store.every = sign_in
    syncing.once()
    assert sorted([stream(5), stream(6, run_id="new")]) == sorted(store.objects.values())


def test_stream_that_is_replaced_during_a_pass_is_never_gone(
    store: Store, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that has just got the name of a side file is not there under it, another one's until it is sent."""
    logs = [stream(5, run_id="first"), stream(6, run_id="second"), stream(7, run_id="third")]
    put(run, logs[0], "events.jsonl.prev")
    put(run, logs[1])
    syncing = Syncing(str(run.parent), TO, SyncSettings())
    syncing.once()

    def replaced(path: str) -> bool:
        os.rename(f"{path}.prev", f"{path}.prev-1")
        os.rename(path, f"{path}.prev")
        put(run, logs[2])
        return False

    with monkeypatch.context() as patch:
        patch.setattr(run_sync, "is_locked", replaced)
        syncing.once()
    assert sorted(logs) == sorted(store.objects.values())
    syncing.once()
    assert logs[:2] == [store.get(f"{LOG}.prev-1"), store.get(f"{LOG}.prev")]


def test_seal_comes_last_and_only_with_its_files(store: Store, run: Path) -> None:
    """The seal of a run with weights goes with them; a link and hidden files do not."""
    put(run, stream(5))
    put(run, b"w" * 1000, "weights/step_5.gguf")
    (run / "weights" / "latest").symlink_to("step_5.gguf")
    toyspec.seal(run)
    put(run, b"", ".hidden")
    (result,) = sync(run).runs
    assert ["the seal was not sent: it covers 1 file that was not sent; --all sends everything"] == result.facts
    assert [LOG] == sorted(store.versions)
    sync(run, chosen=SyncSettings(extent="all"))
    assert [LOG, "runs/a/weights/step_5.gguf", "runs/a/SHA256SUMS"] == list(store.versions)
    assert [] == [finding.rule for file in toyspec.check(f"{TO}/a").files for finding in file.findings]


def test_sidecar_that_changes(store: Store, run: Path) -> None:
    """A sidecar is replaced by what it is now, equal size or not."""
    put(run, stream(5))
    syncing = Syncing(str(run.parent), TO, SyncSettings())
    for text in (b'{"a":1}', b'{"a":2}', b'{"a":33}'):
        put(run, text, "run.json")
        syncing.once()
        assert text == store.get("runs/a/run.json")
    put(run, b'{"a":44}', "run.json")
    sync(run)
    assert b'{"a":44}' == store.get("runs/a/run.json")


def test_watching_ends_with_a_single_run(store: Store, run: Path) -> None:
    """One run is watched until it has ended, and everything is there then."""
    put(run, stream(3, end=""))
    passes: list[str] = []

    def on_pass(report: SyncReport) -> None:
        passes.append(outcome(report))
        put(run, stream(3 + len(passes), end="" if len(passes) < 3 else "completed"))

    Syncing(str(run), f"{TO}/a", SyncSettings()).watch(threading.Event(), 0.01, on_pass)
    assert stream(6) == store.get(LOG)
    assert "sent" == passes[-1]


def test_folder(run: Path, tmp_path: Path) -> None:
    """A directory is a place too: streams grow in it, and a follower there sees no replacement."""
    mirror = tmp_path / "mirror"
    syncing = Syncing(str(run.parent), str(mirror), SyncSettings())
    put(run, stream(3, end="") + FRAGMENT)
    syncing.once()
    copy = mirror / "a" / "events.jsonl"
    number = copy.stat().st_ino
    put(run, stream(9))
    assert ["sent", "same"] == [outcome(syncing.once()) for _ in range(2)]
    assert (stream(9), number) == (copy.read_bytes(), copy.stat().st_ino)


def test_folder_takes_back_half_a_line(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that fails in the middle leaves what was there; the next pass sends the rest."""
    mirror = tmp_path / "mirror"
    put(run, stream(3, end=""))
    sync(run, str(mirror))
    put(run, stream(9))
    write = os.write

    def filled(descriptor: int, data: memoryview) -> int:
        if len(data) < 40:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[: len(data) // 2])

    with monkeypatch.context() as patch:
        patch.setattr("os.write", filled)
        assert "failed" == outcome(sync(run, str(mirror)))
    copy = mirror / "a" / "events.jsonl"
    assert stream(3, end="") == copy.read_bytes()
    assert "sent" == outcome(sync(run, str(mirror)))
    assert stream(9) == copy.read_bytes()
