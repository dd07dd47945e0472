"""Decides where a metric goes in an event: to the field that means the same, else to ``extra``."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from toyspec.generated.fields import FIELDS

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["step", "eval", "system"]
"""Kind of an event that metrics are written as."""

_KINDS: Final[tuple[Kind, ...]] = ("step", "eval", "system")
_ENVELOPE: Final = ("kind", "phase", "t", "step", "name", "extra")
_FIELDS = {kind: {key: key for key in FIELDS["toy/v1"][kind] if key not in _ENVELOPE} for kind in _KINDS}
_FIELDS["eval"] |= {"val_loss": "loss", "val_perplexity": "ppl"}
_COUNTS = frozenset(
    key for kind in _KINDS for key, field_type in FIELDS["toy/v1"][kind].items() if field_type == "integer"
)


class _Places(NamedTuple):
    """Where the metrics of some names go."""

    fields: tuple[tuple[str, str], ...]
    """Field and name of each metric that has a field of its own."""
    counts: tuple[str, ...]
    """Those fields that hold a count."""
    extra: tuple[str, ...]
    """Names of all others, in the order in which extra is written."""


def event_members(kind: Kind, metrics: Mapping[str, float]) -> dict[str, Any]:
    """Return the members of an event of *kind* that hold *metrics*, those without a field of their own in ``extra``.

    Of two metrics with the same field the first gets it. Raise ValueError when a count is not a whole number from 0.
    """
    places = _places(kind, tuple(metrics))
    members: dict[str, Any] = {field: metrics[name] for field, name in places.fields}
    for field in places.counts:
        members[field] = _count(field, members[field])
    if places.extra:
        members["extra"] = {name: metrics[name] for name in places.extra}
    return members


@lru_cache(maxsize=64)
def _places(kind: Kind, names: tuple[str, ...]) -> _Places:
    """Return where metrics go; a training loop logs the same names again and again."""
    fields: dict[str, str] = {}
    for name in names:
        if name in _FIELDS[kind]:
            fields.setdefault(_FIELDS[kind][name], name)
    counts = tuple(field for field in fields if field in _COUNTS)
    return _Places(tuple(fields.items()), counts, tuple(sorted(set(names) - set(fields.values()))))


def _count(name: str, value: float) -> int:
    if type(value) is int and value >= 0:
        return value
    # Clocks give fractions of a microsecond, which no reader needs.
    whole = math.floor(value + 0.5) if name.endswith("_us") and math.isfinite(value) else value
    if not math.isfinite(whole) or whole < 0 or whole != int(whole):
        raise ValueError(f"metric {name!r} is a count and must be a whole number ≥ 0, got {value!r}")
    return int(whole)
