from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from property_examples import examples
from torch_like import HalfTensor
from toyspec.tracker.compute import gradient_statistics

FINITE = st.floats(allow_nan=False, allow_infinity=False, width=32)


def test_statistics_of_a_small_gradient() -> None:
    """Norm, extremes, means, sparsity and counts are those of the elements."""
    found = gradient_statistics(np.array([[0.0, 3.0], [-4.0, 1e-7]]))
    assert ([2, 2], -4.0, 3.0, 0.5, 0) == tuple(
        found[name] for name in ("shape", "min", "max", "sparsity", "nan_count")
    )
    assert [5.0, -0.25, 1.75] == pytest.approx([found["l2"], found["mean"], found["abs_mean"]], abs=1e-6)
    assert {0: 1, 18: 2, 31: 1} == {place: count for place, count in enumerate(found["histogram"]) if count}


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(FINITE, min_size=1, max_size=50))
def test_histogram_counts_every_element_once(values: list[float]) -> None:
    """The 32 counts add up to the number of elements, and the first and last bins hold the extremes."""
    found = gradient_statistics(np.array(values))
    assert (32, len(values)) == (len(found["histogram"]), sum(found["histogram"]))
    assert found["histogram"][31] > 0
    assert found["histogram"][0] > 0 or found["min"] == found["max"]


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
