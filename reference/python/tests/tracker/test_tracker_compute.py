from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import array_api_strict
import numpy as np
import pytest

import torch_like
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
from toyspec.tracker.compute import (
    UnknownAcceleratorError,
    count_parameters,
    gradient_statistics,
    gradients,
    peak_flops,
)

ACCELERATORS = json.loads(Path(tracker_package.__file__).with_name("accelerators.json").read_bytes())["accelerators"]
FIGURES = {chip["name"]: chip["bf16"] for chip in ACCELERATORS}


CELLS = 4 * 64 * 128
FROZEN = Module(base=Parameter(10, 10, requires_grad=False), head=Parameter(10))
DEPTH: dict[str, Any] = {"n_layers": 4, "d_model": 64, "sequence_length": 128}


@pytest.mark.parametrize(
    ("expected", "model", "options"),
    [
        (2_000, 1_000, {"include_backward": False}),
        (2 * 110 + 4 * 10, FROZEN, {}),
        (6 * 110, FROZEN, {"backward_trainable_only": False}),
        (6_000 + 12 * CELLS, 1_000, DEPTH),
        (2_000 + 4 * CELLS, 1_000, {**DEPTH, "include_backward": False}),
        (6_000, 1_000, {"n_layers": 4, "sequence_length": 128}),
        (42_000_000_000, 7_000_000_000, {}),
        (42_000_000_000, 7e9, {}),
        (42_000_000_000, np.int64(7_000_000_000), {}),
    ],
)
def test_a_token_costs_operations_of_parameters_and_attention(expected: int, model: Any, options: Any) -> None:
    """Two per parameter forward and four per trainable one backward; 12 x layers x width x length for attention."""
    assert expected == compute_model_flops_per_token(model, **options)


def test_options_may_be_given_by_place() -> None:
    """As calls of the source are written."""
    assert 6 * 110 == compute_model_flops_per_token(FROZEN, True, False)


@pytest.mark.parametrize(
    "names",
    [("num_hidden_layers", "hidden_size"), ("n_layer", "n_embd"), ("n_layers", "d_model"), ("num_layers", "dim")],
)
def test_depth_and_width_are_read_from_the_config_of_the_model(names: tuple[str, str]) -> None:
    """A model that says its depth and width under a usual name gets the attention term, in a tracker too."""
    module = Module(SimpleNamespace(**dict(zip(names, (4, 64), strict=True))), weight=Parameter(100))
    assert 600 + 12 * CELLS == compute_model_flops_per_token(module, sequence_length=128)
    assert 600 == compute_model_flops_per_token(module)
    assert 600 + 12 * CELLS == MetricsTracker(module, 128).flops_per_token
    assert 5.0 == MetricsTracker(module, 128, flops_per_token=5.0).flops_per_token


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
    assert ["a", "b.w"] == [name for name, _ in gradients({"b": {"w": np.zeros(2)}, "a": np.zeros(1), "c": 0.5})]


NOT_MODELS = [None, "llama", 1.5, True, object(), {}, {"name": "llama"}]
REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    *((partial(compute_model_flops_per_token, model), TypeError, "a model is a module") for model in NOT_MODELS),
    (partial(compute_model_flops_per_token, -1), ValueError, "must not be negative"),
    *(
        (partial(compute_mfu, 1, 1e5, peak), ValueError, "theoretical_peak_flops must be")
        for peak in (0.0, -1, math.nan)
    ),
    (partial(compute_gradient_norm, {}, 0.0), ValueError, "norm_type must be above 0"),
    (partial(MetricsTracker, 1, 0), ValueError, "sequence_length must be at least 1"),
    (partial(MetricsTracker, 1, 8, 0), ValueError, "world_size must be at least 1"),
    (partial(MetricsTracker, 1, 8, 1, 0.0), ValueError, "theoretical_peak_flops must be above 0"),
    (partial(MetricsTracker, 1, 8, 1, "TPU v99"), LookupError, "no peak FLOP/s is known"),
    (partial(LossTracker, 0), ValueError, "must be at least 1"),
    (partial(LossTracker().get_average, "x", window=0), ValueError, "must be at least 1"),
    *(
        (partial(LossTracker().update, loss=value), TypeError, "'loss' must be a number")
        for value in ("1.0", None, [1.0])
    ),
    *(
        (partial(peak_flops, name), UnknownAcceleratorError, "no peak FLOP/s")
        for name in ("", "NVIDIA", "RTX 4090", "cpu")
    ),
    (partial(peak_flops, "H20"), LookupError, "did you mean H200"),
]


@pytest.mark.parametrize(("call", "error", "fact"), REFUSED)
def test_what_cannot_be_is_refused(call: Callable[[], Any], error: type[Exception], fact: str) -> None:
    """A model, size, peak, order or value that cannot be raises at the call that brings it, which the message names."""
    with pytest.raises(error, match=fact):
        call()


def test_utilisation_is_needed_over_possible_operations() -> None:
    """MFU is operations per token x tokens per second / peak."""
    assert 0.6 == compute_mfu(1_000, tokens_per_second=1e5, theoretical_peak_flops=1e9)
    assert 0.2 == compute_mfu(1_000, 1e5, 1e9, flops_per_token=2_000)


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


