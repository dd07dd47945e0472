"""Containers of Azure, whose block blobs grow by new blocks: through azure-storage-blob, since obstore adds none."""

from __future__ import annotations

import contextlib
import os
import secrets
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from azure.core import MatchConditions
from azure.core.credentials import AzureSasCredential
from azure.core.exceptions import AzureError, HttpResponseError
from azure.storage.blob import BlobBlock, ContainerClient, ContentSettings, LinearRetry

from toyspec.errors import PlaceError
from toyspec.places.object_stores import fact_of
from toyspec.places.place import ChangedError, Entry, MalformedAnswerError
from toyspec.sync.stores import BLOCK_BYTES, WHOLE_BYTES, ConditionalStore
from toyspec.sync.targets import CannotExtendError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.places.place import Place
    from toyspec.sync.spans import Span

LEAST_BYTES = 256 << 10
"""Size of an object from which on it is written in blocks; a smaller one is sent whole."""

MOST_BLOCKS = 40_000
"""Number of blocks from which on the small ones are joined; Azure takes 50,000."""

_LEAST_KEPT_BYTES = 4 << 20
_ID_BYTES = 32
_LEAST_ID_BYTES = 16
_RETRIES = 4
_BACK_OFF_SECONDS = 1.0
_CONNECT_SECONDS = 10.0
_CONTENT = "application/octet-stream"
_CHANGED = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.PRECONDITION_FAILED)
_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED)
# The names that obstore knows, which reads what is here.
_ACCOUNTS = ("AZURE_STORAGE_ACCOUNT_NAME",)
_KEYS = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_MASTER_KEY")
_SIGNATURES = ("AZURE_STORAGE_SAS_KEY", "AZURE_STORAGE_SAS_TOKEN")
_ENDPOINTS = ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")


