"""Tests of imports as a whole: whole bundles, going on, names, errors, and the commands."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from errno import EACCES, EDQUOT, EFBIG, EIO, ENOENT, ENOSPC
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from command_line import toyspec_within as toyspec
from conversions import accounted, importable_samples, imported, records, write_run
from convert.test_convert_tensorboard import WALL, event_file, steps
from files import in_subprocess
from toyspec import open_run
from toyspec.convert import (
    export_runs,
    import_runs,
    importing,
    tensorboard_files,
)
from toyspec.core.command_line.commands import load as command_module
from toyspec.core.command_line.main import main


def test_step_that_was_guessed_wrong_is_named_and_imported_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The key of the step is part of what was imported: with another one, the run is made again, in the same place."""
    log, out = tmp_path / "log.jsonl", str(tmp_path / "runs")
    log.write_bytes(b'{"step": 1, "iter": 10, "loss": 2.5}\n{"step": 1, "iter": 20, "loss": 2.0}\n')
    assert 0 == main(["import", str(log), "--out", out])
    assert [1, 1] == [record["step"] for record in records(tmp_path / "runs" / "log") if "step" in record]
    for _ in range(2):
        assert 0 == main(["import", "--step-key", "iter", str(log), "--out", out])
    assert [10, 20] == [record["step"] for record in records(tmp_path / "runs" / "log") if "step" in record]
    assert "already there" in capsys.readouterr().out
    assert ["log"] == os.listdir(out)


def test_runs_of_one_name_do_not_meet(tmp_path: Path) -> None:
    """A directory that another run has is left alone; the next one gets a number."""
    event_file(tmp_path / "x" / "a", *steps(1))
    event_file(tmp_path / "y" / "a", *steps(2))
    own = write_run(tmp_path / "runs" / "a", {}).joinpath("events.jsonl").read_bytes()
    for _ in range(2):
        report = accounted(import_runs([tmp_path / "x" / "a", tmp_path / "y" / "a"], tmp_path / "runs"))
        assert ["a-2", "a-3"] == [run.run_id for run in report.runs]
        assert ["another run is named a, so this one is a-2"] == [
            note for note in report.runs[0].notes if "named" in note
        ]
    assert own == (tmp_path / "runs" / "a" / "events.jsonl").read_bytes()


def test_stopped_import_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C ends the command with its exit status, and a line that says what is there and what to do."""

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command_module("import"), "import_runs", interrupted)
    assert 130 == main(["import", str(tmp_path), "--out", str(tmp_path / "runs")])
    said = f"toyspec import: stopped; the runs in {tmp_path / 'runs'} are whole. Run the same command again to go on\n"
    assert said == capsys.readouterr().err


def test_export_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message has the directory of the export, which is as it was, and so is what is beside it."""
    run, out = write_run(tmp_path / "a", {}, {"kind": "scalars", "t": 0.0, "values": {"x": 1.0}}), tmp_path / "out"
    for error, code, said in (
        (KeyboardInterrupt, 130, f"stopped; nothing was added to {out}"),
        (OSError(ENOSPC, "No space left on device"), 2, f"{out}: No space left on device"),
    ):
        place = "toyspec.convert.destinations.tensorboard_events.TensorboardEvents.open"
        monkeypatch.setattr(place, MagicMock(side_effect=error))
        assert code == main(["export", "tensorboard", str(run), "--out", str(out)])
        assert f"toyspec export: {said}\n" == capsys.readouterr().err
        assert [run] == list(tmp_path.iterdir())


def test_file_without_any_event_is_an_error(tmp_path: Path) -> None:
    """A name does not make an event file; one record is enough for a run, whatever is before it."""
    (tmp_path / "a").mkdir()
    file = tmp_path / "a" / "x.tfevents.1"
    file.write_bytes(b"hello world, not an event file")
    done = toyspec("import", str(file), "--out", str(tmp_path / "runs"))
    assert (2, b"") == (done.returncode, done.stdout)
    assert f"toyspec import: {file}: not an event file: no record in it can be read\n" == done.stderr.decode()
    assert [] == [name for name in os.listdir(tmp_path / "runs") if not name.startswith(".")]
    event_file(tmp_path / "b", *steps(1))
    (real,) = (tmp_path / "b").iterdir()
    real.write_bytes(file.read_bytes() + real.read_bytes())
    done = toyspec("import", str(real), "--out", str(tmp_path / "runs"))
    assert 1 == done.returncode


