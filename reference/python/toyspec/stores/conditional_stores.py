"""Stores that take a condition with a write, through obstore: those of Google and Azure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import obstore
from obstore.exceptions import AlreadyExistsError

from toyspec.places.place import ChangedError, Entry
from toyspec.stores.object_stores import ObjectPlace, reported

if TYPE_CHECKING:
    from toyspec.places.place import Place
    from toyspec.stores.spans import Span
    from toyspec.stores.targets import Readable

BLOCK_BYTES = 8 << 20
WHOLE_BYTES = 256 << 20
"""Size of an object up to which it is sent in one request, which can have a condition."""


class ConditionalStore:
    """A store whose objects are sent whole."""

    def __init__(self, place: Place) -> None:
        assert isinstance(place, ObjectPlace)
        self.place: Readable = place
        self._objects = place

    def can_extend(self, entry: Entry) -> bool:
        """See Target."""
        del entry
        return False

    def put(self, span: Span, address: str, known: Entry | None) -> Entry:
        """See Target. Above 256 MiB, the condition is asked for before the first byte is sent, and not again."""
        mode = self._mode(address, known)
        store, key = self._objects.store, self._objects.key(address)
        data = span.data() if span.size <= WHOLE_BYTES else None
        with reported(address):
            try:
                if data is None:
                    made = obstore.put(store, key, span.blocks(BLOCK_BYTES), chunk_size=BLOCK_BYTES)
                else:
                    made = obstore.put(store, key, data, mode=cast("Any", mode), use_multipart=False)
            except AlreadyExistsError:
                raise ChangedError(address) from None
        return Entry(address, span.size, made["e_tag"] or "")

    def extend(self, base: Entry, span: Span, address: str, known: Entry | None) -> Entry:
        """Send the whole file: these stores are not asked to join objects."""
        del base
        return self.put(span._replace(start=0), address, known)

    def copy(self, base: Entry, address: str) -> None:
        """See Target."""
        key = self._objects.key
        with reported(address):
            try:
                obstore.copy(self._objects.store, key(base.address), key(address), overwrite=False)
            except AlreadyExistsError:
                raise ChangedError(address) from None

    def _mode(self, address: str, known: Entry | None) -> Any:
        """Return the condition of a write; raise ChangedError where it does not hold already."""
        try:
            with reported(address):
                found = obstore.head(self._objects.store, self._objects.key(address))
        except FileNotFoundError:
            found = None
        if known is None and found is None:
            return "create"
        if known is None or found is None or found["e_tag"] != known.identity:
            raise ChangedError(address)
        # Google's store asks for the generation, which a list does not give.
        return {name: found[name] for name in ("e_tag", "version") if found[name] is not None}
