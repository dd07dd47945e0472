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
