"""Object stores and web servers, through obstore, which retries with back-off what may pass."""

from __future__ import annotations

import contextlib
import re
from datetime import timedelta
from errno import EACCES, EIO, ENOENT
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import AzureStore, GCSStore, HTTPStore, S3Store

from toyspec.core.errors import PlaceError
from toyspec.core.escaping import shortened
from toyspec.core.places.addresses import WEB, parts_of
from toyspec.core.places.place import (
    ChangedError,
    Entry,
    FetchedBytes,
    MalformedAnswerError,
    NotAPathError,
    RangesMissingError,
    request_seconds,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.stores.transfers import LocalFile

_BLOCK_BYTES = 8 << 20
# Up to this size an object is sent in one request, which can have a condition.
_WHOLE_BYTES = 256 << 20

_STATUS = re.compile(r"status code: (\d{3})(?: ([A-Za-z' -]+))?")
_NO_PATH = re.compile(r'Path "(.*?)"', re.DOTALL)
_SHOWN_CHARS = 80
_RETRIES = re.compile(r"after (\d+) retries")
_MOST_RETRIES = 8
_CONNECT_SECONDS = 10.0
_BEYOND = ("StartTooLarge", "status code: 416")
_NO_TAG = "ETag Header missing"
_METADATA_HOSTS = ("169.254.169.254", "169.254.170.2", "metadata.google.internal")
# The variable that names credentials, by a word in the message of each store; the last is for all others.
_CREDENTIALS = (
    ("GCS", "GOOGLE_APPLICATION_CREDENTIALS"),
    ("MicrosoftAzure", "AZURE_STORAGE_ACCOUNT_KEY"),
    ("", "AWS_ACCESS_KEY_ID"),
)

_MEANING = {
    "400": "check the address, the region and the credentials",
    "401": "the credentials are missing or wrong",
    "403": "the credentials do not allow it, or are missing",
    "404": "check the name of the bucket",
    "405": "the server does not offer this",
    "429": "the server wants fewer requests; try again later",
    "501": "the server does not offer this",
}

_PASSING = "the server has a problem; try again later"
_WAIT = "try again, or set TOYSPEC_REMOTE_SECONDS to wait longer"
_CHECK = "check the address and the connection"

# Words in a message without a status, the fact, and what to do; the first that fits counts.
_FACTS = (
    (("TimedOut", "timed out"), "no answer in time", _WAIT),
    (("dns error",), "the host is not known", _CHECK),
    (("error sending request", "ConnectionRefused", "Connect"), "no connection to the host", _CHECK),
    (("body", "Content-Range", "Range request not supported"), "the answer ended early", "try again"),
    (("Account must be specified",), "the store needs an account", "set AZURE_STORAGE_ACCOUNT_NAME"),
    (("region", "Region"), "the store needs a region", "set AWS_REGION"),
)


def open_place(scheme: str, host: str, query: str) -> ObjectPlace:
    """Return the store of *host*, a bucket or a server; raise PlaceError."""
    seconds = request_seconds()
    options: dict[str, Any] = {
        "client_options": {
            # Only an address or an endpoint that the user has written as http:// is read without TLS.
            "allow_http": True,
            "connect_timeout": timedelta(seconds=min(_CONNECT_SECONDS, seconds)),
            "timeout": timedelta(seconds=seconds),
        },
        "retry_config": {"max_retries": _MOST_RETRIES, "retry_timeout": timedelta(seconds=seconds)},
    }
    address = f"{scheme}://{host.rpartition('@')[2]}"
    with reported(address):
        if scheme in WEB:
            return ObjectPlace(HTTPStore.from_url(f"{scheme}://{host}/{query}", **options), address)
        if scheme == "az":
            return ObjectPlace(AzureStore(host, **options), address)
        kind = GCSStore if scheme == "gs" else S3Store
        return ObjectPlace(kind(host, **options), address)


class ObjectPlace:
    """The objects of one bucket or server; those of a bucket are written whole, on conditions. A Target."""

    appends = False

    def __init__(self, store: Any, root: str) -> None:
        self._store = store
        self._root = root
        self._is_web = parts_of(root).scheme in WEB

    def entries(self, address: str) -> Iterator[Entry]:
        """See Place."""
        self._demand_list(address)
        with reported(address):
            for page in obstore.list(self._store, self._key(address) or None):
                for found in page:
                    yield self._entry(f"{self._root}/{found['path']}", cast("dict[str, Any]", found))

    def names(self, address: str) -> list[str]:
        """See Place."""
        self._demand_list(address)
        with reported(address):
            found = obstore.list_with_delimiter(self._store, self._key(address) or None)
        files = [each["path"].rpartition("/")[2] for each in found["objects"]]
        return sorted([*files, *(f"{prefix.rpartition('/')[2]}/" for prefix in found["common_prefixes"])])

    def _demand_list(self, address: str) -> None:
        if self._is_web:
            raise PlaceError(address, "a web server has no list of files; name the directory of one run, or its stream")

    def status(self, address: str) -> Entry:
        """See Place."""
        with reported(address):
            return self._entry(address, cast("dict[str, Any]", obstore.head(self._store, self._key(address))))

    def read_range(self, address: str, offset: int, size: int, identity: str | None) -> FetchedBytes:
        """See Place."""
        options: dict[str, Any] = {"range": (offset, offset + size)}
        if identity is not None and identity.startswith('"'):
            options["if_match"] = identity
        try:
            with reported(address):
                result = obstore.get(self._store, self._key(address), options=cast("Any", options))
                entry = self._entry(address, cast("dict[str, Any]", result.meta))
                data = bytes(result.bytes())
        except _BeyondError:
            entry, data = self.status(address), b""
        if identity is not None and entry.identity != identity:
            raise ChangedError(address)
        return FetchedBytes(data, entry)

    def _key(self, address: str) -> str:
        key = parts_of(address).key
        return unquote(key) if self._is_web else key

    def put(self, file: LocalFile, address: str, known: Entry | None, shared: int = 0) -> Entry:
        """See Target. Above 256 MiB, the condition is asked for before the first byte is sent, and not again."""
        del shared
        mode = self._mode(address, known)
        key = self._key(address)
        data = file.read(0, file.stop) if file.stop <= _WHOLE_BYTES else None
        with reported(address):
            try:
                if data is None:
                    made = obstore.put(self._store, key, file.blocks(_BLOCK_BYTES), chunk_size=_BLOCK_BYTES)
                else:
                    made = obstore.put(self._store, key, data, mode=cast("Any", mode), use_multipart=False)
            except AlreadyExistsError:
                raise ChangedError(address) from None
            except FileNotFoundError:
                # The object was there a moment ago; without one, it is its bucket that is not.
                fact = fact_of("status code: 404 Not Found")
                raise (ChangedError(address) if known else PlaceError(address, fact)) from None
        return Entry(address, file.stop, made["e_tag"] or "")

    def copy(self, base: Entry, address: str) -> None:
        """See Target; S3 knows no condition for it, and may answer with status 200 that it failed."""
        with reported(address):
            obstore.copy(self._store, self._key(base.address), self._key(address))
        with contextlib.suppress(FileNotFoundError):
            if self.status(address).size == base.size:
                return
        raise MalformedAnswerError(address, "copy of the object")

    def _mode(self, address: str, known: Entry | None) -> Any:
        """Return the condition of a write; raise ChangedError where it does not hold already."""
        try:
            with reported(address):
                found = obstore.head(self._store, self._key(address))
        except FileNotFoundError:
            found = None
        if known is None and found is None:
            return "create"
        if known is None or found is None or found["e_tag"] != known.identity:
            raise ChangedError(address)
        # Google's store asks for the generation, which a list does not give.
        return {name: found[name] for name in ("e_tag", "version") if found[name] is not None}

    @staticmethod
    def _entry(address: str, meta: dict[str, Any]) -> Entry:
        changed = meta["last_modified"]
        return Entry(address, meta["size"], meta.get("e_tag") or changed.isoformat())


class _BeyondError(Exception):
    """The range begins at the end of the object or after it."""


@contextlib.contextmanager
def reported(address: str) -> Iterator[None]:
    """Raise what obstore raises as an error of the place, without addresses, answers and keys, which may be secret."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(ENOENT, "No such object", address) from None
    except PreconditionError:
        raise ChangedError(address) from None
    except NotSupportedError as error:
        if "Range request not supported" in str(error):
            raise RangesMissingError(address) from None
        raise PlaceError(address, "the store does not offer this") from None
    except InvalidPathError as error:
        found = _NO_PATH.search(str(error))
        raise NotAPathError(address, shortened(found[1], _SHOWN_CHARS) if found else "") from None
    except (BaseError, ValueError, OSError) as error:
        if isinstance(error, PlaceError):
            raise
        text = str(error)
        if any(mark in text for mark in _BEYOND):
            raise _BeyondError from None
        if _NO_TAG in text:
            raise MalformedAnswerError(address, "ETag") from None
        refused = isinstance(error, PermissionDeniedError | UnauthenticatedError)
        raise PlaceError(address, fact_of(text), number=EACCES if refused else EIO) from None


def fact_of(text: str) -> str:
    """Return what happened, with what to do, from the message *text* of obstore."""
    retries = _RETRIES.search(text)
    tried = f" after {retries[1]} retries" if retries and retries[1] != "0" else ""
    if any(host in text for host in _METADATA_HOSTS):
        variable = next(name for word, name in _CREDENTIALS if word in text)
        return f"no credentials found; set them as for the program of the store, for example {variable}"
    status = _STATUS.search(text)
    if status is not None:
        code, words = status[1], (status[2] or "").strip()
        advice = _MEANING.get(code, _PASSING if code >= "500" else "check the address")
        return f"{code} {words}{tried}: {advice}" if words else f"{code}{tried}: {advice}"
    marks = ((fact, advice) for words, fact, advice in _FACTS if any(word in text for word in words))
    fact, advice = next(marks, ("the store failed", "check the address and the credentials"))
    return f"{fact}{tried}; {advice}"
