"""Detects the profile of a stream: see spec/model.md."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from toyspec.core.errors import must_be_one_of
from toyspec.core.format.numbers import number
from toyspec.core.generated.streams import STREAMS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toyspec.core.findings import Profile

METRICS_FILE: str = STREAMS["metrics/v1"]["file"]
"""Name of a metrics/v1 stream in a bundle."""
EVENTS_FILE: str = STREAMS["toy/v1"]["file"]
"""Name of a toy/v1 or kaun/v1 stream in a bundle."""
MANIFEST_FILE = "run.json"
"""Name of the file beside a stream that describes the run."""
ANNOTATIONS_FILE = "annotations.jsonl"
"""Name of the file in a bundle that says what people and programs say about the run afterwards."""
SEAL_FILE = "SHA256SUMS"
"""Name of the file in a bundle that has the digests of all others."""

_COMPRESSED = ".gz"


def detect_profile(
    first: Mapping[str, Any] | None, file_name: str = "", *, has_manifest: bool = False, has_gap: bool = False
) -> Profile | None:
    """Return the profile of a stream; None for a file of another format.

    *first* is its first readable record, or None. *has_manifest* means that a kaun manifest is beside it, *has_gap*
    that it has an unreadable line. *file_name* is empty if the stream is not in a file.
    """
    if first is not None:
        return _profile_of(first) or ("kaun/v1" if has_manifest else None)
    name = stream_name(file_name)
    if name == METRICS_FILE:
        return "metrics/v1"
    if has_manifest:
        return "kaun/v1"
    return None if has_gap and name not in ("", EVENTS_FILE) else "toy/v1"


def profile_named(text: str | None) -> Any:
    """Return the name of a profile: *text* itself if it is one, else that of the directory *text*, which is loaded.

    None is returned for None. Raises ProfileError for a directory that is not a profile, and ValueError for anything
    else.
    """
    if text is None or text in STREAMS:
        return text
    if not os.path.isdir(text):
        raise ValueError(f"profile is {text!r}; {must_be_one_of([*STREAMS])}, or a directory with stream.json")
    # Few users have profiles of their own: start-up time counts.
    from toyspec.core.format.own_profiles import load_profile

    return load_profile(os.path.abspath(text)).name


def is_manifest(value: Mapping[str, Any]) -> bool:
    """Return whether the object in a file ``run.json`` is the manifest of a kaun/v1 run."""
    return "run_id" in value and "kind" not in value


def stream_name(file_name: str) -> str:
    """Return the name of the stream in the file *file_name*, which may be compressed."""
    return file_name.removesuffix(_COMPRESSED)


def _profile_of(first: Mapping[str, Any]) -> Profile | None:
    kind = first.get("kind")
    if isinstance(kind, str) and (kind == "run_start" or number(first.get("t")) is not None):
        return "toy/v1"
    if first.get("type") == "scalar":
        return "kaun/v1"
    return "metrics/v1" if "step" in first and "wall_time_ms" in first else None


def tag_of(profile: Profile | None) -> str | None:
    """Return the key that names the kind of a record; None, which is never a key, if the profile has no kinds."""
    tag: str | None = STREAMS[profile]["tag"] if profile else None
    return tag


def record_kind(value: Mapping[str, Any], profile: Profile | None) -> str | None:
    """Return the kind that *value* declares as a string; None if it does not, or the profile has no kinds."""
    kind = value.get(STREAMS[profile]["tag"]) if profile else None
    return kind if isinstance(kind, str) else None


def closing_kind(profile: str | None) -> str | None:
    """Return the kind of the last record in a complete stream; None if it may be of any kind."""
    # A catalog has runs of users' profiles that are not loaded.
    last: str | None = STREAMS.get(profile or "", {}).get("complete", {}).get("last")
    return last


def reopening_kind(profile: str | None) -> str | None:
    """Return the kind of the record with which a stream goes on after its end; None if there is none."""
    kind: str | None = STREAMS.get(profile or "", {}).get("complete", {}).get("reopened_by", {}).get("kind")
    return kind
