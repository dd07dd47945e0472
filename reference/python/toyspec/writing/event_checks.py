"""Validates a record against the schema of its kind before it is written."""

from __future__ import annotations

from typing import Any

import msgspec

from toyspec.escaping import shortened
from toyspec.format.canonical import InvalidEventError
from toyspec.format.date_times import is_date_time
from toyspec.format.decoding import event_types
from toyspec.generated.fields import DATE_TIMES

_decoders: dict[str, msgspec.json.Decoder[Any]] = {}


def check_record(line: bytes, kind: str | None) -> None:
    """Raise InvalidEventError when *line*, a readable toy/v1 record, is invalid by the schema of *kind*.

    A record of an unknown kind is not checked.
    """
    if kind not in event_types("toy/v1") or kind is None:
        return
    if kind not in _decoders:
        _decoders[kind] = msgspec.json.Decoder(event_types("toy/v1")[kind])
    try:
        event = _decoders[kind].decode(line)
    except msgspec.ValidationError as error:
        raise InvalidEventError(f"{kind} is invalid: {error}") from error
    for key in DATE_TIMES["toy/v1"].get(kind, ()):
        text = getattr(event, key)
        if isinstance(text, str) and not is_date_time(text):
            shown = shortened(repr(text))
            raise InvalidEventError(f"{kind} is invalid: {key} {shown} must be an RFC 3339 date-time with a zone")