class AzureContainer(ConditionalStore):
    """A container that is written with conditions, and whose blobs grow by blocks."""

    least_extended = LEAST_BYTES

    def __init__(self, name: str, place: Place, *, seconds: float) -> None:
        """Take the settings of the environment; each attempt at a request takes at most *seconds*."""
        super().__init__(place)
        self._client = _client(name, seconds)
        self._has_blocks = self._client is not None

    def can_extend(self, entry: Entry) -> bool:
        """See Target."""
        return self._has_blocks and entry.size >= self.least_extended

    def put(self, span: Span, address: str, known: Entry | None) -> Entry:
        """See Target. From 256 KiB to 256 MiB in blocks of this class, where the credentials allow them."""
        if self._has_blocks and self.least_extended <= span.size <= WHOLE_BYTES:
            try:
                return self._written([], span, address, known)
            except CannotExtendError:
                pass
        return super().put(span, address, known)

    def extend(self, base: Entry, span: Span, address: str, known: Entry | None) -> Entry:
        """See Target. Once in 40,000 times, small blocks are sent again as large ones."""
        if base.address != address:
            raise CannotExtendError(address)
        blocks = self._committed(address)
        names = [block.id for block in blocks]
        if not names or sum(block.size for block in blocks) != base.size or len(names[0].encode()) < _LEAST_ID_BYTES:
            raise CannotExtendError(address)
        if len(blocks) >= MOST_BLOCKS:
            small = [at for at, block in enumerate(blocks) if block.size < _LEAST_KEPT_BYTES]
            blocks = blocks[: small[0]] if small else blocks
            if len(blocks) >= MOST_BLOCKS:
                raise CannotExtendError(address)
            span = span._replace(start=sum(block.size for block in blocks))
        return self._written([block.id for block in blocks], span, address, known)

    def _written(self, kept: list[str], span: Span, address: str, known: Entry | None) -> Entry:
        """Make the committed blocks *kept* and *span* after them the blob, if it is still *known*."""
        # All names in a blob have one length. They are never used twice, so two writers do not mix their blocks.
        length = len(kept[0].encode()) if kept else _ID_BYTES
        names = []
        for data in span.blocks(BLOCK_BYTES):
            names.append(secrets.token_hex(length)[:length])
            self._stage(address, names[-1], data)
        return Entry(address, span.stop, self._commit(address, [*kept, *names], known))

    def _committed(self, address: str) -> list[Any]:
        """Return the blocks of a blob in their order."""
        with self._reported(address, "list of blocks"):
            return list(self._blob(address).get_block_list("committed")[0])

    def _stage(self, address: str, name: str, data: bytes) -> None:
        """Send a block, which is of no blob until it is committed."""
        with self._reported(address, "content"):
            self._blob(address).stage_block(name, data, length=len(data))

    def _commit(self, address: str, names: list[str], known: Entry | None) -> str:
        """Make the blocks *names* the blob, if it is still *known*; return its tag."""
        condition: dict[str, Any] = {"match_condition": MatchConditions.IfMissing}
        if known is not None:
            tag = known.identity.strip('"')
            condition = {"match_condition": MatchConditions.IfNotModified, "etag": f'"{tag}"'}
        with self._reported(address, "ETag"):
            made = self._blob(address).commit_block_list(
                list(map(BlobBlock, names)), content_settings=ContentSettings(content_type=_CONTENT), **condition
            )
        if not made.get("etag"):
            raise MalformedAnswerError(address, "ETag")
        return str(made["etag"])

    def _blob(self, address: str) -> Any:
        return self._client.get_blob_client(self._objects.key(address))

    @contextlib.contextmanager
    def _reported(self, address: str, wanted: str) -> Iterator[None]:
        """Raise what the client raises as an error of the place, without addresses, answers and keys.

        Raises CannotExtendError, from now on always, where blocks are not allowed.
        """
        try:
            yield
        except HttpResponseError as error:
            status = error.status_code or 0
            if status < HTTPStatus.MULTIPLE_CHOICES:
                raise MalformedAnswerError(address, wanted) from None
            if status in _CHANGED:
                raise ChangedError(address) from None
            if status in _REFUSED:
                self._has_blocks = False
            if status in _REFUSED or status == HTTPStatus.BAD_REQUEST:
                # Also: another writer was faster, or an unfinished upload of another program has other names.
                raise CannotExtendError(address) from None
            raise PlaceError(address, fact_of(f"status code: {status} ")) from None
        except (AttributeError, KeyError, TypeError, ValueError):
            # The client takes an empty answer for one with a content.
            raise MalformedAnswerError(address, wanted) from None
        except AzureError as error:
            raise PlaceError(address, fact_of("timed out" if "timed out" in str(error) else "Connect")) from None


def _client(container: str, seconds: float) -> Any:
    """Return a client of the *container*; None without credentials for it, so that streams are sent whole."""
    account, endpoint = _setting(_ACCOUNTS), _setting(_ENDPOINTS)
    credential = _credential(account)
    if credential is None or not (account or endpoint):
        return None
    retries = dict.fromkeys(("retry_connect", "retry_read", "retry_status"), _RETRIES)
    return ContainerClient(
        endpoint or f"https://{account}.blob.core.windows.net",
        container,
        credential=credential,
        retry_policy=LinearRetry(backoff=_BACK_OFF_SECONDS, random_jitter_range=0, retry_total=_RETRIES, **retries),
        connection_timeout=min(_CONNECT_SECONDS, seconds),
        read_timeout=seconds,
    )


def _credential(account: str) -> Any:
    key, signature = _setting(_KEYS), _setting(_SIGNATURES)
    if key:
        return {"account_name": account, "account_key": key}
    if signature:
        return AzureSasCredential(signature.removeprefix("?"))
    try:
        from azure.identity import DefaultAzureCredential
    except ImportError:
        return None
    return DefaultAzureCredential()


def _setting(names: tuple[str, ...]) -> str:
    return next((os.environ[name] for name in names if os.environ.get(name)), "")
