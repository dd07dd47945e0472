"""Opens places: obstore for object stores and web servers, fsspec for everything else; imported when first used."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

from toyspec.errors import PlaceError
from toyspec.places.addresses import BUCKETS, parts_of, secret_of

if TYPE_CHECKING:
    from toyspec.places.place import Place

VARIABLE = "TOYSPEC_REMOTE_SECONDS"
"""The environment variable that limits a request: the number of seconds that it may take with its retries."""

_DEFAULT_SECONDS = 60.0
_STORES = BUCKETS | {"http", "https"}


def place_of(address: str) -> Place:
    """Return the place that *address* is in; raise PlaceError if no package that reaches it is installed."""
    scheme, host, _ = parts_of(address)
    user, query = secret_of(address)
    if scheme in BUCKETS and user:
        fact = "credentials in an address are not used; give them in the environment, for example AWS_ACCESS_KEY_ID"
        raise PlaceError(address, fact)
    if scheme in BUCKETS and not host:
        raise PlaceError(address, f"it has no bucket; write {scheme}://BUCKET/PATH")
    if scheme in _STORES:
        return _store(scheme, user + host, query)
    return _file_system(scheme, user + host, address)


@cache
def _store(scheme: str, host: str, query: str) -> Place:
    try:
        from toyspec.places.object_stores import open_store
    except ImportError:
        raise PlaceError(f"{scheme}://{host.rpartition('@')[2]}", _needs("obstore")) from None
    return open_store(scheme, host, query, seconds=request_seconds())


@cache
def _known_file_system(scheme: str, host: str) -> Place:
    from toyspec.places.file_systems import open_file_system

    return open_file_system(scheme, host)


def _file_system(scheme: str, host: str, address: str) -> Place:
    try:
        return _known_file_system(scheme, host)
    except ModuleNotFoundError as error:
        if error.name == "fsspec":
            raise PlaceError(address, _needs("fsspec")) from None
        raise PlaceError(address, f"{scheme}:// needs {error.name}: python -m pip install {error.name}") from None
    except ImportError as error:
        raise PlaceError(address, f"{scheme}:// needs another package: {error}") from None
    except ValueError:
        known = ", ".join(f"{name}://" for name in sorted(_STORES))
        fact = f"{scheme}:// is not known to toyspec ({known}) or to fsspec; write ./ before the path of a file"
        raise PlaceError(address, fact) from None


def _needs(package: str) -> str:
    return f"reading it needs {package}; install it with `python -m pip install 'toyspec[remote]'`"


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
