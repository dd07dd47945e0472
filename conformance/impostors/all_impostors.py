"""Every impostor, by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.impostors import (
    bundles,
    canonical,
    checkers,
    followers,
    lines,
    numbers,
    profiles,
    readers,
    records,
    rules,
    streams,
    summarizers,
    talkers,
    writers,
)

if TYPE_CHECKING:
    from conformance.impostors.impostor import Impostor

_GROUPS = (
    tuple(rules.impostors()),
    lines.ALL,
    readers.ALL,
    profiles.ALL,
    summarizers.ALL,
    numbers.ALL,
    records.ALL,
    streams.ALL,
    checkers.ALL,
    writers.ALL,
    canonical.ALL,
    bundles.ALL,
    followers.ALL,
    talkers.ALL,
)

ALL: dict[str, Impostor] = {impostor.name: impostor for group in _GROUPS for impostor in group}
"""Every impostor, by its name."""

if len(ALL) != sum(map(len, _GROUPS)):
    raise ValueError("two impostors have one name")
