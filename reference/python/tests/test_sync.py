"""A place that is kept in step: what it has is always whole lines, and whoever writes there, nothing is lost."""

from __future__ import annotations

import itertools
import json
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toyspec
from command_line import toyspec as command
from loopback_store import BUCKET, Store, served, status, stream
from toyspec.places import opening
from toyspec.places.place import ChangedError, Entry
from toyspec.sync.results import SyncReport
from toyspec.sync.run_sync import Settings
from toyspec.sync.spans import Span
from toyspec.sync.syncing import Syncing, Watching

pytest.importorskip("obstore", reason="the extra remote is not installed")
s3_buckets = pytest.importorskip("toyspec.sync.s3_buckets", reason="the extra sync is not installed")

TO = f"s3://{BUCKET}/runs"
LOG = "runs/a/events.jsonl"
FRAGMENT = b'{"kind":"step","t":9'


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return the empty directory of a run in a directory of runs."""
    made = tmp_path / "runs" / "a"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let objects from 1 KiB on grow by copies."""
    monkeypatch.setattr(s3_buckets, "LEAST_PART_BYTES", 1 << 10)
    monkeypatch.setattr(s3_buckets.S3Bucket, "least_extended", 1 << 10)


def put(run: Path, data: bytes, name: str = "events.jsonl") -> None:
    """Write a file of the run."""
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    (run / name).write_bytes(data)


def sync(run: Path, to: str = TO, chosen: Settings | None = None) -> SyncReport:
    """Bring the place in step once, as a new process would."""
    return Syncing(str(run.parent), to, chosen or Settings()).once()


def outcome(report: SyncReport) -> str:
    """Return what became of the only run."""
    (found,) = report.runs
    return found.outcome


def test_whole_lines_only(store: Store, run: Path) -> None:
    """A fragment stays here, and the mirror of a killed run is a legal torn bundle."""
    put(run, stream(5, end="") + FRAGMENT)
    report = sync(run)
    assert ("sent", len(FRAGMENT)) == (outcome(report), report.runs[0].fragment)
    assert stream(5, end="") == store.get(LOG)
    checked = toyspec.check(f"{TO}/a")
    assert [("torn", True)] == [(file.state, file.valid) for file in checked.files]


def test_second_call_lists_and_sends_nothing(store: Store, run: Path) -> None:
    """What is in step costs one list for all runs."""
    put(run, stream(5))
    put(run, b"{}", "run.json")
    put(run.parent / "b", stream(5, run_id="b"))
    sync(run)
    before = len(store.requests)
    again = sync(run)
    assert (0, ["same", "same"]) == (again.sent, [each.outcome for each in again.runs])
    assert ["list-type"] == [each.query.partition("=")[0] for each in store.requests[before:]]


def test_long_stream_grows_by_copies(store: Store, run: Path, small_parts: None) -> None:
    """Only new bytes are sent, within 1.2 of what was written, and every version continues the one before."""
    whole = stream(2000)
    syncing = Syncing(str(run.parent), TO, Settings())
    for end in [*range(900, len(whole), 7777), len(whole)]:
        put(run, whole[:end])
        syncing.once()
    assert whole == store.get(LOG)
    versions = store.versions[LOG]
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(versions))
    assert all(version.endswith(b"\n") for version in versions)
    assert store.received <= 1.2 * len(whole) + 200 * len(versions)
    assert {} == store.uploads


def test_short_stream_waits_until_it_has_grown(store: Store, run: Path) -> None:
    """While it is watched, a stream that can only be sent whole is sent when it has grown by half, or has ended."""
    syncing = Syncing(str(run.parent), TO, Settings())
    outcomes = []
    for steps, end in ((1000, ""), (1001, ""), (1600, ""), (1601, "completed")):
        put(run, stream(steps, end=end))
        outcomes.append(outcome(syncing.once("due")))
    assert ["sent", "waiting", "sent", "sent"] == outcomes
    assert stream(1601) == store.get(LOG)


@pytest.mark.parametrize("parts", [1 << 10, 5 << 20])
def test_replaced_streams_are_kept(store: Store, run: Path, monkeypatch: pytest.MonkeyPatch, parts: int) -> None:
    """A run that is started twice more has three streams there as here; renaming sends nothing again."""
    monkeypatch.setattr(s3_buckets.S3Bucket, "least_extended", parts)
    for loss in range(3):
        with toyspec.start_run(run.parent, run_id="a") as writer:
            for _ in range(30):
                writer.step(loss=float(loss))
        assert "sent" == outcome(sync(run))
    names = ["events.jsonl", "events.jsonl.prev", "events.jsonl.prev-1"]
    assert names == sorted(path.name for path in run.iterdir())
    assert [(run / name).read_bytes() for name in names] == [store.get(f"runs/a/{name}") for name in names]
    sizes = sum((run / name).stat().st_size for name in names)
    assert (store.received < 1.2 * sizes + 4000) is (parts == 1 << 10)


