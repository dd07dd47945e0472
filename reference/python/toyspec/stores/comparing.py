"""Compares a file with an object, of which it reads as little as tells them apart."""

from __future__ import annotations

import re
from hashlib import md5, sha1, sha256
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from toyspec.core.places.place import Entry
    from toyspec.stores.spans import LocalFile
    from toyspec.stores.targets import Readable

Relation = Literal["same", "behind", "ahead", "other"]
"""How an object is to a file: the same bytes, the first ones of it, all of it and more, or other ones."""

Thoroughness = Literal["ends", "all"]
"""Which bytes are compared: the first and the last ones that both have, or all of them."""

_DIGEST = re.compile(r"[0-9a-f]{32}|git:[0-9a-f]{40}|sha256:[0-9a-f]{64}")
_WHOLE_BYTES = 1 << 16
_END_BYTES = 1 << 12
_BLOCK_BYTES = 8 << 20


def relation(file: LocalFile, entry: Entry, place: Readable, thoroughness: Thoroughness = "ends") -> Relation:
    """Return how the object *entry* of *place* is to *file*, as far as that may be sent.

    Raises ChangedError where it is another object meanwhile, and ShortenedError.
    """
    shared = min(entry.size, file.stop)
    if not all(_is_equal(file, entry, place, start, end) for start, end in _pieces(shared, thoroughness)):
        return "other"
    if entry.size == file.stop:
        return "same"
    return "behind" if entry.size < file.stop else "ahead"


def has_digest_of(entry: Entry, file: LocalFile) -> bool:
    """Return whether the store's tag of *entry* is the digest of what may be sent of *file*.

    It is an MD5 digest, ``sha256:`` with one, or ``git:`` with the name of a blob. Size and time show no difference:
    two starts of a run write logs of one size, and clocks differ. Stores that give other tags are asked for bytes.
    Raises ShortenedError.
    """
    tag = entry.identity.strip('"')
    if entry.size != file.stop or _DIGEST.fullmatch(tag) is None:
        return False
    kind, _, name = tag.rpartition(":")
    digest = sha256() if kind == "sha256" else (sha1 if kind else md5)(usedforsecurity=False)
    if kind == "git":
        digest.update(b"blob %d\0" % file.stop)
    for block in file.span().blocks(_BLOCK_BYTES):
        digest.update(block)
    return digest.hexdigest() == name


def _pieces(shared: int, thoroughness: Thoroughness) -> list[tuple[int, int]]:
    if not shared:
        return []
    if shared <= _WHOLE_BYTES:
        return [(0, shared)]
    if thoroughness == "ends":
        return [(shared - _END_BYTES, shared), (0, _END_BYTES)]
    return [(start, min(start + _BLOCK_BYTES, shared)) for start in range(0, shared, _BLOCK_BYTES)]


def _is_equal(file: LocalFile, entry: Entry, place: Readable, start: int, end: int) -> bool:
    found = place.read_range(entry.address, start, end - start, entry.identity or None).data
    return found == file.read(start, end - start)


def ends_of(file: LocalFile, size: int) -> bytes:
    """Return the first and the last of the first *size* bytes of *file*; others with other content, most likely."""
    part = min(size, _END_BYTES)
    return file.read(0, part) + file.read(size - part, part)
