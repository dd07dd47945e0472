"""Tests of what was done wrong with logs met in public repositories: honesty about times, ends, names and files."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

import toyspec
from conversions import records
from toyspec import Catalog, build_catalog, start_run
from toyspec.convert import export_runs, import_runs
from toyspec.core import files
from toyspec.core.checker import check
from toyspec.core.command_line.main import main
from toyspec.core.reading.records import Row
from toyspec.core.runs.run import list_runs

if TYPE_CHECKING:
    from pathlib import Path

WALL = 1790000000.0


def log_of(path: Path, *rows: dict[str, Any]) -> Path:
    """Write a log of JSON Lines and return its path."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_clock_that_jumps_is_a_finding_and_moves_what_follows(tmp_path: Path) -> None:
    """The log is checked where it is with one finding; an import keeps the time between the other records."""
    walls = [WALL + second + (3e8 if second == 11 else 0) for second in range(100)]
    log = log_of(tmp_path / "a.jsonl", *({"step": at, "loss": 0.5, "timestamp": w} for at, w in enumerate(walls)))
    (report,) = check(log).files
    assert [("wall-time-goes-backwards", 13)] == [(each.rule, each.line) for each in report.findings]
    (run,) = import_runs([log], tmp_path / "runs").runs
    times = [record["t"] for record in records(run.target)[1:] if record["kind"] != "note"]
    assert [float(second) for second in range(100) if second != 11] == times[:11] + times[12:]
    assert [("clock-jump", 1)] == [(loss.cause, loss.count) for loss in run.losses]


