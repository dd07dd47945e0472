"""Finds out which profile a stream follows: see spec/model.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toyspec.format.json_numbers import number
from toyspec.generated.streams import STREAMS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toyspec.findings import Profile

METRICS_FILE: str = STREAMS["metrics/v1"]["file"]
"""Name of a metrics/v1 stream in a bundle."""
EVENTS_FILE: str = STREAMS["toy/v1"]["file"]
"""Name of a toy/v1 or kaun/v1 stream in a bundle."""
MANIFEST_FILE = "run.json"
"""Name of the file beside a stream that describes the run."""

# No key of a record is None: a profile without kinds finds none, and neither does a stream without profile.
_TAGS: dict[Profile | None, Any] = {
    None: None,
    **{profile: STREAMS[profile]["tag"] for profile in ("toy/v1", "metrics/v1", "kaun/v1")},
}
_COMPRESSED = ".gz"


def detect_profile(
    first: Mapping[str, Any] | None, file_name: str = "", *, has_manifest: bool = False, has_gap: bool = False
) -> Profile | None:
    """Return the profile of a stream; None where it has none, which makes it a file of another format.

    *first* is its first readable record, None where it has none. *has_manifest* says that a kaun manifest is beside
    it, *has_gap* that a line of it is unreadable. *file_name* is empty where the stream is not in a file.
    """
    if first is not None:
        return _profile_of(first) or ("kaun/v1" if has_manifest else None)
    name = stream_name(file_name)
    if name == METRICS_FILE:
        return "metrics/v1"
    if has_manifest:
        return "kaun/v1"
    return None if has_gap and name not in ("", EVENTS_FILE) else "toy/v1"


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
    """Return the key whose value is the kind of a record; None where the profile has no kinds, and no key is None."""
    tag: str | None = _TAGS[profile]
    return tag


def record_kind(value: Mapping[str, Any], profile: Profile | None) -> str | None:
    """Return the kind that *value* declares; None when it declares none, no string, or the profile has no kinds."""
    kind = value.get(_TAGS[profile])
    return kind if isinstance(kind, str) else None


def closing_kind(profile: Profile | None) -> str | None:
    """Return the kind that comes last in a complete stream; None when any record may."""
    last: str | None = STREAMS[profile].get("complete", {}).get("last") if profile is not None else None
    return last
