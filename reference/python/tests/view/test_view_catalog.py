"""The viewer over a catalog: its rows come from columns, and a run is read when it is looked at."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

pytest.importorskip("duckdb", reason="the extra catalog is not installed")

from command_line import toyspec_within as toyspec
from loopback_store import BUCKET, Store, status
from loopback_store import stream as object_stream
from toyspec import build_catalog, update_catalog
from toyspec.view.roots import roots_of
from view_client import END, START, served, step, write_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from view_client import Client


def some_runs(root: Path) -> Path:
    """Write a complete, a torn and a damaged run, and the log of another program; return their directory."""
    start = START.replace(b'"lr":0.1', b'"lr":0.1,"optim":{"name":"adam"},"max_steps":40')
    write_run(root / "sweep" / "a", start, *map(step, range(1, 21)), END)
    write_run(root / "b", START, step(1), step(2)[:-9])
    write_run(root / "c", START, step(1), b"{\n", step(2, None), END)
    (root / "hf").mkdir()
    history = b'{"global_step":2,"log_history":[{"step":1,"loss":2.5},{"step":2,"loss":1.5}]}\n'
    (root / "hf" / "trainer_state.json").write_bytes(history)
    return root


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a directory with runs and a catalog of them beside it."""
    build_catalog(some_runs(tmp_path / "runs"), out=tmp_path / "catalog")
    return tmp_path / "runs"


@pytest.fixture
def client(runs: Path, tmp_path: Path) -> Iterator[Client]:
    """Return a client of a server of that catalog."""
    with served([str(runs.parent / "catalog")], tmp_path / "cache") as found:
        yield found


def _problems(client: Client) -> str:
    return " ".join(client.json("/api/runs")["problems"])


def test_rows_of_a_catalog_are_those_of_the_runs(runs: Path, client: Client, tmp_path: Path) -> None:
    """A row has what reading the run gives: state, settings, metrics, findings."""
    with served(runs, tmp_path / "another") as other:
        expected = other.settled_rows()
    found = client.rows()
    for run, row in expected.items():
        assert row == found.pop(run), run
    assert {} == found


