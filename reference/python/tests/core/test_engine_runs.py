"""Lists, summaries and curves are the same with both engines: the compiled one reads numbers as columns."""

from __future__ import annotations

import json
import os
import random
from functools import cache, partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings

import strategies
from core.test_engine import START, both, step
from core.test_run_ends import SOUND, write
from property_examples import examples
from run_facts import facts
from toyspec.catalog.index import records_below, stream_of
from toyspec.catalog.reading_runs import Job, Plan, digested, read_batch
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.runs.discovery import Stream, find_streams
from toyspec.core.runs.run import list_runs
from toyspec.core.runs.summary import engine_ends, summarize_ends
from toyspec.view.rows import row_of
from toyspec.view.scans import ScannedRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from toyspec.catalog.reading_runs import ReadRun
    from toyspec.core.findings import PathError
    from toyspec.core.runs.discovery import Found
    from toyspec.core.runs.run import Runs

pytestmark = pytest.mark.usefixtures("compiled_engine")

CASES = Path(__file__).resolve().parents[4] / "conformance/cases"
HINTS = ("*.csv", "a*.jsonl", "trainer_state.json", "train_[0-9].log", "[!a]?.txt")


def _told(runs: Runs) -> list[Any]:
    return [[run.facts for run in runs], runs.errors, runs.skipped]


@pytest.mark.slow
def test_every_run_of_the_corpus_is_listed_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Order, states, every fact of every run, errors and skipped files do not depend on the engine."""
    own, plain = both(monkeypatch, lambda: _told(list_runs(CASES)))
    assert 1000 < len(plain[0])
    assert plain == own


@pytest.mark.slow
def test_every_run_of_the_corpus_has_the_same_row_in_a_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    """All facts of each stream are the same; most runs are not left to Python."""

    def row(run: ReadRun) -> Any:
        return run.kind, run.error, json.loads(run.line or "null")

    streams = [found for found in find_streams(str(CASES)) if isinstance(found, Stream)]
    own, plain = both(monkeypatch, lambda: read_batch(list(map(Job, streams)), Plan(DialectChoice())))
    assert list(map(row, plain)) == list(map(row, own))
    monkeypatch.setenv("TOYSPEC_ENGINE", "native")
    assert len(streams) / 2 < len(digested(streams, DialectChoice()))


def test_streams_are_found_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Order, hints, links, seals, identities, and names that are not text do not depend on the engine.

    Nor do the records of a catalog: metrics beside events and names that are not text are left out.
    """
    for name in (
        "b/events.jsonl", "b/metrics.jsonl", "d\t\n/events.jsonl",
        "b/SHA256SUMS", "b/run.json", "b/inner/metrics.jsonl.gz", "b/log.csv", "a/log.csv", "a/annotations.jsonl",
        "a/checkpoint-9/trainer_state.json", "a/checkpoint-10/trainer_state.json", "a/checkpoint-10/deep/x.csv",
        "c/checkpoint-1/x.csv", "c/trainer_state.json", "train_1.log", "train_x.log", "bc.txt", "ab.txt",
        "events.jsonl.d/none", "Z/events.jsonl", "é/events.jsonl", ".hidden/events.jsonl",
    ):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "link").symlink_to(tmp_path / "b")
    (tmp_path / "file").mkdir()
    (tmp_path / "file/events.jsonl").symlink_to(tmp_path / "b/events.jsonl")
    (tmp_path / "dangling").mkdir()
    (tmp_path / "dangling/events.jsonl").symlink_to(tmp_path / "nothing")
    (tmp_path / "unlisted").mkdir(mode=0)
    odd = os.path.join(os.fsencode(tmp_path), b"\xff\xfe")
    os.mkdir(odd)
    with open(os.path.join(odd, b"events.jsonl"), "wb") as file:
        file.write(b"x")
    root = str(tmp_path)

    def looked() -> tuple[list[Found], list[bytes], list[PathError]]:
        refused: list[PathError] = []
        return list(find_streams(root, hints=HINTS)), list(records_below([root], HINTS, refused.append)), refused

    own, plain = both(monkeypatch, looked)
    assert plain == own
    paths = [found.path for found in plain[0] if isinstance(found, Stream)]
    assert os.fsdecode(os.path.join(odd, b"events.jsonl")) in paths
    kept = [path for path in paths if "\udcff" not in path and not path.endswith("b/metrics.jsonl")]
    assert 12 < len(kept)
    assert kept == [stream_of(record, [root]).path for record in plain[1]]


