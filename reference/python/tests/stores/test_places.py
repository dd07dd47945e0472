from __future__ import annotations

import importlib
import itertools
import json
import operator
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from command_line import toyspec as toyspec_apart
from command_line import toyspec_within as toyspec
from files import in_subprocess
from loopback_hub import NAME, serving
from loopback_store import BUCKET, Handler, Store, forget, stream, web
from toyspec import (
    StreamError,
    StreamUnreadableError,
    check,
    follow,
    list_runs,
    open_run,
    read,
    start_run,
)
from toyspec.convert import export_runs, import_runs
from toyspec.core.checker import CheckOptions, iter_runs
from toyspec.core.command_line.main import main
from toyspec.core.findings import FileReport
from toyspec.core.places.addresses import is_address, public, secret_of, without_secrets
from toyspec.core.places.place import Entry
from toyspec.core.places.remote_files import keep_block, kept_block
from toyspec.core.runs.discovery import NoStream, Stream, each_result, find_streams
from toyspec.core.runs.summary import summarize_run
from toyspec.view.charts import read_curves

pytest.importorskip("obstore", reason="the extra remote is not installed")


def test_addresses_are_not_paths() -> None:
    """An address has a scheme; drives of Windows, and paths with colons after a dot, do not."""
    assert all(map(is_address, ("s3://bucket/a", "https://host/a", "abfss://c@account/a", "memory://a")))
    assert not any(map(is_address, ("runs/a", "C://runs", "./s3://bucket", "a b://c", "-", "", "://a", "1x://a")))


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("https://user:pass@host/a/?X-Amz-Signature=abc", "https://host/a"),
        ("http://host:1/a?sig=abc#top", "http://host:1/a"),
        ("s3://key:secret@other/runs/", "s3://other/runs"),
        ("S3://bucket/a?b", "s3://bucket/a?b"),
        ("abfss://container@account.dfs.core.windows.net/a", "abfss://container@account.dfs.core.windows.net/a"),
        ("./a?b", "./a?b"),
    ],
)
def test_public_addresses_have_no_credentials(given: str, shown: str) -> None:
    """User, password and the query of a signed address are not shown; a key of a store may have a question mark."""
    assert shown == public(given)


def test_credentials_are_of_the_address_that_had_them() -> None:
    """A bucket that was named with a user is refused there, and not elsewhere; what is only shown is not remembered."""
    assert "s3://shared/runs" == public("s3://key:secret@shared/runs")
    assert ("key:secret@", "") == secret_of("s3://shared/runs/a/events.jsonl")
    assert ("", "") == secret_of("s3://shared/runs-2")
    assert "sftp://server/a" == public("sftp://user@server/a")
    assert ("user@", "") == secret_of("sftp://server/b/c")
    assert "https://kept/a" == without_secrets("https://user:word@kept/a?sig=b")
    assert ("", "") == secret_of("https://kept/a")


def test_reading_from_a_store_gives_what_reading_a_file_gives(store: Store, tmp_path: Path) -> None:
    """Records, report, summary and check of a remote run are those of the same run on disk."""
    run = tmp_path / "runs" / "a"
    run.mkdir(parents=True)
    (run / "events.jsonl").write_bytes(stream(5000) + b'{"kind":"st')
    store.put("runs/a/events.jsonl", stream(5000) + b'{"kind":"st')
    remote = f"s3://{BUCKET}/runs/a"
    with read(run) as here, read(remote) as there:
        assert list(here) == list(there)
        assert here.report == there.report
    assert open_run(run).row() == open_run(remote).row() | {"path": str(run)}
    (here_report,), (there_report,) = check(run).files, check(remote).files
    assert here_report.findings == there_report.findings
    assert f"{remote}/events.jsonl" == there_report.path


def test_sidecars_and_seals_are_checked_in_a_store(store: Store) -> None:
    """A broken manifest, and an object that differs from the seal, are findings as on disk."""
    store.put("runs/a/events.jsonl", stream(3))
    store.put("runs/a/run.json", b"{")
    store.put("runs/b/events.jsonl", stream(3, run_id="b"))
    store.put("runs/b/note.txt", b"other")
    store.put(
        "runs/b/SHA256SUMS", b"".join(b"0" * 64 + b"  " + name + b"\n" for name in (b"events.jsonl", b"note.txt"))
    )
    reports = check(f"s3://{BUCKET}/runs").files
    assert [["sidecar-unreadable"], ["seal-broken", "seal-broken"]] == [
        [finding.rule for finding in report.findings] for report in reports
    ]


