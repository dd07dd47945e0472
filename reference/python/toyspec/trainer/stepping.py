"""One training step: forward, backward, and an update of every parameter by AdamW: fp16 weights, moments in fp32."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from toyspec.core.errors import ToyspecError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike


Half: TypeAlias = NDArray[np.float16]
Single: TypeAlias = NDArray[np.float32]
Floats: TypeAlias = NDArray[Any]
"""Any binary float; a computation keeps the type that it is given."""
Tokens: TypeAlias = NDArray[np.int64]
"""Indexes into a vocabulary, from 0."""


def rounded_to_half(values: Floats) -> Half:
    """Return *values* as fp16, rounded to nearest, ties to even.

    From 65520 up the result is infinite, at 2^-25 and below zero, as IEEE 754 has it; NaN stays NaN. Nothing warns.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return values.astype(np.float16)


class Parameter:
    """A weight that is trained, with what AdamW remembers of it."""

    def __init__(self, weight: ArrayLike, *, name: str = "") -> None:
        self.name = name
        """Name for messages, by convention that of the GGUF tensor; may be empty."""
        self.weight: Half = rounded_to_half(np.array(weight, dtype=np.float32))
        """The weight in fp16; there is no copy of higher precision."""
        self.m: Single = np.zeros(self.weight.shape, dtype=np.float32)
        """Running mean of the gradient, fp32, of the weight's shape."""
        self.v: Single = np.zeros(self.weight.shape, dtype=np.float32)
        """Running mean of the squared gradient, fp32, of the weight's shape."""
        self.step = 0
        """Number of updates so far; bias correction uses it."""
        self.grad_norm = 0.0
        """Euclidean norm of the gradient that train_step applied last, before its rounding; 0.0 before the first."""

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(self.weight.size)

    def value(self) -> Single:
        """Return the weight widened to fp32, exactly, as a new array."""
        return self.weight.astype(np.float32)


class AdamW:
    """The optimizer; its settings may be changed between steps, for a schedule.

    An update rounds the fp32 gradient to fp16, then computes in fp32::

        m = beta1*m + (1 - beta1)*g          v = beta2*v + (1 - beta2)*g*g
        w = w - lr*weight_decay*w - lr * m/(1 - beta1^t) / (sqrt(v/(1 - beta2^t)) + eps)

    and rounds w to fp16. A gradient from 65520 up becomes infinite by the rounding, and its weights NaN: the loss shows
    it, nothing hides it. A gradient at 2^-25 and below becomes zero.
    """

    def __init__(
        self,
        *,
        lr: float = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        """Raise ValueError for a setting outside its range: betas in [0, 1), the others finite and not negative."""
        for name, rate in (("lr", lr), ("eps", eps), ("weight_decay", weight_decay)):
            if not (math.isfinite(rate) and rate >= 0):
                raise ValueError(f"{name} is {rate!r}, expected a finite number that is not negative")
        for name, beta in (("beta1", beta1), ("beta2", beta2)):
            if not 0 <= beta < 1:
                raise ValueError(f"{name} is {beta!r}, expected a number from 0 to below 1")
        self.lr = lr
        self.beta1 = beta1
        self.beta2 = beta2
        self.eps = eps
        self.weight_decay = weight_decay
        self.step = 0
        """Number of the train_step that was taken last; the first is 1."""

    def update(self, parameter: Parameter, gradient: Single) -> None:
        """Take one step for *parameter*; *gradient* has its number of elements, in row-major order."""
        # An infinite gradient is a documented result, not a surprise that NumPy should warn of.
        with np.errstate(all="ignore"):
            g = rounded_to_half(gradient).astype(np.float32).reshape(parameter.weight.shape)
            parameter.step += 1
            parameter.m = self.beta1 * parameter.m + (1 - self.beta1) * g
            parameter.v = self.beta2 * parameter.v + (1 - self.beta2) * (g * g)
            mean = parameter.m / (1 - self.beta1**parameter.step)
            spread = np.sqrt(parameter.v / (1 - self.beta2**parameter.step))
            weight = parameter.value()
            weight -= self.lr * self.weight_decay * weight
            weight -= self.lr * (mean / (spread + self.eps))
            parameter.weight = rounded_to_half(weight)


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
