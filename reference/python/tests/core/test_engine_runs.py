"""Lists and summaries of many runs are the same with both engines."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings

import strategies
from core.test_run_ends import SOUND, write
from property_examples import examples
from toyspec.catalog.index import records_below, stream_of
from toyspec.catalog.reading_runs import Job, Plan, digested, read_batch
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.runs.discovery import Stream, find_streams
from toyspec.core.runs.run import list_runs
from toyspec.core.runs.summary import engine_ends, summarize_ends, summarize_run
from toyspec.core.writing.run_starting import start_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from toyspec.catalog.reading_runs import ReadRun
    from toyspec.core.findings import PathError
    from toyspec.core.runs.run import Runs

pytestmark = pytest.mark.usefixtures("compiled_engine")

CASES = Path(__file__).resolve().parents[4] / "conformance/cases"
HINTS = ("*.csv", "trainer_state.json", "train_[0-9].log", "[!a]?.txt")


def both(monkeypatch: pytest.MonkeyPatch, work: Callable[[], Any]) -> list[Any]:
    """Return what *work* returns with each engine."""
    found = []
    for name in ("native", "python"):
        monkeypatch.setenv("TOYSPEC_ENGINE", name)
        found.append(work())
    return found


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

    def facts(run: ReadRun) -> Any:
        return run.kind, run.error, json.loads(run.line or "null")

    streams = [found for found in find_streams(str(CASES)) if isinstance(found, Stream)]
    own, plain = both(monkeypatch, lambda: read_batch(list(map(Job, streams)), Plan(DialectChoice())))
    assert list(map(facts, plain)) == list(map(facts, own))
    monkeypatch.setenv("TOYSPEC_ENGINE", "native")
    assert len(streams) / 2 < len(digested(streams, DialectChoice()))


def test_the_account_of_a_log_is_read_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Notes that count what the log lacks are counted by both engines, in a summary and in a list."""
    with start_run(tmp_path, run_id="run") as run:
        run.note("counts nothing")
        values: dict[str, Any] = {"x": 1.0, "y": object()}
        run.log(values)
        run.tap("r", step=-1)
    lacks: list[Counter[str]] = [Counter(y=1), Counter(tap=1)]
    for found in both(monkeypatch, lambda: summarize_run(run.events_path).missing):
        assert lacks == list(found.values())


def test_streams_are_found_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Order, hints, links, seals, identities, and names that are not text do not depend on the engine."""
    for name in (
        "b/events.jsonl", "b/SHA256SUMS", "b/run.json", "b/inner/metrics.jsonl.gz", "b/log.csv", "a/log.csv",
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
    own, plain = both(monkeypatch, lambda: list(find_streams(str(tmp_path), hints=HINTS)))
    assert plain == own
    assert os.fsdecode(os.path.join(odd, b"events.jsonl")) in [found.path for found in plain]
    assert 12 < len(plain)


def test_last_finite_value_is_known_where_the_last_is_null(tmp_path: Path) -> None:
    """The digest of a run keeps it beside the extremes."""
    steps = enumerate(["5.0", "3.0", "4.0", "null"], 1)
    lines = [f'{{"kind":"step","t":{step},"step":{step},"loss":{loss}}}\n' for step, loss in steps]
    start = '{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run"}\n'
    (tmp_path / "events.jsonl").write_text("".join([start, *lines]))
    streams = [found for found in find_streams(str(tmp_path)) if isinstance(found, Stream)]
    [run] = digested(streams, DialectChoice()).values()
    loss = run.summary.series["loss"]
    assert (4, 1, 4.0, (4, None)) == (loss.count, loss.not_finite, loss.last_finite, loss.last)


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
    for name in ("ended", "killed", "metrics", "decoding", "blank lines", "evaluation behind training"):
        folder = tmp_path / name
        folder.mkdir()
        streams.append(Stream(write(folder, SOUND[name]), 0))
    found = engine_ends(streams)
    assert [stream.path for stream in streams] == list(found)
    for path, run in found.items():
        alone = summarize_ends(path)
        assert (alone.facts, alone.start) == (run.facts, run.start)


def test_records_are_those_of_plain_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine's records are the same bytes, metrics beside events and names that are not text are left out."""
    names = [
        "a/events.jsonl",
        "a/metrics.jsonl",
        "b/metrics.jsonl",
        "c/log.csv",
        "d\t\n/events.jsonl",
        "é/events.jsonl.gz",
    ]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * len(name))
    try:
        os.mkdir(os.fsencode(tmp_path) + b"/\xff")
        (tmp_path / os.fsdecode(b"\xff") / "events.jsonl").write_bytes(b"x")
    except OSError:
        pass
    refused: list[PathError] = []

    def found() -> list[bytes]:
        return list(records_below([str(tmp_path)], HINTS, refused.append))

    own = found()
    monkeypatch.setenv("TOYSPEC_ENGINE", "python")
    assert own == found()
    assert refused[: len(refused) // 2] == refused[len(refused) // 2 :]
    kept = [each for each in find_streams(str(tmp_path), hints=HINTS) if isinstance(each, Stream)]
    expected = [each.path for each in kept if "\udcff" not in each.path and not each.path.endswith("a/metrics.jsonl")]
    assert expected == [stream_of(record, [str(tmp_path)]).path for record in own]
