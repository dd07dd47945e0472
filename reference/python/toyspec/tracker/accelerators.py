"""Looks up what an accelerator can do at most; the figures and their sources are in ``accelerators.json``."""

from __future__ import annotations

import difflib
import operator
import os
import re
from functools import cache

import msgspec

from toyspec.errors import ToyspecError

_WORD = re.compile("[a-z0-9]+")


class Accelerator(msgspec.Struct, frozen=True):
    """One chip, as its maker describes it."""

    name: str
    bf16: float
    """Dense bfloat16 matrix operations per second of one chip, without structured sparsity."""
    aliases: tuple[str, ...]
    """Words that a name of the chip has, in lower case."""
    source: str
    """Where the figure is stated."""
    note: str = ""


class UnknownAcceleratorError(ToyspecError, LookupError):
    """No figure is known for an accelerator of that name; give the peak as a number."""


def peak_flops(name: str) -> float:
    """Return the peak bfloat16 FLOP/s of one chip; raise UnknownAcceleratorError.

    *name* is what people, ``jax.Device.device_kind`` and ``torch.cuda.get_device_name`` call it: ``TPU v4``,
    ``TPU v5 lite``, ``NVIDIA H100 80GB HBM3``.
    """
    return find_accelerator(name).bf16


def find_accelerator(name: str) -> Accelerator:
    """Return the accelerator that *name* means, with the source of its figure; raise UnknownAcceleratorError."""
    words = set(_WORD.findall(name.lower()))
    matches = [
        (len(alias.split()), accelerator)
        for accelerator in accelerators()
        for alias in accelerator.aliases
        if words.issuperset(alias.split())
    ]
    found = max(matches, key=operator.itemgetter(0), default=None)
    if found is None:
        known = [accelerator.name for accelerator in accelerators()]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
        raise UnknownAcceleratorError(f"no peak FLOP/s is known for {name!r}; {hint}")
    return found[1]


@cache
def accelerators() -> tuple[Accelerator, ...]:
    """Return all accelerators that have a figure."""

    class Figures(msgspec.Struct):
        accelerators: tuple[Accelerator, ...]

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "accelerators.json")
    with open(path, "rb") as file:
        return msgspec.json.decode(file.read(), type=Figures).accelerators
