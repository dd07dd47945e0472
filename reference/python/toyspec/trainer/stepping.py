"""One training step: forward, backward, and an update of every parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from toyspec.core.errors import ToyspecError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike

    from toyspec.trainer.arrays import Single
    from toyspec.trainer.optimizer import AdamW, Parameter


class SizeError(ToyspecError, ValueError):
    """Two things that must be of equal size are not; no parameter was changed."""


class BackwardOutput(NamedTuple):
    """What a backward pass yields."""

    loss: float
    """Value of the loss; fp32, so not always finite."""
    grad_output: ArrayLike
    """Gradient of the loss by the predictions, of their shape."""
    param_grads: Sequence[ArrayLike]
    """Gradient of the loss by each parameter, in the parameters' order, flat and in row-major order."""


def train_step(  # noqa: PLR0913, PLR0917 - the call shape of the source system
    inputs: Any,
    target: Any,
    loss_fn_name: str,  # noqa: ARG001 - for telemetry: a log has it as config.loss_fn
    params: Sequence[Parameter],
    forward: Callable[[Any], Any],
    backward: Callable[[Any, Any], BackwardOutput],
    optimizer: AdamW,
) -> float:
    """Take one step and return the loss before it.

    ``forward(inputs)`` gives the predictions, ``backward(predictions, target)`` the loss and the gradients. Afterwards
    ``grad_norm`` of each parameter is the norm of its gradient.

    Raises:
        SizeError: there is not one gradient for each parameter, or one has not the parameter's number of elements.
            All are looked at before the first update, so that a failed step changes nothing.

    """
    output = backward(forward(inputs), target)
    gradients = _checked_gradients(output.param_grads, params)
    optimizer.step += 1
    for parameter, gradient in zip(params, gradients, strict=True):
        parameter.grad_norm = grad_norm(gradient)
        optimizer.update(parameter, gradient)
    with np.errstate(over="ignore"):
        return float(np.float32(output.loss))


def _checked_gradients(param_grads: Sequence[ArrayLike], params: Sequence[Parameter]) -> list[Single]:
    if len(param_grads) != len(params):
        raise SizeError(f"backward returned {len(param_grads)} param_grads, expected {len(params)}")
    gradients = [_flat(gradient) for gradient in param_grads]
    for index, (gradient, parameter) in enumerate(zip(gradients, params, strict=True)):
        if gradient.size != parameter.size:
            named = f" ({parameter.name})" if parameter.name else ""
            raise SizeError(f"param_grads[{index}]{named} has {gradient.size} values, expected {parameter.size}")
    return gradients


def mse_loss_backward(predictions: ArrayLike, target: ArrayLike) -> tuple[float, Single]:
    """Return the mean squared difference and its gradient ``2 * (predictions - target) / n``, in fp32.

    The gradient has the shape of *predictions*; of nothing the loss is 0.0. Raises SizeError when the numbers of
    elements differ.
    """
    predicted = np.asarray(predictions, dtype=np.float32)
    wanted = np.asarray(target, dtype=np.float32)
    if predicted.size != wanted.size:
        raise SizeError(f"there are {predicted.size} predictions, but {wanted.size} targets")
    if not predicted.size:
        return 0.0, np.zeros(predicted.shape, dtype=np.float32)
    with np.errstate(all="ignore"):
        difference = predicted - wanted.reshape(predicted.shape)
        loss = np.mean(difference * difference, dtype=np.float32)
        return float(loss), np.float32(2) * difference / np.float32(predicted.size)


def grad_norm(gradient: ArrayLike) -> float:
    """Return the Euclidean norm of all elements, summed in fp64 and rounded to fp32; 0.0 of nothing.

    It is that of ``toyspec.core.metrics.log.grad_norm``, at the speed of NumPy and for any shape.
    """
    flat = np.asarray(gradient, dtype=np.float64).ravel()
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.float32(np.sqrt(np.dot(flat, flat))))


def grad_norms(params: Sequence[Parameter]) -> list[float]:
    """Return the norm of the last gradient of each parameter; ``grad_norm`` of that list is the global norm."""
    return [parameter.grad_norm for parameter in params]


def _flat(gradient: ArrayLike) -> Single:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(gradient, dtype=np.float32).ravel()
