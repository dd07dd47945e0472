"""A small object store on loopback, which speaks what toyspec needs of S3 and misbehaves when asked to."""

from __future__ import annotations

import json
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import formatdate
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from toyspec.core.places import place, remote_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

BUCKET = "bucket"
_LONG_AGO = 1_600_000_000.0
_ITEM = "<Contents><Key>{}</Key><LastModified>{}</LastModified><ETag>&quot;{}&quot;</ETag><Size>{}</Size></Contents>"


@dataclass
class Request:
    """A request, and what was sent for it."""

    method: str
    path: str
    query: str
    range: str
    sent: int = 0
    """Number of bytes of content in the answer."""


class Store:
    """The objects of the store by bucket and key, what was asked, and special answers to the next requests."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.versions: dict[str, list[bytes]] = {}
        """What was written of each object, by its key."""
        self.generations: dict[str, int] = {}
        self.times: dict[str, float] = {}
        """When an object was written by a request, in seconds since the Unix epoch; others are from long ago."""
        self.lock = threading.Lock()
        self.requests: list[Request] = []
        self.answers: list[Callable[[Handler], bool]] = []
        """Each answers one of the next requests, or returns False for the usual answer."""
        self.every: Callable[[Handler], bool] | None = None
        """A special answer to every request."""
        self.page_size = 1000
        self.has_ranges = True
        self.has_tags = True
        self.port = 0

    @property
    def endpoint(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.port}"

    def kept(self, key: str, data: bytes) -> None:
        """Keep a version of an object, for tests to look at; *key* is without the bucket."""
        self.versions.setdefault(key, []).append(data)

    def put(self, key: str, data: bytes) -> None:
        """Put an object into the bucket."""
        self.objects[f"{BUCKET}/{key}"] = data

    @property
    def sent(self) -> int:
        """Number of bytes of content in all answers."""
        return sum(request.sent for request in self.requests)

    def get(self, key: str) -> bytes | None:
        """Return what the bucket has at *key*."""
        return self.objects.get(f"{BUCKET}/{key}")

    def reads(self) -> list[Request]:
        """Return the requests for content."""
        return [request for request in self.requests if request.method == "GET" and "list-type" not in request.query]


def body_of(handler: BaseHTTPRequestHandler) -> bytes:
    """Return the content of a request; raise ConnectionResetError where its client has ended before the end of it."""
    size = int(handler.headers.get("Content-Length") or 0)
    body = handler.rfile.read(size)
    if len(body) < size:
        raise ConnectionResetError
    return body


def _tag_of(data: bytes) -> str:
    return f'"{md5(data).hexdigest()}"'


class Handler(BaseHTTPRequestHandler):
    """Answers requests."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer in two packets waits for the acknowledgement of the first
    store: Store

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        """Answer with an object, a range of it, or a list; or change the store, on the conditions of the request."""
        parts = urlsplit(self.path)
        store, key = self.store, unquote(parts.path).lstrip("/")
        try:
            body = body_of(self)
            self.request_made = Request(self.command, unquote(parts.path), parts.query, self.headers.get("Range") or "")
            # Before the answer: its reader may look at once.
            store.requests.append(self.request_made)
            special = store.every or (store.answers.pop(0) if store.answers else None)
            if special is not None and special(self):
                return
            query = parse_qs(parts.query)
            if self.command == "PUT":
                self._take(key, body)
            elif "list-type" in query:
                self._list(key.rstrip("/"), query)
            else:
                self._object(key)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_HEAD = do_PUT = do_GET  # noqa: N815 - names that the server calls

    def handle_expect_100(self) -> bool:
        """Ask for the body at once: the answer is buffered otherwise, and its client waits."""
        self.send_response_only(100)
        self.end_headers()
        self.wfile.flush()
        return True

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        """Send one answer."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.request_made.sent += len(body)
            self.wfile.write(body)

    def _object(self, key: str) -> None:
        data = self.store.objects.get(key)
        if data is None:
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        headers = {**self._tags(key), "Accept-Ranges": "bytes"}
        headers["Last-Modified"] = formatdate(self.store.times.get(key, _LONG_AGO), usegmt=True)
        if self.headers.get("If-Match") not in (None, _tag_of(data)):
            self.answer(412, b"")
            return
        wanted = self.headers.get("Range")
        if wanted is None or not self.store.has_ranges:
            self.answer(200, data, headers)
            return
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last or len(data)), len(data) - 1)
        if start >= len(data):
            self.answer(416, b"")
            return
        self.answer(206, data[start : end + 1], {**headers, "Content-Range": f"bytes {start}-{end}/{len(data)}"})

    def _tags(self, key: str) -> dict[str, str]:
        tag = {"ETag": _tag_of(self.store.objects[key])} if self.store.has_tags else {}
        return {**tag, "x-goog-generation": str(self.store.generations.get(key, 1))}

    def _take(self, key: str, body: bytes) -> None:
        """Put an object or a copy, as S3 and Google do."""
        store, headers = self.store, self.headers
        source = headers.get("x-amz-copy-source") or headers.get("x-goog-copy-source")
        with store.lock:
            if not self._is_allowed(key, store.objects.get(key)):
                self.answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
                return
            data = body if source is None else store.objects[unquote(source).lstrip("/")]
            store.objects[key], store.times[key] = data, time.time()
            store.generations[key] = store.generations.get(key, 1) + 1
            store.kept(key.partition("/")[2], data)
            answer = f"<CopyObjectResult><ETag>{_tag_of(data)}</ETag></CopyObjectResult>" if source else ""
            self.answer(200, answer.encode(), self._tags(key))

    def _is_allowed(self, key: str, data: bytes | None) -> bool:
        wanted, generation = self.headers.get("If-Match"), self.headers.get("x-goog-if-generation-match")
        if self.headers.get("If-None-Match") == "*" and data is not None:
            return False
        if wanted is not None and (data is None or wanted != _tag_of(data)):
            return False
        return generation is None or int(generation) == (0 if data is None else self.store.generations.get(key, 1))

    def _list(self, bucket: str, query: dict[str, list[str]]) -> None:
        known = sorted(name.partition("/")[2] for name in self.store.objects if name.startswith(f"{bucket}/"))
        if not known and bucket != BUCKET:
            self.answer(404, b"<Error><Code>NoSuchBucket</Code></Error>")
            return
        prefix, mark = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        keys = [key for key in known if key.startswith(prefix)]
        folders: set[str] = set()
        if mark:
            below = [key for key in keys if mark in key[len(prefix) :]]
            folders = {prefix + key[len(prefix) :].split(mark)[0] + mark for key in below}
            keys = [key for key in keys if key not in below]
        self.answer_page(
            query, len(keys), lambda at: self._item(keys[at]),
            "".join(f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in sorted(folders)),
        )  # fmt: skip

    def answer_page(
        self, query: dict[str, list[str]], count: int, item: Callable[[int], str], folders: str = ""
    ) -> None:
        """Send the page that *query* asks for of a list of *count* objects and *folders*."""
        start = int(query.get("continuation-token", ["0"])[0])
        end = min(start + self.store.page_size, count)
        token = f"<NextContinuationToken>{end}</NextContinuationToken>" if end < count else ""
        found = f"{token}{''.join(map(item, range(start, end)))}{folders}"
        body = f"<ListBucketResult><IsTruncated>{str(end < count).lower()}</IsTruncated>{found}</ListBucketResult>"
        self.answer(200, body.encode())

    def _item(self, key: str) -> str:
        data = self.store.objects[f"{BUCKET}/{key}"]
        modified = datetime.fromtimestamp(self.store.times.get(f"{BUCKET}/{key}", _LONG_AGO), UTC).isoformat()
        return _ITEM.format(escape(key), modified, md5(data).hexdigest(), len(data))


class LoopbackServer(ThreadingHTTPServer):
    """Says nothing of clients that were killed."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print all errors but those of a connection that has ended."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler], port: int = 0) -> Iterator[int]:
    """Let *handler* answer at *port* of loopback until the block ends, a free one by default; give its number."""
    server = LoopbackServer(("127.0.0.1", port), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def served(store: Store | None = None) -> Iterator[Store]:
    """Serve *store*, a new one by default, until the block ends; a second time at the same port."""
    store = store or Store()
    with listening(type("StoreHandler", (Handler,), {"store": store}), store.port) as store.port:
        yield store


def status(code: int, body: bytes = b"about AKIAKEYID") -> Callable[[Handler], bool]:
    """Return the answer that refuses a request with the status *code*."""

    def refuse(handler: Handler) -> bool:
        handler.answer(code, body)
        return True

    return refuse


def cut_after(size: int) -> Callable[[Handler], bool]:
    """Return the answer that announces an object and ends after *size* bytes."""

    def cut(handler: Handler) -> bool:
        data = handler.store.objects[unquote(urlsplit(handler.path).path).lstrip("/")]
        handler.send_response(206)
        headers = {"Content-Range": f"bytes 0-{len(data) - 1}/{len(data)}", "Content-Length": str(len(data))}
        tag = {"ETag": _tag_of(data), "Last-Modified": "Sun, 22 Nov 2026 10:00:00 GMT"}
        for name, value in {**headers, **tag}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data[:size])
        handler.close_connection = True
        return True

    return cut


