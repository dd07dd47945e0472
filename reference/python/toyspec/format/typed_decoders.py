"""Makes the decoders of types one at a time."""

from __future__ import annotations

from threading import Lock
from typing import Any

import msgspec

# The facts about a type are kept in it before they are complete: a second thread that uses them ends the interpreter.
_ONE_AT_A_TIME = Lock()


def typed_decoder(wanted: Any) -> msgspec.json.Decoder[Any]:
    """Return a decoder of the type *wanted*; afterwards, any thread may convert values to it."""
    with _ONE_AT_A_TIME:
        return msgspec.json.Decoder(wanted)