def test_a_store_is_searched_as_a_directory_is(store: Store, tmp_path: Path) -> None:
    """The same runs are found at any depth, in the same order, also logs of other programs; checkpoints count once."""
    log = json.dumps({"log_history": [{"loss": 1.0, "step": 1}], "global_step": 1}).encode()
    objects = {
        "b/events.jsonl": stream(2, run_id="b"),
        "a-1/events.jsonl": stream(2, run_id="a-1"),
        "a/deep/er/metrics.jsonl": b'{"step":1,"loss":1.0,"wall_time_ms":5}\n',
        "a/events.jsonl": stream(2),
        "a/weights.bin": b"\0" * 99,
        "seal/SHA256SUMS": b"",
        "hf/checkpoint-9/trainer_state.json": log,
        "hf/checkpoint-10/trainer_state.json": log,
    }
    # What a run shows and installed software are not searched.
    others = "a/SHA256SUMS a/media/events.jsonl a/media/b/events.jsonl node_modules/x/events.jsonl venv/pyvenv.cfg "
    others += "venv/lib/events.jsonl n/events.rank-1.jsonl media/events.jsonl n/checkpoint-5/events.jsonl"
    objects |= {name: stream(3, run_id=name.partition("/")[0]) for name in others.split()}
    for key, data in objects.items():
        store.put(f"runs/{key}", data)
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(data)

    def found(root: str) -> list[str]:
        reports = iter_runs([root], options=CheckOptions())
        return [report.path.removeprefix(root) for report in reports if isinstance(report, FileReport)]

    assert found(str(tmp_path)) == found(f"s3://{BUCKET}/runs")
    here, there = list_runs(tmp_path), list_runs(f"s3://{BUCKET}/runs")
    assert [run.facts.run for run in here] == [run.facts.run for run in there]
    assert 7 == len(there)
    seal = f"s3://{BUCKET}/runs/seal"
    assert [NoStream(seal, is_bundle=True)] == list(find_streams(seal))
    sealed = {each.path: each.is_sealed for each in find_streams(f"s3://{BUCKET}/runs") if isinstance(each, Stream)}
    assert (6, [f"s3://{BUCKET}/runs/a/events.jsonl"]) == (
        len(sealed),
        [path for path, is_so in sealed.items() if is_so],
    )


@pytest.mark.parametrize("steps", [3, 60_000])
def test_listing_a_bundle_costs_two_requests_and_128_kib(store: Store, steps: int) -> None:
    """Beside the list of the store, a run costs at most two requests, whatever its size."""
    store.put("runs/a/events.jsonl", stream(steps))
    (run,) = list_runs(f"s3://{BUCKET}/runs")
    assert (steps, 1.0 / steps, "completed") == (run.facts.last_step, run.facts.final_loss, run.facts.reason)
    reads = store.reads()
    assert len(reads) <= 2
    assert sum(request.sent for request in reads) <= 128 * 1024
    assert 1 == len(store.requests) - len(reads)


