"""Addresses such as ``s3://bucket/runs/a``: which texts are addresses, their parts, and what of them is secret.

An address may carry credentials: ``https://user:password@host/…`` or the signature in the query of a presigned one.
``public`` takes them off and remembers them for this process, so that no message, report or file has them;
``without_secrets`` takes them off an address that is shown or kept, and not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

BUCKETS = frozenset(["s3", "s3a", "gs", "az"])
"""The schemes whose host is a bucket or a container of an account, of which the environment has the credentials."""
WEB = ("http", "https")
"""The schemes of web servers, which have no list of files."""
# The name before the @ is a container, not a user.
_CONTAINER_FIRST = ("abfs", "abfss")


_users: dict[str, str] = {}
_queries: dict[str, str] = {}


def is_address(path: str) -> bool:
    """Return whether *path* is an address and not a path of the file system; ``./`` before it makes it a path."""
    scheme, mark, _ = path.partition("://")
    return mark != "" and len(scheme) > 1 and scheme.isascii() and scheme[0].isalpha() and _is_plain(scheme)


def is_nearly_address(path: str) -> bool:
    """Return whether *path* is one slash short of the address of a store: a path of this name was hardly meant."""
    scheme, mark, rest = path.partition(":/")
    return mark != "" and scheme in BUCKETS and not rest.startswith("/")


def _is_plain(scheme: str) -> bool:
    return scheme.replace("+", "").replace("-", "").replace(".", "").isalnum()


def public(path: str) -> str:
    """Return the address *path* without credentials and without a slash at its end; a path unchanged.

    What was taken off is used when the result, or an address below it, is read.
    """
    address, user, query = _apart(path)
    if query:
        _queries[address] = query
    if user:
        scheme, host, _ = parts_of(address)
        # In the address of a bucket it is not used but refused, which must not refuse all that is in the bucket.
        _users[address if scheme in BUCKETS else f"{scheme}://{host}"] = user
    return address


def without_secrets(path: str) -> str:
    """Return what ``public`` does, and remember nothing."""
    return _apart(path)[0]


def _apart(path: str) -> tuple[str, str, str]:
    """Return *path* as ``public`` does, and the user and the query that are taken off."""
    if not is_address(path):
        return path, "", ""
    scheme, _, rest = path.partition("://")
    scheme = scheme.lower()
    query = ""
    if scheme in WEB:
        rest = rest.partition("#")[0]
        rest, mark, text = rest.partition("?")
        query = mark + text
    host, slash, key = rest.partition("/")
    user, at, bare = host.rpartition("@")
    if at and scheme not in _CONTAINER_FIRST:
        user, host = user + at, bare
    else:
        user = ""
    return f"{scheme}://{host}{slash}{key}".rstrip("/"), user, query


def secret_of(address: str) -> tuple[str, str]:
    """Return the user and the query that were taken off *address*; empty without any.

    A user is that of the whole host, in a bucket of all below the address, of which a query is in any case.
    """
    return _of_nearest(address, _users), _of_nearest(address, _queries)


def _of_nearest(address: str, known: Mapping[str, str]) -> str:
    """Return what is known of *address*, or of the nearest one above it; empty without anything."""
    above = address
    while known and above not in known and not above.endswith("/"):
        above = above.rpartition("/")[0]
    return known.get(above, "")


class AddressParts(NamedTuple):
    """The parts of an address."""

    scheme: str
    host: str
    """The bucket, container or server, with its port."""
    key: str
    """The path without a slash at its start."""


def parts_of(address: str) -> AddressParts:
    """Return the parts of *address*."""
    scheme, _, rest = address.partition("://")
    host, _, key = rest.partition("/")
    return AddressParts(scheme, host, key)


def path_in(path: str, name: str) -> str:
    """Return the address or the path of *name* in the directory *path*, on every system with its own separator."""
    if is_address(path):
        return f"{path.rstrip('/')}/{name}"
    import os

    return os.path.join(path, name)
