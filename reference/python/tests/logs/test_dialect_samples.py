"""How the sample of each dialect was made, and facts of programs that the samples show."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path

import pytest

from command_line import toyspec_within as toyspec
from logs.test_dialects import rows_of
from sample_rows import ROWS, SAMPLES, SOURCES, lines_of, sample_of
from toyspec import import_runs, list_runs, read
from toyspec.logs.dialects import dialects


def test_every_dialect_has_a_sample_that_says_how_it_was_made() -> None:
    """A sample has the program and the command that made it, or the source that it was written after."""
    assert [*SOURCES] == sorted(dialect.name for dialect in dialects())
    for name, source in SOURCES.items():
        if "made_after" in source:
            assert not {"made_with", "command"} & set(source)
            assert source["made_after"].startswith(("written after ", "written by hand"))
            continue
        assert source["made_with"]
        folder = re.search(r"in (\.\.\S*?)(?:;|$)", source["command"])
        (program,) = (SAMPLES / name / (folder[1] if folder else "")).glob("make.*")
        assert f"{program.stem}." in source["command"]
        assert "Writes this sample" in program.read_text(encoding="utf-8").splitlines()[0]


@functools.cache
def written_down() -> dict[str, list[str]]:
    """Return the lines of `dialect_rows.jsonl` for each dialect."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in ROWS.read_text(encoding="utf-8").splitlines():
        name = json.loads(line).get("dialect", name) if line.startswith('{"dialect"') else name
        found.setdefault(name, []).append(line)
    return found


@pytest.mark.parametrize("name", SOURCES)
def test_what_is_read_of_a_sample_is_written_down(name: str) -> None:
    """Choices, notes, findings, each row and the run are those of `dialect_rows.jsonl`, which shows a change of them.

    So are those of its variants: what other versions of the program write.
    """
    assert written_down()[name] == list(lines_of(name))


def test_running_averages_of_maxtext_are_skipped() -> None:
    """What an evaluation prints before its result counts its own steps, in a table of many records too."""
    path = sample_of("maxtext")
    averages = b"".join(
        b'{"eval/avg_loss": 1.5, "eval/step_time_seconds": 1.0, "step": %d.0, "run_name": "a"}\n' % step
        for step in range(40)
    )
    assert {None} == {row.step for row in rows_of(path.read_bytes() + averages)[12:]}


def test_a_row_without_metrics_is_shown_by_its_members() -> None:
    """A line of tail that said nothing would look like a defect; a metric with one value is not a range."""
    path = sample_of("mllog")
    last = toyspec("tail", "--once", "-n", "1", str(path)).stdout.decode()
    assert "key run_stop" in last
    assert b"global_batch_size  256 at step 0, the only value\n" in toyspec("show", str(path)).stdout


def test_show_says_what_munin_keeps_beside_its_log() -> None:
    """Name, settings and tags are in run.json; the goal of a metric, the first step and the end are in the log."""
    (run,) = (SAMPLES.parent / "samples/munin/experiments/toyspec/runs").iterdir()
    shown = toyspec("show", str(run)).stdout.decode()
    assert shown.startswith("first try  complete  munin ")
    for fact in (
        "name        first try", "tags        small", "config      lr 0.001,", "steps       1 to 6,",
        "val/acc     first 0.375, last 0.75, highest 0.75 at step 6", "end         reason completed",
    ):  # fmt: skip
        assert f"\n  {fact}" in shown
    (listed,) = json.loads(toyspec("ls", "--json", str(run)).stdout)
    assert "completed" == listed["reason"]
    media = toyspec("tail", "--once", "-n", "6", str(run)).stdout.decode().splitlines()[0]
    assert 1 == media.count("step")


@pytest.mark.parametrize(("status", "reason"), [("aborted", "aborted"), ("odd", None)])
def test_import_of_an_mlperf_log_has_its_end(tmp_path: Path, status: str, reason: str | None) -> None:
    """The status of run_stop is the reason of run_end; another word is none."""
    log = tmp_path / "result_0.txt"
    log.write_bytes(sample_of("mllog").read_bytes().replace(b'"success"', f'"{status}"'.encode()))
    _, run = import_runs([log], tmp_path / "runs").runs
    last = list(read(run.target))[-1]
    assert reason == last.get("reason")
    assert reason == list_runs(log)[0].facts.reason


def test_show_begins_with_the_losses_of_very_many_metrics() -> None:
    """OLMo logs the norm of each gradient before the loss: what has a goal is shown before what is left out."""
    shown = toyspec("show", str(sample_of("olmo"))).stdout.decode()
    assert "more" in shown
    assert shown.index("train/CrossEntropyLoss") < shown.index("optim/")