def test_fragment_that_was_moved_is_sent(store: Store, run: Path) -> None:
    """Once a writer has moved the fragment to a side file, that is sent, and the stream goes on."""
    put(run, stream(5, end="") + FRAGMENT)
    sync(run)
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
    assert b"events.jsonl there is of another run; use another place, or --keep-both" in done.stderr
    assert b"1 run \xe2\x86\x92 s3://bucket/runs: 1 of another run there" in done.stdout
    assert 0 == command("sync", "--keep-both", str(run.parent), TO).returncode
    (kept,) = (key for key in store.objects if ".prev-" in key)
    assert (stream(7, run_id="other"), stream(5)) == (store.objects[kept], store.get(LOG))


def test_longer_log_there_stays(store: Store, run: Path) -> None:
    """A folder that was set back does not shorten what the place has."""
    put(run, stream(5, end=""))
    store.put(LOG, stream(9, end=""))
    report = sync(run)
    assert ("ahead", 0) == (outcome(report), report.sent)
    assert stream(9, end="") == store.get(LOG)


def test_stream_that_was_replaced_without_a_side_file(store: Store, run: Path) -> None:
    """Whoever has sent a log knows that it was replaced, and keeps the earlier one there."""
    syncing = Syncing(str(run.parent), TO, Settings())
    put(run, stream(5))
    syncing.once()
    put(run, stream(6, run_id="new"))
    (result,) = syncing.once().runs
    (kept,) = (key for key in store.objects if ".prev-" in key)
    assert (stream(5), stream(6, run_id="new")) == (store.objects[kept], store.get(LOG))
    assert [f"events.jsonl was another one there; it is kept as {kept.rpartition('/')[2]}"] == result.facts


@settings(max_examples=15)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 400)), min_size=1, max_size=8), st.booleans())
def test_two_at_once_never_undo_each_other(
    tmp_path_factory: pytest.TempPathFactory, turns: list[tuple[int, int]], is_long: bool
) -> None:
    """However their turns come, each version of the object continues the one before, and the end is the stream."""
    run = tmp_path_factory.mktemp("r") / "runs" / "a"
    whole = stream(100)
    with pytest.MonkeyPatch.context() as patch, served() as store:
        environment(patch, store)
        patch.setattr(s3_buckets.S3Bucket, "least_extended", 300 if is_long else 5 << 20)
        put(run, whole[:150])
        both = [Syncing(str(run.parent), TO, Settings()) for _ in range(2)]
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


def environment(patch: pytest.MonkeyPatch, store: Store) -> None:
    """Let ``s3://`` name *store*."""
    from loopback_store import s3

    for name, value in {**s3(store), opening.VARIABLE: "2"}.items():
        patch.setenv(name, value)
    opening._store.cache_clear()


def test_late_writer_goes_on_from_what_is_there(store: Store, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write between comparing and sending is not undone: the one that comes late compares again."""
    put(run, stream(5, end=""))
    sync(run)
    put(run, stream(9))
    sent = s3_buckets.S3Bucket.put
    late: list[bytes] = [stream(7, end=""), stream(8, end="")]

    def put_late(self: object, span: Span, address: str, known: Entry | None) -> Entry:
        if late:
            store.put(LOG, late.pop(0))
        made: Entry = sent(self, span, address, known)
        return made

    monkeypatch.setattr(s3_buckets.S3Bucket, "put", put_late)
    assert "sent" == outcome(sync(run))
    assert stream(9) == store.get(LOG)


def test_object_that_never_rests(store: Store, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place that refuses every write because of another program is reported, not tried for ever."""
    put(run, stream(5))

    def refuse(self: object, span: Span, address: str, known: Entry | None) -> Entry:
        raise ChangedError(address)

    monkeypatch.setattr(s3_buckets.S3Bucket, "put", refuse)
    (result,) = sync(run).runs
    assert "failed" == result.outcome
    assert ["events.jsonl: another program changes it there all the time; end one of the two"] == result.facts


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (403, "403 Forbidden: the credentials do not allow it, or are missing"),
        (404, "404 Not Found: check the name of the bucket"),
        (400, "400 Bad Request: check the address, the region and the credentials"),
    ],
)
def test_refusals(store: Store, run: Path, code: int, expected: str) -> None:
    """A refused write names the place, the status and what to do, and nothing that is secret."""
    put(run, stream(5))
    refuse = status(code, b"<Error><Code>Refused</Code><Message>AKIAKEYID secretsecret</Message></Error>")
    store.every = lambda handler: handler.command == "PUT" and refuse(handler)
    done = command("sync", str(run.parent), TO)
    assert 1 == done.returncode
    assert f"toyspec sync: s3://bucket/runs/a: {expected}".encode() in done.stderr
    assert b"AKIA" not in done.stderr + done.stdout
    assert b"secret" not in done.stderr + done.stdout


