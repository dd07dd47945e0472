from __future__ import annotations

import math
from pathlib import Path

import pytest

import toyspec
from toyspec.core.writing.logged_values import event_members


def test_known_metrics_of_a_step_have_their_own_field() -> None:
    """loss, lr, grad_norm, tokens and the like are fields of step, the rest is extra in its order."""
    metrics = {"tokens_per_sec": 364000, "loss": 1.5, "lr": 3e-4, "mfu": 0.5, "tokens": 64, "grad_norm": 1, "ppl": 4.5}
    members = event_members("step", metrics)
    assert {
        "loss": 1.5,
        "lr": 3e-4,
        "tokens": 64,
        "grad_norm": 1.0,
        "ppl": 4.5,
        "extra": {"mfu": 0.5, "tokens_per_sec": 364000.0},
    } == members
    assert ["tokens_per_sec", "mfu"] == list(members["extra"])


def test_validation_loss_and_perplexity_have_their_own_field() -> None:
    """val_loss is the loss of an eval, val_perplexity its ppl, and the rest is extra."""
    metrics = {"val_loss": 1.2, "val_perplexity": 3.32, "val_acc": 0.85, "samples": 128.0}
    assert {"loss": 1.2, "ppl": 3.32, "samples": 128, "extra": {"val_acc": 0.85}} == event_members("eval", metrics)


def test_the_first_of_two_with_one_field_gets_it() -> None:
    """Nothing is lost when two metrics have the same field."""
    assert {"loss": 1.0, "extra": {"loss": 2.0}} == event_members("eval", {"val_loss": 1.0, "loss": 2.0})


def test_memory_and_waiting_are_fields_of_system() -> None:
    """Bytes and microseconds of the machine have fields, the rest is extra."""
    metrics = {"memory_used_bytes": 1e9, "data_wait_us": 1800.4, "gpu_util": 0.9}
    assert {"memory_used_bytes": 10**9, "data_wait_us": 1800, "extra": {"gpu_util": 0.9}} == event_members(
        "system", metrics
    )


@pytest.mark.parametrize("value", [1024.5, -1, -1.0, math.nan, math.inf])
def test_a_count_that_is_none_is_a_further_number(tmp_path: Path, value: float) -> None:
    """What no field can hold is the writer's to place: nothing raises, and nothing is lost."""
    with toyspec.start_run(tmp_path, run_id="a", git=None) as run:
        run.step(1, **event_members("step", {"loss": 0.5, "tokens": value}))
    step = list(toyspec.read(run.directory))[1]
    found = step["extra"]["tokens"]
    assert "tokens" not in step.value
    assert (value, {}) == (found, run.left_out) if math.isfinite(value) else found is None


@pytest.mark.parametrize("name", ["kind", "t", "phase", "extra", "name"])
def test_names_of_the_envelope_are_not_fields(name: str) -> None:
    """A metric cannot overwrite what every event has; it is one of the further numbers."""
    assert {"extra": {name: 1.0}} == event_members("step", {name: 1.0})
