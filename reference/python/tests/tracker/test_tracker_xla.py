from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logged_runs import findings, steps
from toyspec.tracker import LossTracker, MetricsTracker, TrainingLogger, cross_entropy_with_entropy_loss

jax = pytest.importorskip("jax")

STEPS = 1000
PAD = 0


@pytest.fixture(scope="module")
def compilations() -> Counter[str]:
    """Return a count of what XLA has compiled since."""
    seen: Counter[str] = Counter()
    jax.monitoring.register_event_duration_secs_listener(lambda event, seconds, **others: seen.update([event]))
    return seen


def compiled(seen: Counter[str]) -> int:
    """Return how many programs were compiled."""
    return seen["/jax/core/compile/backend_compile_duration"]


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the ways in which an array has become a value on the host."""
    array = type(jax.numpy.zeros(()))
    made: list[str] = []
    for name in ("item", "tolist", "__float__", "__int__", "__index__", "__bool__", "__array__"):
        monkeypatch.setattr(array, name, counted(name, getattr(array, name), made))
    return made


def counted(name: str, method: Callable[..., Any], made: list[str]) -> Callable[..., Any]:
    """Return *method*, which adds its *name* to *made* at each call."""

    def wrapped(self: Any, *arguments: Any, **options: Any) -> Any:
        made.append(name)
        return method(self, *arguments, **options)

    return wrapped


def training_step() -> tuple[Callable[..., Any], Any]:
    """Return a compiled training step of a bigram model, and its first parameters."""

    def step(parameters: Any, tokens: Any) -> Any:
        def total(table: Any) -> Any:
            parts = cross_entropy_with_entropy_loss(table[tokens], tokens, PAD)
            return parts.total_loss, parts

        (_, parts), gradient = jax.value_and_grad(total, has_aux=True)(parameters)
        return parameters - 0.5 * gradient, parts

    return jax.jit(step), jax.numpy.zeros((16, 16))


def batch() -> Any:
    """Return tokens to learn from."""
    return jax.numpy.asarray(np.random.default_rng(0).integers(0, 16, (4, 12)))


def test_a_thousand_logged_steps_compile_nothing(
    compilations: Counter[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under jax.jit the step is compiled once, and neither losses, trackers nor logger let XLA compile again."""
    step, parameters = training_step()
    tokens = batch()
    losses, tracker = LossTracker(), MetricsTracker(parameters, sequence_length=12, theoretical_peak_flops=1e12)
    seen = []
    with TrainingLogger(runs_root=tmp_path, run_name="run", print_every=25) as logger:
        for number in range(1, STEPS + 1):
            parameters, parts = step(parameters, tokens)
            tracker.update(local_batch_size=4)
            losses.update(loss=parts.total_loss)
            logger.log_step(step=number, loss=parts.total_loss, entropy=parts.entropy, mfu=tracker.mfu)
            if number == 1:
                seen.append(compiled(compilations))
    seen.append(compiled(compilations))
    assert seen[0] > 0
    assert (seen[0], 1) == (seen[1], step._cache_size())  # type: ignore[attr-defined]
    average = losses.get_average("loss")
    assert average is not None
    assert 2.5 > average
    assert (STEPS, []) == (len(steps(tmp_path)), findings(tmp_path))


def test_each_metric_is_converted_once_and_only_when_due(
    conversions: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A metric that two places get is converted once; on a step that no place gets, nothing is."""
    step, parameters = training_step()
    _, parts = step(parameters, batch())
    conversions.clear()
    with TrainingLogger(runs_root=tmp_path, run_name="run", print_every=10, record_every=10) as logger:
        for number in range(1, 21):
            logger.log_step(step=number, loss=parts.total_loss, entropy=parts.entropy)
    assert ["item"] * 4 == conversions


def test_updating_a_loss_tracker_waits_for_nothing(conversions: list[str]) -> None:
    """update() of the loss tracker converts nothing; the first average converts each value once."""
    losses, values = LossTracker(), [jax.numpy.asarray(float(number)) for number in range(10)]
    conversions.clear()
    for value in values:
        losses.update(loss=value)
    assert [] == conversions
    assert (4.5, 4.5) == (losses.get_average("loss"), losses.get_total_average("loss"))
    assert ["item"] * 10 == conversions


def test_losses_are_one_graph_without_a_look_at_the_values() -> None:
    """The losses can be traced: nothing in them depends on a value."""
    traced = jax.make_jaxpr(lambda logits, labels: cross_entropy_with_entropy_loss(logits, labels, PAD))
    jaxpr = str(traced(jax.numpy.zeros((2, 3, 5)), jax.numpy.zeros((2, 3), int)))
    assert 1 == jaxpr.count(" log ")
    assert 0 == jaxpr.count("cond") + jaxpr.count("while")
