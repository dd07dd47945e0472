from __future__ import annotations

import io
import math
import sys
from typing import Any

import pytest

from torch_like import Module, Parameter, Tensor
from toyspec.testing import ManualClock
from toyspec.tracker import LossTracker, MetricsTracker


def tracker(clock: ManualClock, **options: Any) -> MetricsTracker:
    """Return a tracker of eight devices, a thousand parameters and sequences of ten tokens."""
    return MetricsTracker(1_000, sequence_length=10, world_size=8, clock=clock.monotonic, **options)


def test_tokens_are_those_of_all_devices() -> None:
    """A step counts the local batch times the sequence length times the number of devices."""
    counted = tracker(ManualClock())
    counted.update(local_batch_size=4)
    counted.update(4)
    assert (2, 640, 64) == (counted.steps, counted.tokens, counted.samples)


def test_speed_is_since_the_start_and_since_the_last_reset() -> None:
    """Overall figures run from the start, recent ones from reset_interval()."""
    clock = ManualClock()
    counted = tracker(clock, theoretical_peak_flops=6_000 * 100)
    counted.update(1)
    clock.advance(8)
    counted.reset_interval()
    counted.update(2)
    clock.advance(2)
    assert (24.0, 80.0) == (counted.tokens_per_second, counted.recent_tokens_per_second)
    assert (2.4, 10.0) == (counted.samples_per_second, counted.elapsed)
    assert (0.24, 0.8) == (counted.mfu, counted.recent_mfu)


def test_utilisation_is_unknown_without_a_peak() -> None:
    """Without a peak the utilisation is None and is not among the figures."""
    counted = tracker(ManualClock())
    assert (None, None) == (counted.mfu, counted.recent_mfu)
    assert ["steps", "tokens", "tokens_per_second", "elapsed_seconds", "recent_tokens_per_second"] == list(
        counted.as_dict()
    )


def test_figures_have_the_names_of_the_source() -> None:
    """as_dict() tells overall and, unless refused, recent figures."""
    counted = tracker(ManualClock(), theoretical_peak_flops=1e9)
    overall = ["steps", "tokens", "tokens_per_second", "elapsed_seconds", "mfu"]
    assert {*overall, "recent_tokens_per_second", "recent_mfu"} == counted.as_dict().keys()
    assert overall == list(counted.as_dict(include_recent=False))


def test_a_peak_may_be_the_name_of_an_accelerator() -> None:
    """A name means the peak of one chip times the number of devices."""
    assert 2.2e15 == tracker(ManualClock(), theoretical_peak_flops="TPU v4").theoretical_peak_flops


def test_attention_counts_where_the_model_tells_its_depth() -> None:
    """The tracker knows the sequence length, so a model that tells depth and width gets the attention term."""
    module = Module(type("Config", (), {"num_hidden_layers": 2, "hidden_size": 4}), weight=Parameter(100))
    assert 600 + 12 * 2 * 4 * 10 == MetricsTracker(module, 10).flops_per_token
    assert 5.0 == MetricsTracker(module, 10, flops_per_token=5.0).flops_per_token


def test_the_model_is_looked_at_once() -> None:
    """Asking for the utilisation again and again does not walk through the parameters again."""
    module = Module(weight=Parameter(100))
    counted = MetricsTracker(module, 10, theoretical_peak_flops=1e9)
    first = counted.mfu
    module.parameters = None  # type: ignore[method-assign, assignment]
    assert first is not None
    assert counted.mfu is not None


def test_a_tracker_is_printable() -> None:
    """A person can print a tracker."""
    clock = ManualClock()
    counted = tracker(clock, theoretical_peak_flops=1e6)
    counted.update(100)
    clock.advance(60)
    assert "steps=1, tokens=8,000, tok/s=133.33, MFU=80.00%" == str(counted)
    assert "steps=0, tokens=0, tok/s=0.00" == str(tracker(clock))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sequence_length": 0}, "sequence_length must be at least 1"),
        ({"sequence_length": 8, "world_size": 0}, "world_size must be at least 1"),
        ({"sequence_length": 8, "theoretical_peak_flops": 0.0}, "theoretical_peak_flops must be above 0"),
        ({"sequence_length": 8, "theoretical_peak_flops": "TPU v99"}, "no peak FLOP/s is known"),
    ],
)
def test_sizes_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    """A length, number of devices or peak that cannot be raises at once."""
    with pytest.raises((ValueError, LookupError), match=message):
        MetricsTracker(1_000, **options)


def test_averages_are_over_the_window_and_over_all() -> None:
    """The window holds the last values, the total all of them."""
    losses = LossTracker(window_size=3)
    for value in (1.0, 2.0, 3.0, 4.0, 5.0):
        losses.update(loss=value)
    assert (4.0, 4.5, 3.0) == (
        losses.get_average("loss"),
        losses.get_average("loss", window=2),
        losses.get_total_average("loss"),
    )
    assert (5.0, [4.0, 5.0], [3.0, 4.0, 5.0]) == (
        losses.get_recent("loss"),
        losses.get_recent("loss", 2),
        losses.get_recent("loss", n=9),
    )