def test_no_run_is_read_before_it_is_looked_at(runs: Path, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table needs no file of any run; curves need those of one."""
    opened: list[str] = []

    def refuse(path: str) -> None:
        opened.append(path)
        raise OSError

    monkeypatch.setattr("toyspec.view.viewed_runs.found_at", refuse)
    assert 4 == len(client.rows())
    assert [] == opened
    client.curves("loss", "b")
    assert [str(runs / "b" / "events.jsonl")] == opened


def test_curves_page_and_files_are_read_from_the_place(client: Client) -> None:
    """What is looked at is what the viewer shows of a directory, and an unchanged run keeps its row."""
    before = client.rows()
    ((header, columns),) = client.curves("loss", "sweep/a")
    assert (20, [1.25] * 20) == (header["points"], list(columns["last"]))
    assert 22 == client.json("/api/run", run="sweep/a")["account"]["records"]
    assert client.get("/files?run=b&path=events.jsonl")[2].startswith(START)
    assert (before, "") == (client.rows(), _problems(client))


def test_gone_and_changed_runs_are_said(runs: Path, client: Client) -> None:
    """A changed run is read again, the row of one that is gone stays, and both rows report it."""
    shutil.rmtree(runs / "b")
    stream = runs / "sweep" / "a" / "events.jsonl"
    stream.write_bytes(stream.read_bytes().replace(END, step(21) + END))
    assert {20, 1} == {row["last_step"] for run, row in client.rows().items() if run in ("sweep/a", "b")}, (
        "not looked at"
    )
    revision = client.json("/api/runs")["revision"]
    ((gone, _), (changed, _)) = sorted(client.curves("loss", "sweep/a", "b"), key=lambda each: each[0]["run"])
    assert "gone since the catalog was written" in gone["message"]
    assert 21 == changed["points"]
    assert {"b", "sweep/a"} == {row["id"] for row in client.json("/api/runs", since=revision)["runs"]}
    rows = client.rows()
    assert [("changed", 21), ("gone", 1)] == [(rows[run]["since"], rows[run]["last_step"]) for run in ("sweep/a", "b")]
    code, _, body = client.get(f"/api/run?{urlencode({'run': 'b'})}")
    assert (404, True) == (code, b"gone" in body)


def test_run_that_comes_back_is_read(runs: Path, client: Client) -> None:
    """What is gone is looked for again at each look."""
    os.rename(runs / "b", runs / "away")
    assert "message" in client.curves("loss", "b")[0][0]
    os.rename(runs / "away", runs / "b")
    assert 1 == client.curves("loss", "b")[0][0]["points"]
    assert ("", None) == (_problems(client), client.rows()["b"].get("since"))


def test_live_run_is_followed_once_it_was_looked_at(runs: Path, client: Client) -> None:
    """A run that grows after a look is one of a directory."""
    stream = runs / "b" / "events.jsonl"
    client.curves("loss", "b")
    stream.write_bytes(START + step(1) + step(2))
    client.until(lambda: client.rows()["b"]["last_step"] == 2)
    with stream.open("ab") as file:
        file.write(step(3))
    client.until(lambda: client.rows()["b"]["last_step"] == 3)


def test_catalog_that_is_updated_is_read_again(runs: Path, client: Client, tmp_path: Path) -> None:
    """New runs come, those that are gone leave, and no problem is left."""
    shutil.rmtree(runs / "b")
    client.curves("loss", "b")
    assert "gone" == client.rows()["b"]["since"]
    revision = client.json("/api/runs")["revision"]
    write_run(runs / "new", START, step(1), END)
    update_catalog(tmp_path / "catalog")
    client.until(lambda: "new" in client.rows() and "b" not in client.rows())
    later = client.json("/api/runs", since=revision)
    assert (False, {"new"}, ["b"]) == (later["complete"], {row["id"] for row in later["runs"]}, later["removed"])
    assert "" == _problems(client)


def test_run_is_followed_after_its_catalog_was_updated(runs: Path, client: Client, tmp_path: Path) -> None:
    """A catalog that is written again, with the same row for a run that was looked at, does not end the look."""
    client.curves("loss", "sweep/a")
    write_run(runs / "new", START, step(1), END)
    update_catalog(tmp_path / "catalog")
    client.until(lambda: "new" in client.rows())
    stream = runs / "sweep" / "a" / "events.jsonl"
    stream.write_bytes(stream.read_bytes().replace(END, step(21) + END))
    client.until(lambda: client.rows()["sweep/a"]["last_step"] == 21)


def test_catalog_of_several_roots(tmp_path: Path) -> None:
    """Each run is there once, also below two roots, and beside a catalog there may be a directory."""
    for name in ("one", "two", "two/inner", "other"):
        write_run(tmp_path / name / "run", START, step(1), END)
    report = build_catalog(*(tmp_path / name for name in ("one", "two/inner", "two", "one")), out=tmp_path / "catalog")
    assert 3 == report.runs
    roots = roots_of([str(tmp_path / "catalog"), str(tmp_path / "other")])
    assert ["one", "two", "other"] == [root.name for root in roots]
    with served([str(tmp_path / "catalog"), str(tmp_path / "other")], tmp_path / "cache") as client:
        assert {"one/run", "two/run", "two/inner/run", "other/run"} == client.settled_rows().keys()
        assert {"one", "two", "other"} == {row["root"] for row in client.rows().values()}


def test_runs_of_a_store_are_read_when_they_are_looked_at(store: Store, tmp_path: Path) -> None:
    """The table sends no request; what is refused is said with the curve, and the row stays."""
    for name in ("a", "b"):
        store.put(f"runs/{name}/events.jsonl", object_stream(3, run_id=name))
    build_catalog(f"s3://{BUCKET}/runs", out=tmp_path / "catalog")
    store.requests.clear()
    with served([str(tmp_path / "catalog")], tmp_path / "cache") as client:
        assert (["a", "b"], []) == (sorted(client.rows()), store.requests)
        before = client.rows()["a"]
        assert 3 == client.curves("loss", "a")[0][0]["points"]
        assert not any("list-type" in request.path for request in store.requests)
        assert before == client.rows()["a"]
        store.every = status(403)
        message = client.curves("loss", "b")[0][0]["message"]
        assert ("b/events.jsonl" in message, "AKIAKEYID" in message) == (True, False)
        assert (None, "") == (client.rows()["b"]["message"], _problems(client))
        store.every = None
        assert 3 == client.curves("loss", "b")[0][0]["points"]


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (None, "not a catalog"),
        ({"catalog": 99, "roots": []}, "layout 99"),
        ({"name": "x"}, "not the file of a catalog"),
    ],
)
def test_what_is_not_a_catalog_is_refused(tmp_path: Path, manifest: object, words: str) -> None:
    """`view --catalog` says why, and ends with 2."""
    if manifest is not None:
        (tmp_path / "catalog.json").write_text(json.dumps(manifest))
    done = toyspec("view", "--catalog", str(tmp_path))
    assert (2, True) == (done.returncode, words.encode() in done.stderr), done.stderr
