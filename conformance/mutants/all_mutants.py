"""Every mutant, by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.mutants import (
    bundles,
    canonical,
    checkers,
    followers,
    lines,
    media,
    numbers,
    profiles,
    protocol_mutants,
    ranks,
    readers,
    records,
    resumptions,
    rules,
    seals,
    streams,
    summarizers,
    writers,
)

if TYPE_CHECKING:
    from conformance.mutants.mutant import Mutant

_GROUPS = (
    tuple(rules.mutants()),
    lines.ALL,
    readers.ALL,
    profiles.ALL,
    summarizers.ALL,
    ranks.ALL,
    numbers.ALL,
    records.ALL,
    streams.ALL,
    checkers.ALL,
    writers.ALL,
    canonical.ALL,
    bundles.ALL,
    media.ALL,
    resumptions.ALL,
    seals.ALL,
    followers.ALL,
    protocol_mutants.ALL,
)

ALL: dict[str, Mutant] = {mutant.name: mutant for group in _GROUPS for mutant in group}
"""Every mutant, by its name."""

if len(ALL) != sum(map(len, _GROUPS)):
    raise ValueError("two mutants have one name")
