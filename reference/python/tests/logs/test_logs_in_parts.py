"""A log of several files: an import reads them as one run, and reading one of them has a note."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import toyspec_within as toyspec
from conversions import imported, scalars
from sample_rows import SAMPLES
from toyspec import check, list_runs, read
from toyspec.core.errors import StreamMissingError
from toyspec.core.reading.live_stream import open_live

SAYS = "the program may write a log as several files: `toyspec import DIRECTORY` merges them"


def record(step: int, run: str = "r", minute: int = 0, **more: Any) -> bytes:
    """Return the line of a record of Trackio."""
    value = {"v": 1, "kind": "metric", "project": "p", "run": "lucky-bird-1", "run_id": run, "step": step}
    value |= {"metrics": {"loss": 2.5 / (step + 1)}, "timestamp": f"2026-11-22T10:{minute:02}:{step:02}+00:00"}
    return json.dumps(value | {"config": None, "log_id": f"l{step}"} | more).encode() + b"\n"


def line(step: int | None, name: str, *, seconds: int) -> bytes:
    """Return the line of a record of NeMo AutoModel; its step is null where *step* is None."""
    stamp = f"2026-11-22T10:{seconds // 60:02}:{seconds % 60:02}.000Z"
    return json.dumps({"step": step, "epoch": 0, "timestamp": stamp, name: 2.5}).encode() + b"\n"


def write(directory: Path, **files: bytes) -> Path:
    """Write *files*, each to its name with ``.jsonl``."""
    directory.mkdir(parents=True)
    for name, data in files.items():
        (directory / f"{name.removeprefix('_')}.jsonl").write_bytes(data)
    return directory


def steps_of(path: Path, target: Path) -> list[list[tuple[Any, str]]]:
    """Return the step and the name of each value, for each run that an import of *path* makes."""
    runs = imported(path, target).runs
    return [[(step, name) for name, step, _ in scalars(run.target)] for run in runs]


def test_samples_are_one_run_each(tmp_path: Path) -> None:
    """Each value of all files of what the real programs wrote is in one run."""
    for name, steps, metrics in (("trackio", 6, 2), ("nemo-automodel", 6, 9), ("allennlp", 2, 3)):
        folder = SAMPLES / name / {"trackio": "inbox", "allennlp": "run"}.get(name, "")
        (run,) = steps_of(folder, tmp_path / name)
        assert steps == len({step for step, _ in run if step is not None})
        assert metrics == len({name for _, name in run})


def test_reading_a_part_says_what_merges_them() -> None:
    """Each file is a log of its own where it is read in place, and every command says that there may be more."""
    path = SAMPLES / "trackio/inbox/67cf5e048efe41b0/00000001.jsonl"
    for command in (("show",), ("tail", "--once"), ("check",)):
        done = toyspec(*command, str(path))
        assert 0 == done.returncode
        assert SAYS in (done.stdout + done.stderr).decode()
    assert [2, 3] == [row.step for row in read(path)]


def test_numbers_in_names_order_the_files(tmp_path: Path) -> None:
    """However many digits each has; a table beside them is a run of its own."""
    folder = tmp_path / "demo"
    folder.mkdir()
    for first in (0, 999_990, 1_000_000):
        lines = (f'{{"learning/loss": 2.5, "step": {step}.0, "run_name": "a"}}\n' for step in (first, first + 9))
        (folder / f"metrics_step_{first:06}_to_step_{first + 9:06}.txt").write_text("".join(lines))
    (folder / "metrics.csv").write_text("step,loss\n7,2.5\n")
    runs = steps_of(folder, tmp_path / "out")
    steps = sorted([step for step, _ in run] for run in runs)
    assert [[0, 9, 999_990, 999_999, 1_000_000, 1_000_009], [7]] == steps


def test_a_cut_file_does_not_take_the_next_one_with_it(tmp_path: Path) -> None:
    """A file without its last LF is one unreadable line, which the import counts."""
    inbox = tmp_path / "inbox"
    write(inbox / "w", _00000000=record(0) + record(1), _00000001=record(2) + record(3)[:-9], _00000002=record(4))
    (run,) = steps_of(inbox, tmp_path / "out")
    assert [0, 1, 2, 4] == [step for step, _ in run]
    (made,) = imported(inbox, tmp_path / "again").runs
    assert "damaged" in {loss.cause for loss in made.losses}


def test_each_process_of_a_resumed_run_is_a_run(tmp_path: Path) -> None:
    """The fragments of a directory are those of a process, and each id is a run."""
    inbox = tmp_path / "inbox"
    write(inbox / "b", _00000000=record(0))
    write(inbox / "a", _00000000=record(1, minute=5))
    write(inbox / "c", _00000000=record(7, "other"))
    runs = sorted(steps_of(inbox, tmp_path / "out"))
    assert [[0], [1], [7]] == [[step for step, _ in run] for run in runs]


@pytest.mark.parametrize("is_late", [False, True])
def test_files_that_grow_together_are_in_the_order_of_times(tmp_path: Path, is_late: bool) -> None:
    """A line without a time stays after the line before it, however long it is."""
    run = tmp_path / "a"
    training = b"".join(line(step, "loss", seconds=10 * step) for step in range(4))
    validation = line(1, "val_loss", seconds=15) + b'{"x": "' + b"y" * (3 << 20) + b'"}\n'
    validation += line(3, "val_loss", seconds=90 if is_late else 25)
    write(run, training=training, validation=validation[:-1])
    (found,) = steps_of(run, tmp_path / "out")
    late = [(3, "loss"), (3, "val_loss")]
    assert [(0, "loss"), (1, "loss"), (1, "val_loss"), (2, "loss"), *(late if is_late else late[::-1])] == found


def test_other_files_with_such_names_are_logs_of_their_own(tmp_path: Path) -> None:
    """A log for each day has eight digits too."""
    days = {f"_{day}": b'{"step":1,"loss":2.5}\n{"step":2,"loss":1.5}\n' for day in (20261121, 20261122)}
    folder = write(tmp_path / "logs", **days)
    assert ["20261121.jsonl", "20261122.jsonl"] == sorted(run.facts.run for run in list_runs(folder))
    assert 2 == len(steps_of(folder, tmp_path / "out"))
    assert 2 == len(check(folder).files)


def test_directory_is_not_a_log(tmp_path: Path) -> None:
    """What is written is followed by its file: a directory without a stream may get one."""
    with pytest.raises(StreamMissingError):
        open_live(str(tmp_path))