def many_objects(count: int) -> Callable[[Handler], bool]:
    """Return the answer of a bucket with *count* objects that are made for each page."""

    def listed(handler: Handler) -> bool:
        query = parse_qs(urlsplit(handler.path).query)
        if "list-type" not in query:
            return False
        handler.answer_page(
            query, count, lambda at: _ITEM.format(f"data/part-{at:09}.bin", "2026-11-22T10:00:00Z", at, 7)
        )
        return True

    return listed


def silence(seconds: float) -> Callable[[Handler], bool]:
    """Return the answer that comes after *seconds*."""

    def wait(_: Handler) -> bool:
        time.sleep(seconds)
        return False

    return wait


def s3(store: Store) -> dict[str, str]:
    """Return the environment in which ``s3://`` names *store*."""
    return {
        "AWS_ENDPOINT": store.endpoint,
        "AWS_ACCESS_KEY_ID": "AKIAKEYID",
        "AWS_SECRET_ACCESS_KEY": "secretsecret",
        "AWS_REGION": "us-east-1",
    }


def use(patch: pytest.MonkeyPatch, store: Store) -> None:
    """Let ``s3://`` name *store*, which is waited for two seconds."""
    for name, value in {**s3(store), place.VARIABLE: "2"}.items():
        patch.setenv(name, value)
    forget()


def forget() -> None:
    """Let the next address be opened with the settings of the environment, not those of before."""
    place._opened.cache_clear()
    remote_files._blocks.clear()


def web(store: Store, key: str) -> str:
    """Return the address of an object for a web browser."""
    return f"{store.endpoint}/{BUCKET}/{quote(key)}"


def stream(steps: int, *, run_id: str = "a", end: str = "completed") -> bytes:
    """Return a stream of toy/v1; *end* empty leaves out run_end."""
    lines: list[dict[str, Any]] = [{"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": run_id}]
    lines += [{"kind": "step", "t": float(at), "step": at, "loss": 1.0 / at} for at in range(1, steps + 1)]
    lines += [{"kind": "run_end", "t": float(steps), "reason": end}] if end else []
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)
