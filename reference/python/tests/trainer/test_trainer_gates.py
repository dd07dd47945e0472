"""Quality gates and comparisons: what they take, and where the bounds lie."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from toyspec.core.writing.run_writer import RunWriter
from toyspec.trainer.earlier_runs import Baseline, BaselineComparison
from toyspec.trainer.settings import Gate, GateVerdict, SettingsError


@pytest.mark.parametrize(
    ("text", "below", "equal", "above"),
    [
        ("loss<2", True, False, False),
        ("loss<=2", True, True, False),
        ("loss>2", False, False, True),
        ("loss>=2.0", False, True, True),
        (" loss  <  +2e0 ", True, False, False),
    ],
)
def test_comparisons(text: str, below: bool, equal: bool, above: bool) -> None:
    """Each comparison holds below, at and above the bound as it is read."""
    gate = Gate.parsed(text)
    assert (below, equal, above) == tuple(gate.check({"loss": value}).passed for value in (1.5, 2.0, 2.5))
    assert gate == Gate.parsed(str(gate))


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        *((text, "is not a condition") for text in ("", "loss", "loss<", "<2", "loss=2", "loss<2<3", "loss<nan")),
        ("speed<1", "unknown metric 'speed'"),
        *((f"loss<{bound}", "must be a finite number") for bound in ("1e", "--1", "1e999")),
    ],
)
def test_unknown_gate(text: str, fact: str) -> None:
    """A text without metric, comparison or finite bound is refused."""
    with pytest.raises(ValueError, match=fact):
        Gate.parsed(text)


@pytest.mark.parametrize("results", [{}, {"loss": math.nan}, {"loss": -math.inf}])
def test_only_numbers_pass(results: dict[str, float]) -> None:
    """A value that is missing or not finite never passes."""
    assert GateVerdict(False, None) == Gate.parsed("loss<2").check(results)


def baseline(directory: Path, *losses: float) -> Baseline:
    """Return a run with these losses, the last of which was evaluated as twice as large."""
    with RunWriter(directory / "base") as run:
        run.run_start()
        for loss in losses:
            run.step(loss=loss)
        run.eval("held-out", step=len(losses), loss=2 * losses[-1])
        run.eval("other", step=1, loss=9.0)
    return Baseline(str(directory / "base"), "held-out")


@pytest.mark.parametrize(
    ("ratio", "verdict"), [(0.98, "ahead"), (0.9901, "par"), (1.0, "par"), (1.0099, "par"), (1.02, "behind")]
)
def test_verdict_goes_by_perplexity(tmp_path: Path, ratio: float, verdict: str) -> None:
    """Par is within one percent of the baseline's perplexity; less is ahead."""
    found = baseline(tmp_path, 3.0).compare(1, None, 3.0 + math.log(ratio))
    assert found is not None
    assert verdict == found.verdict
    assert ratio == pytest.approx(found.ppl_ratio)
    assert math.log(ratio) == pytest.approx(found.loss_delta)


def test_evaluations_are_compared_where_both_have_them(tmp_path: Path) -> None:
    """At a step that both have evaluated the evaluations count, else the losses of training."""
    base = baseline(tmp_path, 3.0, 2.0)
    assert BaselineComparison("par", 0.0, 1.0) == base.compare(2, 4.0, 9.9)
    assert BaselineComparison("par", 0.0, 1.0) == base.compare(1, 9.9, 3.0)
    assert BaselineComparison("par", 0.0, 1.0) == base.compare(2, None, 2.0)
    assert base.compare(3, 4.0, 3.0) is None


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_run_that_diverged_is_aborted(tmp_path: Path, loss: float) -> None:
    """A loss that is not a number cannot be compared, at any step."""
    base = baseline(tmp_path, 3.0)
    assert ["abort", "abort"] == [found.verdict for step in (1, 2) if (found := base.compare(step, loss, loss))]


def test_later_attempt_counts(tmp_path: Path) -> None:
    """Of a step that a resumed baseline has taken twice the second loss is compared."""
    with RunWriter(tmp_path / "base") as run:
        run.run_start()
        run.step(loss=5.0)
        run.close()
    with RunWriter(tmp_path / "base", exist="resume") as run:
        run.run_resume(0)
        run.step(loss=3.0)
    found = Baseline(str(tmp_path / "base"), "held-out").compare(1, None, 3.0)
    assert found == BaselineComparison("par", 0.0, 1.0)


def test_baseline_with_an_invalid_start_is_refused(tmp_path: Path) -> None:
    """A baseline whose run_start cannot be trusted is refused with what to do."""
    (tmp_path / "events.jsonl").write_text('{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"a/b"}\n')
    with pytest.raises(SettingsError, match="its run_start is missing or invalid"):
        Baseline(str(tmp_path), "held-out")