def test_run_that_is_read_twice_is_sent_once(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """``show`` summarizes and checks a run; the store sends it once, and again after it has changed."""
    for run_id in "ab":
        data = stream(9000, run_id=run_id)
        store.put("runs/a/events.jsonl", data)
        before = store.sent
        assert 0 == main(["show", f"s3://{BUCKET}/runs/a"])
        # Each reading asks for the beginning, which says what the object is now.
        assert len(data) <= store.sent - before < len(data) + (1 << 16) + 1000
    assert "1 run-id-mismatch" in capsys.readouterr().out


def test_kept_blocks_are_bounded() -> None:
    """At most 32 MiB are kept, those that were used last; nothing without an entity tag, and of no large object."""
    forget()
    entry = Entry("s3://b/a", 1 << 24, '"tag"')
    for number in range(40):
        kept_block(entry, 0)
        keep_block(entry, number, bytes(1 << 20))
    assert [0, *range(9, 40)] == [number for number in range(40) if kept_block(entry, number)]
    for other in (entry._replace(identity="2026-11-22"), Entry("s3://b/large", 1 << 25, '"tag"')):
        keep_block(other, 0, b"x")
        assert kept_block(other, 0) is None
    forget()


def test_foreign_objects_are_listed_in_pages_and_not_kept(store: Store) -> None:
    """A bucket of many other objects costs memory for its runs only."""
    for number in range(5_000):
        store.put(f"data/part-{number:06}.bin", b"")
    store.page_size = 250
    store.put("data/run/events.jsonl", stream(3))
    tracemalloc.start()
    try:
        (run,) = list_runs(f"s3://{BUCKET}/data")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "run" == run.facts.run
    assert 21 == sum("list-type" in request.query for request in store.requests)
    # The server is in this process, so that its pages count too.
    assert peak < 8_000_000


def test_curves_of_a_run_in_a_store_are_read(store: Store) -> None:
    """The object of an address may grow while it is read; one that never rests is an error."""
    versions = [stream(steps, end="") for steps in (4000, 4100)] + [stream(4200)]
    others = itertools.cycle([stream(4000, run_id=name) for name in "bcd"])
    store.put("runs/a/events.jsonl", versions[0])

    def change(handler: Handler) -> bool:
        if handler.headers.get("Range", "bytes=0-").startswith("bytes=0-"):
            return False
        store.put("runs/a/events.jsonl", versions.pop(0) if len(versions) > 1 else versions[0])
        return False

    store.every = change
    _, summary = read_curves(f"s3://{BUCKET}/runs/a")
    loss = summary.series["loss"]
    assert ("complete", 1 / 4200) == (summary.facts.state, loss.last and loss.last[1])

    def replace(handler: Handler) -> bool:
        if handler.headers.get("Range"):
            store.put("runs/a/events.jsonl", next(others))
        return False

    store.every = replace
    with pytest.raises(StreamError, match="it changed again and again while it was read; read it again"):
        read_curves(f"s3://{BUCKET}/runs/a")


def test_web_servers_need_no_list(store: Store) -> None:
    """A run directory and a stream on a web server are read without a list of files; a directory above is refused."""
    store.put("runs/a b/events.jsonl", stream(4))
    directory = web(store, "runs/a b")
    assert 4 == summarize_run(directory).last_step
    assert 4 == summarize_run(f"{directory}/events.jsonl").last_step
    (report,) = check(directory).files
    assert report.valid
    done = toyspec("ls", web(store, "runs"))
    assert 2 == done.returncode
    assert b"the directory has neither events.jsonl nor metrics.jsonl" in done.stderr


def test_server_without_ranges_is_refused(store: Store) -> None:
    """A server that sends whole files only is not read, and the error says to copy the file."""
    store.has_ranges = False
    store.put("a/events.jsonl", stream(5000))
    with pytest.raises(StreamUnreadableError, match="only all of it; copy it and read the copy"):
        read(web(store, "a/events.jsonl"))
    with pytest.raises(StreamUnreadableError, match="only all of it"):
        next(follow(web(store, "a/events.jsonl"), idle_seconds=0))


def test_gzip_and_empty_objects(store: Store) -> None:
    """Compressed objects are decompressed, and an empty one is a torn stream."""
    import gzip

    store.put("z/events.jsonl.gz", gzip.compress(stream(9)))
    store.put("e/events.jsonl", b"")
    assert 9 == summarize_run(f"s3://{BUCKET}/z").last_step
    assert "torn" == check(f"s3://{BUCKET}/e").files[0].state


def test_exports_take_addresses(store: Store, tmp_path: Path) -> None:
    """A run in a store is exported; an import says that it needs a copy."""
    report = import_runs([f"s3://{BUCKET}/logs"], tmp_path / "runs")
    assert ["copy what is at the address first"] == [error.message.rpartition("; ")[2] for error in report.errors]
    store.put("runs/a/events.jsonl", stream(3))
    exported = export_runs("tensorboard", [f"s3://{BUCKET}/runs"], tmp_path / "out")
    assert [] == exported.errors
    assert list((tmp_path / "out").rglob("*tfevents*"))


def test_configured_roots_may_be_addresses(store: Store, tmp_path: Path) -> None:
    """A root in toyspec.toml that is an address is not taken for a path."""
    store.put("runs/a/events.jsonl", stream(3))
    (tmp_path / "toyspec.toml").write_text(f'roots = ["s3://{BUCKET}/runs"]')
    done = toyspec("ls", cwd=tmp_path)
    assert b"\na " in done.stdout, done.stderr


def test_runs_are_not_written_to_addresses(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that would be written to an address is refused; no folder of that name appears."""
    monkeypatch.chdir(tmp_path)
    for run_id in ("a", None):
        with pytest.raises(ValueError, match="write the run into a folder"):
            start_run(f"s3://{BUCKET}/runs", run_id=run_id)
    done = toyspec("import", "logs", "--out", f"s3://{BUCKET}/runs")
    assert b"must be a path on this machine, not an address" in done.stderr
    assert [] == list(tmp_path.iterdir())


LAKE = """
from errno import ENOENT

from toyspec.core.places.place import Entry, FetchedBytes

OBJECTS = {}


class Lake:
    def entries(self, address):
        return (self.status(key) for key in sorted(OBJECTS) if key.startswith(f"{address}/"))

    def names(self, address):
        return [key.rpartition("/")[2] for key in OBJECTS if key.rpartition("/")[0] == address]

    def status(self, address):
        if address not in OBJECTS:
            raise FileNotFoundError(ENOENT, "No such object", address)
        return Entry(address, len(OBJECTS[address]), str(len(OBJECTS[address])))

    def read_range(self, address, offset, size, identity):
        entry = self.status(address)
        return FetchedBytes(OBJECTS[address][offset : offset + size], entry)


def open_place(scheme, host, query):
    assert (scheme, host, query) == ("lake", "deep", "")
    return Lake()
"""


def test_a_package_adds_a_scheme(install_package: Callable[..., None]) -> None:
    """Runs below an address of a package's own scheme are listed, checked and read; no table names it."""
    install_package("its-lake", {"toyspec.places": {"lake": "its_lake:open_place"}}, {"its_lake.py": LAKE})
    objects = importlib.import_module("its_lake").OBJECTS
    objects["lake://deep/runs/a/events.jsonl"] = stream(3)
    assert ["a"] == [run.facts.run for run in list_runs("lake://deep/runs")]
    assert ["complete"] == [file.state for file in check("lake://deep/runs").files]
    assert 5 == len(list(read("lake://deep/runs/a")))


def test_files_by_their_addresses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The address file:///… names what the path names, wherever a command is called."""
    pytest.importorskip("fsspec", reason="the extra remote is not installed")
    for name in ("a b", "100% ü"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "events.jsonl").write_bytes(stream(3))
    root = f"file://{tmp_path}/runs"
    assert ["100% ü", "a b"] == sorted(run.facts.run for run in list_runs(root))
    assert [f"{root}/100% ü/events.jsonl", f"{root}/a b/events.jsonl"] == [file.path for file in check(root).files]
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "weights.bin").write_bytes(b"")
    assert 0 == main(["ls", f"file://{tmp_path}/empty"])
    assert "`toyspec import` takes logs of other tools from there" in capsys.readouterr().err


def test_work_on_runs_of_a_store_is_a_bounded_number_ahead() -> None:
    """However many runs a store has, the first result comes before all are listed, and few are kept."""
    listed: list[int] = []

    def streams() -> Iterator[Stream]:
        for number in range(100_000):
            listed.append(number)
            yield Stream(f"s3://{BUCKET}/{number}", 0)

    results = each_result(streams(), lambda each: each.path)
    assert [f"s3://{BUCKET}/{number}" for number in range(3)] == [next(results)[1]() for _ in range(3)]
    assert len(listed) < 200
    results.close()  # type: ignore[attr-defined]
    sized = operator.attrgetter("size")
    assert [0, 1, 2] == [result() for _, result in each_result((Stream("s3://b", at) for at in range(3)), sized)]


def test_nothing_remote_is_imported_for_local_paths(tmp_path: Path) -> None:
    """Commands on files import no client of a store."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "events.jsonl").write_bytes(stream(3))
    program = (
        "import sys; from toyspec.core.command_line.main import main\n"
        f"for name in ('check', 'ls', 'show'): assert main([name, {str(tmp_path / 'a')!r}]) == 0\n"
        "loaded = {'obstore', 'fsspec', 'concurrent.futures'} & set(sys.modules)\n"
        "sys.exit(repr(loaded) if loaded else 0)"
    )
    done = in_subprocess(program)
    assert 0 == done.returncode, done.stderr


def test_repository_is_read_in_place(tmp_path: Path) -> None:
    """Commands read a repository by its address, and say where there is none."""
    pytest.importorskip("huggingface_hub", reason="the extra hub is not installed")
    files = {f"all/{name}/events.jsonl": stream(5, run_id=name) for name in ("a", "b")}
    with serving(files) as endpoint:
        environment = {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path)}
        checked = toyspec_apart("check", f"hf://{NAME}/all", env=environment)
        absent = toyspec_apart("check", "hf://me/other", env=environment)
    assert (0, b"2 runs: 2 complete", b"") == (checked.returncode, checked.stdout[:18], checked.stderr)
    assert 2 == absent.returncode
    assert b"hf://me/other: No such object" in absent.stdout
