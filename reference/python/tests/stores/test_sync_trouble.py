"""Places that refuse, change or are shared, and commands that are wrong: nothing is undone, and each is reported."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command_line import toyspec
from command_line import toyspec_within as command
from loopback_store import Handler, Store, served, status, stream, use
from property_examples import examples
from synced_runs import LOG, TO, outcome, put, sync
from toyspec.stores.run_sync import SyncReport, SyncSettings
from toyspec.stores.syncing import Syncing

pytest.importorskip("obstore", reason="the extra remote is not installed")


@settings(max_examples=examples(15))
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 400)), min_size=1, max_size=8))
def test_two_at_once_never_undo_each_other(
    tmp_path_factory: pytest.TempPathFactory, turns: list[tuple[int, int]]
) -> None:
    """However their turns come, each version of the object continues the one before, and the end is the stream."""
    run = tmp_path_factory.mktemp("r") / "runs" / "a"
    whole = stream(100)
    with pytest.MonkeyPatch.context() as patch, served() as store:
        use(patch, store)
        put(run, whole[:150])
        both = [Syncing(str(run.parent), TO, SyncSettings()) for _ in range(2)]
        end = 150
        for which, more in turns:
            end = min(len(whole), end + more)
            put(run, whole[:end])
            assert outcome(both[which].once()) in ("same", "sent")
        put(run, whole)
        assert {"same", "sent"} >= {outcome(each.once()) for each in both}
        versions = store.versions[LOG]
    assert whole == versions[-1]
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(versions))


def test_late_writer_goes_on_from_what_is_there(store: Store, run: Path) -> None:
    """A write between comparing and sending is not undone: the one that comes late compares again."""
    put(run, stream(5, end=""))
    sync(run)
    put(run, stream(9))
    late = [stream(7, end=""), stream(8, end="")]

    def put_late(handler: Handler) -> bool:
        if handler.command == "PUT" and late:
            store.put(LOG, late.pop(0))
        return False

    store.every = put_late
    assert "sent" == outcome(sync(run))
    assert (stream(9), []) == (store.get(LOG), late)


def test_object_that_never_rests(store: Store, run: Path) -> None:
    """A place that refuses every write because of another program is reported, not tried for ever."""
    put(run, stream(5))
    store.every = lambda handler: handler.command == "PUT" and status(412)(handler)
    (result,) = sync(run).runs
    assert "failed" == result.outcome
    assert ["events.jsonl: another program changes it all the time; end one of the two"] == result.facts


def test_refusal_shows_nothing_that_is_secret(store: Store, run: Path) -> None:
    """A refused write names the place, the status and what to do."""
    put(run, stream(5))
    refuse = status(403, b"<Error><Code>Refused</Code><Message>AKIAKEYID secretsecret</Message></Error>")
    store.every = lambda handler: handler.command == "PUT" and refuse(handler)
    done = command("sync", str(run.parent), TO)
    assert 1 == done.returncode
    assert b"toyspec sync: s3://bucket/runs/a: 403 Forbidden: the credentials do not allow it, or are m" in done.stderr
    assert b"AKIA" not in done.stderr + done.stdout
    assert b"secret" not in done.stderr + done.stdout


@pytest.mark.parametrize("body", [b"", b"<html><body>Sign in</body></html>"])
def test_answers_without_content_are_asked_again(store: Store, run: Path, body: bytes) -> None:
    """An empty or foreign answer with status 200 is compared and tried again, and never ends the mirror."""
    left = [status(200, body)] * 2
    store.every = lambda handler: bool(left) and handler.command == "PUT" and left.pop()(handler)
    put(run, stream(100))
    assert ("sent", []) == (outcome(report := sync(run)), report.runs[0].facts)
    assert (stream(100), []) == (store.get(LOG), left)


def test_answers_that_stay_without_content_are_reported(store: Store, run: Path) -> None:
    """A store that answers every write with nothing fails with that cause."""
    store.every = lambda handler: handler.command == "PUT" and status(200, b"")(handler)
    put(run, stream(5))
    report = sync(run)
    assert "failed" == outcome(report)
    assert [
        "events.jsonl: the answer of the server has no ETag, as one that was cut off or came from a proxy; try again"
    ] == report.runs[0].facts


def test_place_that_cannot_be_listed(store: Store, run: Path) -> None:
    """A place that gives no list ends the command, as wrong usage does."""
    put(run, stream(5))
    store.every = status(403)
    done = command("sync", str(run.parent), TO)
    assert (2, b"") == (done.returncode, done.stdout)
    assert b"toyspec sync: s3://bucket/runs: 403 Forbidden" in done.stderr


def test_watching_survives_a_place_that_is_away(store: Store, run: Path) -> None:
    """A pass that fails, the first too, is repeated; what is new meanwhile arrives later."""
    put(run, stream(3, end=""))
    over, outcomes = threading.Event(), []
    store.every = status(404)

    def on_pass(report: SyncReport) -> None:
        outcomes.append(outcome(report))
        store.every = status(403) if len(outcomes) == 2 else None
        put(run, stream(400 * len(outcomes), end=""))
        if len(outcomes) == 4:
            over.set()

    Syncing(str(run.parent), TO, SyncSettings(max_delay=0.0)).watch(over, 0.01, on_pass)
    assert ["failed", "sent", "failed", "sent"] == outcomes[:4]
    assert (store.get(LOG) or b"").startswith(stream(1200, end=""))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("{runs}", "https://host/runs"), "https:// cannot be kept in step; use s3://, gs://, az:// or a directory"),
        (("{runs}", "s3:/bucket/team"), "an address has two slashes: s3://bucket/team; ./ before it is a path"),
        (("{runs}/none", TO), "not a directory; name a directory of runs, or that of one run"),
        (("{runs}/empty", TO), "no run in the directory or below"),
    ],
)
def test_wrong_usage(store: Store, run: Path, arguments: tuple[str, ...], expected: str) -> None:
    """Each mistake is one sentence with what to do."""
    put(run, stream(2))
    (run.parent / "empty").mkdir()
    done = command("sync", *(each.format(runs=run.parent) for each in arguments))
    assert 2 == done.returncode
    assert expected.encode() in done.stderr


def test_credentials_in_an_address_are_refused(run: Path) -> None:
    """They are not shown either; a process of its own, since one that has met them keeps them from being shown."""
    put(run, stream(2))
    done = toyspec("sync", str(run.parent), "s3://user:word@bucket/runs")
    assert (2, True) == (done.returncode, b"credentials in an address are not used" in done.stderr)
    assert b"word" not in done.stderr


def test_one_bad_run_costs_no_other(store: Store, run: Path) -> None:
    """A run that fails is reported; the others arrive."""
    put(run, stream(2))
    put(run.parent / "b", stream(2, run_id="b"))
    refuse = status(403)
    store.every = lambda handler: handler.command == "PUT" and "/a/" in handler.path and refuse(handler)
    report = sync(run)
    assert ["failed", "sent"] == [each.outcome for each in report.runs]
    assert stream(2, run_id="b") == store.get("runs/b/events.jsonl")


def test_objects_of_others_are_passed_over(store: Store, run: Path) -> None:
    """A bucket with many other objects is listed in pages; they are counted, and none of them is touched."""
    for number in range(3000):
        store.put(f"runs/other/{number:04}", b"x")
    put(run, stream(2))
    done = command("sync", str(run.parent), TO)
    fact = "3,000 objects there are of none of these runs and were passed over, such as other/0000"
    assert (0, f"toyspec sync: {TO}: {fact}\n") == (done.returncode, done.stderr.decode())
    assert [LOG] == list(store.versions)
    report = sync(run)
    assert (3000, f"{TO}/other/0000") == (report.passed_over, report.example)
    store.objects = {key: data for key, data in store.objects.items() if "other" not in key}
    assert b"" == command("sync", str(run.parent), TO).stderr
