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

ALL: dict[str, Impostor] = {
    impostor.name: impostor
    for impostor in (
        *rules.impostors(),
        *lines.ALL,
        *readers.ALL,
        *summarizers.ALL,
        *profiles.ALL,
        *numbers.ALL,
        *records.ALL,
        *streams.ALL,
        *checkers.ALL,
        *writers.ALL,
        *canonical.ALL,
        *bundles.ALL,
        *followers.ALL,
        *talkers.ALL,
    )
}