def test_every_format_in_a_folder_is_imported(tmp_path: Path) -> None:
    """Each run becomes a bundle of its own; the parts of a run are not imported once more as logs."""
    for sample in importable_samples():
        shutil.copytree(sample, tmp_path / "all" / sample.name, ignore=shutil.ignore_patterns("make.py"))
    write_run(tmp_path / "all" / "own", {})
    (tmp_path / "all" / "train.csv").write_text("step,loss\n1,0.5\n2,0.25\n", encoding="utf-8")
    for step in (10, 20):
        (tmp_path / "all" / "hf" / f"checkpoint-{step}").mkdir(parents=True)
        history = [{"loss": 1.0, "epoch": 0.5, "step": each} for each in range(5, step + 1, 5)]
        state = json.dumps({"log_history": history, "global_step": step, "max_steps": 20, "epoch": 1.0})
        (tmp_path / "all" / "hf" / f"checkpoint-{step}" / "trainer_state.json").write_text(state, encoding="utf-8")
    (tmp_path / "all" / "broken.wandb").write_bytes(b":W&B\xe1\xbe\x07")
    report = imported(tmp_path / "all", tmp_path / "runs")
    counts = {"tensorboard": 1, "wandb": 1, "mlflow": 2, "trackio": 1, "dvclive": 1, "csv": 1, "hf-trainer": 1}
    counts |= {"kaun": 1, "metrics": 1}
    assert counts == Counter(run.format for run in report.runs)
    assert ["hf-checkpoint-20"] == [run.run_id for run in report.runs if run.format == "hf-trainer"]
    fact = "a W&B run file of version e1be07; only e1be00 (version 0) is known"
    assert [("broken.wandb", fact)] == [(os.path.basename(error.path), error.message) for error in report.errors]
    again = import_runs([tmp_path / "all"], tmp_path / "runs")
    assert {"done-before"} == {run.status for run in again.runs}


def test_run_whose_source_has_no_end_has_no_end_mark(tmp_path: Path) -> None:
    """It is not torn as a run that was killed is; once records come after the note, it is."""
    event_file(tmp_path / "a", *steps(1))
    imported(tmp_path / "a", tmp_path / "runs")
    stream = tmp_path / "runs" / "a" / "events.jsonl"

    def states() -> list[str]:
        facts = open_run(stream).facts
        done = toyspec("check", str(stream))
        return [facts.state, facts.ended, facts.state_text, done.stdout.decode().splitlines()[-1]]

    assert ["torn", "unknown", "no end mark", "1 run: no end mark · 1 warning"] == states()
    with stream.open("ab") as file:
        file.write(b'{"kind":"note","t":9.0,"text":"goes on"}\n')
    assert ["torn", "no", "torn", "1 run: torn · 1 warning"] == states()


def test_log_content_is_shown_inert(tmp_path: Path) -> None:
    """Escape sequences in a name reach no terminal."""
    event_file(tmp_path / "a", tensorboard_files.scalar_event(WALL, -1, "\x1b[31mred\n::error::", 1.0))
    done = toyspec("import", str(tmp_path / "a"), "--out", str(tmp_path / "runs"))
    assert b"\x1b" not in done.stdout
    assert b"\n::error::" not in done.stdout


