"""What every place can do: list, tell the size and the identity of an object, and read all or a range of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from toyspec.core.errors import PlaceError

if TYPE_CHECKING:
    from collections.abc import Iterator


class Entry(NamedTuple):
    """An object of a place at one time."""

    address: str
    size: int
    """Number of bytes."""
    identity: str
    """A text that changes with the content: the entity tag of a store, else the time of the last change."""


class FetchedBytes(NamedTuple):
    """Bytes of an object, and the object that they are of."""

    data: bytes
    entry: Entry


class ChangedError(PlaceError):
    """The object is another one than before."""

    def __init__(self, address: str) -> None:
        super().__init__(address, "it changed while it was read; read it again")


class MalformedAnswerError(PlaceError):
    """The answer has status 200 and lacks what was asked for: whether the request was done is not known."""

    def __init__(self, address: str, lacks: str) -> None:
        fact = f"the answer of the server has no {lacks}, as one that was cut off or came from a proxy; try again"
        super().__init__(address, fact)


class RangesMissingError(PlaceError):
    """The server gives whole objects only."""

    def __init__(self, address: str) -> None:
        super().__init__(address, "the server does not send parts of a file, only all of it; copy it and read the copy")


class Place(Protocol):
    """A store, a server or a file system. Every call raises PlaceError, or FileNotFoundError for what is not there."""

    def entries(self, address: str) -> Iterator[Entry]:
        """Yield every object below *address*, in pages: memory does not grow with their number."""

    def names(self, address: str) -> list[str]:
        """Return the names of the objects directly in the directory *address*, sorted; with ``/``, of directories."""

    def status(self, address: str) -> Entry:
        """Return what is at *address*, without its content."""

    def read_range(self, address: str, offset: int, size: int, identity: str | None) -> FetchedBytes:
        """Return at most *size* bytes from *offset*; none from the end on.

        Raises ChangedError if the object is not the one of *identity*, and RangesMissingError.
        """

    def blocks(self, address: str) -> Iterator[bytes]:
        """Yield the whole content in blocks."""