def test_last_finite_value_is_known_where_the_last_is_null(tmp_path: Path) -> None:
    """The digest of a run keeps it beside the extremes."""
    lines = [b'{"kind":"step","t":1,"step":1,"loss":%b}\n' % loss for loss in (b"4.0", b"null")]
    [run] = digested([Stream(write(tmp_path, b"".join([START, *lines])), 0)], DialectChoice()).values()
    loss = run.summary.series["loss"]
    assert (2, 1, 4.0, (1, None)) == (loss.count, loss.not_finite, loss.last_finite, loss.last)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stream=strategies.streams("toy/v1") | strategies.streams("metrics/v1") | strategies.streams("kaun/v1"))
def test_the_engine_says_what_plain_python_says(stream: bytes, tmp_path: Path) -> None:
    """The row of a run, its extent and its kinds do not depend on the engine; some streams are left to Python."""
    path = write(tmp_path, stream)
    for found in engine_ends([Stream(path, 0)]).values():
        alone = summarize_ends(path)
        assert (alone.facts, alone.start) == (found.facts, found.start)


def test_the_engine_reads_sound_runs(tmp_path: Path) -> None:
    """Ordinary short runs are not left to Python, and have the same row."""
    streams = []
    for name in ("ended", "killed", "metrics", "blank lines", "evaluation behind training"):
        folder = tmp_path / name
        folder.mkdir()
        streams.append(Stream(write(folder, SOUND[name]), 0))
    found = engine_ends(streams)
    assert [stream.path for stream in streams] == list(found)
    for path, run in found.items():
        alone = summarize_ends(path)
        assert (alone.facts, alone.start) == (run.facts, run.start)


def long_stream(path: Path) -> Path:
    """Write thousands of steps below *path*: two phases, nulls, epochs, steps that repeat, damage and a cut end."""
    chance = random.Random(7)
    lines = [START]
    for number in range(9000):
        loss = chance.choice([b"null", b"%.6f" % chance.random()]) if number > 4000 else b"1.5"
        line = b'{"kind":"step","t":%d,"step":%d,"loss":%b,"extra":{"acc":%d}}\n' % (
            number,
            number % 8000,
            loss,
            number,
        )
        phase, epoch = line.replace(b"{", b'{"phase":"eval",', 1), line.replace(b"}}", b'},"epoch":0.5}')
        lines.append(chance.choices([line, phase, epoch, line[9:]], [90, 10, 5, 1])[0])
    (path / "events.jsonl").write_bytes(b"".join(lines)[:-20])
    return path / "events.jsonl"


def scanned(path: Path) -> list[Any]:
    """Return what the viewer's server makes of a stream: its row, its marks, and every bucket of its curves."""
    file = ScannedRun(str(path))
    try:
        file.read()
    finally:
        file.close()
    starts = [0, *accumulate(len(line) + 1 for line in path.read_bytes().split(b"\n"))]
    found: list[Any] = [row_of(file.scan.summary.facts, "run"), file.scan.gaps, file.scan.resumes]
    for curves in (file.scan.latest, *file.scan.abandoned):
        for name, curve in curves.items():
            buckets = curve.buckets()
            columns = {key: list(column) for key, column in buckets.columns.items()}
            # A block of lines begins where an engine likes: at a line before the points.
            for offset, line in zip(columns.pop("offset"), columns.pop("line"), strict=True):
                assert starts[int(line) - 1] <= offset < starts[int(line)]
            # As text, since NaN is not equal to itself.
            found.append((name, buckets.level, buckets.tail, str(columns), str(curve.first_places)))
    return found