FOUND = [
    ("tpu-v4-8", "TPU v4"),
    ("TPU v5 lite", "TPU v5e"),
    ("TPU v5", "TPU v5p"),
    ("TPU7x", "Ironwood"),
    ("NVIDIA A100-SXM4-80GB", "A100"),
    ("NVIDIA H100 80GB HBM3", "H100"),
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


def tracker(clock: ManualClock, **options: Any) -> MetricsTracker:
    """Return a tracker of eight devices, a thousand parameters and sequences of ten tokens."""
    return MetricsTracker(1_000, sequence_length=10, world_size=8, clock=clock.monotonic, **options)


def test_figures_are_those_of_all_devices_since_the_start_and_the_last_reset() -> None:
    """A step counts local batch, sequence length and devices; recent figures run from reset_interval()."""
    clock = ManualClock()
    counted = tracker(clock, theoretical_peak_flops=6_000 * 100)
    counted.update(local_batch_size=1)
    clock.advance(8)
    counted.reset_interval()
    counted.update(2)
    clock.advance(2)
    assert (2, 240, 10.0) == (counted.steps, counted.tokens, counted.elapsed)
    assert (24.0, 80.0) == (counted.tokens_per_second, counted.recent_tokens_per_second)
    assert (0.24, 0.8) == (counted.mfu, counted.recent_mfu)
    assert "steps=2, tokens=240, tok/s=24.00, MFU=24.00%" == str(counted)


def test_utilisation_is_unknown_without_a_peak() -> None:
    """Without a peak the utilisation is None and is not among the figures."""
    counted = tracker(ManualClock())
    assert (None, None) == (counted.mfu, counted.recent_mfu)
    assert "steps=0, tokens=0, tok/s=0.00" == str(counted)
    overall = ["steps", "tokens", "tokens_per_second", "elapsed_seconds"]
    assert [*overall, "recent_tokens_per_second"] == list(counted.as_dict())
    known = tracker(ManualClock(), theoretical_peak_flops=1e9)
    assert [*overall, "mfu"] == list(known.as_dict(include_recent=False))
    assert {*overall, "mfu", "recent_tokens_per_second", "recent_mfu"} == known.as_dict().keys()


def test_a_peak_may_be_the_name_of_an_accelerator() -> None:
    """A name means the peak of one chip times the number of devices."""
    assert 2.2e15 == tracker(ManualClock(), theoretical_peak_flops="TPU v4").theoretical_peak_flops


def test_the_model_is_looked_at_once() -> None:
    """Asking for the utilisation again and again does not walk through the parameters again."""
    module = Module(weight=Parameter(100))
    counted = MetricsTracker(module, 10, theoretical_peak_flops=1e9)
    first = counted.mfu
    module.parameters = None  # type: ignore[method-assign, assignment]
    assert first is not None
    assert counted.mfu is not None


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


def test_each_metric_has_both_averages_until_it_is_reset() -> None:
    """The totals can be left out; resetting a name leaves the others, and no name leaves nothing."""
    losses = LossTracker()
    losses.update(ce_loss=1.0, entropy=2.0)
    averages = {"ce_loss_avg": 1.0, "entropy_avg": 2.0}
    assert averages == losses.as_dict(include_totals=False)
    assert averages | {"ce_loss_total_avg": 1.0, "entropy_total_avg": 2.0} == losses.as_dict()
    losses.reset("ce_loss")
    losses.reset("unknown")
    assert ["entropy"] == losses.tracked_metrics
    losses.reset(metric_name="entropy")
    losses.update(loss=1.0)
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


def test_statistics_of_a_small_gradient() -> None:
    """Norm, extremes, means, sparsity and counts are those of the elements."""
    found = gradient_statistics(np.array([[0.0, 3.0], [-4.0, 1e-7]]))
    assert ([2, 2], -4.0, 3.0, 0.5, 0) == tuple(
        found[name] for name in ("shape", "min", "max", "sparsity", "nan_count")
    )
    assert [5.0, -0.25, 1.75] == pytest.approx([found["l2"], found["mean"], found["abs_mean"]], abs=1e-6)
    assert {0: 1, 18: 2, 31: 1} == {place: count for place, count in enumerate(found["histogram"]) if count}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, np.nan, np.inf, 2.0], (1.0, 2.0, 1, 0.0, 2)),
        ([], (None, None, 0, None, 0)),
        ([np.nan], (None, None, 1, 0.0, 0)),
    ],
)
def test_elements_that_are_not_finite_are_left_out_of_what_they_would_spoil(values: Any, expected: Any) -> None:
    """Extremes and histogram are of the finite elements, where there are any; norm and means are not known."""
    found = gradient_statistics(np.array(values))
    assert (None, None, None) == (found["l2"], found["mean"], found["abs_mean"])
    places = [found[name] for name in ("min", "max", "nan_count", "sparsity")]
    assert expected == (*places, sum(found["histogram"]))


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


def test_memory_is_that_of_the_device_with_the_least_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several devices the one that will be full first is reported, and none that the process has not touched."""
    torch = torch_like.cuda((60, 100), (20, 100))
    torch.cuda.is_initialized = lambda: False
    stats = [{"bytes_in_use": 10, "bytes_limit": 100}, {"bytes_in_use": 70, "bytes_limit": 100}, None]
    devices = [SimpleNamespace(memory_stats=lambda found=found: found) for found in stats]
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    assert tracker_package.device_memory() is None
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(local_devices=lambda: devices))
    assert (70, 100) == tracker_package.device_memory()
    torch.cuda.is_initialized = lambda: True
    assert (80, 100) == tracker_package.device_memory()
