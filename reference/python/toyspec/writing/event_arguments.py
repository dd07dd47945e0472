"""What the methods of a writer take: numbers of any library, parts as a mapping or by their main member."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, SupportsFloat, SupportsIndex, TypedDict

from msgspec import UNSET, Struct, UnsetType

from toyspec.generated.fields import FIELDS

Measure = SupportsFloat | None | UnsetType
"""A measured number; None and what is not finite are written as null, UNSET is left out."""

Measures = Mapping[str, SupportsFloat | None] | UnsetType
"""Measured numbers by name."""

Count = SupportsIndex | UnsetType
"""An integer that is not negative; UNSET is left out."""

Phase = Literal["train", "eval", "decode", "serve"] | UnsetType
Reason = Literal["completed", "interrupted", "aborted", "errored"]
Verdict = Literal["ahead", "behind", "par", "abort"]

STEP_ARGUMENTS = (
    "step", "loss", "ppl", "lr", "grad_norm", "tokens", "compute_us", "wall_us", "token_id", "logprob"
)  # fmt: skip
"""The numbers that ``step`` takes, in its order."""

StepValues = Literal["plain", "any"]
"""Plain: every number is a float, an int or None as its field wants it, those with names are in order, and that is all.

Only the signs and lengths of such numbers are left to be looked at before they are written.
"""

STEP_VALUES: dict[tuple[type, ...], StepValues] = {}
"""What ``values_of_step`` has said."""

# A program that makes types without end does not fill memory.
_MOST_REMEMBERED = 1000
_LONGEST_NAMES_CHARS = 1000
_ORDERED_NAMES: set[tuple[object, ...]] = set()
_MEASURE_TYPES = frozenset([float, type(None)])
_PLAIN_TYPES: dict[str, tuple[type, ...]] = {"number": (float, type(None)), "integer": (int,)}
_LONGEST_ERROR_CHARS = 4096


class TensorStatistics(TypedDict, total=False):
    """What ``grad`` may say about a gradient."""

    phase: Phase
    head: SupportsIndex | None
    shape: Sequence[SupportsIndex]
    l2: Measure
    min: Measure
    max: Measure
    mean: Measure
    abs_mean: Measure
    sparsity: Measure
    nan_count: Count
    per_head_l2: Sequence[SupportsFloat | None]
    histogram: Sequence[SupportsIndex]
    gram: Sequence[Sequence[SupportsFloat | None]]


class TapStatistics(TensorStatistics, total=False):
    """What ``tap`` may say about an activation."""

    layer: SupportsIndex | None
    dtype: str


def values_of_step(types: tuple[type, ...]) -> StepValues:
    """Return what a step has whose numbers are of *types*, in the order of ``STEP_ARGUMENTS``, and nothing more."""
    found: StepValues = "plain" if all(map(_is_plain, STEP_ARGUMENTS, types)) else "any"
    if len(STEP_VALUES) < _MOST_REMEMBERED:
        STEP_VALUES[types] = found
    return found


def are_plain(measures: object) -> bool:
    """Return whether *measures* are a dict of floats and None under names of ASCII, in the order of the format."""
    if type(measures) is not dict:
        return False
    names = tuple(measures)
    return (names in _ORDERED_NAMES or _are_ordered(names)) and _MEASURE_TYPES.issuperset(map(type, measures.values()))


def _are_ordered(names: tuple[object, ...]) -> bool:
    texts = [name for name in names if type(name) is str and name.isascii()]
    is_ordered = len(texts) == len(names) and texts == sorted(texts)
    if is_ordered and len(_ORDERED_NAMES) < _MOST_REMEMBERED and sum(map(len, texts)) < _LONGEST_NAMES_CHARS:
        _ORDERED_NAMES.add(names)
    return is_ordered


def _is_plain(name: str, cls: type) -> bool:
    if name == "step":
        return cls in (int, type(None))
    declared = FIELDS["toy/v1"]["step"][name]
    return cls is UnsetType or (isinstance(declared, str) and cls in _PLAIN_TYPES.get(declared, ()))


def part(given: Struct | Mapping[str, Any] | str | UnsetType | None, main: str) -> Any:
    """Return a part of an event as it is written: a string is its member *main*."""
    if given is None:
        return UNSET
    return {main: given} if isinstance(given, str) else given


def ending_of(error: BaseException | None) -> dict[str, Any]:
    """Return the members of the run_end of a run that *error* ended, None where it came to its end."""
    if error is None:
        return {"reason": "completed"}
    if isinstance(error, SystemExit):
        return _exit_ending(error.code)
    reason = "interrupted" if isinstance(error, KeyboardInterrupt) else "errored"
    return {"reason": reason, "error": _text_of(error)}


def _exit_ending(code: object) -> dict[str, Any]:
    if code is None or code == 0:
        return {"reason": "completed", "exit_code": 0}
    if isinstance(code, int):
        return {"reason": "aborted", "error": f"exit status {code}", "exit_code": code & 0xFF}
    return {"reason": "aborted", "error": str(code)[:_LONGEST_ERROR_CHARS], "exit_code": 1}


def _text_of(error: BaseException) -> str:
    name = type(error).__name__
    try:
        fact = str(error)
    except Exception:  # noqa: BLE001 - an error that cannot say what it is still ends the run
        fact = ""
    return f"{name}: {fact}"[:_LONGEST_ERROR_CHARS] if fact else name
