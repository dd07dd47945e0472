"""Serves the viewer and the runs of a catalog over HTTP, by the standard library.

It answers only requests whose Host header names it, so that no other site can reach it by a name of its own, and only
those of its own pages. On an address that other machines reach, a token is needed too.
"""

from __future__ import annotations

import gzip
import hmac
import os
import re
import secrets
import socket
import socketserver
import threading
from collections import Counter
from concurrent.futures import Future, wait
from contextlib import closing, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from urllib.parse import parse_qs, urlsplit

import msgspec

from toyspec.core.errors import PlaceError
from toyspec.view.requests import Answers, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from toyspec.view.live_runs import LiveRuns
    from toyspec.view.opened_files import OpenFile
    from toyspec.view.requests import Query


_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


class RangePart(NamedTuple):
    """What is sent of a file."""

    status: int
    """200, 206, 304, 412 or 416."""
    begin: int = 0
    end: int = 0
    """Offset after the last byte."""


def part_of(headers: Mapping[str, str], etag: str, size: int) -> RangePart:
    """Return the part of a file of *size* bytes with *etag* that the *headers* of a request ask for.

    Several ranges, and a range that is not a range of bytes, count as none: the whole file is sent.
    """
    wanted = headers.get("If-Match")
    if wanted is not None and not _matches(wanted, etag):
        return RangePart(412)
    known = headers.get("If-None-Match")
    if known is not None and _matches(known, etag):
        return RangePart(304)
    found = _RANGE.fullmatch(headers.get("Range", "").replace(" ", ""))
    condition = headers.get("If-Range")
    if found is None or found.group(1) == found.group(2) == "" or (condition is not None and condition != etag):
        return RangePart(200, 0, size)
    first, last = found.groups()
    if not first:
        begin, end = max(0, size - int(last)), size
        return RangePart(206, begin, end) if int(last) and size else RangePart(416)
    begin, end = int(first), min(size, int(last) + 1) if last else size
    if last and int(last) < int(first):
        return RangePart(200, 0, size)
    return RangePart(206, begin, end) if begin < size else RangePart(416)


def _matches(condition: str, etag: str) -> bool:
    return condition.strip() == "*" or etag in (each.strip().removeprefix("W/") for each in condition.split(","))


LOOPBACK = "127.0.0.1"
# Cookies do not know ports: each server has its own.
_COOKIE = "toyspec_token_{port}"
_MOST_CONNECTIONS = 128
_IDLE_SECONDS = 60.0
# How long the thread of a connection that was closed for another one may take to end.
_EVICTION_SECONDS = 1.0
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Type: application/json\r\n"
    b'Content-Length: 60\r\n\r\n{"message": "too many connections at once; ask again soon"}\n'
)
_ANSWER_SECONDS = 60.0
_HEARTBEAT_SECONDS = 15.0
# How soon a stream of changes ends that is closed for another connection.
_LOOK_SECONDS = 0.25
_GATHER_SECONDS = 0.02
_SMALL_BYTES = 4096
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self' data: blob:; connect-src 'self'; worker-src 'self' blob:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
# What the page asks for first, while its script is still on the way.
_FIRST = "<api/runs>; rel=preload; as=fetch; crossorigin"
_HEADERS = (
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), geolocation=(), microphone=()"),
)
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
}
_APP_FILE = re.compile(r"[a-z0-9][a-z0-9._-]{0,80}", re.ASCII)


def app_files() -> dict[str, bytes]:
    """Return the files of the viewer by name; empty where they were not built."""
    # Not importlib.resources, which takes as long to import as all of this package.
    folder = Path(__file__).with_name("app")
    if not folder.is_dir():
        return {}
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.suffix in _TYPES}


class ViewServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Answers requests, each connection in a thread of its own."""

    daemon_threads = True
    allow_reuse_address = os.name != "nt"
    # Of more connections at once, a system lets the others try again after a second.
    request_queue_size = 1024

    def __init__(self, catalog: LiveRuns, *, host: str = LOOPBACK, port: int = 0, token: str | None = None) -> None:
        """Listen on *host* and *port*, 0 for any that is free; raise OSError. An address of others gets a token."""
        self.is_loopback = _is_loopback(host)
        self.answers = Answers(catalog)
        self.token = token if token is not None or self.is_loopback else secrets.token_urlsafe(24)
        self.files = app_files()
        self.closing = threading.Event()
        self._is_interrupted = False
        self._free = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self._waiting: dict[socket.socket, str] = {}
        self._waiting_lock = threading.Lock()
        self._asked: dict[str, Future[bytes]] = {}
        self._asked_lock = threading.Lock()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), ViewHandler)
        self.host, self.port = host, int(self.server_address[1])
        self.names = _names(host, self.port, is_loopback=self.is_loopback)
        self.cookie = _COOKIE.format(port=self.port)

    @property
    def url(self) -> str:
        """The address of the page, with the token where one is needed."""
        name = "localhost" if self.host == LOOPBACK else _shown_host(self.host)
        return f"http://{name}:{self.port}/" + (f"?token={self.token}" if self.token else "")

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection; when there are too many, close one that only waits, or else this one."""
        if not self._free.acquire(blocking=False) and not (
            self._close_waiting() and self._free.acquire(timeout=_EVICTION_SECONDS)
        ):
            # What asks without end is answered too, as far as that takes no time.
            request.setblocking(False)
            with suppress(OSError):
                request.send(_BUSY)
            self.shutdown_request(request)
            return
        # Before its thread runs: of many connections at once, those that have not begun may be closed too.
        self.begin_waiting(request, client_address[0])
        super().process_request(request, client_address)

    def begin_waiting(self, connection: socket.socket, client: str) -> None:
        """Take in that *connection* of *client* waits for a request or changes: it may be closed for another one."""
        with self._waiting_lock:
            self._waiting[connection] = client

    def end_waiting(self, connection: socket.socket) -> None:
        """Take in that a request of *connection* is whole, or that it has ended."""
        with self._waiting_lock:
            self._waiting.pop(connection, None)

    def may_wait(self, connection: socket.socket) -> bool:
        """Return whether *connection* was not closed for another one, nor the server."""
        with self._waiting_lock:
            return connection in self._waiting and not self.closing.is_set()

    def within_time(self, question: str, answer: Callable[[], bytes]) -> bytes:
        """Return what *answer* returns; raise RefusedError after a minute.

        It goes on then, and whoever asks the same *question* meanwhile waits for the same answer.
        """
        with self._asked_lock:
            found = self._asked.get(question)
            if found is None:
                found = self._asked[question] = Future()
                threading.Thread(target=self._make, args=(question, found, answer), daemon=True).start()
        if not wait([found], _ANSWER_SECONDS).done:
            raise RefusedError(503, f"it takes longer than {_ANSWER_SECONDS:g} s; it goes on: ask again")
        return found.result()

    def _make(self, question: str, found: Future[bytes], answer: Callable[[], bytes]) -> None:
        try:
            found.set_result(answer())
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that asked
            found.set_exception(error)
        finally:
            with self._asked_lock:
                del self._asked[question]

    def _close_waiting(self) -> bool:
        """Close the oldest waiting connection of the client that has the most; return whether there is one."""
        with self._waiting_lock:
            clients = Counter(self._waiting.values())
            most = max(clients.values(), default=0)
            found = next((each for each, client in self._waiting.items() if clients[client] == most), None)
            if found is None:
                return False
            del self._waiting[found]
            # Its thread ends at once, since nothing more comes.
            with suppress(OSError):
                found.shutdown(socket.SHUT_RDWR)
            return True

    def service_actions(self) -> None:
        """Raise the KeyboardInterrupt that another error hid."""
        if self._is_interrupted:
            raise KeyboardInterrupt

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer the requests of one connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.end_waiting(request)
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that went away; let other errors be shown."""
        import sys

        error = sys.exc_info()[1]
        if error is not None and isinstance(error.__context__, KeyboardInterrupt):
            # It came while a thread began, whose lock raised another error.
            self._is_interrupted = True
            return
        if not isinstance(error, ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    def close(self) -> None:
        """Stop answering and let every connection end."""
        self.closing.set()
        self.server_close()


class ViewHandler(BaseHTTPRequestHandler):
    """The requests of one connection."""

    protocol_version = "HTTP/1.1"
    timeout = _IDLE_SECONDS
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    server: ViewServer
    _answers: ClassVar[dict[str, str]] = {
        "/api/runs": "runs",
        "/api/run": "detail",
        "/api/ranks": "ranks",
        "/api/partings": "partings",
    }
    """What answers in JSON, by the path."""
    _routes: ClassVar[dict[str, str]] = {
        "/api/curve": "_curve",
        "/api/changes": "_changes",
        "/files": "_file",
        "/media": "_media",
    }

    def handle_one_request(self) -> None:
        """Answer a request; until it is whole, the connection may be closed for another one."""
        self.server.begin_waiting(self.connection, self.client_address[0])
        try:
            super().handle_one_request()
        finally:
            self.server.end_waiting(self.connection)

    def finish(self) -> None:
        """Close both directions, also where the client has left before all was sent."""
        with closing(self.rfile):
            super().finish()

    def do_POST(self) -> None:
        """Refuse it: no request changes anything."""
        self._refuse(RefusedError(405, "this server only reads; `toyspec annotate` writes annotations"))
        self.wfile.flush()

    def do_GET(self) -> None:
        """Answer with a head, and with a body if it is not asked for the head alone."""
        self.server.end_waiting(self.connection)
        try:
            address = urlsplit(self.path)
            self._admit(address.path, address.query)
            query = parse_qs(address.query, keep_blank_values=True, max_num_fields=20_000, errors="backslashreplace")
            path = address.path
            if path in self._answers:
                answer = partial(getattr(self.server.answers, self._answers[path]), query)
                self._json(self.server.within_time(self.path, answer))
            elif path in self._routes:
                getattr(self, self._routes[path])(query)
            elif self.server.token is not None and "token" in query:
                self._enter()
            else:
                self._page(path)
        except RefusedError as error:
            self._refuse(error)
        except ValueError:
            self._refuse(RefusedError(400, "the request is malformed"))
        self.wfile.flush()

    do_HEAD = do_GET  # noqa: N815 - the name is that of the base class

    def _admit(self, path: str, query: str) -> None:
        """Refuse a request that another site may have led here, and one without the token."""
        host = (self.headers.get("Host") or "").lower()
        if host not in self.server.names and not self._is_address(host):
            raise RefusedError(421, f"this server is {self.server.url.partition('?')[0]}; open that address")
        if (token := self.server.token) is not None:
            bearer = self.headers.get("Authorization", "").removeprefix("Bearer ")
            given = [*parse_qs(query).get("token", []), self._cookie(), bearer]
            if not any(hmac.compare_digest(each.encode("utf-8", "replace"), token.encode()) for each in given):
                raise RefusedError(403, "a token is needed; open the address that `toyspec view` printed")
        is_own = self.headers.get("Sec-Fetch-Site", "none") in ("same-origin", "none")
        if not is_own and (path in self._answers or path in self._routes):
            raise RefusedError(403, "only the viewer's own page may ask this")

    def _is_address(self, host: str) -> bool:
        """Return whether *host* is an address, on a server for other machines: no name can be made to lead there."""
        if self.server.is_loopback:
            return False
        name, _, port = host.rpartition(":")
        try:
            ip_address(name.strip("[]"))
        except ValueError:
            return False
        return port == str(self.server.port)

    def _cookie(self) -> str:
        from http.cookies import CookieError, SimpleCookie

        try:
            found = SimpleCookie(self.headers.get("Cookie", "")).get(self.server.cookie)
        except CookieError:
            return ""
        return found.value if found is not None else ""

    def _enter(self) -> None:
        """Keep the token in a cookie, so that it is in no address that is shared."""
        self.send_response(303)
        self.send_header("Location", "./")
        self.send_header("Set-Cookie", f"{self.server.cookie}={self.server.token}; HttpOnly; SameSite=Strict; Path=/")
        self._end_head(length=0)

    def _page(self, path: str) -> None:
        name = path.removeprefix("/") or "index.html"
        data = self.server.files.get(name) if _APP_FILE.fullmatch(name) else None
        if data is None:
            detail = "" if self.server.files else "; the viewer was not built: `make viewer` builds it"
            raise RefusedError(404, f"no such page{detail}")
        self.send_response(200)
        self.send_header("Content-Type", _TYPES[os.path.splitext(name)[1]])
        self.send_header("Cache-Control", "no-cache")
        if name == "index.html":
            self.send_header("Link", _FIRST)
        self._send_text(data)

    def _json(self, data: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Cache-Control", "no-store")
        self._send_text(data)

    def _send_text(self, data: bytes) -> None:
        """End the head and send *data*, compressed where that is shorter and the client takes it."""
        if len(data) > _SMALL_BYTES and "gzip" in self.headers.get("Accept-Encoding", ""):
            # Rows are alike: the quickest level makes a tenth of them.
            data = gzip.compress(data, 1, mtime=0)
            self.send_header("Content-Encoding", "gzip")
        self._end_head(length=len(data))
        if self.command != "HEAD":
            self.wfile.write(data)

    def _curve(self, query: Query) -> None:
        frames = self.server.answers.curves(query)
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Cache-Control", "no-store")
        self._stream(frames)

    def _stream(self, pieces: Iterable[bytes]) -> None:
        """Send a body of unknown length, each piece at once."""
        is_chunked = self.request_version == "HTTP/1.1"
        self.send_header(*(("Transfer-Encoding", "chunked") if is_chunked else ("Connection", "close")))
        self.close_connection = not is_chunked
        self._end_head()
        if self.command == "HEAD":
            return
        # An empty chunk would end the body.
        for piece in filter(None, pieces):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if is_chunked else piece)
            self.wfile.flush()
        if is_chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _changes(self, _query: Query) -> None:
        """Send changes until the client goes away, or the connection is closed for another one."""
        self.server.begin_waiting(self.connection, self.client_address[0])
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self._stream(self._messages())

    def _messages(self) -> Iterable[bytes]:
        catalog = self.server.answers.catalog
        number, is_over, quiet = catalog.changes.number, False, 0.0
        catalog.be_shown()
        yield b"retry: 1000\n\n"
        while not is_over and self.server.may_wait(self.connection):
            number, changes, is_over = catalog.changes.after(number, _LOOK_SECONDS)
            quiet = 0.0 if changes else quiet + _LOOK_SECONDS
            if not changes:
                if quiet >= _HEARTBEAT_SECONDS:
                    quiet = 0.0
                    yield b": still here\n\n"
                continue
            yield b"".join(b"data: %b\n\n" % msgspec.json.encode(change) for change in changes)
            # A burst of changes becomes few messages.
            self.server.closing.wait(_GATHER_SECONDS)

    def _file(self, query: Query) -> None:
        self._send(self.server.answers.file(query), None)

    def _media(self, query: Query) -> None:
        self._send(*self.server.answers.media(query))

    def _send(self, opened: OpenFile, shown_as: str | None) -> None:
        """Send a file or a part of it; without a type that it is *shown_as*, a browser saves it."""
        with closing(opened) as file:
            part = part_of(dict(self.headers.items()), file.etag, file.size)
            self.send_response(part.status)
            self.send_header("ETag", file.etag)
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Cache-Control", "no-cache")
            if part.status == 416:
                self.send_header("Content-Range", f"bytes */{file.size}")
            elif part.status in (200, 206):
                self.send_header("Content-Type", shown_as or "application/octet-stream")
                if shown_as is None:
                    self.send_header("Content-Disposition", "attachment")
            if part.status == 206:
                self.send_header("Content-Range", f"bytes {part.begin}-{part.end - 1}/{file.size}")
            self._end_head(length=None if part.status == 304 else part.end - part.begin)
            if part.status in (200, 206) and self.command != "HEAD":
                self._copy(file, part.begin, part.end)

    def _copy(self, file: OpenFile, begin: int, end: int) -> None:
        left = end - begin
        with suppress(PlaceError):
            for data in file.blocks(begin, end):
                self.wfile.write(data)
                left -= len(data)
        if left:
            # It was cut or replaced meanwhile: the client must notice.
            self.close_connection = True

    def _refuse(self, error: RefusedError) -> None:
        self.close_connection = self.close_connection or error.status in (400, 405, 421)
        self._json(msgspec.json.encode({"message": str(error)}), error.status)

    def _end_head(self, *, length: int | None = None) -> None:
        if length is not None:
            self.send_header("Content-Length", str(length))
        for name, value in _HEADERS:
            self.send_header(name, value)
        self.end_headers()

    def version_string(self) -> str:
        """Return the name of the server, without versions."""
        return "toyspec"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is that of the base class
        """Say nothing: what clients send is not output of a command."""


def serve(server: ViewServer, on_ready: Callable[[], object] | None = None) -> None:
    """Answer requests until ``server.shutdown`` or KeyboardInterrupt, which ends it quietly."""
    try:
        if on_ready is not None:
            on_ready()
        server.serve_forever(poll_interval=0.2)
    finally:
        server.close()


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _shown_host(host: str) -> str:
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not listened on
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host


def _names(host: str, port: int, *, is_loopback: bool) -> frozenset[str]:
    """Return what the Host header of a request may be."""
    names = (
        {"localhost", LOOPBACK, "[::1]"} if is_loopback else {_shown_host(host).lower(), socket.gethostname().lower()}
    )
    names.add(f"[{host}]" if ":" in host else host.lower())
    return frozenset({f"{name}:{port}" for name in names} | (names if port == 80 else set()))
