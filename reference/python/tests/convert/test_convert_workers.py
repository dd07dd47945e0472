"""Imports by several workers make what one process makes, to the byte."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from conversions import SAMPLES, accounted
from convert.test_convert_tensorboard import event_file, steps
from toyspec.convert import import_runs, importing
from toyspec.core import directories
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.main import main
from toyspec.core.workers.processes import DIED

if TYPE_CHECKING:
    from collections.abc import Callable

    from toyspec.convert import ConversionReport

needs_fork = pytest.mark.skipif(multiprocessing.get_start_method() != "fork", reason="the tests change what is forked")


def tree(root: Path) -> dict[str, bytes | None]:
    """Return every file below *root* with its content, and every directory."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in sorted(root.rglob("*"))
    }


def document(report: ConversionReport) -> Any:
    """Return *report* as JSON has it."""
    return msgspec.to_builtins(accounted(report))


def several(folder: Path) -> list[Path]:
    """Write sources of several formats and sizes, some of which want the same run id or cannot be imported."""
    for name in ("a", "b", "c"):
        event_file(folder / "x" / name, *steps(3))
        event_file(folder / "y" / name, *steps(5))
    (folder / "rows").mkdir()
    (folder / "rows" / "metrics.jsonl").write_text("".join(f'{{"step":{n},"loss":{n}.5}}\n' for n in range(5000)))
    (folder / "none").mkdir()
    places = [folder / name for name in ("x", "y", "none", "rows")]
    samples = [SAMPLES / name for name in ("dvclive", "mlflow", "tensorboard", "trackio", "wandb")]
    return [*places, *(folder / "y" / name for name in ("a", "b")), *samples, folder / "x"]


def test_import_makes_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bundles, reports and errors are equal, the first time and when some are there already."""
    sources = several(tmp_path / "logs")
    made = {}
    for workers in (1, 3):
        directory = tmp_path / str(workers)
        directory.mkdir()
        monkeypatch.chdir(directory)
        first = import_runs(sources[:2], workers=workers)
        seen: list[tuple[int, int]] = []
        second = import_runs(sources, workers=workers, watch=lambda *counts, seen=seen: seen.append(counts))
        made[workers] = (document(first), document(second), tree(directory))
        assert workers == 1 or seen[-1][0] == seen[-1][1]
    assert made[1] == made[3]
    assert {"converted", "done-before"} == {run["status"] for run in made[1][1]["runs"]}
    assert made[1][1]["errors"]
    formats = {run["format"] for run in made[1][1]["runs"]}
    assert {"dvclive", "metrics-jsonl", "mlflow", "tensorboard", "trackio", "wandb"} <= formats


def kill_once(mark: Path) -> None:
    """End this process, unless that was done before."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


@needs_fork
def test_killed_worker_costs_an_import_a_retry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker is killed with half a bundle, and one when its bundle was there: nothing is lost, double or left."""
    sources = [event_file(tmp_path / "logs" / str(number), *steps(3)).parent for number in range(5)]
    here = document(import_runs(sources, tmp_path / "runs"))
    expected = tree(tmp_path / "runs")
    (tmp_path / "runs").rename(tmp_path / "whole")
    write, sync = importing._write_stream, directories.sync_directory

    def half_written(*arguments: Any) -> None:
        write(*arguments)
        kill_once(tmp_path / "half")

    def unreported(*arguments: Any) -> None:
        sync(*arguments)
        kill_once(tmp_path / "unreported")

    monkeypatch.setattr(importing, "_write_stream", half_written)
    monkeypatch.setattr(importing, "sync_directory", unreported)
    assert here == document(import_runs(sources, tmp_path / "runs", workers=2))
    assert expected == tree(tmp_path / "runs")
    assert {"half", "unreported"} <= set(os.listdir(tmp_path))


def poisoned(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return *original*, which ends its process for what is in a directory of that name."""

    def call(path: str, *arguments: Any, **options: Any) -> Any:
        if Path(path).parent.name.endswith("poison"):
            os.kill(os.getpid(), signal.SIGKILL)
        return original(path, *arguments, **options)

    return call


@needs_fork
def test_poisoned_source_is_isolated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A source that ends every worker is reported, all others are imported, and nothing of it is left."""
    for name in ("a", "poison", "z"):
        event_file(tmp_path / "logs" / name, *steps(3))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importing, "_write_stream", poisoned(importing._write_stream))
    assert exit_codes.USAGE == main(["import", "--workers", "2", "logs", "--out", "runs", "--json"])
    said = capsys.readouterr()
    assert ["a", "z"] == [run["run_id"] for run in json.loads(said.out)["runs"]]
    fact = f"not imported: {DIED}; the others are not affected"
    assert f"toyspec import: logs/poison: {fact}" in said.err
    assert ["a", "z"] == sorted(os.listdir("runs"))


def test_interrupted_import_goes_on(tmp_path: Path) -> None:
    """What was made before Ctrl-C is whole and is kept; the rest follows, under the names that it would have had."""
    for number in range(8):
        event_file(tmp_path / "logs" / str(number) / "same", *steps(3 + number))
    sources = [tmp_path / "logs" / str(number) / "same" for number in range(8)]
    import_runs(sources, tmp_path / "whole")

    def interrupt(done: int, total: int) -> None:
        if done > total / 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_runs(sources, tmp_path / "runs", workers=2, watch=interrupt)
    assert [] == multiprocessing.active_children()
    before = os.listdir(tmp_path / "runs")
    assert before
    assert not [name for name in before if name.startswith(".")]
    report = import_runs(sources, tmp_path / "runs", workers=2)
    assert {"done-before"} == {run.status for run in report.runs if run.run_id in before}
    assert {name: data for name, data in tree(tmp_path / "whole").items() if name.endswith("jsonl")} == {
        name: data for name, data in tree(tmp_path / "runs").items() if name.endswith("jsonl")
    }
