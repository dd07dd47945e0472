"""What people say about a run afterwards: written beside the log, and shown wherever the run is."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

import toyspec
from command_line import toyspec_within
from toyspec.core.reading.annotations import NONE, read_annotations
from toyspec.core.runs.summary import summarize_run
from toyspec.core.writing.append_file import AppendFile
from toyspec.view.live_runs import LiveRuns
from toyspec.view.rows import annotated, row_of

LINES = (
    '{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"r","name":"own","tags":["base"]}\n'
    '{"kind":"step","t":1.0,"step":1,"loss":2.5}\n'
    '{"kind":"run_end","t":2.0,"reason":"completed"}\n'
)


ENTRIES: list[dict[str, object]] = [
    {},
    {"name": "a", "group": "g", "tags": {"add": ["x", "y"]}, "hidden": True},
    {"name": "", "tags": {"remove": ["x", "base"]}, "starred": True},
    {"name": None, "notes": 5, "hidden": "no", "tags": "t", "group": ""},
    {"tags": {"add": ["x"], "remove": ["y"]}, "notes": "n", "hidden": False},
    {"stream": "other.csv", "name": "other"},
]


def made(directory: Path, text: str = LINES) -> str:
    """Return the path of a run with the stream *text*."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "events.jsonl").write_text(text, encoding="utf-8")
    return str(directory)


