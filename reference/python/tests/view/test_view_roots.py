"""The viewer over several roots, and over a store."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import loopback_store
from command_line import toyspec_within as toyspec
from loopback_store import Store, stream, web
from toyspec.core.runs.discovery import Stream, find_streams
from toyspec.view.report import html_report
from toyspec.view.roots import roots_of, run_id
from toyspec.view.scanning import ScanWork, row_of_work
from toyspec.view.scans import ScannedRun
from toyspec.view.watching import RootWatch
from view_client import Client, served

if TYPE_CHECKING:
    from pathlib import Path

RUNS = f"s3://{loopback_store.BUCKET}/runs"
LARGE = 8000
"""Number of steps of an object of which only the ends are read at first."""


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a store be asked often."""
    monkeypatch.setattr("toyspec.view.watching._REMOTE_POLL_SECONDS", 0.05)
    monkeypatch.setattr("toyspec.view.watching._REMOTE_WALK_SECONDS", 0.05)


def _put(folder: Path, run: str, data: bytes) -> None:
    (folder / run).mkdir(parents=True)
    (folder / run / "events.jsonl").write_bytes(data)


def _last_step(client: Client, run: str) -> float:
    """Return the last step of the curve of the loss."""
    ((header, columns),) = client.curves("loss", run)
    return round(1 / columns.get("min", columns["mean"])[-1]) if "message" not in header else -1


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        (["runs"], ["runs"]),
        (["here=runs", "s3://b/team"], ["here", "team"]),
        (["a/runs", "b/runs"], ["a/runs", "b/runs"]),
        (["s3://b/x=1/runs", "s3://c/x=1/runs"], ["x=1/runs", "x=1/runs (2)"]),
        (["s3://b"], ["b"]),
    ],
)
def test_roots_have_different_names(texts: list[str], names: list[str]) -> None:
    """The name is what was given, else the last part of the path, and more of it where two would be equal."""
    assert names == [root.name for root in roots_of(texts)]


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("runs/a/events.jsonl", ["a", "a/events.jsonl"]),
        ("runs/a/events.jsonl.gz", ["a", "a/events.jsonl.gz"]),
        ("runs/a/log.csv", ["a/log.csv", "a/log.csv"]),
        ("runs/events.jsonl", [".", "events.jsonl"]),
    ],
)
@pytest.mark.parametrize("is_only", [True, False])
def test_run_is_named_by_its_place(path: str, names: list[str], is_only: bool) -> None:
    """By its directory, by its stream where another has that name already, and below its root if there are more."""
    (root,) = roots_of(["runs"])
    ids = names if is_only else ["runs" if each == "." else f"runs/{each}" for each in names]
    taken: set[str] = set()
    for expected in ids:
        assert expected == run_id(root, path, is_only=is_only, taken=taken)
        taken.add(expected)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["p/a", "q/a", "p/a (2)", "q/a (2)", "a=p/b", "a (2)=x", "s3://p/a", "/", "a"])))
@example(["p/a (2)", "q/a (2)", "p/a", "p/a"])
def test_no_two_roots_have_one_name(texts: list[str]) -> None:
    """Each root has a name of its own, whatever is given: what it was called, after a folder and before a number."""
    names = [root.name for root in roots_of(texts)]
    assert len(texts) == len(set(names))
    for text, name in zip(texts, names, strict=True):
        given_name = text.partition("=")[0] if "=" in text else text.rsplit("/", maxsplit=1)[-1] or "/"
        assert re.fullmatch(rf"(?:[^/]+/)?{re.escape(given_name)}(?: \(\d+\))*", name)


