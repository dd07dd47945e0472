from __future__ import annotations

import math
import sys
from types import SimpleNamespace
from typing import Any, NamedTuple

import array_api_strict
import numpy as np
import pytest

from torch_like import Module, Parameter
from toyspec.tracker import (
    compute_gradient_norm,
    compute_mfu,
    compute_model_flops_per_token,
    compute_model_size_mb,
    compute_throughput,
    compute_tokens_in_batch,
)
from toyspec.tracker.compute import count_parameters, gradients


def test_a_token_costs_six_operations_per_parameter() -> None:
    """The count is 2 per parameter forward and 4 backward, the standard of the field."""
    assert 6_000 == compute_model_flops_per_token(1_000)


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


def test_attention_is_left_out_when_something_is_not_known() -> None:
    """Without depth, width or length the count is the parameters' alone."""
    assert 6_000 == compute_model_flops_per_token(1_000, n_layers=4, sequence_length=128)
    assert 6_000 == compute_model_flops_per_token(1_000, n_layers=4, d_model=64)


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


def test_tokens_in_a_batch() -> None:
    """A batch has as many tokens as sequences times their length."""
    assert 131072 == compute_tokens_in_batch(64, 2048)


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


def test_gradient_norm_of_a_pytree_agrees_with_float64() -> None:
    """A pytree of gradients in mixed precision has the norm of its elements in float64."""
    rng = np.random.default_rng(7)
    single, half = rng.normal(size=(30, 40)).astype(np.float32), rng.normal(size=50).astype(np.float16) * 100
    exact = math.sqrt(sum((leaf.astype(np.float64) ** 2).sum() for leaf in (single, half)))
    assert exact == pytest.approx(compute_gradient_norm({"a": single, "b": [half]}), rel=1e-6)


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


def test_gradients_are_named_by_their_path() -> None:
    """The gradients of a pytree have the keys to them as names."""
    tree = {"block": [{"w": np.zeros(1)}, {"w": np.zeros(1)}]}
    assert ["block.0.w", "block.1.w"] == [name for name, _ in gradients(tree)]
