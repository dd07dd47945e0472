"""Tells which profile a stream follows: see spec/model.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

# No key of a record is None: a profile without kinds finds none.
_TAGS: dict[Profile, Any] = {profile: STREAMS[profile]["tag"] for profile in ("toy/v1", "metrics/v1", "kaun/v1")}


def detect_profile(first: Mapping[str, Any] | None, file_name: str = "", has_manifest: bool = False) -> Profile:
    """Return the profile of a stream by its *first* readable record, None where it has none.

    Where that does not tell, the stream's *file_name* does, then whether a kaun manifest lies beside it.
    """
    if first is not None:
        if "kind" in first:
            return "toy/v1"
        if "type" in first:
            return "kaun/v1"
        if "step" in first and "wall_time_ms" in first:
            return "metrics/v1"
    if file_name == METRICS_FILE:
        return "metrics/v1"
    return "kaun/v1" if has_manifest else "toy/v1"


def tag_of(profile: Profile) -> str | None:
    """Return the key whose value is the kind of a record; None where the profile has no kinds, and no key is None."""
    tag: str | None = _TAGS[profile]
    return tag


def record_kind(value: Mapping[str, Any], profile: Profile) -> str | None:
    """Return the kind that *value* declares; None when it declares none, no string, or the profile has no kinds."""
    kind = value.get(_TAGS[profile])
    return kind if isinstance(kind, str) else None


def closing_kind(profile: Profile) -> str | None:
    """Return the kind that comes last in a complete stream; None when any record may."""
    last: str | None = STREAMS[profile].get("complete", {}).get("last")
    return last
