"""Finds out which profile the stream at a path follows: see spec/model.md."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

from toyspec.format.line_validation import decode
from toyspec.format.profiles import MANIFEST_FILE, detect_profile, is_manifest
from toyspec.generated.limits import MAX_LINE_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toyspec.findings import Profile


def detect_profile_at(path: str, first: Mapping[str, Any] | None, *, has_gap: bool = False) -> Profile | None:
    """Return the profile of the stream at *path*; None where it has none.

    *first* is its first readable record, None where it has none. The manifest beside it is read only where it
    decides. Never raises: a manifest that cannot be read is as good as none.
    """
    name = os.path.basename(path)
    plain = detect_profile(first, name, has_gap=has_gap)
    manifested = detect_profile(first, name, has_gap=has_gap, has_manifest=True)
    if plain == manifested:
        return plain
    return manifested if _has_manifest(os.path.join(os.path.dirname(path), MANIFEST_FILE)) else plain


def _has_manifest(path: str) -> bool:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return False
        with open(path, "rb") as file:
            data = file.read(MAX_LINE_BYTES + 1)
    except (OSError, ValueError):
        return False
    manifest = decode(data) if len(data) <= MAX_LINE_BYTES else None
    return manifest is not None and is_manifest(manifest)
