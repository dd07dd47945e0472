"""AdamW on fp16 weights: decoupled weight decay, bias correction, moments in fp32."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from toyspec.trainer.arrays import rounded_to_half

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from toyspec.trainer.arrays import Half, Single


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
