"""Containers of Azure, whose block blobs grow by new blocks: through signed addresses, since obstore adds no blocks."""

from __future__ import annotations

import base64
import binascii
import re
import secrets
import time
import urllib.error
import urllib.request
from datetime import timedelta
from http import HTTPStatus
from http.client import HTTPException
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

import obstore
from obstore.exceptions import BaseError

from toyspec.errors import PlaceError
from toyspec.places.object_stores import fact_of
from toyspec.places.place import ChangedError, Entry
from toyspec.sync.stores import BLOCK_BYTES, WHOLE_BYTES, ConditionalStore
from toyspec.sync.targets import CannotExtendError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Literal

    from toyspec.places.place import Place
    from toyspec.sync.spans import Span

LEAST_BYTES = 256 << 10
"""Size of an object from which on it is written in blocks; a smaller one is sent whole."""

MOST_BLOCKS = 40_000
"""Number of blocks from which on the small ones are joined; Azure takes 50,000."""

_LEAST_KEPT_BYTES = 4 << 20
_ID_BYTES = 32
_LEAST_ID_BYTES = 16
_VALID = timedelta(hours=1)
_ATTEMPTS = 5
_BACK_OFF_SECONDS = 0.2
# obstore signs the escaped name, and Azure checks the signature of the name that was not escaped.
_SIGNABLE = re.compile(r"[A-Za-z0-9/._=,+-]*")
_BLOCK = re.compile(rb"<Name>([^<]+)</Name>\s*<Size>(\d+)</Size>")
_CHANGED = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.PRECONDITION_FAILED)
_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED)


class _Answer(NamedTuple):
    status: int
    body: bytes
    tag: str