def resumed_stream(path: Path) -> Path:
    """Write a run below *path* that goes back four times, and logs more than steps."""
    chance = random.Random(9)
    lines, number = [START], 0
    for back in (900, 40, 1100, 3, 0):
        for _ in range(1000):
            number += 1
            eval_step = step(number).replace(b"{", b'{"phase":"eval",', 1)
            note = b'{"kind":"scalars","t":%d.5,"step":%d,"values":{"acc":0.5}}\n' % (number, number)
            lines += chance.choices([[step(number)], [eval_step, step(number)], [step(number), note]], [90, 5, 5])[0]
        if back:
            number -= back
            lines.append(b'{"kind":"run_resume","t":%d.5,"from_step":%d}\n' % (number, number))
    (path / "events.jsonl").write_bytes(b"".join(lines))
    return path / "events.jsonl"


def scalar_stream(path: Path) -> Path:
    """Write a kaun/v1 stream below *path*: tags in turns and at random, nulls, epochs, times that are missing."""
    chance = random.Random(11)
    lines = []
    for number in range(4000):
        tag = chance.choice([b"train/loss", b"loss", b"val/acc", b"loss", b"caf\xc3\xa9"])
        value = chance.choices([b"%.6f" % chance.random(), b"null", b"1e400", b"true"], [90, 5, 1, 1])[0]
        line = b'{"type":"scalar","step":%d,"tag":"%b","value":%b' % (number // 3, tag, value)
        line += chance.choices([b',"wall_time":%d.5' % (1e9 + number), b"", b',"wall_time":null'], [90, 5, 1])[0]
        line += chance.choices([b"", b',"epoch":%d' % (number // 99), b',"epoch":"x"'], [50, 50, 1])[0]
        line += chance.choices([b"", b',"minimize":true', b',"minimize":0', b',"more":[1,{"a":2}]'], [90, 5, 1, 5])[0]
        lines.append(line + chance.choices([b"}\n", b"\n"], [200, 1])[0])
    (path / "events.jsonl").write_bytes(b"".join(lines))
    return path / "events.jsonl"


def read_alike(path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Assert that facts and curves of the stream at *path* are the same with both engines; return the curves."""
    for work in (facts, scanned):
        native, python = both(monkeypatch, partial(work, path))
        assert native == python, path
    return native


@pytest.mark.parametrize("profile", ["toy-v1", "metrics-v1", "kaun-v1"])
def test_streams_of_the_corpus_are_read_alike(profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns of numbers say what records say: curves, times, kinds, measures and the report."""
    for path in sorted((CASES / profile).rglob("*.jsonl"))[::6]:
        read_alike(path, monkeypatch)


def test_a_long_stream_is_read_alike(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """So are thousands of steps, buckets of many points, and a resumption that supersedes some of them."""
    path = long_stream(tmp_path)
    resume = b'{"kind":"run_resume","t":9000,"from_step":5000}\n'
    path.write_bytes(path.read_bytes() + b"}\n" + resume + b"".join(map(step, range(5001, 9000))))
    curves = read_alike(path, monkeypatch)[3:]
    assert {"loss", "acc"} <= {name for name, *_ in curves}
    assert max(level for _, level, *_ in curves) > 1
    assert len(curves) > len({name for name, *_ in curves})


@pytest.mark.parametrize("written", [resumed_stream, scalar_stream])
def test_odd_streams_are_read_alike(
    written: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What later attempts supersede is left out of blocks of numbers; columns of tags are what scalars are."""
    assert len(str(read_alike(written(tmp_path), monkeypatch))) > 4000


@cache
def streams() -> list[tuple[str, bytes]]:
    """Return the streams of the corpus, and beginnings of the ones that are written here, each with its name."""
    return [(path.name, path.read_bytes()[:4096]) for path in sorted(CASES.rglob("*.jsonl"))]


def test_mutated_streams_are_summarized_alike(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Streams of the corpus with bytes replaced have equal summaries, losses and curves."""
    chance = random.Random(6)
    for number in range(int(os.environ.get("TOYSPEC_MUTATED_CURVES", "150"))):
        name, whole = chance.choice(streams())
        # Several times, so that lines are met again.
        data = bytearray(whole * chance.randint(1, 2))
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(data) + 1)
            data[at : at + chance.randrange(3)] = chance.choice([chance.randbytes(2), b"1", b"-", b"e9", b"null", b""])
        path = tmp_path / str(number) / name
        path.parent.mkdir()
        path.write_bytes(data)
        read_alike(path, monkeypatch)
