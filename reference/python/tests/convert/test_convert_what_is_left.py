"""Tests of what conversions must not pass over: torn ends, half transactions, files that are not metrics."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import toyspec
from conversions import SAMPLES, exported, imported, losses, records, scalars, write_run
from toyspec.convert import export_runs
from toyspec.convert.databases import opened
from toyspec.convert.dvclive_files import parsed
from toyspec.convert.survey import survey
from toyspec.core.errors import SourceError
from toyspec.core.reading.log_detection import DialectChoice

STEP = {"kind": "step", "t": 1.0, "step": 1, "loss": 2.5}


def test_logs_of_other_ranks_are_counted(tmp_path: Path) -> None:
    """An export has the first rank; what the others logged is exported by their own paths."""
    run = write_run(tmp_path / "a", {}, STEP)
    other = shutil.copy(run / "events.jsonl", run / "events.rank-12.jsonl")
    report = export_runs("tensorboard", [run], tmp_path / "out")
    (loss,) = [loss for made in report.runs for loss in made.losses if loss.cause == "other-rank"]
    assert [(1, "rank 12", "events.rank-12.jsonl")] == [(loss.count, each.place, each.value) for each in loss.examples]
    assert "other-rank" not in losses(exported("tensorboard", Path(other), tmp_path / "other"))


def test_every_damaged_place_is_counted(tmp_path: Path) -> None:
    """Also those that the report of the reader does not list one by one."""
    run = write_run(tmp_path / "a", {}, STEP)
    with (run / "events.jsonl").open("a") as file:
        for step in range(2, 3000):
            file.write(f'{{"kind":"step","t":2.0,"step":{step},"loss":0.5}}\nnot a record\n')
    assert 2998 == losses(exported("tensorboard", run, tmp_path / "out"))["damaged"]


def test_export_of_one_run_says_how_far_it_is(tmp_path: Path) -> None:
    """A long run is not at 0 % until it is done."""
    steps = [{**STEP, "step": step, "extra": {"text": "x" * 100}} for step in range(1, 8000)]
    run = write_run(tmp_path / "a", {}, *steps)
    size = (run / "events.jsonl").stat().st_size
    seen: list[tuple[int, int]] = []
    export_runs("tensorboard", [run], tmp_path / "out", watch=lambda done, total: seen.append((done, total)))
    assert len(seen) > 2
    assert sorted(seen) == seen
    assert (size, size) == seen[-1]


_KILLED = """
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("PRAGMA cache_size = 1")
database.execute("BEGIN")
database.execute("UPDATE metrics SET value = 12345.0")
database.execute("CREATE TABLE large AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9999)"
    " SELECT i FROM n")
