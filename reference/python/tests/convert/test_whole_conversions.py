"""Imports and exports with everything that they write and report: ``whole_conversions/*.txt``, each by its name.

``TOYSPEC_UPDATE=1 pytest reference/python/tests/convert/test_whole_conversions.py`` writes them again; read the
difference.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conversions import SAMPLES, accounted, importable_samples, imported
from convert.test_convert_tensorboard import event_file
from convert.test_convert_wandb import item, row, run_file
from fixed_runs import fixed_runs
from sample_rows import SAMPLES as DIALECTS
from sample_rows import SOURCES, logs_of
from toyspec.convert import ConversionReport, export_runs, exportable
from toyspec.convert.destinations.destination import TOOLS
from toyspec.convert.protobuf import double_field, field, float_field, integer_field

FOLDER = Path(__file__).parents[1] / "whole_conversions"
RUNS = fixed_runs("sorts")
_MOST_LINES = 60
_DEEP = "[" * 2000
EXPORTED = [name for name in exportable() if TOOLS[name].extra is None]


def _report(report: ConversionReport, *bases: Path) -> Iterator[str]:
    """Yield what *report* says, with paths from *bases* on; without versions, and what depends on times of files."""

    def short(text: str) -> str:
        for base in bases:
            text = text.replace(f"{base}{os.sep}", "")
        return text

    found: dict[str, Any] = msgspec.to_builtins(report)
    for run in found["runs"]:
        del run["identity"]
        yield short(json.dumps({key: run[key] for key in run if key not in ("losses", "notes")}))
        yield from (short(f"  note: {note}") for note in run["notes"])
        for loss in run["losses"]:
            yield f"  {loss['effect']} {loss['count']} ({loss['cause']}): {loss['meaning']}"
            yield from (f"    {json.dumps(example)}" for example in loss["examples"])
    yield from (short(f"  error: {json.dumps(error)}") for error in found["errors"])
    yield json.dumps(found["summary"])


def _made(report: ConversionReport, folder: Path) -> Iterator[str]:
    """Yield the files of the runs that an import made in *folder*; each run keeps its part of *report*."""
    for run in report.runs:
        assert msgspec.to_builtins(run) == json.loads(Path(run.target, "import.json").read_bytes())
    yield from _files(folder)


def _files(folder: Path) -> Iterator[str]:
    """Yield each file below *folder* by its path with its text, or with the digest of what is not text."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "import.json"):
        data = path.read_bytes()
        yield f"--- {path.relative_to(folder)}"
        if "tfevents" in path.name:
            yield "(what is in it is below)"
            continue
        try:
            lines = data.decode().splitlines()
            yield from lines[:_MOST_LINES]
            if len(lines) > _MOST_LINES:
                yield f"{len(lines)} lines, SHA-256 {hashlib.sha256(data).hexdigest()}"
        except UnicodeDecodeError:
            yield f"{len(data)} bytes, SHA-256 {hashlib.sha256(data).hexdigest()}"


