"""The writing half of the loopback store: objects and copies, on conditions; as S3 and Google."""

from __future__ import annotations

import time
from hashlib import md5
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from loopback_store import Handler, Store


def take(handler: Handler, body: bytes) -> None:
    """Answer a request that changes the store."""
    key, store = unquote(urlsplit(handler.path).path).lstrip("/"), handler.store
    source = handler.headers.get("x-amz-copy-source")
    with store.lock:
        # Nothing here deletes an object.
        assert handler.command == "PUT"
        if not _is_allowed(handler, store.objects.get(key)):
            handler.answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
            return
        _keep(store, key, body if source is None else store.objects[unquote(source).lstrip("/")])
        answer = b"" if source is None else f"<CopyObjectResult><ETag>{tag_of(body)}</ETag></CopyObjectResult>".encode()
        handler.answer(200, answer, _headers(store, key))


def _is_allowed(handler: Handler, data: bytes | None) -> bool:
    wanted, generation = handler.headers.get("If-Match"), handler.headers.get("x-goog-if-generation-match")
    if handler.headers.get("If-None-Match") == "*" and data is not None:
        return False
    if wanted is not None and (data is None or wanted != tag_of(data)):
        return False
    key = unquote(urlsplit(handler.path).path).lstrip("/")
    return generation is None or int(generation) == (handler.store.generations.get(key, 1) if data is not None else 0)


def _keep(store: Store, key: str, data: bytes) -> None:
    """Replace the object."""
    store.objects[key] = data
    store.times[key] = time.time()
    store.generations[key] = store.generations.get(key, 1) + 1
    store.kept(key.partition("/")[2], data)


def _headers(store: Store, key: str) -> dict[str, str]:
    return {"ETag": tag_of(store.objects[key]), "x-goog-generation": str(store.generations[key])}


def tag_of(data: bytes) -> str:
    """Return the entity tag of an object."""
    return f'"{md5(data).hexdigest()}"'
