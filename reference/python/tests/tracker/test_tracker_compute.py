from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import array_api_strict
import numpy as np
import pytest
from hypothesis import strategies as st

from torch_like import HalfTensor, Module, Parameter, Tensor
from toyspec import tracker as tracker_package
from toyspec.testing import ManualClock
from toyspec.tracker import (
    LossTracker,
    MetricsTracker,
    compute_gradient_norm,
    compute_mfu,
    compute_model_flops_per_token,
    compute_model_size_mb,
    compute_throughput,
)
from toyspec.tracker.compute import UnknownAcceleratorError, count_parameters, gradient_statistics, peak_flops

ACCELERATORS = json.loads(Path(tracker_package.__file__).with_name("accelerators.json").read_bytes())["accelerators"]
FIGURES = {chip["name"]: chip["bf16"] for chip in ACCELERATORS}


def test_forward_alone_costs_two_operations_per_parameter() -> None:
    """Without the backward pass a third is left."""
    assert 2_000 == compute_model_flops_per_token(1_000, include_backward=False)


def test_frozen_parameters_cost_no_backward_pass() -> None:
    """Only trainable parameters count backward, unless all are asked for."""
    module = Module(base=Parameter(10, 10, requires_grad=False), head=Parameter(10))
    assert 2 * 110 + 4 * 10 == compute_model_flops_per_token(module)
    assert 6 * 110 == compute_model_flops_per_token(module, backward_trainable_only=False)
    assert 6 * 110 == compute_model_flops_per_token(module, True, False)  # as calls of the source are written


def test_attention_adds_twelve_per_layer_width_and_position() -> None:
    """The attention term is 12 x layers x width x sequence length, a third of it forward."""
    cells = 4 * 64 * 128
    depth: dict[str, Any] = {"n_layers": 4, "d_model": 64, "sequence_length": 128}
    assert 6_000 + 12 * cells == compute_model_flops_per_token(1_000, **depth)
    assert 2_000 + 4 * cells == compute_model_flops_per_token(1_000, include_backward=False, **depth)
    assert 6_000 == compute_model_flops_per_token(1_000, n_layers=4, sequence_length=128)


@pytest.mark.parametrize(
    "config",
    [
        {"num_hidden_layers": 4, "hidden_size": 64},
        {"n_layer": 4, "n_embd": 64},
        {"n_layers": 4, "d_model": 64},
        {"num_layers": 4, "dim": 64},
    ],
)
def test_depth_and_width_are_read_from_the_config_of_the_model(config: dict[str, int]) -> None:
    """A model that says its depth and width under a usual name gets the attention term."""
    module = Module(SimpleNamespace(**config), weight=Parameter(100))
    assert 600 + 12 * 4 * 64 * 128 == compute_model_flops_per_token(module, sequence_length=128)
    assert 600 == compute_model_flops_per_token(module)


class State(NamedTuple):
    """A container of a pytree."""

    weight: Any
    rest: Any