def lines_of(run: str) -> list[dict[str, object]]:
    """Return the annotations in the file of a run."""
    with open(os.path.join(run, "annotations.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@pytest.mark.proves("annotations/appended")
@pytest.mark.proves("annotations/outside-the-seal")
def test_log_and_seal_stay_as_they_are(tmp_path: Path) -> None:
    """An annotation of a sealed run is a further line of a file of its own, and the check finds nothing."""
    run = made(tmp_path / "r")
    toyspec.seal(run)
    before = {name: (tmp_path / "r" / name).read_bytes() for name in ("events.jsonl", "SHA256SUMS")}
    toyspec.annotate(run, name="one", by="ada")
    first = (tmp_path / "r" / "annotations.jsonl").read_bytes()
    toyspec.annotate(run, starred=True)
    assert before == {name: (tmp_path / "r" / name).read_bytes() for name in before}
    assert (tmp_path / "r" / "annotations.jsonl").read_bytes().startswith(first)
    assert [{"kind": "human", "name": "ada"}, None] == [each.get("by") for each in lines_of(run)]
    assert ["SHA256SUMS", "annotations.jsonl", "events.jsonl"] == sorted(os.listdir(run))
    assert not toyspec.check(run).files[0].findings


@pytest.mark.proves("annotations/fragment")
def test_half_a_line_moves_to_a_side_file(tmp_path: Path) -> None:
    """What a killed writer left is kept beside the file, and the next annotation is a line of its own."""
    run = made(tmp_path / "r")
    toyspec.annotate(run, name="one")
    size = os.path.getsize(tmp_path / "r" / "annotations.jsonl")
    with open(tmp_path / "r" / "annotations.jsonl", "ab") as file:
        file.write(b'{"at":"2026')
    assert "one" == read_annotations(os.path.join(run, "events.jsonl")).name
    toyspec.annotate(run, name="two")
    assert b'{"at":"2026' == (tmp_path / "r" / f"annotations.jsonl.torn-{size}").read_bytes()
    assert ["one", "two"] == [each["name"] for each in lines_of(run)]


@pytest.mark.proves("annotations/locked")
@pytest.mark.contended
def test_processes_annotate_one_run_in_turn(tmp_path: Path) -> None:
    """Of annotations that are made at the same time, each is a whole line."""
    run = made(tmp_path / "r")
    processes = [multiprocessing.get_context("spawn").Process(target=_tag_ten, args=(run, at)) for at in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [0, 0] == [process.exitcode for process in processes]
    assert 20 == len(toyspec.annotate(run, starred=True).added)


def _tag_ten(run: str, at: int) -> None:
    for number in range(10):
        toyspec.annotate(run, add_tags=[f"{at}-{number}"])


def test_held_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that another process never lets go is an error that names the cause, and nothing is written."""
    monkeypatch.setattr("toyspec.core.writing.annotating._WAIT_SECONDS", 0.0)
    run = made(tmp_path / "r")
    toyspec.annotate(run, name="one")
    held = AppendFile.reopen(os.path.join(run, "annotations.jsonl"))
    try:
        with pytest.raises(toyspec.StreamRefusedError, match="another writer has it open"):
            toyspec.annotate(run, name="two")
    finally:
        held.close()
    assert 1 == len(lines_of(run))


@pytest.mark.proves("annotations/last-counts")
@pytest.mark.proves("annotations/tags")
def test_last_annotation_counts_key_by_key(tmp_path: Path) -> None:
    """Each fact is that of the last annotation that has it; empty text gives the run its own again."""
    run = made(tmp_path / "r")
    toyspec.annotate(run, name="one", group="g", add_tags=["a", "b"], starred=True, hidden=True)
    toyspec.annotate(run, name="two", remove_tags=["a", "base"], hidden=False)
    facts = summarize_run(run).facts
    assert ("two", "g", ["b"], True, False) == (facts.name, facts.group, facts.tags, facts.starred, facts.hidden)
    assert {"name": "own", "group": None, "tags": ["base"]} == facts.said
    toyspec.annotate(run, name="", group="", add_tags=["base"])
    facts = summarize_run(run).facts
    assert ("own", None, ["base", "b"]) == (facts.name, facts.group, facts.tags)


@pytest.mark.proves("annotations/of-a-stream")
def test_annotation_of_one_log_of_several(tmp_path: Path) -> None:
    """Where a folder has logs of several runs, an annotation names the one that it is about."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("step,loss\n1,2.5\n2,2.4\n", encoding="utf-8")
    toyspec.annotate(tmp_path / "a.csv", name="first")
    assert [{"stream": "a.csv", "name": "first"}] == [
        {key: each[key] for key in ("stream", "name")} for each in lines_of(str(tmp_path))
    ]
    assert {"a.csv": "first", "b.csv": "b.csv"} == {
        run.facts.run: run.facts.name for run in toyspec.list_runs(tmp_path)
    }


@pytest.mark.proves("annotations/unreadable")
def test_what_is_not_an_annotation_is_ignored(tmp_path: Path) -> None:
    """Lines of other content, values of other types and a line that is too long leave the rest unchanged."""
    run = made(tmp_path / "r")
    path = tmp_path / "r" / "annotations.jsonl"
    lines = ['{"name":"one","stars":5}', "no", '{"name":4,"hidden":"yes","tags":["x"]}', "[]", '{"name":"torn"}']
    path.write_bytes("\n".join(lines).encode())
    found = read_annotations(os.path.join(run, "events.jsonl"))
    assert ("one", False, 2, 2) == (found.name, found.hidden, found.count, found.unreadable)
    path.write_bytes(b"\xff\xfe\n" + b'{"notes":"' + b"x" * (17 << 20) + b'"}\n{"notes":"y"}\n')
    found = read_annotations(os.path.join(run, "events.jsonl"))
    assert ("y", 1, 2) == (found.notes, found.count, found.unreadable)
    path.unlink()
    os.mkfifo(path)
    assert NONE == read_annotations(os.path.join(run, "events.jsonl"))


def test_row_follows_its_annotations(tmp_path: Path) -> None:
    """A row that is annotated again is as one that is made afterwards, whatever was said before."""
    run = made(tmp_path / "r")
    path = os.path.join(run, "annotations.jsonl")
    for entries in itertools.product(ENTRIES, repeat=3):
        _write(path, entries[:1])
        row = row_of(summarize_run(run).facts, "r")
        _write(path, entries)
        expected = row_of(summarize_run(run).facts, "r")
        assert expected == annotated(row, read_annotations(os.path.join(run, "events.jsonl"))), entries


def _write(path: str, entries: Iterable[dict[str, object]]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps({"at": "2026-11-24T09:30:00Z", **each}) + "\n" for each in entries)


def test_every_list_shows_what_annotations_say(tmp_path: Path) -> None:
    """Filters, the API and a catalog, built and updated, have the annotated facts."""
    pytest.importorskip("duckdb")
    runs = tmp_path / "runs"
    for name in ("a", "b", "c"):
        made(runs / name)
    toyspec.build_catalog(runs, out=tmp_path / "catalog")
    toyspec.annotate(runs / "a", name="best yet", add_tags=["good"], remove_tags=["base"], starred=True)
    toyspec.annotate(runs / "b", hidden=True)
    assert 0 == toyspec_within("catalog", "update", "catalog", cwd=tmp_path).returncode
    for filter_, expected in (("tag = good", "a"), ("hidden = true", "b"), ("starred = true", "a"), ("yet", "a")):
        found = toyspec.list_runs(runs).filter(filter_)
        kept = toyspec.Catalog(tmp_path / "catalog").runs().filter(filter_)
        assert [expected] == [each.facts.run for each in found] == [each.facts.run for each in kept], filter_
    assert {"a": "best yet", "b": "own", "c": "own"} == {
        run.facts.run: run.facts.name for run in toyspec.list_runs(runs)
    }


def test_viewer_shows_annotations_when_they_are_made(tmp_path: Path) -> None:
    """A row changes when its run is annotated, also of a run whose log no longer changes, and a kept row too."""
    run = made(tmp_path / "runs" / "r")
    store = str(tmp_path / "cache")
    for number, name in enumerate(("first", "second")):
        live = _live(tmp_path, store)
        toyspec.annotate(run, name=name, hidden=bool(number))
        for watch in live._watches:  # a search now, not in a second
            watch.walk()
        (row,) = live.listing()["runs"]
        assert (name, bool(number), {"name": "own"}) == (row["name"], row["hidden"], row["said"])
        live.close()
    live = _live(tmp_path, store)
    assert "second" == live.listing()["runs"][0]["name"]
    live.close()


def _live(tmp_path: Path, store: str) -> LiveRuns:
    from toyspec.view.curve_store import CurveStore

    live = LiveRuns(str(tmp_path / "runs"), store=CurveStore(store))
    live.start()
    live.listing()
    return live


def test_longest_annotation_is_that_of_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte more is refused, with both numbers, and a string is not a list of tags."""
    run = Path(made(tmp_path / "r"))
    toyspec.annotate(run, notes="n" * 50)
    size = len((run / "annotations.jsonl").read_bytes()) - 1
    monkeypatch.setattr("toyspec.core.writing.annotating.MAX_LINE_BYTES", size)
    toyspec.annotate(run, notes="n" * 50)
    with pytest.raises(ValueError, match=f"the annotation is {size + 1} bytes long; at most {size} are allowed"):
        toyspec.annotate(run, notes="n" * 51)
    with pytest.raises(TypeError, match="tags are a list of strings, and not the string 'good'"):
        toyspec.annotate(run, add_tags="good")
    assert 2 == len((run / "annotations.jsonl").read_bytes().splitlines())


def test_what_cannot_be_annotated_is_an_error(tmp_path: Path) -> None:
    """An address, a folder without a run and nothing to say are errors with a way out."""
    run = made(tmp_path / "r")
    with pytest.raises(toyspec.StreamMissingError):
        toyspec.annotate(tmp_path / "none", starred=True)
    with pytest.raises(ValueError, match="nothing to say"):
        toyspec.annotate(run)
    with pytest.raises(toyspec.StreamRefusedError, match="only read"):
        toyspec.annotate("s3://bucket/r", name="x")
    assert not os.path.lexists(os.path.join(run, "annotations.jsonl"))


def test_run_that_is_named_by_its_stream_has_what_is_beside_it(tmp_path: Path) -> None:
    """A list of a directory, of a run and of its stream says the same of annotations, seals and other ranks."""
    with toyspec.start_run(tmp_path, run_id="a", git=None) as run:
        run.step(loss=1.0)
    (tmp_path / "a" / "annotations.jsonl").write_text('{"name":"shiny"}\n', encoding="utf-8")
    lines = Path(run.events_path).read_bytes().splitlines(keepends=True)
    (tmp_path / "a" / "events.rank-1.jsonl").write_bytes(b"".join(lines[:-1]))
    for place in (tmp_path, tmp_path / "a", run.events_path):
        (found,) = toyspec.list_runs(place)
        assert ("shiny", ((1, "torn"),)) == (found.facts.name, found.facts.unended_ranks)
