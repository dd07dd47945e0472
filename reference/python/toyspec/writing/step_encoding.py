"""Records to be written: their text, and how the progress of the stream is updated after writing them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import UNSET

from toyspec.format.line_validation import holds_long_number
from toyspec.generated.toy_v1 import Step

if TYPE_CHECKING:
    from collections.abc import Callable

_encode = msgspec.json.Encoder().encode
_STEP_DECODER = msgspec.json.Decoder(Step)
# A line that is shorter has no integer that overflows binary64.
_LONG_NUMBER = 300


class PlacedRecord(NamedTuple):
    """A line that is allowed next, and the call to make once it is written."""

    line: bytes
    kind: str
    take: Callable[..., None]
    facts: tuple[Any, ...]


def ready_step(event: Step) -> bytes | None:
    """Return the text of a step that its encoder writes in canonical form, and that is valid; None for all others."""
    try:
        line = _encode(event)
        # Decoding finds values that the field does not allow; encoding again finds other spellings.
        found = _STEP_DECODER.decode(line)
        is_ready = _encode(found) == line and (found.extra is UNSET or list(found.extra) == sorted(found.extra))
        # The type allows an integer of any length.
        is_ready = is_ready and (len(line) < _LONG_NUMBER or not holds_long_number([line]))
    except (TypeError, ValueError, msgspec.MsgspecError):
        return None
    return line if is_ready else None