def test_what_passes_is_waited_for(store: Store, run: Path) -> None:
    """A store that is busy for a moment gets the same request again."""
    put(run, stream(5))
    left = [503, 500]
    store.every = lambda handler: bool(left) and handler.command == "PUT" and status(left.pop())(handler)
    assert "sent" == outcome(sync(run))
    assert stream(5) == store.get(LOG)


def test_place_that_cannot_be_listed(store: Store, run: Path) -> None:
    """A place that gives no list ends the command, as wrong usage does."""
    put(run, stream(5))
    store.every = status(403)
    done = command("sync", str(run.parent), TO)
    assert (2, b"") == (done.returncode, done.stdout)
    assert b"toyspec sync: s3://bucket/runs: 403 Forbidden" in done.stderr


def test_seal_comes_last_and_only_with_its_files(store: Store, run: Path) -> None:
    """The seal of a run with weights goes with them; a link and hidden files do not."""
    put(run, stream(5))
    put(run, b"w" * 1000, "weights/step_5.gguf")
    (run / "weights" / "latest").symlink_to("step_5.gguf")
    toyspec.seal(run)
    put(run, b"", ".hidden")
    (result,) = sync(run).runs
    assert ["the seal is not sent: it covers 1 files that are not; --all sends them"] == result.facts
    assert [LOG] == sorted(store.versions)
    sync(run, chosen=Settings(extent="all"))
    assert [LOG, "runs/a/weights/step_5.gguf", "runs/a/SHA256SUMS"] == list(store.versions)
    assert [] == [finding.rule for file in toyspec.check(f"{TO}/a").files for finding in file.findings]


def test_sidecar_that_changes(store: Store, run: Path) -> None:
    """A sidecar is replaced by what it is now, equal size or not."""
    put(run, stream(5))
    syncing = Syncing(str(run.parent), TO, Settings())
    for text in (b'{"a":1}', b'{"a":2}', b'{"a":33}'):
        put(run, text, "run.json")
        syncing.once()
        assert text == store.get("runs/a/run.json")
    put(run, b'{"a":44}', "run.json")
    sync(run)
    assert b'{"a":44}' == store.get("runs/a/run.json")


def test_rehearsal_sends_nothing(store: Store, run: Path) -> None:
    """--dry-run and --json: the report says what would be sent, and the place stays as it is."""
    put(run, stream(5))
    done = command("sync", "--dry-run", "--json", str(run.parent), TO)
    report = json.loads(done.stdout)
    assert (0, True) == (done.returncode, report["is_rehearsal"])
    assert [("sent", len(stream(5)))] == [(each["outcome"], each["sent"]) for each in report["runs"]]
    assert {} == store.objects
    assert (
        b"1 run \xe2\x86\x92 s3://bucket/runs: 1 would be sent"
        in command("sync", "--dry-run", str(run.parent), TO).stdout
    )


def test_thorough_comparison_finds_what_ends_do_not_show(store: Store, run: Path) -> None:
    """--checksum reads every byte: a digit that differs in the middle is another log."""
    whole = stream(3000)
    put(run, whole)
    store.put(LOG, whole[:90_000] + b"7" + whole[90_001:])
    assert "same" == outcome(sync(run, chosen=Settings()))
    assert "conflict" == outcome(sync(run, chosen=Settings(thoroughness="all")))


def test_watching_ends_with_a_single_run(store: Store, run: Path) -> None:
    """One run is watched until it has ended, and everything is there then."""
    put(run, stream(3, end=""))
    passes: list[str] = []

    def on_pass(report: SyncReport) -> None:
        passes.append(outcome(report))
        put(run, stream(3 + len(passes), end="" if len(passes) < 3 else "completed"))

    Syncing(str(run), f"{TO}/a", Settings()).watch(Watching(threading.Event(), 0.01), on_pass)
    assert stream(6) == store.get(LOG)
    assert "sent" == passes[-1]