def test_directory_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The source is not blamed for a directory without permission to write; nothing more is tried."""

    def refused(path: str, **_: Any) -> None:
        raise PermissionError(EACCES, "Permission denied", path)

    monkeypatch.setattr("toyspec.convert.importing.os.makedirs", refused)
    out = tmp_path / "new" / "runs"
    assert 2 == main(["import", str(event_file(tmp_path / "a", *steps(1))), "--out", str(out)])
    assert f"toyspec import: {out}: Permission denied\n" == capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name a source"),
        (("xyzzy", "logs"), "'xyzzy' is neither a format nor a path; formats are "),
        (("plain.txt", "--out", "plain.txt"), "--out plain.txt is not a directory; name one"),
    ],
)
def test_wrong_use_is_explained(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    """Exit status 2, and one sentence about what is wrong and where."""
    (tmp_path / "plain.txt").write_text("hello\n")
    done = toyspec("import", *arguments, cwd=tmp_path)
    assert 2 == done.returncode
    assert message in done.stderr.decode()


def test_missing_package_is_named_with_its_extra(tmp_path: Path) -> None:
    """Whoever lacks MLflow learns what to install."""
    (tmp_path / "mlflow.py").write_text("raise ImportError")
    write_run(tmp_path / "a", {})
    done = toyspec("export", "mlflow", "a", "--out", "out", cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    assert 2 == done.returncode
    assert "writing to MLflow needs mlflow: pip install 'toyspec[mlflow]'" in done.stderr.decode()


def test_export_replaces_no_file(tmp_path: Path) -> None:
    """A file that is there stays, and nothing else is written beside it."""
    run = write_run(tmp_path / "a", {}, {"kind": "scalars", "t": 0.0, "values": {"x": 1.0}})
    export_runs("tensorboard", [run], tmp_path / "tb")
    with pytest.raises(FileExistsError):
        export_runs("tensorboard", [run], tmp_path / "tb")
    write_run(tmp_path / "b", {})
    export_runs("tensorboard", [tmp_path / "b"], tmp_path / "tb")
    assert ["a", "b"] == sorted(os.listdir(tmp_path / "tb"))
    assert not list(tmp_path.glob(".export-*"))


def test_run_of_another_profile_is_an_error_of_its_own(tmp_path: Path) -> None:
    """The other runs are exported."""
    (tmp_path / "runs" / "m").mkdir(parents=True)
    (tmp_path / "runs" / "m" / "metrics.jsonl").write_text('{"step":1,"wall_time_ms":1}\n')
    write_run(tmp_path / "runs" / "a", {})
    done = toyspec("export", "tensorboard", "runs", "--out", "tb", cwd=tmp_path)
    assert 2 == done.returncode
    assert "a metrics/v1 run; only toy/v1 is exported" in done.stderr.decode()
    assert ["a"] == os.listdir(tmp_path / "tb")


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs the peak of memory from /proc")
def test_import_takes_bounded_memory(tmp_path: Path) -> None:
    """A file of 16 MB takes no more memory than one of 3 MB."""
    program = (
        "import sys, toyspec; toyspec.import_runs([sys.argv[1]], sys.argv[2]); "
        "print([line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')][0])"
    )
    peaks = []
    for count in (10_000, 50_000):
        event_file(tmp_path / str(count), *steps(count, ("a" * 100, "b" * 100)))
        peaks.append(int(in_subprocess(program, str(tmp_path / str(count)), str(tmp_path / "runs")).stdout))
    assert peaks[1] - peaks[0] < 6_000


@pytest.mark.parametrize(
    ("number", "ends_all"),
    [(ENOSPC, True), (EDQUOT, True), (EFBIG, True), (EACCES, False), (EIO, False), (ENOENT, False)],
)
def test_what_fails_for_all_ends_an_import_and_what_fails_for_one_does_not(
    number: int, ends_all: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is raised; a source that cannot be read is an error of the report beside the runs of the others."""
    for name in "ab":
        event_file(tmp_path / name, *steps(3))
    made = importing.make_bundle

    def fail(plan: Any, options: Any) -> Any:
        if plan.run.source.startswith(str(tmp_path / "a")):
            raise OSError(number, os.strerror(number))
        return made(plan, options)

    monkeypatch.setattr(importing, "make_bundle", fail)
    sources = [tmp_path / "a", tmp_path / "b"]
    if ends_all:
        with pytest.raises(OSError, match=os.strerror(number)):
            import_runs(sources, tmp_path / "runs")
        return
    report = import_runs(sources, tmp_path / "runs")
    ((path, message),) = [(error.path, error.message) for error in report.errors]
    assert path.startswith(str(tmp_path / "a"))
    assert os.strerror(number) == message
    assert ["b"] == [Path(run.target).name for run in report.runs]
