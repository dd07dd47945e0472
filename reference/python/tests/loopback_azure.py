"""A container of Azure on loopback: as much of it as `toyspec sync` uses, and it refuses what the test wants."""

from __future__ import annotations

import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from loopback_store import BUCKET, LoopbackServer, body_of, forget

ACCOUNT = "devstoreaccount1"
KEY = b64encode(b"secretsecret").decode()


@dataclass
class Blob:
    """A blob at one time."""

    data: bytes
    tag: str


@dataclass
class Container:
    """What is there, what was asked, and what is refused."""

    blobs: dict[str, Blob] = field(default_factory=dict)
    versions: list[bytes] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)
    """The content size of each request that writes."""
    refusal: int | None = None
    """The status that answers each request that writes, instead of the container."""
    port: int = 0
    lock: Any = field(default_factory=threading.RLock)

    def keep(self, key: str, data: bytes) -> Blob:
        """Make the content of a blob, as another program would."""
        self.versions.append(data)
        self.blobs[key] = Blob(data, f'"0x{len(self.versions):X}"')
        return self.blobs[key]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    container: Container

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def do_HEAD(self) -> None:
        """Answer without content."""
        self.do_GET()

    def do_GET(self) -> None:
        """Answer with a list, or with the content of a blob."""
        with self.container.lock:
            parts = urlsplit(self.path)
            query = parse_qs(parts.query)
            blob = self.container.blobs.get(self._key())
            if query.get("comp") == ["list"]:
                self._list(query.get("prefix", [""])[0])
            elif blob is None:
                self._answer(404)
            else:
                self._content(blob)

    def do_PUT(self) -> None:
        """Make a blob of the content, on its conditions."""
        body = body_of(self)
        store = self.container
        with store.lock:
            store.writes.append(len(body))
            blob = store.blobs.get(self._key())
            if store.refusal is not None:
                self._answer(store.refusal, b"<Error><Code>Refused</Code><Message>secretsecret</Message></Error>")
            elif self.headers.get("If-None-Match") == "*" and blob:
                self._answer(409)
            elif self.headers.get("If-Match") not in (None, blob and blob.tag):
                self._answer(412)
            else:
                self._answer(201, blob=store.keep(self._key(), body))

    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix(f"/{ACCOUNT}/{BUCKET}/")

    def _content(self, blob: Blob) -> None:
        first, mark, last = (self.headers.get("x-ms-range") or self.headers.get("Range") or "").partition("-")
        if not mark or self.command == "HEAD":
            self._answer(200, blob.data, blob)
            return
        start, size = int(first.removeprefix("bytes=")), len(blob.data)
        end = min(int(last or size), size - 1)
        self._answer(206, blob.data[start : end + 1], blob, {"Content-Range": f"bytes {start}-{end}/{size}"})

    def _list(self, prefix: str) -> None:
        items = "".join(
            f"<Blob><Name>{key}</Name><Properties><Last-Modified>{formatdate(0, usegmt=True)}</Last-Modified>"
            f"<Content-Length>{len(blob.data)}</Content-Length><Content-Type>a/b</Content-Type>"
            f"<Etag>{blob.tag[1:-1]}</Etag></Properties></Blob>"
            for key, blob in self.container.blobs.items()
            if key.startswith(prefix)
        )
        self._answer(200, f"<EnumerationResults><Blobs>{items}</Blobs><NextMarker/></EnumerationResults>".encode())

    def _answer(
        self, status: int, body: bytes = b"", blob: Blob | None = None, more: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        kind = "application/xml" if body.startswith(b"<") else "application/octet-stream"
        headers = {"Content-Length": str(len(body)), "Content-Type": kind, **(more or {})}
        if blob is not None:
            headers |= {"ETag": blob.tag, "Last-Modified": formatdate(0, usegmt=True)}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def served_container() -> Iterator[Container]:
    """Serve a container until the block ends."""
    container = Container()
    server = LoopbackServer(("127.0.0.1", 0), type("ContainerHandler", (_Handler,), {"container": container}))
    server.daemon_threads = True
    container.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    forget()
    try:
        yield container
    finally:
        forget()
        server.shutdown()
        server.server_close()
        thread.join()


def azure(container: Container) -> dict[str, str]:
    """Return the environment in which ``az://`` names *container*."""
    endpoint = f"http://127.0.0.1:{container.port}/{ACCOUNT}"
    settings = {"ENDPOINT": endpoint, "ACCOUNT_NAME": ACCOUNT, "ACCOUNT_KEY": KEY}
    return {f"AZURE_STORAGE_{name}": value for name, value in settings.items()}
