"""Detects the profile of the stream at a path: see spec/model.md."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from toyspec.format.profiles import detect_profile, is_manifest
from toyspec.reading.manifests import read_manifest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toyspec.findings import Profile


def detect_profile_at(path: str, first: Mapping[str, Any] | None, *, has_gap: bool = False) -> Profile | None:
    """Return the profile of the stream at *path*; None if it has none.

    *first* is its first readable record, or None. The manifest beside it is read only if it decides. Never raises: an
    unreadable manifest counts as absent.
    """
    name = os.path.basename(path)
    plain = detect_profile(first, name, has_gap=has_gap)
    manifested = detect_profile(first, name, has_gap=has_gap, has_manifest=True)
    if plain == manifested:
        return plain
    manifest = read_manifest(os.path.dirname(path))
    return manifested if manifest is not None and is_manifest(manifest) else plain
