"""AdamW and its parameters against oracles: fp64 arithmetic, and the struct module's rounding to fp16."""

from __future__ import annotations

import math
import struct

import pytest

np = pytest.importorskip("numpy", reason="the extra `train` is not installed")

from hypothesis import example, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from property_examples import examples  # noqa: E402
from toyspec.trainer import AdamW, Parameter  # noqa: E402

SMALLEST = 2.0**-24
"""The smallest fp16 subnormal."""


def half(value: float) -> float:
    """Return *value* rounded to fp16 by the struct module, which shares no code with NumPy."""
    try:
        return float(struct.unpack("<e", struct.pack("<e", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


class Oracle:
    """AdamW of one scalar in fp64, from the definition; only the weight and the gradient are rounded, to fp16."""

    def __init__(self, weight: float, optimizer: AdamW) -> None:
        self.weight, self.m, self.v, self.t = half(weight), 0.0, 0.0, 0
        self.optimizer = optimizer

    def update(self, gradient: float) -> None:
        """Take one step."""
        o, g = self.optimizer, half(gradient)
        self.t += 1
        self.m = o.beta1 * self.m + (1 - o.beta1) * g
        self.v = o.beta2 * self.v + (1 - o.beta2) * g * g
        mean = self.m / (1 - o.beta1**self.t)
        spread = math.sqrt(self.v / (1 - o.beta2**self.t))
        decayed = self.weight * (1 - o.lr * o.weight_decay)
        self.weight = half(decayed - o.lr * mean / (spread + o.eps))


def spacing(weight: float) -> float:
    """Return the distance from *weight* to the next fp16 number."""
    return float(np.spacing(np.float16(abs(weight))))


@pytest.mark.parametrize(
    "optimizer",
    [
        AdamW(),
        AdamW(lr=0.05, beta1=0.8, beta2=0.99, eps=1e-6, weight_decay=0.1),
        AdamW(lr=0.01, beta1=0.0, beta2=0.0, weight_decay=0.0),
    ],
    ids=["defaults", "other settings", "no memory"],
)
def test_updates_agree_with_fp64(optimizer: AdamW) -> None:
    """Over 200 steps m agrees with fp64 to 1e-6 of the largest gradient, v to 1e-4, and weights to one fp16 spacing."""
    random = np.random.default_rng(5)
    start = random.normal(size=40)
    parameter = Parameter(start)
    oracles = [Oracle(float(np.float32(weight)), optimizer) for weight in start]
    largest = np.zeros(40)
    for _ in range(200):
        gradients = (random.normal(size=40) * 10.0 ** random.integers(-5, 3, size=40)).astype(np.float32)
        optimizer.update(parameter, gradients)
        for oracle, gradient in zip(oracles, gradients, strict=True):
            oracle.update(float(gradient))
        largest = np.maximum(largest, np.abs(gradients))
        assert np.all(np.abs(parameter.m - [oracle.m for oracle in oracles]) <= 1e-6 * largest)
        np.testing.assert_allclose(parameter.v, [oracle.v for oracle in oracles], rtol=1e-4)
        for index, oracle in enumerate(oracles):
            assert abs(float(parameter.weight[index]) - oracle.weight) <= spacing(oracle.weight)
            oracle.weight = float(parameter.weight[index])


@settings(max_examples=examples(300))
@given(st.floats(width=32, allow_nan=False))
@example(1 + 2.0**-11)
@example(1 + 3 * 2.0**-11)
@example(1.5 * SMALLEST)
@example(SMALLEST / 2)
@example(SMALLEST / 2 * (1 + 2.0**-20))
@example(65519.996)
@example(65520.0)
def test_gradient_is_rounded_as_ieee_754_has_it(gradient: float) -> None:
    """With beta1 = 0 the first moment is the gradient itself, rounded to fp16 as the struct module rounds it.

    Ties go to even, subnormals are kept, and what is too large becomes infinite.
    """
    parameter = Parameter([1.0])
    AdamW(beta1=0.0).update(parameter, np.array([gradient], dtype=np.float32))
    assert half(gradient) == float(parameter.m[0])


def test_weight_is_stored_in_fp16() -> None:
    """A smaller change than half its spacing is lost; a gradient that is infinite makes its own weight NaN."""
    parameter = Parameter([1 + 2.0**-11, 1e6, 1.0])
    assert [1.0, math.inf, 1.0] == parameter.weight.tolist()
    AdamW(lr=0.5, weight_decay=0.0).update(parameter, np.array([1.0, 1.0, 1e30], dtype=np.float32))
    assert ["0.5", "nan", "nan"] == list(map(str, parameter.weight))
    still = Parameter([1.0])
    AdamW(lr=2.0**-13, weight_decay=0.0).update(still, np.array([1.0], dtype=np.float32))
    assert [1.0] == still.weight.tolist()
    assert (np.float16, np.float32, np.float32) == (still.weight.dtype, still.m.dtype, still.v.dtype)


def test_bias_correction_counts_each_parameters_own_steps() -> None:
    """A parameter that joins later takes a full first step, as if the optimizer were new."""
    optimizer = AdamW(lr=0.25, weight_decay=0.0)
    old, new = Parameter([0.0]), Parameter([0.0])
    gradient = np.array([1.0], dtype=np.float32)
    for _ in range(5):
        optimizer.update(old, gradient)
    optimizer.update(new, gradient)
    assert -0.25 == float(new.weight[0])
    assert (5, 1) == (old.step, new.step)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("lr", -1.0), ("lr", math.nan), ("eps", math.inf), ("weight_decay", -0.1), ("beta1", 1.0), ("beta2", -0.1)],
)
def test_settings_out_of_range_are_refused(setting: str, value: float) -> None:
    """A setting that cannot work is refused by name."""
    with pytest.raises(ValueError, match=f"^{setting} is "):
        AdamW(**{setting: value})
