from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import toyspec
from toyspec.core.writing.logged_values import event_members


@pytest.mark.parametrize(
    ("kind", "metrics", "members"),
    [
        (
            "step",
            {"tokens_per_sec": 364000, "loss": 1.5, "lr": 3e-4, "mfu": 0.5, "tokens": 64, "grad_norm": 1, "ppl": 4.5},
            {
                "loss": 1.5,
                "lr": 3e-4,
                "tokens": 64,
                "grad_norm": 1.0,
                "ppl": 4.5,
                "extra": {"tokens_per_sec": 364000.0, "mfu": 0.5},
            },
        ),
        (
            "eval",
            {"val_loss": 1.2, "val_perplexity": 3.32, "val_acc": 0.85, "samples": 128.0},
            {"loss": 1.2, "ppl": 3.32, "samples": 128, "extra": {"val_acc": 0.85}},
        ),
        # The first of two with one field gets it.
        ("eval", {"val_loss": 1.0, "loss": 2.0}, {"loss": 1.0, "extra": {"loss": 2.0}}),
        (
            "system",
            {"memory_used_bytes": 1e9, "data_wait_us": 1800.6, "gpu_util": 0.9},
            {"memory_used_bytes": 10**9, "data_wait_us": 1801, "extra": {"gpu_util": 0.9}},
        ),
        # A metric cannot overwrite what every event has.
        *(("step", {name: 1.0}, {"extra": {name: 1.0}}) for name in ("kind", "t", "phase", "extra", "name")),
    ],
)
def test_metrics_have_the_field_of_their_name(kind: Any, metrics: dict[str, float], members: dict[str, Any]) -> None:
    """The rest is extra, in its order."""
    found = event_members(kind, metrics)
    assert members == found
    assert list(members["extra"]) == list(found["extra"])


@pytest.mark.parametrize("value", [1024.5, -1, -1.0, math.nan, math.inf])
def test_a_count_that_is_none_is_a_further_number(tmp_path: Path, value: float) -> None:
    """What no field can hold is the writer's to place: nothing raises, and nothing is lost."""
    with toyspec.start_run(tmp_path, run_id="a", git=None) as run:
        run.step(1, **event_members("step", {"loss": 0.5, "tokens": value}))
    step = list(toyspec.read(run.directory))[1]
    found = step["extra"]["tokens"]
    assert "tokens" not in step.value
    assert (value, {}) == (found, run.left_out) if math.isfinite(value) else found is None
