"""The scalars of a kaun/v1 run, as its source reads them: strict about what it needs, lenient about the rest."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.core.format.decoding import typed
from toyspec.core.format.record_mapping import cut_count
from toyspec.core.generated.kaun_v1 import Scalar
from toyspec.core.generated.runs import KAUN_SMALLER_IS_BETTER

if TYPE_CHECKING:
    from collections.abc import Mapping


def scalar_of(line: bytes, value: Mapping[str, Any]) -> Scalar:
    """Return the scalar in a readable *line*, whose object is *value*; raise ValueError if it is not one.

    An invalid optional member counts as absent, ``wall_time`` as 0; a step or epoch with a fraction is cut.
    """
    try:
        scalar: Scalar = typed(line, "scalar", "kaun/v1")
    except (msgspec.MsgspecError, UnicodeDecodeError):
        scalar = _lenient(value)
    scalar.wall_time = scalar.wall_time or 0.0
    return scalar


def lateness(step: int, epoch: object) -> tuple[int, int]:
    """Return what orders the scalars of a tag: the latest has the largest, and of equal ones it is the first.

    A scalar without a valid *epoch* is before all that have one.
    """
    count = cut_count(epoch)
    return step, -1 if count is None else count


def is_smaller_better(tag: str, minimize: bool | None) -> bool:
    """Return whether smaller values of *tag* are better, *minimize* being what its scalars say last, if anything."""
    if minimize is not None:
        return minimize
    # In any case of the ASCII letters, and of no others.
    lowered = tag.encode("utf-8", "replace").lower().decode("utf-8", "replace")
    return any(word in lowered for word in KAUN_SMALLER_IS_BETTER)


def _lenient(value: Mapping[str, Any]) -> Scalar:
    step, tag, number = cut_count(value.get("step")), value.get("tag"), value.get("value", "")
    if step is None:
        raise ValueError("step must be an integer ≥ 0")
    if not isinstance(tag, str):
        raise ValueError("tag must be a string")  # noqa: TRY004 - one error for what is not a scalar
    if number is not None and not _is_number(number):
        raise ValueError("value must be a number or null")
    wall_time, minimize, epoch = value.get("wall_time"), value.get("minimize"), cut_count(value.get("epoch"))
    return Scalar(
        step=step,
        tag=tag,
        value=math.nan if number is None else float(number),
        wall_time=float(wall_time) if wall_time is not None and _is_number(wall_time) else None,
        minimize=minimize if isinstance(minimize, bool) else None,
        epoch=epoch,
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