def test_path_with_an_equals_sign_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What exists is not read as a name and a path."""
    (tmp_path / "lr=1").mkdir()
    monkeypatch.chdir(tmp_path)
    assert ("lr=1", "lr=1") == (roots_of(["lr=1"])[0].name, roots_of(["lr=1"])[0].path)


def test_roots_share_a_table(tmp_path: Path) -> None:
    """Runs of one name in two roots are two rows, each with its own curves and files."""
    _put(tmp_path / "a", "run", stream(3))
    _put(tmp_path / "b", "run", stream(5))
    with served([f"one={tmp_path / 'a'}", str(tmp_path / "b")]) as client:
        rows = client.settled_rows()
        assert {"one/run": 3, "b/run": 5} == {run: row["last_step"] for run, row in rows.items()}
        assert {"one/run": "one", "b/run": "b"} == {run: row["root"] for run, row in rows.items()}
        for run, steps in (("one/run", 3), ("b/run", 5)):
            assert steps == _last_step(client, run)
            assert stream(steps) == client.get(f"/files?run={quote(run)}&path=events.jsonl")[2]


def test_runs_of_a_store_are_shown(store: Store, tmp_path: Path) -> None:
    """The table, a run whole, its curves, the lines of their points and its files are those of a directory."""
    for folder in (None, tmp_path / "runs"):
        for run, data in (("a", stream(4)), ("b/c", stream(4)[:-20])):
            if folder is None:
                store.put(f"runs/{run}/events.jsonl", data)
            else:
                _put(folder, run, data)
    store.put("runs/a/ckpt/one.bin", b"weights")
    store.put("runs/a/nested/events.jsonl.gz", b"")
    (tmp_path / "runs" / "a" / "ckpt").mkdir()
    (tmp_path / "runs" / "a" / "ckpt" / "one.bin").write_bytes(b"weights")
    answers = []
    for root in (RUNS, str(tmp_path / "runs")):
        with served([root]) as client:
            client.until(lambda client=client: {"a", "b/c"} <= set(client.rows()))  # type: ignore[misc]
            rows = {run: row for run, row in client.settled_rows().items() if run != "a/nested"}
            detail = client.json("/api/run", run="a")
            files = sorted((each["path"], each["bytes"]) for each in detail["files"])
            ((_, columns),) = client.curves("loss", "a")
            part = client.get("/files?run=a&path=ckpt/one.bin", Range="bytes=2-4")
            answers.append((rows, detail["account"], files, columns, part[0], part[2]))
    assert answers[0] == answers[1]
    assert (206, b"igh") == answers[0][4:]


def test_store_is_asked_for_annotations_that_it_listed_only(store: Store) -> None:
    """A run without annotations beside it costs no request for them; one that gets some shows them."""
    for name in ("a", "b"):
        store.put(f"runs/{name}/events.jsonl", stream(3))
    store.put("runs/b/annotations.jsonl", b'{"at":"2026-01-01T00:00:00Z","name":"best"}\n')
    with served([RUNS]) as client:
        client.until(lambda: len(client.rows()) == 2)
        assert {"a": "a", "b": "best"} == {name: row["name"] for name, row in client.settled_rows().items()}
        asked = [request.path for request in store.requests if request.path.endswith("annotations.jsonl")]
        assert {f"/{loopback_store.BUCKET}/runs/b/annotations.jsonl"} == set(asked)


def test_ends_of_a_large_object_are_read_until_it_is_looked_at(store: Store) -> None:
    """Two requests and 128 KiB of it make its row; its curves need all of it, once."""
    store.put("runs/large/events.jsonl", data := stream(LARGE))
    with served([RUNS]) as client:
        client.until(client.rows)
        row = client.rows()["large"]
        assert ("complete", LARGE) == (row["state"], row["last_step"])
        ends = [request.sent for request in store.reads() if request.path.endswith("events.jsonl")]
        assert sum(ends) <= 128 << 10 < len(data)
        assert LARGE == _last_step(client, "large")
        assert sum(request.sent for request in store.reads()) < 1.5 * len(data)
    store.requests.clear()
    with served([RUNS]) as client:
        assert LARGE == _last_step(client, "large")
        assert [] == [request for request in store.reads() if request.sent > 1 << 17]


def test_curves_of_a_directory_start_no_other_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was scanned is neither scanned nor checked again when it is looked at."""
    _put(tmp_path / "runs", "a", stream(3))
    with served([str(tmp_path / "runs")]) as client:
        client.settled_rows()
        monkeypatch.setattr("toyspec.view.live_runs.LiveRuns._check_all", lambda _: pytest.fail("checked again"))
        assert 3 == _last_step(client, "a")


def test_objects_that_grow_are_followed(store: Store) -> None:
    """Of a longer object only what is new is read; a new run appears, and a deleted one goes."""
    store.put("runs/a/events.jsonl", stream(LARGE, end=""))
    store.put("runs/gone/events.jsonl", stream(2))
    with served([RUNS]) as client:
        client.until(lambda: {"a", "gone"} == set(client.rows()))
        assert LARGE == _last_step(client, "a")
        store.put("runs/a/events.jsonl", stream(LARGE + 1, end=""))
        client.until(lambda: _last_step(client, "a") == LARGE + 1)
        store.requests.clear()
        store.put("runs/a/events.jsonl", stream(LARGE + 2, end=""))
        client.until(lambda: _last_step(client, "a") == LARGE + 2)
        assert sum(request.sent for request in store.reads()) < 1 << 17
        store.put("runs/new/events.jsonl", stream(1))
        del store.objects["bucket/runs/gone/events.jsonl"]
        client.until(lambda: set(client.rows()) == {"a", "new"})


