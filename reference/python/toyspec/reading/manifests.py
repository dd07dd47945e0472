"""Reads run.json, the file beside a stream that describes the run."""

from __future__ import annotations

import os
from typing import Any

from toyspec.errors import StreamError
from toyspec.format.flattening import member_at
from toyspec.format.line_validation import validate
from toyspec.format.profiles import MANIFEST_FILE
from toyspec.generated.limits import MAX_LINE_BYTES
from toyspec.places.addresses import is_address, path_in
from toyspec.reading.stream_files import open_stream


def read_manifest(directory: str) -> dict[str, Any] | None:
    """Return the object in the run.json of *directory*; None if there is none or it is unreadable. Never raises."""
    try:
        if is_address(directory):
            from toyspec.reading.remote_streams import read_small

            data = read_small(path_in(directory, MANIFEST_FILE), MAX_LINE_BYTES + 1)
            return None if data is None else _object(data)
        with open(open_stream(os.path.join(directory, MANIFEST_FILE), special="refuse"), "rb") as file:
            data = file.read(MAX_LINE_BYTES + 1)
    except (OSError, StreamError):
        return None
    return _object(data)


def manifest_start(directory: str, dialect: str) -> dict[str, Any]:
    """Return what the run.json in *directory* has about the run whose log is of *dialect*, in the members of run_start.

    Empty if the dialect has no such file, or it is not there. Never raises.
    """
    from toyspec.format.dialects import dialects

    members = next((each.manifest for each in dialects() if each.name == dialect), None)
    manifest = read_manifest(directory) if members else None
    found: dict[str, Any] = {}
    for name, key in (members or {}).items():
        value = None if manifest is None else member_at(manifest, key)
        outer, _, inner = name.rpartition("/")
        if value is not None:
            (found.setdefault(outer, {}) if outer else found)[inner] = value
    return found


def _object(data: bytes) -> dict[str, Any] | None:
    return validate(data, first=True).value if len(data) <= MAX_LINE_BYTES else None
