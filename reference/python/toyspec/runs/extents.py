"""What is known of a stream as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from toyspec.findings import State


class Extent(NamedTuple):
    """What is known of a stream as a whole."""

    state: State
    records: int | None
    """Number of records; None where not all were read."""
    size: int
    """Size in bytes."""
    is_checked: bool = True
    """False where damage between the ends of the stream would not have been seen."""