def _written(kind: str) -> dict[str, str]:
    """Return the text of each conversion in the file of a kind."""
    _, *parts = re.split(r"^=== (\S+)\n", (FOLDER / f"{kind}.txt").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _compare(kind: str, name: str, *parts: Iterator[str]) -> None:
    actual = "".join(f"{line}\n" for part in parts for line in part)
    if os.environ.get("TOYSPEC_UPDATE"):
        every = sorted((_written(kind) | {name: actual}).items())
        text = "".join(f"=== {each}\n{found}" for each, found in every)
        (FOLDER / f"{kind}.txt").write_text(text, encoding="utf-8", newline="\n")
    assert _written(kind)[name] == actual


@pytest.mark.parametrize("sample", [*importable_samples(), SAMPLES / "munin"], ids=lambda path: path.name)
def test_whole_import_of_a_sample(sample: Path, tmp_path: Path) -> None:
    """Every file of every bundle and all that the report says, of what the real program wrote."""
    report = imported(sample, tmp_path, sample.name, max_examples=100)
    _compare("imports", sample.name, _report(report, SAMPLES, tmp_path), _made(report, tmp_path))


@pytest.mark.parametrize(
    ("name", "file"), [(str(log.relative_to(DIALECTS)), log) for name in SOURCES for log in logs_of(name)]
)
def test_whole_import_of_a_dialect(name: str, file: Path, tmp_path: Path) -> None:
    """Every record of the bundles and all that the report says, of the log of each program."""
    dialect = file.relative_to(DIALECTS).parts[0]
    folder = SOURCES[dialect].get("folder")
    report = imported(DIALECTS / dialect / folder if folder else file, tmp_path)
    _compare("dialects", name, _report(report, file.parent, DIALECTS, tmp_path), _made(report, tmp_path))


def _objects(step: int, **objects: dict[str, Any]) -> bytes:
    """Return a history record with *objects*, whose members have the name of the object before their own."""
    named = [([name, *key.split(".")], value) for name, each in objects.items() for key, value in each.items()]
    items = [(b"".join(field(2, part) for part in parts), value) for parts, value in [*named, (["_step"], step)]]
    return field(2, b"".join(field(1, name + field(16, json.dumps(value))) for name, value in items))


def _wandb_beginning() -> Iterator[bytes]:
    """Yield the records about a run, its machine and its metrics."""
    at = field(17, integer_field(1, 1790000000) + integer_field(2, 250_000_000))
    config = b"".join(
        field(1, field(1, name) + field(16, text))
        for name, text in (("lr", "0.5"), ("net", '{"depth":2}'), ("rate", "NaN"), ("_wandb", "{}"))
    )
    git = field(21, field(1, "https://host/repo") + field(2, "0" * 40))
    facts = ((2, "team"), (3, "proj"), (6, "grp"), (7, "train"), (8, "sunny"), (9, "a note"), (12, "sweep7"))
    labels = b"".join(field(number, text) for number, text in facts)
    tags = field(10, "x") + field(10, "y") + field(13, "node7")
    yield field(17, field(1, "rid7") + labels + tags + git + field(4, config) + at)
    yield field(26, field(1, "linux") + field(6, "train.py"))
    yield field(12, field(1, "acc") + field(4, "epoch") + integer_field(8, 2))
    yield field(12, field(2, "val/*") + field(7, integer_field(1, 1)))
    yield field(12, integer_field(8, 1))


def _wandb_rows() -> Iterator[bytes]:
    """Yield rows with values and objects of each kind, with and without a place in toy/v1."""
    yield row(0, loss=0.5, acc=1, big=2**60, stage="warm", none=None, flag=True, list=[1, 2])
    yield row(1, loss=float("nan"), acc=float("inf"), other=-float("inf"), recall=[0.5, float("nan"), -float("inf")])
    yield field(2, item("answers", '{"_type":"table-file","ncols":2}') + item("_step", "2"))
    nested = field(1, field(2, "val") + field(2, "loss") + field(16, "0.25"))
    typed = b"".join(
        field(1, field(1, name) + value)
        for name, value in (
            ("yes", integer_field(4, 1)),
            ("three", integer_field(5, 6)),
            ("minus", integer_field(5, 5)),
            ("half", double_field(6, 0.5)),
            ("word", field(7, "text")),
            ("json", field(8, "[1]")),
        )
    )
    yield field(2, nested + typed + field(2, integer_field(1, 5)))
    yield field(2, item("deep", _DEEP) + item("_step", "6"))
    yield field(2, item("back", "1.5") + item("_step", "-7") + item("_timestamp", '"soon"'))


def _wandb_odd_rows() -> Iterator[bytes]:
    """Yield rows with histograms of each form, and two values of one name."""
    pair = {"_type": "histogram", "values": [1, 2]}
    size = {"packedBins.min": -1, "packedBins.size": 0.5}
    yield _objects(
        7, pic={"_type": "image-file", "path": "media/a.png"}, hist={**pair, "bins": [0.0, 0.5, 1.0]},
        packed={**pair, **size, "packedBins.count": 2}, both={**pair, **size, "bins": [-1, -0.5, 0]},
        few={**pair, "bins": [0, 1]}, none=pair, size={**pair, **size},
        words={"_type": "histogram", "values": ["1"], "bins": [0, 1]},
    )  # fmt: skip
    yield field(2, item("a.b", "1") + field(1, field(2, "a") + field(2, "b") + field(16, "2")) + item("_step", "8"))
    yield field(5, field(1, field(1, "late") + field(16, "3")))


def _wandb_others() -> Iterator[bytes]:
    """Yield the records that are neither, and the end."""
    wall = field(2, integer_field(1, 1790000009))
    yield field(
        7, wall + field(3, field(1, "gpu.0") + field(16, "87.5")) + field(3, field(1, "word") + field(16, '"x"'))
    )
    yield field(10, field(1, "low") + field(2, "acc is low") + field(3, "WARN"))
    yield field(10, field(1, "only a title") + field(3, "OTHER"))
    yield field(8, field(4, "model") + field(5, "weights:v3"))
    yield field(8, field(4, "model"))
    yield field(25, field(1, "input") + field(3, "data:v1"))
    yield field(4, field(3, "printed")) + b""
    yield field(13, field(3, "raw output"))
    yield field(9, b"")
    yield field(3, b"".join(item(name, text) for name, text in (("best", "0.125"), ("loss", "0.5"), ("text", '"t"'))))
    yield field(18, integer_field(1, 3))


def test_whole_import_of_every_record_of_wandb(tmp_path: Path) -> None:
    """Each becomes an event or is in the report, with its place and its value."""
    folder = tmp_path / "source" / "offline-run-20260922_080000-abc"
    folder.mkdir(parents=True)
    run_file(folder / "run-abc.wandb", *_wandb_beginning(), *_wandb_rows(), *_wandb_odd_rows(), *_wandb_others())
    report = imported(tmp_path / "source", tmp_path / "out", "wandb", max_examples=100)
    _compare("imports", "wandb-records", _report(report, tmp_path), _made(report, tmp_path / "out"))


def _tensor(dtype: int, *parts: bytes, shape: list[int] | None = None) -> bytes:
    """Return the tensor of a value."""
    sizes = b"".join(field(2, integer_field(1, size)) for size in shape or ())
    return field(8, integer_field(1, dtype) + (b"" if shape is None else field(2, sizes)) + b"".join(parts))


def _plugin(name: str, content: bytes | None = None) -> bytes:
    """Return the metadata of a value."""
    return field(9, field(1, field(1, name) + (b"" if content is None else field(2, content))))


def _strings(*parts: bytes) -> bytes:
    """Return a tensor of strings."""
    return _tensor(7, *(field(8, part) for part in parts))


def _doubles(number: int, *values: float) -> bytes:
    """Return a packed field of numbers."""
    return field(number, struct.pack(f"<{len(values)}d", *values))


def _old_bins(least: float, most: float, limits: list[float], counts: list[float]) -> bytes:
    """Return a histogram of the first version."""
    return field(5, double_field(1, least) + double_field(2, most) + _doubles(6, *limits) + _doubles(7, *counts))


def _rows(*numbers: float, count: int | None = None, dtype: int = 2, columns: int = 3) -> bytes:
    """Return a histogram, whose rows are left, right and count."""
    packed = struct.pack(f"<{len(numbers)}{'d' if dtype == 2 else 'f'}", *numbers)
    shape = [len(numbers) // 3 if count is None else count, columns]
    return _tensor(dtype, field(4, packed), shape=shape) + _plugin("histograms")


def _setting(name: str, value: bytes) -> bytes:
    """Return one hyperparameter."""
    return field(1, field(1, name) + field(2, value))


def _start_of_session(*parts: bytes) -> bytes:
    """Return hyperparameters."""
    return field(1, "_hparams_/session_start_info") + _plugin("hparams", field(3, b"".join(parts)))


def _end_of_session(status: int) -> bytes:
    """Return the end of a session."""
    return field(1, "_hparams_/session_end_info") + _plugin("hparams", field(4, integer_field(1, status)))


_TENSORBOARD_VALUES: dict[str, bytes] = {
    "nothing": b"",
    "a number": float_field(2, 0.5),
    "a tag that is not text": field(1, b"\xff") + float_field(2, 0.5),
    "an old picture": field(4, integer_field(1, 3) + integer_field(2, 4) + field(4, b"png")),
    "an old sound": field(6, integer_field(1, 8) + field(4, b"wav")),
    "a histogram before that": field(3, b"x"),
    "an old histogram": _old_bins(1.0, 5.0, [0.0, 2.0, 4.0, 9.0], [0.0, 3.0, 1.0, 2.0]),
    "an old histogram whose limits reach to infinity": _old_bins(
        1.0, 3.0, [-1e308, 2.0, 4.0, float("inf")], [0.0, 3.0, 1.0, 0.0]
    ),
    "an old histogram of one value": _old_bins(2.0, 2.0, [1.0, 3.0], [0.0, 5.0]),
    "an old histogram with counts outside": _old_bins(3.0, 3.5, [1.0, 2.0, 4.0], [1.0, 0.0, 2.0]),
    "an old histogram with its numbers one by one": field(
        5, double_field(1, 0.0) + double_field(2, 1.0) + double_field(6, 1.0) + double_field(7, 4.0)
    ),
    "an old histogram without limits": _old_bins(0.0, 1.0, [], []),
    "an old histogram with too few counts": _old_bins(0.0, 1.0, [1.0, 2.0], [1.0]),
    "an old histogram with a count below zero": _old_bins(0.0, 1.0, [1.0], [-1.0]),
    "an old histogram that is a number": integer_field(5, 1),
    "texts": _strings(b"one", b"\xff") + _plugin("text"),
    "a text": _strings(b"one") + _plugin("text"),
    "a text of no plugin": _strings(b"one"),
    "a text of another plugin": _strings(b"one") + _plugin("pr"),
    "texts of another plugin": _strings(b"one", b"two") + _plugin("pr"),
    "a plugin without content": float_field(2, 0.5) + field(9, field(1, b"")),
    "a tensor of one number": _tensor(1, field(4, struct.pack("<f", 0.5))),
    "a tensor of one number in a row": _tensor(2, _doubles(6, -1e300), shape=[1]),
    "a tensor of one number that is listed": _tensor(1, float_field(5, 0.5)),
    "a tensor of two numbers": _tensor(2, field(4, bytes(16))),
    "a tensor of a part of a number": _tensor(2, field(4, bytes(7))),
    "a tensor of one number in the shape of two": _tensor(2, field(4, bytes(8)), shape=[2]),
    "a tensor of nothing": _tensor(1),
    "a histogram": _rows(0.0, 1.0, 2.0, 1.0, 3.0, 4.0),
    "a histogram of binary32": _rows(0.0, 0.5, 2.0, dtype=1),
    "a histogram whose numbers are listed": _tensor(2, _doubles(6, 0.0, 0.5, 2.0), shape=[1, 3])
    + _plugin("histograms"),
    "a histogram with a gap": _rows(0.0, 1.0, 2.0, 2.0, 3.0, 4.0),
    "a histogram whose bins overlap": _rows(0.0, 1.0, 2.0, 0.5, 3.0, 4.0),
    "a histogram that falls": _rows(1.0, 0.0, 2.0),
    "a histogram that is not finite": _rows(0.0, float("inf"), 2.0),
    "a histogram with a negative count": _rows(0.0, 1.0, -2.0),
    "a histogram of two columns": _rows(0.0, 1.0, 2.0, columns=2),
    "a histogram with too few rows": _rows(0.0, 1.0, 2.0, count=2),
    "a histogram of nothing": _rows(count=0),
    "a histogram of integers": _tensor(3, field(4, bytes(24)), shape=[1, 3]) + _plugin("histograms"),
    "settings": _start_of_session(
        _setting("lr", double_field(2, 0.5)),
        _setting("net", field(3, "mlp")),
        _setting("fast", integer_field(4, 1)),
        _setting("none", b""),
        _setting("list", field(6, b"x")),
        *(field(number, text) for number, text in ((2, "s3://model"), (3, "http://monitor"), (4, "group"))),
        double_field(5, 1.0),
    ),
    "settings alone": _start_of_session(_setting("decay", double_field(2, 0.25))),
    "a session that failed": _end_of_session(2),
    "a session that succeeded": _end_of_session(1),
    "a session that goes on": _end_of_session(3),
    "an experiment": field(1, "_hparams_/experiment") + _plugin("hparams", field(2, b"")),
}
_TENSORBOARD_EVENTS = (
    b"",
    integer_field(2, -1) + field(5, field(1, field(1, "before") + float_field(2, 0.5))),
    integer_field(2, 100) + field(7, integer_field(1, 1)),
    field(7, integer_field(1, 2)),
    field(4, b"") + field(6, b"") + field(8, b"") + field(9, b"") + field(99, b""),
    field(5, field(2, b"x") + integer_field(1, 4)),
)


def test_whole_import_of_every_value_of_tensorboard(tmp_path: Path) -> None:
    """Each is what its plugin shows, with its parts, or is named as what cannot be carried."""
    shown = [field(5, field(1, field(1, name) + value)) for name, value in _TENSORBOARD_VALUES.items()]
    events = [double_field(1, 1790000000.5) + integer_field(2, at) + each for at, each in enumerate(shown)]
    event_file(tmp_path / "source", *events, *(double_field(1, 1790000001.0) + each for each in _TENSORBOARD_EVENTS))
    report = imported(tmp_path / "source", tmp_path / "out", "tensorboard", max_examples=100)
    _compare("imports", "tensorboard-values", _report(report, tmp_path), _made(report, tmp_path / "out"))


_MLFLOW_TABLES = """
CREATE TABLE experiments (experiment_id INTEGER, name TEXT);
CREATE TABLE runs (run_uuid TEXT, name TEXT, status TEXT, start_time INTEGER, end_time INTEGER, artifact_uri TEXT,
    experiment_id INTEGER, lifecycle_stage TEXT DEFAULT 'active');
CREATE TABLE params (key TEXT, value TEXT, run_uuid TEXT);
CREATE TABLE tags (key TEXT, value TEXT, run_uuid TEXT);
CREATE TABLE metrics (key TEXT, value, timestamp, step, is_nan DEFAULT 0, run_uuid TEXT);
CREATE TABLE datasets (dataset_uuid, name);
CREATE TABLE inputs (source_id, destination_type, destination_id);
INSERT INTO experiments VALUES (3, 'group');
INSERT INTO runs (run_uuid, name, status, start_time, end_time, experiment_id) VALUES
    ('values', 'values', 'FINISHED', 1790000000000, 1790000009500, 3),
    ('labels', 'own', 'FINISHED', 1790000000000, 1790000009500, 3),
    ('failed', NULL, 'FAILED', 1790000000000, 1790000009500, 3),
    ('end before the last value', NULL, 'KILLED', 1790000000000, 1790000000100, 4),
    ('no end', NULL, 'FINISHED', 1790000000000, NULL, 3),
    ('late end', NULL, 'FINISHED', 1790000000000, 1000000000000000000, 3),
    ('running', NULL, 'RUNNING', 1790000000000, NULL, 3),
    ('scheduled', NULL, 'SCHEDULED', 1790000000000, 1790000009500, 3),
    ('value before the start', NULL, 'RUNNING', 1790000009000, NULL, 3),
    ('no start', NULL, 'RUNNING', NULL, NULL, 3),
    ('start before 1970', NULL, 'RUNNING', -5, NULL, 3);
INSERT INTO metrics (key, value, timestamp, step, run_uuid) SELECT 'a', 1.0, 1790000002000, 1, run_uuid FROM runs;
INSERT INTO metrics (key, value, timestamp, step, run_uuid) SELECT 'timeless', 1.0, 0, 1, run_uuid FROM runs;
INSERT INTO metrics VALUES
    ('late', 2.0, 1790000002500, 3, 0, 'values'),
    ('first', 1.0, 1790000000250, 1, 0, 'values'),
    ('nan', 0.0, 1790000000500, 2, 1, 'values'),
    ('inf', 1.7976931348623157e308, 1790000000750, 2, 0, 'values'),
    ('low', -1.7976931348623157e308, 1790000000751, 2, 0, 'values'),
    ('large', 8.9e307, 1790000000752, 2, 0, 'values'),
    ('before', 5.0, 1790000000753, -1, 0, 'values');
INSERT INTO params VALUES ('lr', '0.1', 'labels'), ('arch', 'mlp', 'labels');
INSERT INTO tags VALUES ('mlflow.runName', 'shown', 'labels'), ('mlflow.note.content', 'n', 'labels'),
    ('mlflow.source.git.commit', 'abc', 'labels'), ('mlflow.user', 'u', 'labels'), ('b', '1', 'labels'),
    ('a', '', 'labels');
INSERT INTO datasets VALUES ('d1', 'mnist');
INSERT INTO inputs VALUES ('d1', 'RUN', 'labels');
"""


def test_whole_import_of_every_row_of_mlflow(tmp_path: Path) -> None:
    """Each value has its time and step, each fact its place; the end is that of the run, and never before a value."""
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database:
        database.executescript(_MLFLOW_TABLES)
    report = imported(tmp_path / "mlflow.db", tmp_path / "out", "mlflow", max_examples=100)
    _compare("imports", "mlflow-rows", _report(report, tmp_path), _made(report, tmp_path / "out"))


_TRACKIO_ROWS = """
DELETE FROM metrics; DELETE FROM configs; DELETE FROM system_metrics; DELETE FROM traces; DELETE FROM alerts;
DELETE FROM run_artifact_links;
INSERT INTO configs VALUES (1, 'r', 'first', '{"lr":0.5,"rate":"inf","_Group":"g","_Username":"ada","_Created":"now",
    "net":{"depth":2}}', '2026-05-31T09:30:00+00:00');
INSERT INTO metrics (run_id, run_name, timestamp, step, metrics) VALUES
    ('r', 'first', '2026-05-31T09:30:00+00:00', 0, '{"loss":0.5,"n":1152921504606846976,"nan":"NaN","none":null,
        "word":"warm","deep":{"a":1,"b.c":2},"flag":true}'),
    ('r', 'first', '2026-05-31T09:30:00+00:00', 1, '{"pic":{"_type":"trackio.image","file_path":"p/a.png",
        "caption":"a cat"},"deep/a":3,"deep":{"a":4}}'),
    ('r', 'first', '2026-05-31T09:30:01+00:00', 2, '{"gone":{"_type":"trackio.image","file_path":"p/no.png"},
        "odd":{"_type":"trackio.odd"},"list":[1,2,"NaN",["-Infinity"]]}'),
    ('r', 'first', '2026-05-31T09:30:01+00:00', 3, '{"pics":[{"_type":"trackio.image","file_path":"p/a.png"},
        {"_type":"trackio.audio","file_path":"../b"}]}'),
    ('r', 'first', '2026-05-31T09:30:02+00:00', 4, '{"t":{"_type":"trackio.table","_value":[{"id":1,"ok":"yes"},
        {"id":2,"more":3}]},"empty":[]}'),
    ('r', 'first', '2026-05-31T09:30:02+00:00', 5, '{"h":{"_type":"trackio.histogram","bins":[0,1,2],"values":[3,4]},
        "half":{"_type":"trackio.histogram"}}'),
    ('r', 'first', '2026-05-31T09:30:03+00:00', 6, '{"md":{"_type":"trackio.markdown","_value":"# Title"}}'),
    ('r', 'first', '2026-05-31T09:30:03+00:00', 7, '{"tr":{"_type":"trackio.trace",
        "messages":[{"role":"user","content":"Hi"}],"metadata":{"k":1}}}'),
    ('r', 'first', '2026-05-31T09:30:04+00:00', 8, '{"bad":{"_type":"trackio.trace","messages":[1]}}'),
    ('r', 'first', '2026-05-31T09:30:04+00:00', -1, '{"loss": 0.25}'),
    ('r', 'first', 'no time', 9, '[1]');
INSERT INTO system_metrics (run_id, run_name, timestamp, metrics) VALUES
    ('r', 'first', '2026-05-31T09:30:02+00:00', '{"gpu": 87.5, "name": "H100"}');
INSERT INTO alerts (run_id, timestamp, run_name, title, text, level, step) VALUES
    ('r', '2026-05-31T09:30:03+00:00', 'first', 'low', 'acc is low', 'error', 4),
    ('r', '2026-05-31T09:30:03+00:00', 'first', 'only a title', NULL, 'warn', NULL);
INSERT INTO traces (id, run_id, timestamp, run_name, step, key, messages, metadata, search_text, spans) VALUES
    ('a', 'r', '2026-05-31T09:30:03+00:00', 'first', 5, 'chat', '[{"role":"user","content":"2 + 2"},
        {"content":["x"]},{"role":"assistant","content":"4"}]', '{"m": 1}', '', '[{"name": "call"}]'),
    ('b', 'r', '2026-05-31T09:30:03+00:00', 'first', 5, '', 'broken', '{}', '', '[]');
INSERT INTO external_run_artifact_links VALUES
    (1, 'r', 'first', 'p', 1, 'weights', 'model', 3, 12, 'input', '2026-05-31T09:30:04+00:00'),
    (2, 'r', 'first', 'p', 2, 'weights', 'model', 4, 13, 'output', '2026-05-31T09:30:04+00:00');
"""


def test_whole_import_of_every_row_of_trackio(tmp_path: Path) -> None:
    """Each value, object, alert, trace and artifact becomes an event or is in the report."""
    source = tmp_path / "source"
    source.mkdir()
    shutil.copy(SAMPLES / "trackio" / "demo.db", source)
    with closing(sqlite3.connect(source / "demo.db")) as database:
        database.executescript(_TRACKIO_ROWS)
    report = imported(source, tmp_path / "out", "trackio", max_examples=100)
    _compare("imports", "trackio-rows", _report(report, tmp_path), _made(report, tmp_path / "out"))


_MLFLOW_META = "start_time: 1790000000000\nend_time: 1790000001000\nlifecycle_stage: active\n"
# The largest number is one: only the database writes it for infinity.
_MLFLOW_METRIC = """1790000000500 0.5 1
1790000000600 9007199254740993
soon 1 2
1790000000700 1.7976931348623157e+308 2
1790000000701 inf 3
"""
_ODD_SOURCES = {
    "munin": {
        "run.json": '{"schema_version":2,"experiment":1,"name":7,"id":"r","started_at":-1,"params":[1],"tags":["a",1],'
        '"parent_id":"","provenance":{"git_commit":"c","git_dirty":1,"git_branch":"b","command":"x"}}',
        "events.jsonl": """{"type":"metric","key":"loss","value":0.5,"step":0,"timestamp":1790000000.0}
{"type":"metric","key":"loss","value":1152921504606846977,"step":1.0,"timestamp":"soon"}
{"type":"metric","key":"loss","value":"high","step":2,"timestamp":1790000002.0}
{"type":"metric","key":"loss","value":null,"step":-1,"timestamp":1790000002.0}
{"type":"metric","key":"loss","value":1.0,"timestamp":1790000003.0}
{"type":"metric","key":5,"value":1.0,"step":3,"timestamp":1790000003.0}
{"type":"define_metric","key":"loss","summary":"mean","goal":"down","step_metric":3}
{"type":"define_metric","key":"acc","summary":"max"}
{"type":"define_metric","key":null,"summary":"max"}
{"type":"media","key":"pic","path":"a.png","step":true,"ts":1790000004.0,"kind":"image"}
{"type":"media","key":"pic","path":"../a.png","step":4,"ts":1790000004.0,"kind":"image"}
{"type":"artifact_output","name":"weights","version":"v1"}
{"type":"artifact_input","name":"data","version":"v2"}
{"type":"artifact_input","version":"v2"}
{"type":"notes","value":null}
{"type":"tags","values":["x"]}
{"type":"resumed","at":1790000005.0}
{"type":"finished","status":"odd","ended_at":1790000006.0}
{"type":"finished","status":"failed","ended_at":1790000006.0}
{"type":"finished","status":"finished","ended_at":1790000007.0}
{"type":"other"}
""",
        "a.png": "no picture",
    },
    "kaun": {
        "run.json": '{"schema_version":1,"run_id":"r","created_at":"now","config":[1],"tags":["a",1],'
        '"experiment":2,"x":0}',
        "events.jsonl": """{"type":"scalar","step":0,"wall_time":1790000000.0,"tag":"loss","value":0.5,"epoch":0.5}
{"type":"scalar","step":-1,"wall_time":1790000001.0,"tag":"loss","value":1152921504606846977,"epoch":-1}
{"type":"scalar","step":"x","wall_time":-5,"tag":"loss","value":null,"minimize":true}
{"type":"scalar","step":3,"wall_time":1790000003.0,"tag":"loss","value":"high"}
{"type":"histogram","step":3,"wall_time":1790000003.0,"tag":"h"}
{"type":"histogram","step":3,"wall_time":1790000003.0,"tag":"h","count":2,"epoch":"two"}
{"type":"scalar","step":4,"wall_time":"noon","tag":"note","value":0.25,"note":"collides"}
{"type":"scalar","step":5,"tag":"loss","value":0.25,"wall_time_ms":8,"minimize":"no"}
{"step":5,"tag":"loss","value":"high"}
{"type":5,"step":6,"tag":"loss","value":0.5}
""",
    },
    "kaun-deep": {
        "run.json": _DEEP,
        "events.jsonl": """{"type":"scalar","step":0,"wall_time":1790000000.0,"tag":"loss","value":0.5}
""",
    },
    "metrics": {
        "metrics.jsonl": """{"step":0,"loss":0.5,"wall_time_ms":1.0}
{"step":-1,"loss":null,"wall_time_ms":2.0,"extra":{"acc":1152921504606846977}}
{"step":1.5,"loss":0.25,"wall_time_ms":-1.0,"extra":{"word":"x","flag":true}}
{"loss":0.125,"wall_time_ms":3.0,"extra":7}
{"loss":2.25,"value":"text","wall_time":"z","type":"x","minimize":false,"wall_time_ms":"z"}
{"loss":2.25,"epoch":2.75,"tag":"a","extra":{"tag":5}}
{"loss":"low","epoch":"three","t":3,"layer":null,"extra":{"loss":0.5,"t":3,"t/u":[1,"x"]}}
{"loss":2.25,"epoch":-1,"val":{"acc":0.5,"epoch":2,"list":[1,2]},"val/acc":0.75}
{"epoch":4,"wall_time_ms":5.0}
"""
    },
    "dvclive": {
        "metrics.json": '{"step":3,"loss":0.25,"best":"nan","word":"x","flag":true,"list":[1],"a":{"b":1},"a/b":2}',
        "params.yaml": "lr: 0.5\nrate: .nan\nnet: {depth: 2, rates: [.inf, 1]}\n",
        "plots/metrics/loss.tsv": "step\ttimestamp\tloss\n"
        "0\t1790000000000\t0.5\n-1\t0\t0.25\n1\t\tinf\nx\t1\t2\n2\t5\n3\t\t9007199254740993\n",
        "plots/images/a.png": "no picture",
    },
    "mlflow": {
        "mlruns/0/meta.yaml": "name: 'it''s'\n",
        **{
            f"mlruns/0/r{status}/{file}": text
            for status, name in ((1, '"a \\"b\\" \\\\ c"'), (2, '"'), (3, "''"), (4, "'"), (5, "null"), (9, "x"))
            for file, text in (
                ("meta.yaml", f"run_id: r{status}\nrun_name: {name}\nstatus: {status}\n{_MLFLOW_META}"),
                ("metrics/loss", _MLFLOW_METRIC),
            )
        },
    },
    # No version of Python reads brackets that are nested so deep.
    "dvclive-deep": {
        "metrics.json": "[" * 100_000 + "]" * 100_000,
        "params.yaml": "a: [1\n",
        "plots/metrics/loss.tsv": "step\tloss\n0\t0.5\n",
    },
}
"""The files of sources, by their path. Each has what no program should write."""


@pytest.mark.parametrize("name", _ODD_SOURCES)
def test_whole_import_of_what_no_program_writes(name: str, tmp_path: Path) -> None:
    """Every odd value is carried, or in the report with its place and its value; none ends the import."""
    source = tmp_path / "source" / "r"
    for place, content in _ODD_SOURCES[name].items():
        (source / place).parent.mkdir(parents=True, exist_ok=True)
        (source / place).write_text(content, encoding="utf-8", newline="\n")
    report = imported(source, tmp_path / "out", name.partition("-")[0], max_examples=100)
    _compare("imports", f"odd-{name}", _report(report, tmp_path), _made(report, tmp_path / "out"))


@pytest.mark.parametrize("run", ["whole", "resumed", "broken", "odd"])
@pytest.mark.parametrize("name", EXPORTED)
def test_whole_way_there_and_back(name: str, run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file of an export, what its report says, and what an import makes of it."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(RUNS.parent / run if run == "odd" else RUNS / run, tmp_path / run)
    there = accounted(export_runs(name, [run], "there", max_examples=100))
    back = imported("there", tmp_path / "back", name, max_examples=100)
    exported, made = _files(tmp_path / "there"), _made(back, tmp_path / "back")
    _compare("exports", f"{name}-{run}", _report(there, tmp_path), exported, _report(back, tmp_path), made)
