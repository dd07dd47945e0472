"""Whole runs of ``toyspec train``: what they write, and what they answer."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gguf", reason="the extra `train` is not installed")

from logged_runs import differences
from toyspec.core.checker import check
from toyspec.core.command_line import exit_codes
from toyspec.core.files import resource_path
from toyspec.core.reading.reader import read
from toyspec.trainer.language_model import LanguageModel
from trainer_golden import FILES, golden_run, lines
from training_runs import events, kinds, losses, train


def checked(path: Path) -> list[tuple[str | None, list[str]]]:
    """Return the state of each stream below *path*, and the rules of its findings above info level."""
    return [
        (report.state, [finding.rule for finding in report.findings if finding.severity != "info"])
        for report in check(path).files
    ]


def test_loss_falls_and_depends_on_the_seed_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Equal seeds print equal lines, of a falling loss; another seed prints others; nothing else is printed."""
    printed = []
    for seed, name in (("7", "a"), ("7", "b"), ("8", "c")):
        train("--steps", "30", "--out", tmp_path / name, "--seed", seed)
        out, err = capsys.readouterr()
        assert "" == err
        printed.append(out)
    assert printed[0] == printed[1] != printed[2]
    curve = losses(tmp_path / "a")
    assert [f"step {step}: loss={loss:.4f}" for step, loss in curve.items()] == printed[0].splitlines()
    assert list(range(1, 31)) == list(curve)
    assert curve[30] < 0.7 * curve[1]


def test_fixed_clock_makes_equal_bytes(tmp_path: Path) -> None:
    """With the fixed clock two equal runs of one name are equal in every byte of every file."""
    for parent in ("a", "b"):
        train("--steps", "6", "--checkpoint-every", "3", "--out", tmp_path / parent / "run")
    names = sorted(str(path.relative_to(tmp_path / "a")) for path in (tmp_path / "a").rglob("*") if path.is_file())
    assert ["run/weights/latest", "run/weights/step_3.gguf", "run/weights/step_6.gguf"] == names[-3:]
    assert ["run/events.jsonl", "run/metrics.jsonl"] == names[:-3]
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_default_directory_has_a_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without --out the run is the next of its kind and day, under runs/."""
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert exit_codes.OK == train("--steps", "1")
    assert ["mlp-20260531-001", "mlp-20260531-002"] == sorted(os.listdir("runs"))
    assert "mlp-20260531-002" == events(Path("runs/mlp-20260531-002"))[0]["run_id"]


def test_gate_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code says that the gate failed, and so does run_end; it is explained on standard error."""
    assert 1 == train("--steps", "10", "--gate", "loss_ratio<0.01", "--out", tmp_path / "a")
    end, curve = events(tmp_path / "a")[-1], losses(tmp_path / "a")
    assert ("completed", 1, 10, curve[10]) == tuple(
        end[key] for key in ("reason", "exit_code", "final_step", "final_loss")
    )
    assert (False, "loss_ratio") == (end["quality_gate"]["passed"], end["quality_gate"]["metric"])
    assert curve[10] / curve[1] == pytest.approx(end["quality_gate"]["value"])
    assert "gate failed" in capsys.readouterr().err


def test_run_that_diverges_is_recorded(tmp_path: Path) -> None:
    """A loss that is not a number is null in both logs, and with a baseline the run is given up."""
    train("--steps", "8", "--out", tmp_path / "good")
    wild = ("--steps", "8", "--lr", "1e9", "--eval-every", "4")
    assert exit_codes.OK == train(*wild, "--out", tmp_path / "wild")
    assert events(tmp_path / "wild")[-1]["final_loss"] is None
    assert 3 == train(*wild, "--out", tmp_path / "given-up", "--compare-to", tmp_path / "good", "--gate", "loss<9")
    end = events(tmp_path / "given-up")[-1]
    assert ("aborted", 4, 3, "the loss is not finite") == tuple(
        end[key] for key in ("reason", "final_step", "exit_code", "error")
    )
    assert {"passed": False, "metric": "loss", "value": None, "threshold": 9.0} == end["quality_gate"]
    assert ["abort"] == [event["verdict"] for event in kinds(tmp_path / "given-up", "compare")]
    assert {("complete", ())} == {(state, tuple(rules)) for state, rules in checked(tmp_path)}


