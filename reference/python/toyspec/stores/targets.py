"""What a place that can be written does: each write replaces exactly the object that its caller has seen, or fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from toyspec.core.errors import PlaceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.core.places.place import Entry, FetchedBytes
    from toyspec.stores.spans import Span


class Readable(Protocol):
    """What is needed of a place to compare it with a file; see ``Place``."""

    def entries(self, address: str) -> Iterator[Entry]:
        """See Place."""

    def status(self, address: str) -> Entry:
        """See Place."""

    def read_range(self, address: str, offset: int, size: int, identity: str | None) -> FetchedBytes:
        """See Place."""


class CannotExtendError(PlaceError):
    """This object can only be sent whole."""

    def __init__(self, address: str) -> None:
        super().__init__(address, "it can only be sent whole")


class Target(Readable, Protocol):
    """A place that can be written. Calls raise PlaceError, and ChangedError where the object is not *known*.

    *known* is the object that the call replaces, None where there must be none.
    """

    def can_extend(self, entry: Entry) -> bool:
        """Return whether the object can be extended; otherwise it can only be sent whole."""

    def put(self, span: Span, address: str, known: Entry | None) -> Entry:
        """Make *span* the content of the object, and return it."""

    def extend(self, base: Entry, span: Span, address: str, known: Entry | None) -> Entry:
        """Make the content of *base* and *span* after it the content of the object; only *span* is sent.

        Raise CannotExtendError where that is not possible, and nothing was changed.
        """

    def copy(self, base: Entry, address: str) -> None:
        """Make *base* the content of a new object, without sending it."""
