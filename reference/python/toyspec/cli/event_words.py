"""Makes an event from the words of a command line: ``loss=2.5 model.arch=llama``."""

from __future__ import annotations

from typing import Any

import msgspec

from toyspec.cli.parsers import UsageError, did_you_mean
from toyspec.escaping import shortened
from toyspec.format.line_validation import validate
from toyspec.generated.fields import FIELDS

# How tools print a number that is not finite; it is written as null.
_NOT_FINITE = frozenset(["nan", "inf", "infinity"])

_Type = Any
"""A type of ``generated.fields``; None where nothing is declared."""


def event_of(kind: str, words: list[str], text: str | None) -> dict[str, Any]:
    """Return the event of *kind* with the members of the JSON object *text* and of *words*, each ``name=value``.

    A name with dots reaches into objects. A value is JSON, or else a string; where the schema declares a
    string, it is always a string. Raises UsageError if they do not make an event.
    """
    event = _parsed(text) if text is not None else {}
    if event.get("kind", kind) != kind:
        raise UsageError(
            f"--json has kind {shortened(str(event['kind']))!r}, the command line {shortened(kind)!r}; give one"
        )
    event["kind"] = kind
    for word in words:
        name, sign, value = word.partition("=")
        if not name or not sign:
            raise UsageError(f"{shortened(word)!r} is not NAME=VALUE")
        _put(event, name.split("."), value, FIELDS["toy/v1"].get(kind, {}))
    return event


def unknown_members(event: dict[str, Any]) -> list[str]:
    """Return a warning for each member that the schema of the event's kind does not know, or for an unknown kind."""
    known = FIELDS["toy/v1"].get(event["kind"])
    if known is None:
        near = did_you_mean(event["kind"], FIELDS["toy/v1"])
        return [f"unknown kind {shortened(event['kind'])!r}, written anyway{near}"]
    return [
        f"unknown field {shortened(name)!r} in {event['kind']}, written anyway{did_you_mean(name, known)}"
        for name in event
        if name not in known
    ]


def _parsed(text: str) -> dict[str, Any]:
    verdict = validate(text.encode("utf-8", "surrogatepass"), first=True)
    if verdict.value is None or verdict.findings:
        finding = verdict.findings[0]
        raise UsageError(f"--json is not a JSON object: {finding.message} ({finding.rule}, byte {finding.offset})")
    return dict(verdict.value)


def _put(event: dict[str, Any], path: list[str], text: str, declared: dict[str, _Type]) -> None:
    """Set the member at *path* of *event*."""
    target, kind_of = event, declared.get(path[0])
    for at, name in enumerate(path[:-1], 1):
        inner = target.setdefault(name, {})
        if not isinstance(inner, dict):
            raise UsageError(
                f"{shortened('.'.join(path))!r} reaches into {shortened('.'.join(path[:at]))!r}, which is not an object"
            )
        target, kind_of = inner, _inner_type(kind_of, path[at])
    target[path[-1]] = _value(text, kind_of)


def _inner_type(outer: _Type, name: str) -> _Type:
    constructor, part = outer if isinstance(outer, tuple) else (None, None)
    if constructor == "object":
        return part.get(name)
    return part if constructor == "map" else None


def _value(text: str, declared: _Type) -> Any:
    if declared == "string":
        return text
    if declared == "number" and text.lower().lstrip("+-") in _NOT_FINITE:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