def test_ranks_of_a_run_that_is_followed_are_those_of_the_last_search(store: Store) -> None:
    """A rank that was torn when the run was read first has its end when the run has."""
    rows = []
    path = f"{RUNS}/a/events.jsonl"
    file = None
    for steps, end in ((2, ""), (3, "completed")):
        for name in ("events.jsonl", "events.rank-1.jsonl"):
            store.put(f"runs/a/{name}", stream(steps, end=end))
        (found,) = find_streams(RUNS)
        assert isinstance(found, Stream)
        file = file or ScannedRun(path)
        file.read()
        rows.append(row_of_work(file.scan.summary, ScanWork(path, "a", file.identity(), found)))
    assert [("torn", [[1, "torn"]]), ("complete", None)] == [(row["state"], row.get("unended_ranks")) for row in rows]


def test_store_that_fails_loses_no_run(store: Store) -> None:
    """What is known stays, and the reason is given; no key and no secret is in it."""
    store.put("runs/a/events.jsonl", stream(2))
    with served([RUNS]) as client:
        client.until(client.rows)
        store.every = loopback_store.status(403)
        client.until(lambda: bool(client.json("/api/runs")["problems"]))
        answer = client.json("/api/runs")
        assert ["a"] == [row["id"] for row in answer["runs"]]
        assert RUNS in answer["problems"][0]
        assert "credentials" in answer["problems"][0]
        assert "AKIAKEYID" not in answer["problems"][0]
        store.every = None
        client.until(lambda: client.json("/api/runs")["problems"] == [])


def test_run_of_a_web_server_is_shown(store: Store) -> None:
    """It cannot be listed, so it is named."""
    store.put("runs/a/events.jsonl", stream(3))
    with served([web(store, "runs/a")]) as client:
        client.until(client.rows)
        assert 3 == client.rows()["."]["last_step"]
        assert 3 == _last_step(client, ".")
        assert [{"path": "events.jsonl", "bytes": len(stream(3))}] == client.json("/api/run", run=".")["files"]


def test_report_of_addresses_is_that_of_the_files(store: Store, tmp_path: Path) -> None:
    """Places do not change the page."""
    for run in ("a", "b"):
        store.put(f"runs/{run}/events.jsonl", stream(4))
        _put(tmp_path / "runs", run, stream(4))
    pages = [html_report([root], now=0.0) for root in (RUNS, str(tmp_path / "runs"))]
    assert pages[0] == pages[1]
    mixed, number = html_report([f"{RUNS}/a", str(tmp_path / "runs" / "b")], now=0.0)
    assert 2 == number
    assert len(mixed) > 1000


def test_root_that_cannot_be_read_is_an_error(store: Store, tmp_path: Path) -> None:
    """The command ends with the reason."""
    answer = toyspec("view", "--port", "0", "s3://nowhere/runs", env=loopback_store.s3(store))
    assert 2 == answer.returncode
    assert b"s3://nowhere/runs: 404 Not Found: check the name of the bucket" in answer.stderr
    answer = toyspec("view", str(tmp_path / "nothing"))
    assert b"nothing: no such directory" in answer.stderr


def test_search_takes_a_25th_of_the_time_at_most(tmp_path: Path) -> None:
    """After a search of ten seconds the next one begins 250 seconds later, whatever the usual pause is."""
    now = 0.0
    walks: list[float] = []

    def pause(_seconds: float) -> bool:
        nonlocal now
        now += 1.0
        return len(walks) == 3

    class Watch(RootWatch):
        def walk(self) -> None:
            nonlocal now
            walks.append(now)
            now += 10.0

    changes = SimpleNamespace(pause=pause)
    catalog: Any = SimpleNamespace(changes=changes, hot=lambda _root: [])
    Watch(next(iter(roots_of([str(tmp_path)]))), catalog, lambda: now)._run()
    assert [1.0, 261.0, 521.0] == walks
