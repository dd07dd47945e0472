"""What every place can do: list, tell the size and the identity of an object, and read all or a range of it.

A table names the module of each scheme, which is imported when the first address is opened.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, Protocol

from toyspec.core.entry_points import brought, entry_points_of
from toyspec.core.errors import PlaceError
from toyspec.core.places.addresses import BUCKETS, WEB, parts_of, secret_of

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


class NotAPathError(PlaceError):
    """A name that the place lists leads elsewhere, or nowhere."""

    def __init__(self, address: str, name: str) -> None:
        super().__init__(address, f"an object has a name that is not a path: {name!r}; name a folder without it")


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


OpenPlace = Callable[[str, str, str], Place]
"""Gets the scheme, the host with a user before it, and the query of a signature; each with its mark, or empty."""

VARIABLE = "TOYSPEC_REMOTE_SECONDS"
"""The environment variable that limits a request: the number of seconds that it may take with its retries."""

GROUP = "toyspec.places"
"""The group of entry points whose names are schemes, and whose values are functions such as ``open_place``."""

OWN = dict.fromkeys((*sorted(BUCKETS), *WEB), "toyspec.stores.object_stores")
"""The modules of the schemes that are known without asking a package; each has a function ``open_place``."""
_ANY_OTHER = "toyspec.stores.file_systems"

_DEFAULT_SECONDS = 60.0


def place_of(address: str) -> Place:
    """Return the place that *address* is in; raise PlaceError if no package that reaches it is installed."""
    scheme, host, _ = parts_of(address)
    user, query = secret_of(address)
    if scheme in BUCKETS and user:
        fact = "credentials in an address are not used; give them in the environment, for example AWS_ACCESS_KEY_ID"
        raise PlaceError(address, fact)
    if scheme in BUCKETS and not host:
        raise PlaceError(address, f"it has no bucket; write {scheme}://BUCKET/PATH")
    try:
        return _opened(scheme, user + host, query if scheme in OWN else "")
    except ModuleNotFoundError as error:
        raise PlaceError(address, _needs(scheme, error.name or "")) from None
    except ImportError as error:
        raise PlaceError(address, f"{scheme}:// needs another package: {error}") from None


@cache
def _opened(scheme: str, host: str, query: str) -> Place:
    entry = None if scheme in OWN else entry_points_of(GROUP).get(scheme)
    opener: OpenPlace = brought(entry) if entry else import_module(OWN.get(scheme, _ANY_OTHER)).open_place
    return opener(scheme, host, query)


def _needs(scheme: str, package: str) -> str:
    if package.partition(".")[0] in ("obstore", "fsspec"):
        return f"reading it needs {package}; install it with `python -m pip install 'toyspec[remote]'`"
    return f"{scheme}:// needs {package}: python -m pip install {package}"


def request_seconds() -> float:
    """Return how long a request may take with its retries, in seconds; raise PlaceError for a value that is none."""
    text = os.environ.get(VARIABLE, "")
    try:
        value = float(text) if text else _DEFAULT_SECONDS
    except ValueError:
        value = -1.0
    if not 0 < value <= 3600:
        raise PlaceError(VARIABLE, f"its value {text!r} must be a number of seconds above 0 and up to 3600")
    return value
