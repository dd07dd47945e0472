"""The arguments of a writer's methods: numbers of any library, parts as a mapping or as their main member."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, SupportsFloat, SupportsIndex, TypeAlias, TypedDict, get_args

from msgspec import UNSET, Struct

if TYPE_CHECKING:
    from datetime import date, timedelta
    from enum import Enum
    from os import PathLike

    from toyspec.writing.media import Media

Measure = SupportsFloat | None
"""A measured number, None where there is none; a value that is not finite is written as null."""

Value: TypeAlias = "SupportsFloat | str | PathLike[str] | date | timedelta | Enum | Media | Sequence[Media] | None"
"""A number of any library, a boolean, which is 1.0 or 0.0, what is written as a text, or pictures and the like."""

Measures = Mapping[str, Value] | None
"""Measured numbers by name."""

Count = SupportsIndex | None
"""An integer that is not negative, None where there is none."""

_Phase = Literal["train", "eval", "decode", "serve"]
Phase = _Phase | None
PHASES = get_args(_Phase)
Reason = Literal["completed", "interrupted", "aborted", "errored"]
Verdict = Literal["ahead", "behind", "par", "abort"]

_LONGEST_ERROR_CHARS = 4096


class TensorStatistics(TypedDict, total=False):
    """The statistics of ``grad``."""

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
    """The statistics of ``tap``."""

    layer: SupportsIndex | None
    dtype: str


def is_phase(value: object) -> bool:
    """Return whether *value* is a phase that the format has."""
    return type(value) is str and value in PHASES


def part(given: Struct | Mapping[str, Any] | str | None, main: str) -> Any:
    """Return a part of an event as it is written: a string is its member *main*."""
    if given is None:
        return UNSET
    return {main: given} if isinstance(given, str) else given


def ending_of(error: BaseException | None) -> dict[str, Any]:
    """Return the members of the run_end of a run that *error* ended, None if it was completed."""
    if error is None:
        return {"reason": "completed"}
    if isinstance(error, SystemExit):
        return _exit_ending(error.code)
    # What is not an Exception comes from outside: Ctrl-C, a task that is cancelled, a generator that is closed.
    reason = "errored" if isinstance(error, Exception) else "interrupted"
    return {"reason": reason, "error": _text_of(error)}


def ending_exception() -> BaseException | None:
    """Return the exception that ends this program, None without one; call it while the program exits."""
    # The interpreter keeps it; in a session it may be an old one.
    return None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)


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
    except Exception:  # noqa: BLE001 - an error without a text still ends the run
        fact = ""
    return f"{name}: {fact}"[:_LONGEST_ERROR_CHARS] if fact else name
