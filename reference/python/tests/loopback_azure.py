"""A container of Azure on loopback: as much of it as `toyspec sync` uses, and it refuses what the test wants."""

from __future__ import annotations

import re
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
_LISTED = re.compile(rb"<(Committed|Uncommitted|Latest)>([^<]+)<")


@dataclass
class Blob:
    """A blob with its blocks by name; one that was written in one request has no names."""

    data: bytes
    blocks: dict[str, bytes]
    tag: str


@dataclass
class Container:
    """What is there, what was asked, and what is refused."""

    blobs: dict[str, Blob] = field(default_factory=dict)
    staged: dict[str, dict[str, bytes]] = field(default_factory=dict)
    requests: list[tuple[str, int]] = field(default_factory=list)
    """Kind and content size of each request that writes or asks for blocks."""
    versions: list[bytes] = field(default_factory=list)
    refusals: dict[str, int] = field(default_factory=dict)
    """The status that answers each kind of request, instead of the container."""
    port: int = 0
    lock: Any = field(default_factory=threading.RLock)

    @property
    def received(self) -> int:
        """Number of bytes of content in all requests that write."""
        return sum(size for _, size in self.requests)

    def keep(self, key: str, data: bytes, blocks: dict[str, bytes] | None = None) -> Blob:
        """Make the content of a blob, as another program would."""
        self.versions.append(data)
        self.staged.pop(key, None)
        self.blobs[key] = Blob(data, blocks or {}, f'"0x{len(self.versions):X}"')
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
        """Answer with a list, the blocks of a blob, or its content."""
        with self.container.lock:
            key, comp, query = self._parts()
            blob = self.container.blobs.get(key)
            if comp == "list":
                self._list(query.get("prefix", [""])[0])
            elif comp == "blocklist" and self._refused("get blocks", b""):
                pass
            elif blob is None:
                self._answer(404)
            elif comp == "blocklist":
                named = "".join(f"<Block><Name>{n}</Name><Size>{len(d)}</Size></Block>" for n, d in blob.blocks.items())
                self._answer(200, f"<BlockList><CommittedBlocks>{named}</CommittedBlocks></BlockList>".encode(), blob)
            else:
                self._content(blob)

    def do_PUT(self) -> None:
        """Stage a block, make a blob of blocks, or of the content."""
        body = body_of(self)
        with self.container.lock:
            key, comp, query = self._parts()
            kind = {"block": "block", "blocklist": "list"}.get(comp, "whole")
            if self._refused(kind, body):
                return
            store = self.container
            blob = store.blobs.get(key)
            if kind == "block":
                store.staged.setdefault(key, {})[query["blockid"][0]] = body
                self._answer(201)
            elif self.headers.get("If-None-Match") == "*" and blob:
                self._answer(409)
            elif self.headers.get("If-Match") not in (None, blob and blob.tag):
                self._answer(412)
            elif kind == "whole":
                self._answer(201, blob=store.keep(key, body))
            else:
                self._commit(key, body)

    def _commit(self, key: str, body: bytes) -> None:
        store, blocks = self.container, {}
        blob = store.blobs.get(key)
        known = {b"Committed": blob.blocks if blob else {}, b"Uncommitted": store.staged.get(key, {})}
        known[b"Latest"] = known[b"Committed"] | known[b"Uncommitted"]
        for kind, name in _LISTED.findall(body):
            if name.decode() not in known[kind]:
                self._answer(400)
                return
            blocks[name.decode()] = known[kind][name.decode()]
        self._answer(201, blob=store.keep(key, b"".join(blocks.values()), blocks))

    def _parts(self) -> tuple[str, str, dict[str, list[str]]]:
        parts = urlsplit(self.path)
        query = parse_qs(parts.query)
        return unquote(parts.path).removeprefix(f"/{ACCOUNT}/{BUCKET}/"), query.get("comp", [""])[0], query

    def _refused(self, kind: str, body: bytes) -> bool:
        self.container.requests.append((kind, len(body)))
        status = self.container.refusals.get(kind)
        if status is not None:
            error = b"<Error><Code>Refused</Code><Message>secretsecret</Message></Error>"
            self._answer(status, b"" if status < 400 else error)
        return status is not None

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
