"""Decides where a metric goes in an event: to the field that means the same, else to ``extra``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Literal

from toyspec.core.generated.fields import FIELDS

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["step", "eval", "system"]
"""Kind of an event that metrics are written as."""

_KINDS: Final[tuple[Kind, ...]] = ("step", "eval", "system")
_ENVELOPE: Final = ("kind", "phase", "t", "step", "name", "extra", "nonfinite")
_FIELDS = {kind: {key: key for key in FIELDS["toy/v1"][kind] if key not in _ENVELOPE} for kind in _KINDS}
_FIELDS["eval"] |= {"val_loss": "loss", "val_perplexity": "ppl"}


def event_members(kind: Kind, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of an event of *kind* that hold *metrics*, those without a field of their own in ``extra``.

    Of two metrics with the same field the first gets it. What a value becomes is the writer's to decide.
    """
    members: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, value in metrics.items():
        field = _FIELDS[kind].get(name)
        if field is None or field in members:
            extra[name] = value
        else:
            # Clocks give fractions of a microsecond, which no reader needs.
            is_fraction = field.endswith("_us") and type(value) is float and 0 <= value < math.inf
            members[field] = math.floor(value + 0.5) if is_fraction else value
    return {**members, "extra": extra} if extra else members
