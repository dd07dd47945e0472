"""Places that can be written: each write replaces exactly the object that its caller has seen, or fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from toyspec.errors import PlaceError
from toyspec.places.addresses import is_address, is_nearly_address, parts_of, public
from toyspec.places.opening import place_of, request_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.places.place import Entry, Part
    from toyspec.sync.spans import Span


class Readable(Protocol):
    """What is needed of a place to compare it with a file; see ``Place``."""

    def entries(self, address: str) -> Iterator[Entry]:
        """See Place."""

    def status(self, address: str) -> Entry:
        """See Place."""

    def read_range(self, address: str, offset: int, size: int, identity: str | None) -> Part:
        """See Place."""


class CannotExtendError(PlaceError):
    """This object can only be sent whole."""

    def __init__(self, address: str) -> None:
        super().__init__(address, "it can only be sent whole")


class Target(Protocol):
    """A place that can be written. Calls raise PlaceError, and ChangedError where the object is not *known*.

    *known* is the object that the call replaces, None where there must be none.
    """

    @property
    def place(self) -> Readable:
        """The same place, for reading."""

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


def target_of(address: str) -> Target:
    """Return the place of *address* for writing; raise PlaceError where it cannot refuse a write that is too late."""
    scheme, host, _ = parts_of(address)
    if scheme == "file":
        from toyspec.sync.folders import Folder

        return Folder()
    if scheme == "az":
        place = place_of(address)
        from toyspec.sync.azure_containers import AzureContainer

        return AzureContainer(place, seconds=request_seconds())
    if scheme == "gs":
        place = place_of(address)
        from toyspec.sync.stores import ConditionalStore

        return ConditionalStore(place)
    if scheme in ("s3", "s3a"):
        place = place_of(address)
        try:
            from toyspec.sync.s3_buckets import S3Bucket
        except ImportError:
            fact = "writing it needs boto3; install it with `python -m pip install 'toyspec[sync]'`"
            raise PlaceError(address, fact) from None
        return S3Bucket(host, place, seconds=request_seconds())
    raise PlaceError(address, f"{scheme}:// cannot be kept in step; use s3://, gs://, az:// or a directory")


def destination_of(text: str) -> str:
    """Return the address that *text* names, an address or a directory of this machine, without credentials.

    Raises PlaceError for an address with one slash: a directory of that name was hardly meant.
    """
    if is_address(text):
        return public(text)
    if is_nearly_address(text):
        raise PlaceError(text, f"an address has two slashes: {text.replace(':/', '://', 1)}; ./ before it is a path")
    # Imported here: only a command that names a directory needs it.
    import os

    return f"file://{'' if os.name == 'posix' else '/'}{os.path.abspath(text).replace(os.sep, '/')}"