def test_log_without_a_metric_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A named dialect reads records in which nothing is a number; check and ls say that no metric was found."""
    log = log_of(tmp_path / "a.jsonl", {"step": 1, "who": "a"}, {"step": 2, "who": "b"})
    (report,) = check(log, dialect="metrics-jsonl").files
    assert ["no metric in 2 records"] == [each.message for each in report.findings]
    assert 0 == main(["ls", "--dialect", "metrics-jsonl", str(log)])
    assert f"no metric was found in {log}" in capsys.readouterr().err
    (run,) = import_runs([log], tmp_path / "runs", format="metrics-jsonl").runs
    assert "no metric was found in it" in run.notes


def test_files_that_are_not_logs_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside a log that is recognized, the others are counted by ls and by check, which lists them with -v."""
    log_of(tmp_path / "a.jsonl", {"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.25})
    (tmp_path / "notes.txt").write_text("nothing to see\n")
    (tmp_path / "losses.csv").write_text("a,b\n1,2\n")
    assert 2 == list_runs(tmp_path).skipped
    assert 0 == main(["ls", str(tmp_path)])
    assert "2 other files are not recognized as logs" in capsys.readouterr().err
    assert 0 == main(["check", "-v", str(tmp_path)])
    said = capsys.readouterr().out
    assert f"{tmp_path / 'losses.csv'}: skipped  no log is recognized in it" in said
    assert said.endswith("2 files of another format skipped\n")


def test_media_of_a_run_are_neither_runs_nor_other_files(tmp_path: Path) -> None:
    """A table in the folder of media has steps and numbers; the log of its run names it."""
    with start_run(tmp_path / "runs", run_id="a") as run:
        run.log({"loss": 0.5})
    media = tmp_path / "runs/a/media"
    media.mkdir()
    log_of(media / "table.jsonl", {"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.25})
    (media / "told.txt").write_text("nothing to see\n")
    stream = str(media.with_name("events.jsonl"))
    listed = list_runs(tmp_path / "runs")
    assert ([stream], 0) == ([each.path for each in listed], listed.skipped)
    assert [stream] == [each.path for each in check(tmp_path / "runs").files]
    build_catalog(tmp_path / "runs", out=tmp_path / "catalog")
    assert 1 == len(Catalog(tmp_path / "catalog").runs())


@pytest.mark.parametrize("text", ['{"a":1,"b":2}', '{"name": "x", "sizes": [3, 4]}'])
def test_document_of_another_program_is_not_a_torn_stream(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    """One object without an LF in a .json file is of another format for every command, and stays unchanged."""
    file = tmp_path / "history.json"
    file.write_text(text)
    assert 1 == main(["check", str(file)])
    said = capsys.readouterr().out
    assert "unknown-format" in said
    assert "unterminated" not in said
    for command in (["ls"], ["show"], ["repair", "--yes"]):
        assert 0 != main([*command, str(file)]) or command == ["repair", "--yes"]
        assert "torn" not in capsys.readouterr().out
    assert text == file.read_text()


@pytest.mark.parametrize("text", [
    '{"step":1,"loss":2.5}{"step":2,"loss":2.25}', '{"kind":"metric","v":1}{"kind":"metric","v":2}',
    '{"step":1,"loss":2',
])  # fmt: skip
def test_repair_moves_no_bytes_that_a_record_of_ours_does_not_begin(tmp_path: Path, text: str) -> None:
    """Other programs have keys of the same names; two objects in a row are not one of our records."""
    file = tmp_path / "log.json"
    file.write_text(text)
    main(["repair", "--yes", str(file)])
    assert [file] == list(tmp_path.iterdir())
    assert text == file.read_text()


def test_search_of_foreign_files_reads_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file is opened whose name says that it is not a log; of others that are not text, the first page is read."""
    for number in range(20):
        for name, data in (("a.mo", b"\xde\x12\x04\x95\0\0"), ("b.py", b"step = 1\n"), ("c", b"\x7fELF\0\0" * 30_000)):
            (tmp_path / f"{number}-{name}").write_bytes(data)
    opened: list[str] = []
    real = files.open_file

    def counted(file: Any, *rest: Any, **more: Any) -> Any:
        opened.append(str(file))
        return real(file, *rest, **more)

    monkeypatch.setattr("toyspec.core.reading.log_detection.open_file", counted)
    assert 0 == len(list_runs(tmp_path))
    assert 20 == len(opened)
    assert all(name.endswith("c") for name in opened)


def short_log(folder: Path) -> Path:
    """Write a log that stopped at step 202 of 5,100."""
    rows = [{"current_steps": step, "total_steps": 5100, "loss": 2.0, "lr": 0.1, "epoch": 0.1} for step in (201, 202)]
    folder.mkdir()
    return log_of(folder / "trainer_log.jsonl", *rows)


def test_log_that_stopped_before_its_planned_step_is_not_complete(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lists, the page of a run, catalogs and checks call it not ended; --require-complete fails; its import is torn."""
    log = short_log(tmp_path / "a")
    for command in (["ls"], ["show"], ["check"]):
        assert 0 == main([*command, str(log.parent)])
        assert "not ended" in capsys.readouterr().out
    assert 1 == main(["check", "--require-complete", str(log.parent)])
    capsys.readouterr()
    assert 0 == main(["ls", "--json", str(log.parent)])
    (listed,) = json.loads(capsys.readouterr().out)
    assert ("complete", "no", 5100) == (listed["state"], listed["ended"], listed["dialect"]["planned"])
    (run,) = import_runs([log], tmp_path / "runs").runs
    assert ["torn"] == [each.facts.state for each in list_runs(run.target)]


def test_log_without_an_end_has_no_end_mark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where a format has no end, views call a whole log so: complete would say that its run ended."""
    log = log_of(tmp_path / "a.jsonl", {"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.25})
    for command in (["ls"], ["show"], ["check"], ["check", "--require-complete"]):
        assert 0 == main([*command, str(log)])
        said = capsys.readouterr().out
        assert "no end mark" in said
        assert "complete" not in said
    assert ["complete"] == [run.facts.state for run in list_runs(log)]


def test_catalog_has_how_logs_ended(tmp_path: Path) -> None:
    """A run of a catalog has the state of a run of the files."""
    pytest.importorskip("duckdb")
    short_log(tmp_path / "a")
    build_catalog(tmp_path, out=tmp_path / "catalog")
    assert ["not ended"] == [run.facts.state_text for run in Catalog(tmp_path / "catalog").runs()]


def test_usual_name_does_not_hide_the_log_beside_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A directory is shown by the one file whose content is a log; of several, one is to be named."""
    (tmp_path / "log.txt").write_text("loss was 2 and then 3\n")
    assert 2 == main(["show", str(tmp_path)])
    assert "`toyspec check`" in capsys.readouterr().err
    log_of(tmp_path / "train.jsonl", {"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.25})
    assert 0 == main(["show", str(tmp_path)])
    assert capsys.readouterr().out.startswith("train.jsonl")
    log_of(tmp_path / "other.jsonl", {"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.25})
    assert 2 == main(["show", str(tmp_path)])
    assert "the directory has several logs" in capsys.readouterr().err


def test_settings_in_a_log_of_mlperf_are_not_points_of_a_curve(tmp_path: Path) -> None:
    """A setting and a metric of one name stay apart in an import, and where the log is read in place."""
    log = tmp_path / "result_0.txt"
    record: dict[str, Any] = {"namespace": "", "time_ms": 1790000000000, "event_type": "INTERVAL_START", "value": None}
    settings = {"config": {"lr": 0.5, "optimizer": "sgd"}}
    lines = [record | {"key": "init_start", "metadata": settings}]
    lines += [record | {"key": "lr", "value": 0.25, "metadata": {"step_num": step}} for step in range(3)]
    log.write_text("".join(f":::MLLOG {json.dumps(line)}\n" for line in lines), encoding="utf-8")
    (back,) = import_runs([log], tmp_path / "back").runs
    assert {"lr": 0.5, "optimizer": "sgd"} == records(back.target)[0]["config"]
    for place in (log, back.target):
        assert [0.25] * 3 == [value for value in toyspec.history(place)["lr"] if str(value) not in ("None", "nan")]


def test_planned_steps_of_a_log_with_every_tenth_step(tmp_path: Path) -> None:
    """One that counts from 0 has no line of the last step: that it reached it is not known, and not denied."""
    for last, ended in ((990, "unknown"), (980, "no"), (1000, "yes")):
        log = tmp_path / f"{last}.log"
        log.write_text("".join(f"iter {step}/1000 | loss: {3 - step / 500:.3f}\n" for step in range(0, last + 1, 10)))
        assert list_runs(log)[0].facts.ended == ended


def test_one_path_is_not_a_list_of_letters(tmp_path: Path) -> None:
    """A path alone is imported and exported, whatever its type."""
    log_of(tmp_path / "log.jsonl", {"step": 1, "loss": 2.5})
    assert len(import_runs(str(tmp_path / "log.jsonl"), tmp_path / "runs").runs) == 1
    assert len(export_runs("tensorboard", tmp_path / "runs", tmp_path / "out").runs) == 1


@pytest.mark.parametrize(
    ("data", "age", "steps"),
    [
        (b"step,loss\r1,2.5\r2,2.0\r", 0, [1, 2]),
        (b"step,loss\r\n1,2.5\r\n2,2.0", 120, [1, 2]),
        (b"step,loss\n1,2.5\n2,2.0", 0, [1]),
        (b"step,loss,acc\n1,2.5,1\n2,2.0", 120, [1]),
        ("step,loss\r\n1,2.5\r\n2,2.0\r\n".encode("utf-16"), 0, [1, 2]),
        ("step 1 loss: 2.5\r\nstep 2 loss: 2.0\r\n".encode("utf-16"), 0, [1, 2]),
    ],
)
def test_log_is_read_whatever_its_encoding_and_ends_of_lines(
    tmp_path: Path, data: bytes, age: int, steps: list[int]
) -> None:
    """A row without LF is one where it has the width of the others and the file has not grown for a minute."""
    file = tmp_path / "m.csv"
    file.write_bytes(data)
    moment = file.stat().st_mtime - age
    os.utime(file, (moment, moment))
    assert steps == [row.step for row in toyspec.read(file, mode="salvage") if isinstance(row, Row)]
    (report,) = check(file).files
    assert ([] if len(steps) > 1 else ["unterminated-line"]) == [finding.rule for finding in report.findings]
