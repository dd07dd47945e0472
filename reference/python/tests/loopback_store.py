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

import loopback_uploads
from toyspec.core.places import place, remote_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BUCKET = "bucket"


@dataclass
class Request:
    """A request, and what was sent for it."""

    method: str
    path: str
    query: str
    range: str
    sent: int = 0
    """Number of bytes of content in the answer."""
    received: int = 0
    """Number of bytes of content in the request."""


class Store:
    """The objects of the store by bucket and key, what was asked, and special answers to the next requests."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.versions: dict[str, list[bytes]] = {}
        """What was written of each object, by its key."""
        self.generations: dict[str, int] = {}
        self.times: dict[str, float] = {}
        self.lock = threading.Lock()
        self.requests: list[Request] = []
        self.answers: list[Callable[[Handler], bool]] = []
        """Each answers one of the next requests, or returns False for the usual answer."""
        self.every: Callable[[Handler], bool] | None = None
        """A special answer to every request."""
        self.page_size = 1000
        self.has_ranges = True
        self.has_tags = True
        self.has_lists = True
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

    @property
    def received(self) -> int:
        """Number of bytes of content in all requests."""
        return sum(request.received for request in self.requests)

    def get(self, key: str) -> bytes | None:
        """Return what the bucket has at *key*."""
        return self.objects.get(f"{BUCKET}/{key}")

    def modified(self, key: str) -> float:
        """Return when an object was written by a request, in seconds since the Unix epoch; long ago for others."""
        return self.times.get(key, 1_600_000_000.0)

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


class Handler(BaseHTTPRequestHandler):
    """Answers requests."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer in two packets waits for the acknowledgement of the first
    store: Store

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def do_HEAD(self) -> None:
        """Answer without content."""
        self.do_GET()

    def do_GET(self) -> None:
        """Answer with an object, a range of it, or a list."""
        parts = urlsplit(self.path)
        wanted = self.headers.get("Range") or ""
        self.request_made = Request(self.command, unquote(parts.path), parts.query, wanted)
        # Before the answer: its reader may look at once.
        self.store.requests.append(self.request_made)
        try:
            store = self.store
            special = store.every or (store.answers.pop(0) if store.answers else None)
            if special is None or not special(self):
                query = parse_qs(parts.query)
                self._list(parts.path, query) if "list-type" in query and store.has_lists else self._object(parts.path)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def handle_expect_100(self) -> bool:
        """Ask for the body at once: the answer is buffered otherwise, and its client waits."""
        self.send_response_only(100)
        self.end_headers()
        self.wfile.flush()
        return True

    def do_PUT(self) -> None:
        """Change the store, on its conditions."""
        parts = urlsplit(self.path)
        try:
            body = body_of(self)
            self.request_made = Request(self.command, unquote(parts.path), parts.query, "", received=len(body))
            self.store.requests.append(self.request_made)
            special = self.store.every or (self.store.answers.pop(0) if self.store.answers else None)
            if special is None or not special(self):
                loopback_uploads.take(self, body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def do_POST(self) -> None:
        """Begin or complete an upload."""
        self.do_PUT()

    def do_DELETE(self) -> None:
        """Give up an upload."""
        self.do_PUT()

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        """Send one answer."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.request_made.sent += len(body)
            self.wfile.write(body)

    def _object(self, path: str) -> None:
        data = self.store.objects.get(unquote(path).lstrip("/"))
        if data is None:
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        tag = loopback_uploads.tag_of(data)
        key = unquote(path).lstrip("/")
        tagged = {"ETag": tag} if self.store.has_tags else {}
        headers = {**tagged, "Accept-Ranges": "bytes", "x-goog-generation": str(self.store.generations.get(key, 1))}
        headers["Last-Modified"] = formatdate(self.store.modified(key), usegmt=True)
        if self.headers.get("If-Match") not in (None, tag):
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

    def _list(self, path: str, query: dict[str, list[str]]) -> None:
        bucket = unquote(path).strip("/")
        known = sorted(name.partition("/")[2] for name in self.store.objects if name.startswith(f"{bucket}/"))
        if not known and bucket != BUCKET:
            self.answer(404, b"<Error><Code>NoSuchBucket</Code></Error>")
            return
        prefix, mark = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        keys = [key for key in known if key.startswith(prefix)]
        folders = sorted(
            {prefix + key[len(prefix) :].split(mark)[0] + mark for key in keys if mark in key[len(prefix) :]}
            if mark
            else ()
        )
        keys = [key for key in keys if not mark or mark not in key[len(prefix) :]]
        start = int(query.get("continuation-token", ["0"])[0])
        page, more = keys[start : start + self.store.page_size], start + self.store.page_size < len(keys)
        items = "".join(map(self._item, page)) + "".join(
            f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>" for folder in folders
        )
        token = f"<NextContinuationToken>{start + len(page)}</NextContinuationToken>" if more else ""
        body = f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{token}{items}</ListBucketResult>"
        self.answer(200, body.encode())

    def _item(self, key: str) -> str:
        data = self.store.objects[f"{BUCKET}/{key}"]
        modified = datetime.fromtimestamp(self.store.modified(f"{BUCKET}/{key}"), UTC).isoformat()
        return (
            f"<Contents><Key>{escape(key)}</Key><LastModified>{modified}</LastModified>"
            f"<ETag>&quot;{md5(data).hexdigest()}&quot;</ETag><Size>{len(data)}</Size></Contents>"
        )


class LoopbackServer(ThreadingHTTPServer):
    """Says nothing of clients that were killed."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print all errors but those of a connection that has ended."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def served(store: Store | None = None) -> Iterator[Store]:
    """Serve *store*, a new one by default, until the block ends; a second time at the same port."""
    store = store or Store()
    handler = type("StoreHandler", (Handler,), {"store": store})
    server = LoopbackServer(("127.0.0.1", store.port), handler)
    server.daemon_threads = True
    store.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


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
        tag = {"ETag": f'"{md5(data).hexdigest()}"', "Last-Modified": "Sun, 22 Nov 2026 10:00:00 GMT"}
        for name, value in {**headers, **tag}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data[:size])
        handler.close_connection = True
        return True

    return cut


def many_objects(count: int, name: str = "data/part-{:09}.bin") -> Callable[[Handler], bool]:
    """Return the answer of a bucket with *count* objects that are made for each page; *name* gives their keys."""
    item = (
        "<Contents><Key>{}</Key><LastModified>2026-11-22T10:00:00Z</LastModified>"
        "<ETag>&quot;{}&quot;</ETag><Size>7</Size></Contents>"
    )

    def listed(handler: Handler) -> bool:
        query = parse_qs(urlsplit(handler.path).query)
        if "list-type" not in query:
            return False
        start = int(query.get("continuation-token", ["0"])[0])
        end = min(start + handler.store.page_size, count)
        items = "".join(item.format(name.format(number), number) for number in range(start, end))
        token = f"<NextContinuationToken>{end}</NextContinuationToken>" if end < count else ""
        body = (
            f"<ListBucketResult><IsTruncated>{str(end < count).lower()}</IsTruncated>{token}{items}</ListBucketResult>"
        )
        handler.answer(200, body.encode())
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
