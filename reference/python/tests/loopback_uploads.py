"""The writing half of the loopback store: conditions, uploads in parts, copies of ranges; as S3 and Google."""

from __future__ import annotations

import re
import time
from hashlib import md5
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

if TYPE_CHECKING:
    from loopback_store import Handler, Store

_PART = re.compile(rb"<PartNumber>(\d+)</PartNumber>")


def take(handler: Handler, body: bytes) -> None:
    """Answer a request that changes the store."""
    parts = urlsplit(handler.path)
    key, query = unquote(parts.path).lstrip("/"), parse_qs(parts.query, keep_blank_values=True)
    store, upload = handler.store, query.get("uploadId", [""])[0]
    with store.lock:
        if handler.command == "DELETE":
            # Only uploads may be given up: nothing here deletes an object.
            assert upload
            is_there = store.uploads.pop(upload, None) is not None
            handler.answer(204 if is_there else 404, b"" if is_there else b"<Error><Code>NoSuchUpload</Code></Error>")
        elif "uploads" in query:
            name = f"upload-{next(store.numbers)}"
            store.uploads[name] = {}
            handler.answer(200, f"<R><UploadId>{name}</UploadId></R>".encode())
        elif upload and upload not in store.uploads:
            handler.answer(404, b"<Error><Code>NoSuchUpload</Code></Error>")
        elif "partNumber" in query:
            _part(handler, store.uploads[upload], int(query["partNumber"][0]), body)
        elif not _is_allowed(handler, store.objects.get(key)):
            handler.answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
        else:
            if upload:
                made = store.uploads.pop(upload)
                body = b"".join(made[int(number)] for number in _PART.findall(body))
            _keep(store, key, body)
            handler.answer(200, f"<R><ETag>{tag_of(body)}</ETag></R>".encode(), _headers(store, key))


def _part(handler: Handler, upload: dict[int, bytes], number: int, body: bytes) -> None:
    source = handler.headers.get("x-amz-copy-source")
    if source is None:
        upload[number] = body
        handler.answer(200, b"", {"ETag": tag_of(body)})
        return
    data = handler.store.objects.get(unquote(source))
    if data is None or handler.headers.get("x-amz-copy-source-if-match") not in (None, tag_of(data)):
        handler.answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
        return
    first, _, last = handler.headers["x-amz-copy-source-range"].removeprefix("bytes=").partition("-")
    upload[number] = data[int(first) : int(last) + 1]
    handler.answer(200, f"<CopyPartResult><ETag>{tag_of(upload[number])}</ETag></CopyPartResult>".encode())


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