os._exit(9)
"""


def test_changes_that_were_not_committed_are_not_imported(tmp_path: Path) -> None:
    """A killed program leaves a database with a part of a transaction, and a journal: SQLite undoes it, we do not."""
    source = tmp_path / "s p" / "mlflow.db"
    source.parent.mkdir()
    shutil.copyfile(SAMPLES / "mlflow" / "mlflow.db", source)
    imported(source, tmp_path / "before")
    subprocess.run([sys.executable, "-c", _KILLED, str(source)], check=False)
    with closing(sqlite3.connect(f"file:{source}?immutable=1", uri=True)) as database:
        assert database.execute("SELECT count(*) FROM metrics WHERE value = 12345.0").fetchone()[0], "nothing was lost"
    files = {path.name: path.read_bytes() for path in source.parent.iterdir()}
    assert {"mlflow.db", "mlflow.db-journal"} == set(files)
    report = imported(source, tmp_path / "runs")
    assert ([], 1) == (report.runs, len(report.errors))
    fact = "a program was killed while it wrote; open the database once with that program"
    assert report.errors[0].message == fact
    assert [("unreadable", fact)] == [
        (each.sort, each.format) for each in survey(str(source.parent), DialectChoice()).formats
    ]
    assert files == {path.name: path.read_bytes() for path in source.parent.iterdir()}
    with closing(sqlite3.connect(source)) as database:
        database.execute("PRAGMA schema_version")
    for run in imported(source, tmp_path / "runs").runs:
        assert scalars(tmp_path / "before" / run.run_id) == scalars(run.target)


def test_change_that_is_only_in_the_log_of_a_database_is_imported(tmp_path: Path) -> None:
    """SQLite changes a database in WAL mode long after its log."""
    source = tmp_path / "mlflow.db"
    shutil.copyfile(SAMPLES / "mlflow" / "mlflow.db", source)
    writer = sqlite3.connect(source, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("PRAGMA wal_autocheckpoint = 0")
    imported(source, tmp_path / "runs")
    was = os.stat(source)
    writer.execute("UPDATE metrics SET value = 4321.0")
    assert (was.st_size, was.st_mtime_ns) == (os.stat(source).st_size, os.stat(source).st_mtime_ns)
    report = imported(source, tmp_path / "runs")
    assert {"converted"} == {run.status for run in report.runs}
    assert 4321.0 in {value for run in report.runs for _, _, value in scalars(run.target)}
    writer.close()


def test_database_that_is_gone_is_not_made(tmp_path: Path) -> None:
    """What another program deletes between two looks does not come back as an empty file."""
    with pytest.raises(SourceError, match="the database cannot be read"):
        opened(str(tmp_path / "mlflow.db"))
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "place", ["s3://b/0", "mlflow-artifacts:/0", "./an art é", "an art é", "file:./an%20art%20%C3%A9", "file://{}"]
)
def test_artifacts_of_mlflow_are_named(place: str, tmp_path: Path) -> None:
    """A reference names where they stay: as a server has it, or from the root on where there is a file."""
    source = tmp_path / "s"
    shutil.copytree(SAMPLES / "mlflow", source)
    place, is_remote = place.format((source / "an art é").as_posix()), ":/" in place and "file" not in place
    with closing(sqlite3.connect(source / "mlflow.db")) as database, database:
        database.execute("UPDATE runs SET artifact_uri = ?", (place,))
    (meta,) = source.glob("mlruns/*/*/meta.yaml")
    meta.write_text(re.sub("artifact_uri: .*", f"artifact_uri: {place}", meta.read_text("utf-8")), "utf-8")
    own, others = meta.parent / "artifacts", source / "an art é" / "deep"
    own.mkdir()
    others.mkdir(parents=True)
    named = place if is_remote else others.parent.as_uri()
    for out, expected in (("before", [place, place] if is_remote else []), ("after", [named, own.as_uri()])):
        runs = imported(source, tmp_path / out, "mlflow").runs
        assert expected == [each["uri"] for run in runs for each in records(run.target) if "uri" in each]
        assert len(expected) == sum(losses(run).get("file-stays", 0) for run in runs)
        (own / "b.txt").write_text("b")
        (others / "a.txt").write_text("a")


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has no such names")
def test_names_of_mlflow_that_are_not_utf8_end_no_import(tmp_path: Path) -> None:
    """The folder of a store and the file of a metric have any bytes; those of the metric are written in ASCII."""
    store = tmp_path / os.fsdecode(b"s\xff")
    shutil.copytree(SAMPLES / "mlflow", store)
    (folder,) = store.glob("mlruns/*/*/metrics")
    (folder / "val.acc").rename(folder / os.fsdecode(b"val\xfe"))
    (folder.parent / "artifacts").mkdir()
    (folder.parent / "artifacts" / "b.txt").write_text("twelve bytes")
    of_database, of_files = imported(store, tmp_path / "runs", "mlflow").runs
    assert {"val.acc"} == {name for name, _, _ in scalars(of_database.target) if name.startswith("val")}
    assert {"val\\xfe"} == {name for name, _, _ in scalars(of_files.target) if name.startswith("val")}
    assert 1 == losses(of_files)["not-utf-8"]
    (kept,) = (each for each in records(of_files.target) if each["kind"] == "reference")
    assert kept["uri"].endswith("/artifacts")
    assert "/s%FF/" in kept["uri"]


def test_export_has_what_annotations_say(tmp_path: Path) -> None:
    """The group is the annotated one; name, notes, tags and a star, which have no place, are counted."""
    run = write_run(tmp_path / "a", {"name": "own", "tags": ["x", "y"], "config": {"lr": 0.5}}, STEP)
    toyspec.annotate(run, name="better", group="g", notes="see", add_tags=["z"], remove_tags=["x"], starred=True)
    made = exported("tensorboard", run, tmp_path / "out")
    assert {"no-place": 4} == losses(made), "the name, the notes, the tags and the star"
    (back,) = imported(tmp_path / "out", tmp_path / "back").runs
    assert "g" == records(back.target)[0]["group"]


def test_import_has_what_annotations_say(tmp_path: Path) -> None:
    """A log of another program keeps the name, group, notes and tags that it was given; a star is noted."""
    log = tmp_path / "logs" / "m.jsonl"
    log.parent.mkdir()
    log.write_text('{"step":1,"loss":2.5}\n{"step":2,"loss":2.0}\n', "utf-8")
    toyspec.annotate(log, name="better", group="g", notes="see", add_tags=["z"], starred=True)
    report = toyspec.import_runs([log], tmp_path / "out")
    (made,) = report.runs
    start = records(made.target)[0]
    assert ("better", "g", "see", ["z"]) == tuple(start[key] for key in ("name", "group", "notes", "tags"))
    assert "annotations have it starred; `toyspec annotate` marks the new run" in made.notes
    assert ("starred" in start, "m") == (False, made.run_id)


@pytest.mark.parametrize(
    ("text", "config"),
    [
        ("a:\n  - 'x: y'\n  - -1\nb: 1e-5\n", {"a": ["x: y", -1], "b": 1e-05}),
        ("a:\n- 1\n- k: v\n  w: 010\nb: yes\n", {"a": [1, {"k": "v", "w": 10}], "b": "yes"}),
        ("day: 2026-11-23\nat: 10:30\n", {"day": "2026-11-23", "at": "10:30"}),
        ("1: a\n1.0: b\nnull: c\ntrue: d\n", {"1": "a", "1.0": "b", "null": "c", "true": "d"}),
        ("a: &x [1]\n# note\ntext: |\n  two\n  lines\n", {"a": [1], "text": "two\nlines\n"}),
        ("", {}),
    ],
)
def test_settings_in_yaml(text: str, config: dict[str, object]) -> None:
    """Settings are read by YAML 1.2, where exponents need no point, yes is a text, and days are not times."""
    assert config == parsed(text)


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("- 1\n", "not a map"),
        ("a: [\n", "line 2: "),
        ("a: &x [1]\nb: [*x, *x]\n", "line 2: an alias, which is not read"),
        ("a: !!python/name:os.system\n", "line 1: a value with the tag tag:yaml.org,2002:python/name:os.system"),
        ("[" * 100_000, "maps or lists are nested too deep"),
        ("? [1, 2]\n: 3\n", "line 1: a key that is not a text"),
        ("a: 1\na: 2\n", "line 2: a key that comes twice"),
        ("a: \x07\n", "not YAML"),
    ],
)
def test_yaml_that_is_not_settings(text: str, fact: str) -> None:
    """What is not a map of settings is refused with its line, and executes nothing."""
    with pytest.raises(ValueError, match=re.escape(fact)):
        parsed(text)


def test_settings_without_the_package_name_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without PyYAML, the import of a folder with settings says what to install."""
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ImportError, match=r"reading params.yaml needs .*toyspec\[dvclive\]"):
        parsed("a: 1\n")
