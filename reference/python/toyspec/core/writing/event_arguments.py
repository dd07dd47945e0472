"""The arguments of a writer's methods: numbers of any library, parts as a mapping or as their main member."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, SupportsFloat, SupportsIndex, TypeAlias, TypedDict, get_args

from msgspec import UNSET, Struct

if TYPE_CHECKING:
    from datetime import date, timedelta
    from enum import Enum
    from os import PathLike

    from toyspec.core.generated.toy_v1 import Backend, Cost, Dataset, Git, Host, Model, Parent
    from toyspec.core.writing.media import Media

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


class StartMembers(TypedDict, total=False):
    """The members of ``run_start`` that a caller may give: who runs what, and where."""

    model: Model | Mapping[str, Any] | str | None
    """The model; a text is its ``arch``."""
    backend: Backend | Mapping[str, Any] | str | None
    """What computes; a text is its ``kind``."""
    host: Host | Mapping[str, Any] | str | None
    """The machine, this one unless given; a text is its ``name``, and an empty one leaves it out."""
    git: Git | Mapping[str, Any] | str | None
    """The revision; a text is its ``sha``."""
    phase: Phase
    compare_to: str | None
    """Run id of a baseline."""
    name: str | None
    """Name for people, as *group*, *tags* and *notes* are."""
    group: str | None
    tags: Sequence[str] | None
    notes: str | None
    argv: Sequence[str] | None
    """The command line."""
    packages: Mapping[str, str] | None
    """Versions by name."""
    rank: Count
    """Number of this process of *world_size*."""
    world_size: Count
    parent: Parent | Mapping[str, Any] | str | None
    """The run, or its id, from whose checkpoint this one starts."""
    data: Sequence[Dataset | Mapping[str, Any]] | None
    """The data sets."""
    cost: Cost | Mapping[str, Any] | None
    franken: Mapping[str, Any] | None
    franken_moe: Mapping[str, Any] | None
    started_at: str | None
    """The time, now unless given; an empty text leaves it out."""


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