@pytest.mark.parametrize("jax", ["imported", "absent"])
def test_a_pytree_counts_all_its_arrays(jax: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every array of nested containers counts, with and without JAX; other leaves do not."""
    if jax == "absent":
        monkeypatch.delitem(sys.modules, "jax", raising=False)
    else:
        pytest.importorskip("jax")
    tree = State(np.zeros((3, 4), np.float32), {"b": [np.zeros(5, np.float16)], "a": (np.zeros(()), 0.5)})
    assert (18, 18, 12 * 4 + 5 * 2 + 8) == count_parameters(tree)


@pytest.mark.parametrize("count", [7_000_000_000, 7e9, np.int64(7_000_000_000)])
def test_a_model_may_be_a_parameter_count(count: Any) -> None:
    """A whole number of any type stands for a model of so many parameters."""
    assert 42_000_000_000 == compute_model_flops_per_token(count)


@pytest.mark.parametrize("model", [None, "llama", 1.5, True, object(), {}, {"name": "llama"}])
def test_what_is_not_a_model_is_refused(model: Any) -> None:
    """A value without any parameter raises TypeError."""
    with pytest.raises(TypeError, match="a model is a module"):
        compute_model_flops_per_token(model)


def test_a_negative_count_is_refused() -> None:
    """A negative number of parameters is refused."""
    with pytest.raises(ValueError, match="must not be negative"):
        compute_model_flops_per_token(-1)


def test_utilisation_is_needed_over_possible_operations() -> None:
    """MFU is operations per token x tokens per second / peak."""
    assert 0.6 == compute_mfu(1_000, tokens_per_second=1e5, theoretical_peak_flops=1e9)
    assert 0.2 == compute_mfu(1_000, 1e5, 1e9, flops_per_token=2_000)


@pytest.mark.parametrize("peak", [0.0, -1.0, math.nan])
def test_a_peak_must_be_positive(peak: float) -> None:
    """A peak that cannot be raises rather than giving a meaningless share."""
    with pytest.raises(ValueError, match="theoretical_peak_flops must be above 0"):
        compute_mfu(1_000, 1e5, peak)


def test_throughput_counts_no_time_as_a_microsecond() -> None:
    """A loop that has just begun has a finite throughput."""
    assert (50.0, 1e8) == (compute_throughput(100, 2.0), compute_throughput(100, 0.0))


def test_model_size_follows_the_element_types() -> None:
    """The size is that of the stored elements; a count stands for 4 bytes each."""
    module = Module(weight=Parameter(1024, 1024, item_bytes=2))
    assert (2.0, 4.0) == (compute_model_size_mb(module), compute_model_size_mb(1024 * 1024))


@pytest.mark.parametrize(("order", "expected"), [(2.0, 5.0), (1.0, 7.0), (math.inf, 4.0)])
def test_gradient_norm_is_over_all_parameters_together(order: float, expected: float) -> None:
    """The norm of all gradients is that of their elements in one vector, for any order."""
    module = Module(a=Parameter(2), b=Parameter(1), frozen=Parameter(3, requires_grad=False))
    for parameter, values in zip(module.parameters(), [[3.0, 0.0], [-4.0]], strict=False):
        parameter.grad = array_api_strict.asarray(values, dtype=array_api_strict.float32)
    assert expected == pytest.approx(compute_gradient_norm(module, order), rel=1e-6)


def test_half_precision_does_not_overflow_in_the_norm() -> None:
    """The squares of float16 gradients are added up in float32."""
    assert 100_000.0 == pytest.approx(compute_gradient_norm([np.full(4, 50_000.0, np.float16)]), rel=1e-3)


@pytest.mark.parametrize("model", [{}, Module(a=Parameter(2)), [np.zeros((0, 3), np.float32)]])
def test_no_gradient_has_the_norm_zero(model: Any) -> None:
    """Without any gradient the norm is 0.0."""
    assert 0.0 == compute_gradient_norm(model)


def test_the_order_of_a_norm_must_be_positive() -> None:
    """A norm of order 0 is none."""
    with pytest.raises(ValueError, match="norm_type must be above 0"):
        compute_gradient_norm({}, 0.0)


FOUND = [
    ("tpu-v4-8", "TPU v4"),
    ("TPU v5 lite", "TPU v5e"),
    ("v5litepod-8", "TPU v5e"),
    ("TPU v5", "TPU v5p"),
    ("TPU v6 lite", "TPU v6e"),
    ("TPU7x", "Ironwood"),
    ("NVIDIA A100-SXM4-80GB", "A100"),
    ("NVIDIA H100 80GB HBM3", "H100"),
    ("NVIDIA H100 PCIe", "H100 PCIe"),
    ("NVIDIA H100 NVL", "H100 NVL"),
    ("AMD Instinct MI300X OAM", "MI300X"),
]


@pytest.mark.parametrize(("asked", "name"), FOUND)
def test_names_of_people_and_drivers_are_found(asked: str, name: str) -> None:
    """What JAX, CUDA and people call a chip leads to its figure."""
    assert FIGURES[name] == peak_flops(asked)


def test_every_figure_has_a_source_and_is_found_by_its_own_name() -> None:
    """Each accelerator says where its figure is stated, and its own name means it; each rentable TPU has one."""
    assert list(FIGURES.values()) == [peak_flops(name) for name in FIGURES]
    assert all(chip["source"].startswith("https://") and chip["bf16"] > 1e14 for chip in ACCELERATORS)
    assert {"TPU v4", "TPU v5e", "TPU v5p", "TPU v6e", "Ironwood"} <= FIGURES.keys()


@pytest.mark.parametrize("name", ["", "NVIDIA", "GeForce RTX 4090", "cpu"])
def test_unknown_names_are_refused(name: str) -> None:
    """A chip without a figure raises rather than getting that of another; the closest known name is suggested."""
    with pytest.raises(UnknownAcceleratorError, match="no peak FLOP/s is known for"):
        peak_flops(name)
    with pytest.raises(LookupError, match="did you mean H200"):
        peak_flops("H20")


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
    overall = ["steps", "tokens", "tokens_per_second", "elapsed_seconds"]
    assert [*overall, "recent_tokens_per_second"] == list(counted.as_dict())
    known = tracker(ManualClock(), theoretical_peak_flops=1e9)
    assert [*overall, "mfu"] == list(known.as_dict(include_recent=False))
    assert {*overall, "mfu", "recent_tokens_per_second", "recent_mfu"} == known.as_dict().keys()


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
    assert (None, None, None) == (losses.get_average("x"), losses.get_total_average("x"), losses.get_recent("x"))
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


FINITE = st.floats(allow_nan=False, allow_infinity=False, width=32)


def test_statistics_of_a_small_gradient() -> None:
    """Norm, extremes, means, sparsity and counts are those of the elements."""
    found = gradient_statistics(np.array([[0.0, 3.0], [-4.0, 1e-7]]))
    assert ([2, 2], -4.0, 3.0, 0.5, 0) == tuple(
        found[name] for name in ("shape", "min", "max", "sparsity", "nan_count")
    )
    assert [5.0, -0.25, 1.75] == pytest.approx([found["l2"], found["mean"], found["abs_mean"]], abs=1e-6)
    assert {0: 1, 18: 2, 31: 1} == {place: count for place, count in enumerate(found["histogram"]) if count}


def test_bins_agree_with_an_independent_histogram() -> None:
    """Counts are those that NumPy gives for the same bins."""
    values = np.random.default_rng(3).normal(size=10_000)
    found = gradient_statistics(values)
    counts, edges = np.histogram(values, bins=32)
    assert counts.tolist() == found["histogram"]
    assert (edges[0], edges[-1]) == (found["min"], found["max"])


def test_elements_that_are_not_finite_are_left_out_of_what_they_would_spoil() -> None:
    """Extremes and histogram are of the finite elements; norm and means are not known."""
    found = gradient_statistics(np.array([1.0, np.nan, np.inf, 2.0]))
    assert (1.0, 2.0, 1, 2) == (found["min"], found["max"], found["nan_count"], sum(found["histogram"]))
    assert (None, None, None, 0.0) == (found["l2"], found["mean"], found["abs_mean"], found["sparsity"])


@pytest.mark.parametrize("values", [[], [np.nan]])
def test_a_gradient_without_finite_elements_has_no_extremes(values: list[float]) -> None:
    """Nothing is measured where there is nothing to measure, so every count is 0."""
    found = gradient_statistics(np.array(values))
    assert (None, None, 0) == (found["min"], found["max"], sum(found["histogram"]))


def test_a_span_beyond_binary64_is_counted() -> None:
    """The largest gradients of both signs land in the outer bins."""
    found = gradient_statistics(np.array([-1.7e308, 1.7e308]))
    assert (1, 1) == (found["histogram"][0], found["histogram"][31])


def test_a_tensor_is_widened_and_brought_home() -> None:
    """A PyTorch gradient of a precision that NumPy does not know is detached, widened and moved first."""
    assert 5.0 == gradient_statistics(HalfTensor([3.0, 4.0]))["l2"]


def test_a_jax_gradient_has_statistics() -> None:
    """A JAX gradient in bfloat16 has statistics as others do."""
    numpy_of_jax = pytest.importorskip("jax.numpy")
    assert 5.0 == gradient_statistics(numpy_of_jax.asarray([3.0, 4.0], dtype=numpy_of_jax.bfloat16))["l2"]
