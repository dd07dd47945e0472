"""The types of array that training deals with."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

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