class AzureContainer(ConditionalStore):
    """A container that is written with conditions, and whose blobs grow by blocks."""

    least_extended = LEAST_BYTES

    def __init__(self, place: Place, *, seconds: float) -> None:
        """Each attempt at a request takes at most *seconds*."""
        super().__init__(place)
        self._seconds = seconds
        self._can_sign = True

    def can_extend(self, entry: Entry) -> bool:
        """See Target."""
        return self._has_blocks(entry.address, entry.size)

    def _has_blocks(self, address: str, size: int) -> bool:
        is_signable = _SIGNABLE.fullmatch(self._objects.key(address)) is not None
        return self._can_sign and is_signable and size >= self.least_extended

    def put(self, span: Span, address: str, known: Entry | None) -> Entry:
        """See Target. From 256 KiB to 256 MiB in blocks of this class, where the credentials can sign."""
        if span.size <= WHOLE_BYTES and self._has_blocks(address, span.size):
            try:
                return self._written([], span, address, known)
            except CannotExtendError:
                pass
        return super().put(span, address, known)

    def extend(self, base: Entry, span: Span, address: str, known: Entry | None) -> Entry:
        """See Target. Once in 40,000 times, small blocks are sent again as large ones."""
        if base.address != address:
            raise CannotExtendError(address)
        blocks = self._committed(base)
        if len(blocks) >= MOST_BLOCKS:
            small = [at for at, (_, size) in enumerate(blocks) if size < _LEAST_KEPT_BYTES]
            blocks = blocks[: small[0]] if small else blocks
            if len(blocks) >= MOST_BLOCKS:
                raise CannotExtendError(address)
            span = span._replace(start=sum(size for _, size in blocks))
        return self._written([name for name, _ in blocks], span, address, known)

    def _committed(self, base: Entry) -> list[tuple[str, int]]:
        """Return names and sizes of the blocks of *base*; raise CannotExtendError where it has none to continue."""
        found = self._asked("GET", base.address, "comp=blocklist&blocklisttype=committed")
        if found.tag and found.tag.strip('"') != base.identity.strip('"'):
            raise ChangedError(base.address)
        _demand(found, base.address)
        blocks = [(name.decode(), int(size)) for name, size in _BLOCK.findall(found.body)]
        if not blocks or sum(size for _, size in blocks) != base.size or _id_bytes(blocks[0][0]) < _LEAST_ID_BYTES:
            raise CannotExtendError(base.address)
        return blocks

    def _written(self, kept: list[str], span: Span, address: str, known: Entry | None) -> Entry:
        """Make the committed blocks *kept* and *span* after them the blob, if it is still *known*."""
        # All names in a blob have one length. They are never used twice, so two writers do not mix their blocks.
        length = _id_bytes(kept[0]) if kept else _ID_BYTES
        names = []
        for data in span.blocks(BLOCK_BYTES):
            names.append(base64.b64encode(secrets.token_hex(length)[:length].encode()).decode())
            made = self._asked("PUT", address, f"comp=block&blockid={quote(names[-1], safe='')}", data)
            if made.status == HTTPStatus.BAD_REQUEST:
                # An upload of another program that was not finished has names of another length.
                raise CannotExtendError(address)
            _demand(made, address)
        condition = {"If-None-Match": "*"} if known is None else {"If-Match": '"{}"'.format(known.identity.strip('"'))}
        made = self._asked("PUT", address, "comp=blocklist", _list_of(kept, names), condition)
        if made.status == HTTPStatus.BAD_REQUEST:
            # Another writer was faster: its list has removed the new blocks of this one.
            raise ChangedError(address)
        _demand(made, address)
        return Entry(address, span.stop, made.tag)

    def _asked(
        self,
        method: Literal["GET", "PUT"],
        address: str,
        query: str,
        data: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> _Answer:
        """Return the answer to a request; raise CannotExtendError, from now on always, where signing is not allowed."""
        try:
            url = obstore.sign(self._objects.store, method, self._objects.key(address), _VALID)
        except (BaseError, ValueError, OSError):
            self._can_sign = False
            raise CannotExtendError(address) from None
        content = {"Content-Type": "application/octet-stream", **(headers or {})}
        # The scheme is that of the endpoint, which obstore has accepted.
        request = urllib.request.Request(f"{url}&{query}", data, content, method=method)  # noqa: S310
        answer = self._answer(request, address)
        if answer.status in _REFUSED:
            self._can_sign = False
            raise CannotExtendError(address)
        return answer

    def _answer(self, request: urllib.request.Request, address: str) -> _Answer:
        """Return the answer; after the last attempt, raise PlaceError without the address that was signed."""
        fact = ""
        for attempt in range(_ATTEMPTS):
            time.sleep(_BACK_OFF_SECONDS * attempt**2)
            try:
                with urllib.request.urlopen(request, timeout=self._seconds) as answer:  # noqa: S310
                    return _Answer(answer.status, answer.read(), answer.headers.get("ETag") or "")
            except urllib.error.HTTPError as error:
                with error:
                    if not _is_passing(error.code):
                        return _Answer(error.code, b"", "")
                    fact = f"status code: {error.code} "
            except TimeoutError:
                fact = "timed out"
            except (OSError, HTTPException):
                fact = "Connect"
        raise PlaceError(address, fact_of(fact)) from None


def _is_passing(status: int) -> bool:
    return status == HTTPStatus.TOO_MANY_REQUESTS or (
        status >= HTTPStatus.INTERNAL_SERVER_ERROR and status not in _REFUSED
    )


def _demand(answer: _Answer, address: str) -> None:
    """Raise ChangedError or PlaceError unless the request was done."""
    if answer.status in _CHANGED:
        raise ChangedError(address)
    if answer.status not in (HTTPStatus.OK, HTTPStatus.CREATED):
        raise PlaceError(address, fact_of(f"status code: {answer.status} "))


def _id_bytes(name: str) -> int:
    """Return how long the name of a block is before it is encoded; 0 for one that this program cannot continue."""
    try:
        return len(base64.b64decode(name, validate=True))
    except (binascii.Error, ValueError):
        return 0


def _list_of(kept: Iterable[str], names: Iterable[str]) -> bytes:
    items = [f"<Committed>{name}</Committed>" for name in kept]
    items += [f"<Uncommitted>{name}</Uncommitted>" for name in names]
    return f'<?xml version="1.0" encoding="utf-8"?><BlockList>{"".join(items)}</BlockList>'.encode()