def test_watching_survives_a_place_that_is_away(store: Store, run: Path) -> None:
    """A pass that fails is repeated; what is new meanwhile arrives later."""
    put(run, stream(3, end=""))
    over, outcomes = threading.Event(), []

    def on_pass(report: SyncReport) -> None:
        outcomes.append(outcome(report))
        store.every = status(403) if len(outcomes) == 1 else None
        put(run, stream(400, end=""))
        if len(outcomes) == 3:
            over.set()

    Syncing(str(run.parent), TO, Settings()).watch(Watching(over, 0.01), on_pass)
    assert ["sent", "failed", "sent"] == outcomes[:3]
    assert stream(400, end="") == store.get(LOG)


def test_follower_of_the_place_gets_each_record_once(store: Store, run: Path, small_parts: None) -> None:
    """A follower of an object that is replaced by longer ones returns every record once, and reads only what is new."""
    whole = stream(3000)
    ends = iter([40_000, 40_001, 150_000, len(whole)])
    syncing = Syncing(str(run.parent), TO, Settings())
    put(run, whole[:30_000])
    syncing.once()
    read: list[int] = []

    def grow(_: float) -> None:
        end = next(ends)
        put(run, whole[:end])
        syncing.once()
        read.append(store.sent)

    items = list(toyspec.follow(f"{TO}/a", sleep=grow))
    steps = [item["step"] for item in items if isinstance(item, toyspec.Record) and item.kind == "step"]
    assert list(range(1, 3001)) == steps
    assert ["ended"] == [item.kind for item in items if not isinstance(item, toyspec.Record)]
    assert store.sent < 2 * len(whole)


def test_folder(run: Path, tmp_path: Path) -> None:
    """A directory is a place too: streams grow in it, and a follower there sees no replacement."""
    mirror = tmp_path / "mirror"
    syncing = Syncing(str(run.parent), str(mirror), Settings())
    put(run, stream(3, end="") + FRAGMENT)
    syncing.once()
    copy = mirror / "a" / "events.jsonl"
    number = copy.stat().st_ino
    put(run, stream(9))
    assert ["sent", "same"] == [outcome(syncing.once()) for _ in range(2)]
    assert (stream(9), number) == (copy.read_bytes(), copy.stat().st_ino)
    (run / "events.jsonl").rename(run / "events.jsonl.prev")
    put(run, stream(2, run_id="new"))
    assert "sent" == outcome(sync(run, str(mirror)))
    names = ["events.jsonl", "events.jsonl.prev"]
    assert names == sorted(path.name for path in (mirror / "a").iterdir())
    assert [(run / name).read_bytes() for name in names] == [(mirror / "a" / name).read_bytes() for name in names]
    put(run, stream(5, run_id="third"))
    assert "conflict" == outcome(sync(run, str(mirror)))
    assert "sent" == outcome(sync(run, str(mirror), Settings(on_conflict="keep both")))
    assert 3 == len(list((mirror / "a").iterdir()))


def test_google(store: Store, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """gs:// is written with the generation that was seen: a log is sent whole, and never over another one."""
    key = {"gcs_base_url": store.endpoint, "disable_oauth": True, "client_email": "", "private_key": ""}
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps({**key, "private_key_id": ""}))
    to = f"gs://{BUCKET}/runs"
    syncing = Syncing(str(run.parent), to, Settings())
    for steps in (5, 9):
        put(run, stream(steps, end=""))
        assert "sent" == outcome(syncing.once())
        assert stream(steps, end="") == store.get(LOG)
    store.put(LOG, stream(30, run_id="other"))
    store.generations[f"{BUCKET}/{LOG}"] = 99
    put(run, stream(40))
    assert "conflict" == outcome(syncing.once())
    assert stream(30, run_id="other") == store.get(LOG)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("{runs}", "https://host/runs"), "https:// cannot be kept in step; use s3://, gs://, az:// or a directory"),
        (("{runs}/none", TO), "not a directory; name a directory of runs, or that of one run"),
        (("{runs}/empty", TO), "no run in the directory or below"),
        (("--watch", "--dry-run", "{runs}", TO), "there is nothing to watch; leave out one of the two"),
        (("{runs}", "s3://user:word@bucket/runs"), "credentials in an address are not used"),
    ],
)
def test_wrong_usage(store: Store, run: Path, arguments: tuple[str, ...], expected: str) -> None:
    """Each mistake is one sentence with what to do."""
    put(run, stream(2))
    (run.parent / "empty").mkdir()
    done = command("sync", *(each.format(runs=run.parent) for each in arguments))
    assert 2 == done.returncode
    assert expected.encode() in done.stderr
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
    """A bucket with many other objects is listed in pages, and none of them is touched."""
    for number in range(3000):
        store.put(f"runs/other/{number}", b"x")
    put(run, stream(2))
    assert "sent" == outcome(sync(run))
    assert [LOG] == list(store.versions)
