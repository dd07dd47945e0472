"""Translates between values of records and tagged values, by the fields that the library declares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toyspec.core.format.numbers import binary32, binary32_text
from toyspec.core.format.profiles import record_kind
from toyspec.core.generated.fields import FIELDS
from toyspec.core.generated.limits import BINARY32_LIMIT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toyspec.core.findings import Profile

_TAGS = frozenset({"int", "float", "f32", "object"})


def tagged_record(value: Mapping[str, Any], profile: Profile | None) -> Any:
    """Return the object of a record as a tagged value."""
    if profile is None:
        return _tagged(value, "")
    kind = "entry" if profile == "metrics/v1" else record_kind(value, profile)
    return _tagged(value, ("object", FIELDS[profile].get(kind or "", {})))


def tagged_members(members: Mapping[str, Any], fields: Mapping[str, Any]) -> Any:
    """Return an object with *fields* as a tagged value."""
    return _tagged(members, ("object", fields))


def untagged(value: Any) -> Any:
    """Return the value that is meant by a tagged one."""
    if isinstance(value, list):
        return [untagged(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and _TAGS.issuperset(value):
        ((tag, inner),) = value.items()
        if tag == "object":
            return {key: untagged(item) for key, item in inner.items()}
        if tag == "int":
            return int(inner)
        return binary32(float(inner)) if tag == "f32" else float(inner)
    return {key: untagged(item) for key, item in value.items()}


def _tagged(value: Any, declared: Any) -> Any:
    if isinstance(value, dict):
        members = {key: _tagged(item, _member(declared, key)) for key, item in value.items()}
        return {"object": members} if len(members) == 1 and _TAGS.issuperset(members) else members
    if isinstance(value, list):
        return [_tagged(item, declared[1] if declared[:1] == ("array",) else "") for item in value]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    if declared == "binary32" and abs(value) < BINARY32_LIMIT:
        return {"f32": binary32_text(float(value))}
    if isinstance(value, int) and declared not in ("number", "binary32"):  # a tuple, as declared may be one
        return {"int": str(value)}
    return {"float": repr(float(value))}


def _item(declared: Any) -> Any:
    return declared[1] if isinstance(declared, tuple) and declared[0] == "array" else ""


def _member(declared: Any, key: str) -> Any:
    constructor = declared[0] if isinstance(declared, tuple) else ""
    if constructor == "object":
        return declared[1].get(key, "")
    return declared[1] if constructor == "map" else ""