@pytest.mark.parametrize("count", [1, 31, 32, 33, 99, 100, 101, 250])
def test_the_window_keeps_the_order_of_the_values(count: int) -> None:
    """Whatever number of values has come, the kept ones are the last, oldest first."""
    losses = LossTracker()
    for value in range(count):
        losses.update(loss=value)
    assert [float(value) for value in range(max(0, count - 100), count)] == losses.get_recent("loss", 1000)
    assert (count - 1) / 2 == losses.get_total_average("loss")


def test_unknown_metrics_have_no_values() -> None:
    """A metric that never came has neither average nor value."""
    losses = LossTracker()
    assert (None, None, None) == (losses.get_average("x"), losses.get_total_average("x"), losses.get_recent("x"))
    assert ([], {}) == (losses.tracked_metrics, losses.as_dict())


def test_as_dict_tells_both_averages() -> None:
    """Every metric has its window's average and its total average; the totals can be left out."""
    losses = LossTracker()
    losses.update(ce_loss=1.0, entropy=2.0)
    assert {"ce_loss_avg": 1.0, "ce_loss_total_avg": 1.0, "entropy_avg": 2.0, "entropy_total_avg": 2.0} == (
        losses.as_dict()
    )
    assert {"ce_loss_avg": 1.0, "entropy_avg": 2.0} == losses.as_dict(include_totals=False)
    assert ["ce_loss", "entropy"] == losses.tracked_metrics


def test_reset_forgets_one_metric_or_all() -> None:
    """Resetting a name leaves the others, and no name leaves nothing."""
    losses = LossTracker()
    losses.update(a=1.0, b=2.0, c=3.0)
    losses.reset("a")
    losses.reset(metric_name="b")
    losses.reset("unknown")
    assert ["c"] == losses.tracked_metrics
    losses.reset()
    assert [] == losses.tracked_metrics


def test_a_tensor_is_converted_once_and_not_by_update() -> None:
    """update() does not wait for a device; the first question converts each value, detached, exactly once."""
    values = [Tensor(1.0), Tensor(2.0)]
    losses = LossTracker()
    for value in values:
        losses.update(loss=value)
    assert [0, 0] == [value.conversions for value in values]
    assert [1.5, 1.5] == [losses.get_average("loss"), losses.get_average("loss")]
    assert [(1, 1), (1, 1)] == [(value.conversions, value.detached) for value in values]


def test_values_that_are_not_asked_for_do_not_pile_up() -> None:
    """Tensors of old steps are converted in time, so that the device does not have to keep them."""
    values = [Tensor(1.0) for _ in range(1000)]
    losses = LossTracker()
    for value in values:
        losses.update(loss=value)
    assert 40 > sum(value.conversions == 0 for value in values)


def test_a_value_that_is_not_finite_shows() -> None:
    """NaN is not hidden by an average."""
    losses = LossTracker()
    losses.update(loss=math.nan)
    losses.update(loss=1.0)
    average = losses.get_average("loss")
    assert average is not None
    assert math.isnan(average)


@pytest.mark.parametrize("value", ["1.0", None, [1.0]])
def test_only_numbers_are_accepted(value: Any) -> None:
    """A value that is not a number raises at the call that brings it."""
    with pytest.raises(TypeError, match="metric 'loss' must be a number"):
        LossTracker().update(loss=value)


@pytest.mark.parametrize("call", [lambda: LossTracker(0), lambda: LossTracker().get_average("x", window=0)])
def test_a_window_has_at_least_one_value(call: Any) -> None:
    """A window of no value raises."""
    with pytest.raises(ValueError, match="must be at least 1"):
        call()


def deep_size(root: object) -> int:
    """Return the bytes of *root* and of what only it holds: its attributes, lists, dictionaries and numbers."""
    seen: set[int] = set()
    pending, total = [root], 0
    while pending:
        value = pending.pop()
        if id(value) in seen or isinstance(value, type | io.IOBase) or callable(value):
            continue
        seen.add(id(value))
        total += sys.getsizeof(value)
        if isinstance(value, dict):
            pending += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple):
            pending += value
        pending += [getattr(value, name) for name in getattr(value, "__slots__", ()) if hasattr(value, name)]
        pending += list(getattr(value, "__dict__", {}).values())
    return total


def test_trackers_stay_small() -> None:
    """A metrics tracker takes about 1 KB, a loss tracker of five metrics and 100 steps about 10 KB."""
    counted, losses = MetricsTracker(1_000, 2048, 8, 2.2e15), LossTracker()
    for step in range(1000):
        counted.update(64)
        losses.update(loss=0.1 * step, ce_loss=0.2 * step, entropy=0.3 * step, lr=1e-3, grad_norm=0.5 * step)
    assert (True, True) == (deep_size(counted) < 1_000, deep_size(losses) < 10_000)
