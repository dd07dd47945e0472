"""Detects the profile of the stream at a path: see spec/model.md."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from toyspec.core.errors import StreamError
from toyspec.core.format.flattening import member_at
from toyspec.core.format.line_validation import validate
from toyspec.core.format.profiles import MANIFEST_FILE, detect_profile, is_manifest
from toyspec.core.generated.limits import MAX_LINE_BYTES
from toyspec.core.places.addresses import is_address, path_in
from toyspec.core.reading import readers
from toyspec.core.reading.stream_files import open_stream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toyspec.core.findings import Profile


def read_manifest(directory: str) -> dict[str, Any] | None:
    """Return the object in the run.json of *directory*; None if there is none or it is unreadable. Never raises."""
    try:
        if is_address(directory):
            from toyspec.core.reading.remote_streams import read_small

            data = read_small(path_in(directory, MANIFEST_FILE), MAX_LINE_BYTES + 1)
            return None if data is None else _object(data)
        with open(open_stream(os.path.join(directory, MANIFEST_FILE)), "rb") as file:
            data = file.read(MAX_LINE_BYTES + 1)
    except (OSError, StreamError):
        return None
    return _object(data)


def manifest_start(directory: str, dialect: str) -> dict[str, Any]:
    """Return what the run.json in *directory* has about the run whose log is of *dialect*, in the members of run_start.

    Empty if the dialect has no such file, or it is not there. Never raises.
    """
    members = readers.dialects().manifest(dialect)
    manifest = read_manifest(directory) if members else None
    found: dict[str, Any] = {}
    for name, key in members.items():
        value = None if manifest is None else member_at(manifest, key)
        outer, _, inner = name.rpartition("/")
        if value is not None:
            (found.setdefault(outer, {}) if outer else found)[inner] = value
    return found


def _object(data: bytes) -> dict[str, Any] | None:
    return validate(data, first=True).value if len(data) <= MAX_LINE_BYTES else None


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
