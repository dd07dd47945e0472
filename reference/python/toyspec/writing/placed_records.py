"""Records on their way into a stream: their text, and what the stream learns from them once they are there."""

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
    """A line that may come next, and what to call with which facts once it is in the stream."""

    line: bytes
    kind: str
    take: Callable[..., None]
    facts: tuple[Any, ...]


def ready_step(event: Step) -> bytes | None:
    """Return the text of a step that its encoder writes in canonical form, and that is valid; None for all others."""
    try:
        line = _encode(event)
        # Reading back finds what the field does not allow; writing again, what is spelled in another way.
        found = _STEP_DECODER.decode(line)
        is_ready = _encode(found) == line and (found.extra is UNSET or list(found.extra) == sorted(found.extra))
        # The type takes an integer of any length.
        is_ready = is_ready and (len(line) < _LONG_NUMBER or not holds_long_number([line]))
    except (TypeError, ValueError, msgspec.MsgspecError):
        return None
    return line if is_ready else None
