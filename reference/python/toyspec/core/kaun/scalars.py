"""The scalars of a kaun/v1 run, kept by their tags.

They are read as their source reads them: strict about what it needs, lenient about the rest.
"""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any

from toyspec.core.format.numbers import number
from toyspec.core.format.record_mapping import cut_count
from toyspec.core.generated.kaun_v1 import Scalar
from toyspec.core.generated.runs import KAUN_SMALLER_IS_BETTER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from toyspec.core.reading.records import Record


def scalars_of(records: Iterable[Record]) -> Iterator[Scalar]:
    """Yield the scalar in each of *records*; those that are none, or not a valid one, are passed over."""
    for record in records:
        if record.kind == "scalar":
            with contextlib.suppress(ValueError):
                yield scalar_of(record.value)


def scalar_of(value: Mapping[str, Any]) -> Scalar:
    """Return the scalar that the object of a record is; raise ValueError if it is not one.

    An invalid optional member counts as absent, ``wall_time`` as 0; a step or epoch with a fraction is cut.
    """
    step, tag, measured = cut_count(value.get("step")), value.get("tag"), value.get("value", "")
    if step is None:
        raise ValueError("step must be an integer ≥ 0")
    if not isinstance(tag, str):
        raise ValueError("tag must be a string")  # noqa: TRY004 - one error for what is not a scalar
    if measured is not None and number(measured) is None:
        raise ValueError("value must be a number or null")
    minimize = value.get("minimize")
    return Scalar(
        step=step,
        tag=tag,
        value=math.nan if measured is None else float(measured),
        wall_time=float(number(value.get("wall_time")) or 0.0),
        minimize=minimize if isinstance(minimize, bool) else None,
        epoch=cut_count(value.get("epoch")),
    )


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


class ScalarStore:
    """All scalars of a run, by their tags."""

    def __init__(self, scalars: Iterable[Scalar] = ()) -> None:
        self._history: dict[str, list[Scalar]] = {}
        self.update(scalars)

    @property
    def tags(self) -> list[str]:
        """Every tag, in the order of first appearance."""
        return list(self._history)

    @property
    def latest_epoch(self) -> int | None:
        """The largest epoch of all scalars; None where none has one."""
        epochs = (scalar.epoch for scalars in self._history.values() for scalar in scalars)
        return max((epoch for epoch in epochs if epoch is not None), default=None)

    @property
    def latest_metrics(self) -> dict[str, Scalar]:
        """For each tag, sorted, the scalar of the largest step, of those of the largest epoch, of those the first.

        A scalar without an epoch counts as before every epoch.
        """
        return {
            tag: max(self._history[tag], key=lambda scalar: lateness(scalar.step, scalar.epoch))
            for tag in sorted(self._history)
        }

    @property
    def best_metrics(self) -> dict[str, Scalar]:
        """For each tag that has one, sorted, what ``best_for_tag`` returns."""
        found = {tag: self.best_for_tag(tag) for tag in sorted(self._history)}
        return {tag: scalar for tag, scalar in found.items() if scalar is not None}

    def update(self, scalars: Iterable[Scalar]) -> None:
        """Take in *scalars*, in the order of the stream."""
        for scalar in scalars:
            self._history.setdefault(scalar.tag, []).append(scalar)

    def history_for_tag(self, tag: str) -> list[Scalar]:
        """Return all scalars of *tag* in the order of the stream; none for a tag that is not known."""
        return list(self._history.get(tag, ()))

    def best_for_tag(self, tag: str) -> Scalar | None:
        """Return the scalar with the smallest value where smaller is better, else with the largest; None without one.

        Smaller is better if the last ``minimize`` of the tag is true or, without any, if the tag has ``loss``
        or ``error`` in it. What is not finite takes no part. Of equal ones, the first is the best.
        """
        scalars = self.history_for_tag(tag)
        stated = [scalar.minimize for scalar in scalars if scalar.minimize is not None]
        choose = min if is_smaller_better(tag, stated[-1] if stated else None) else max
        finite = [scalar for scalar in scalars if math.isfinite(scalar.value)]
        return choose(finite, key=lambda scalar: scalar.value) if finite else None

    def clear(self) -> None:
        """Forget all scalars."""
        self._history.clear()