def test_replaced_run_moves_aside(tmp_path: Path) -> None:
    """A run with the same id replaces both logs and the checkpoints; every old one is kept."""
    for steps in ("3", "2", "1"):
        train("--steps", steps, "--out", tmp_path / "a")
    assert [1] == list(losses(tmp_path / "a"))
    assert 1 == len((tmp_path / "a/metrics.jsonl").read_text().splitlines())
    assert 2 == len((tmp_path / "a/metrics.jsonl.prev").read_text().splitlines())
    assert ["latest", "step_1.gguf"] == sorted(os.listdir(tmp_path / "a/weights"))
    assert ["latest", "step_2.gguf"] == sorted(os.listdir(tmp_path / "a/weights.prev"))
    assert 3 == len((tmp_path / "a/metrics.jsonl.prev-1").read_text().splitlines())
    assert ["latest", "step_3.gguf"] == sorted(os.listdir(tmp_path / "a/weights.prev-1"))
    assert [3, 2] == [
        max(record["step"] for record in read(tmp_path / "a" / name) if record.kind == "step")
        for name in ("events.jsonl.prev-1", "events.jsonl.prev")
    ]


@pytest.mark.parametrize(
    ("error", "status", "end", "last"),
    [
        (KeyboardInterrupt(), exit_codes.INTERRUPTED, ("interrupted", "KeyboardInterrupt", 4), []),
        (ZeroDivisionError("x"), exit_codes.USAGE, ("errored", "ZeroDivisionError: x", 4), ["ZeroDivisionError: x"]),
    ],
    ids=["Ctrl-C", "a defect"],
)
def test_run_that_is_cut_short_says_why(  # noqa: PLR0913, PLR0917 - a row and its fixtures
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    status: int,
    end: tuple[str, str, int],
    last: list[str],
) -> None:
    """Ctrl-C ends the run as interrupted, an exception as errored and with its traceback, each with the last step."""

    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(LanguageModel, "evaluate", fail)
    assert status == train("--steps", "9", "--eval-every", "4", "--out", tmp_path / "a")
    assert end == tuple(events(tmp_path / "a")[-1][key] for key in ("reason", "error", "final_step"))
    assert last == capsys.readouterr().err.splitlines()[-1:]
    assert ("complete", []) in checked(tmp_path / "a")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gate", "loss"], "is not a condition"),
        (["--gate", "ppl_ratio<1"], "needs --compare-to"),
        (["--gate", "eval_loss<1", "--eval-every", "0"], "needs evaluations"),
        (["--lr", "nan"], "'nan' must be a number ≥ 0"),
        (["--steps", "4294967296"], "steps"),
        (["--compare-to", "nowhere"], "nowhere"),
        (["--resume"], "--resume needs --out"),
        (["--resume", "--out", "nowhere"], "nowhere"),
        (["--out", "a b"], "--out: run id 'a b'"),
    ],
)
def test_wrong_usage(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    message: str,
) -> None:
    """What cannot be carried out is refused with status 2 and a cause, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    assert exit_codes.USAGE == train(*options)
    shown = capsys.readouterr()
    assert "" == shown.out
    assert message in shown.err
    assert [] == os.listdir()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the run, trained again."""
    return golden_run(tmp_path_factory.mktemp("golden"))


@pytest.mark.parametrize("case", FILES)
def test_corpus_has_what_the_trainer_writes(run: Path, case: str) -> None:
    """Every file of the run is that of the corpus, but for the last digits of measured numbers."""
    for name in FILES[case]:
        kept = Path(resource_path("conformance", "cases", *case.split("/"), name))
        assert [] == differences(lines(kept), lines(run / name))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a disk of Linux that is full")
def test_training_goes_on_without_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A disk that is full is said once, and nothing more is written."""
    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert exit_codes.OK == train("--steps", "3", "--out", tmp_path / "a")
    assert 1 == capsys.readouterr().err.count("training continues without it")
    assert [1, 2, 3] == list(losses(tmp_path / "a"))
