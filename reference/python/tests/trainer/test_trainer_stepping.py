"""One training step, its errors, its loss and the norms of gradients."""

from __future__ import annotations

import math
from typing import Any

import pytest

np = pytest.importorskip("numpy", reason="the extra `train` is not installed")

from toyspec.core.metrics import log as metrics_log  # noqa: E402
from toyspec.trainer import (  # noqa: E402
    AdamW,
    BackwardOutput,
    Parameter,
    SizeError,
    grad_norm,
    grad_norms,
    mse_loss_backward,
    train_step,
)


def step_with(gradients: list[Any], params: list[Parameter], optimizer: AdamW, loss: float = 1.0) -> float:
    """Take a step whose backward pass yields *gradients*."""

    def backward(predictions: Any, target: Any) -> BackwardOutput:
        return BackwardOutput(loss, predictions, gradients)

    return train_step([1.0], [0.0], "mse", params, lambda inputs: inputs, backward, optimizer)


def test_forward_and_backward_get_what_they_need() -> None:
    """The predictions of the inputs go to backward together with the target, and its loss comes back in fp32."""
    seen = []

    def backward(predictions: Any, target: Any) -> BackwardOutput:
        seen.append((predictions, target))
        return BackwardOutput(0.1, [0.0], [[0.0]])

    loss = train_step(3, 4, "any", [Parameter([1.0])], lambda inputs: inputs + 10, backward, AdamW())
    assert [(13, 4)] == seen
    assert float(np.float32(0.1)) == loss


@pytest.mark.parametrize(
    ("gradients", "fact"),
    [
        ([[1.0]], "^backward returned 1 param_grads, expected 2$"),
        ([[1.0]] * 3, "^backward returned 3 param_grads, expected 2$"),
        ([[1.0], [1.0, 2.0, 3.0]], r"^param_grads\[1\] \(output.weight\) has 3 values, expected 2$"),
    ],
)
def test_every_gradient_is_measured_before_the_first_update(gradients: list[Any], fact: str) -> None:
    """A wrong number of gradients, or length of the last one, leaves the first parameter as it was."""
    params, optimizer = [Parameter([1.0]), Parameter([[1.0, 2.0]], name="output.weight")], AdamW(lr=0.5)
    with pytest.raises(SizeError, match=fact):
        step_with(gradients, params, optimizer)
    assert ([1.0], 0, 0) == (params[0].weight.tolist(), params[0].step, optimizer.step)


def test_flat_gradient_meets_a_matrix_row_by_row() -> None:
    """A flat gradient is taken in row-major order."""
    matrix = Parameter([[0.0, 0.0], [0.0, 0.0]])
    optimizer = AdamW(lr=0.5, weight_decay=0.0)
    step_with([[1.0, -1.0, 0.0, 1.0]], [matrix], optimizer)
    assert 1 == optimizer.step == matrix.step
    assert [[-0.5, 0.5], [0.0, -0.5]] == matrix.weight.tolist()


def test_norm_of_each_gradient_is_kept() -> None:
    """Each parameter knows the norm of its last gradient, and together they give the global norm."""
    params = [Parameter([0.0, 0.0]), Parameter([0.0])]
    assert [0.0, 0.0] == grad_norms(params)
    step_with([[3.0, 4.0], [12.0]], params, AdamW())
    assert [5.0, 12.0] == grad_norms(params)
    assert 13.0 == grad_norm(grad_norms(params))


def test_loss_that_is_not_finite_comes_back_as_it_is() -> None:
    """NaN and a loss beyond fp32 are handed on, not hidden and not raised."""
    assert math.isnan(step_with([[0.0]], [Parameter([0.0])], AdamW(), math.nan))
    assert math.inf == step_with([[0.0]], [Parameter([0.0])], AdamW(), 1e39)


def test_mean_squared_error() -> None:
    """Both agree with fp64 to 1e-6, are those of nothing too, and a target is not stretched, as NumPy would."""
    random = np.random.default_rng(1)
    predictions, target = random.normal(size=(2, 5, 7)), random.normal(size=70)
    loss, gradient = mse_loss_backward(predictions, target)
    difference = predictions.astype(np.float32).astype(np.float64) - target.astype(np.float32).reshape(2, 5, 7)
    assert loss == pytest.approx(float((difference**2).mean()), rel=1e-6)
    np.testing.assert_allclose(gradient, 2 * difference / 70, rtol=1e-6, atol=1e-9)
    assert np.float32 == gradient.dtype
    loss, gradient = mse_loss_backward([], [])
    assert (0.0, []) == (loss, gradient.tolist())
    with pytest.raises(SizeError, match=r"^there are 3 predictions, but 1 targets$"):
        mse_loss_backward([1.0, 2.0, 3.0], [1.0])


def test_norm_is_summed_in_fp64() -> None:
    """The norm is right where squares leave the range of fp32, rounded to fp32 at the end, as in a metrics log."""
    assert 0.0 == grad_norm([])
    assert float(np.float32(0.1)) == grad_norm([[0.1]])
    assert float(np.float32(5e30)) == grad_norm([3e30, 4e30]) == metrics_log.grad_norm([3e30, 4e30])
