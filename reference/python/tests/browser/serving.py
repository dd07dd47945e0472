"""Builds the site and serves it to this machine alone, below a folder as a host of pages does."""

from __future__ import annotations

import http.server
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[4]
FOLDER = "/toyspec/"
"""Where the site lies on its host: an address that is absolute by mistake leads out of it, and is not found."""

SOURCES = (
    *("docs", "spec", "schemas", "conformance", "mkdocs.yml", "Makefile", "CONTRIBUTING.md"),
    *("reference/codegen", "reference/typescript/src", "reference/typescript/page", "reference/viewer/src"),
    "reference/*/README.md",
)
"""What the site is made of, as patterns."""

SECONDS = 300
"""How long a build of the site may take."""


def newest_change() -> float:
    """Return when a file of what the site is made of was last written, as seconds of the epoch."""
    newest = 0.0
    for path in (path for pattern in SOURCES for path in ROOT.glob(pattern)):
        newest = max(newest, path.stat().st_mtime if path.is_file() else 0.0)
        for folder, folders, files in os.walk(path):
            folders[:] = [name for name in folders if name != "__pycache__"]
            newest = max([newest, *(os.stat(os.path.join(folder, name)).st_mtime for name in files)])
    return newest


def is_fresh(site: Path) -> bool:
    """Return whether *site* holds a whole build that is newer than its sources."""
    last = site / "sitemap.xml"
    return last.exists() and last.stat().st_mtime > newest_change()


def build_site(target: Path) -> None:
    """Build the site into the folder *target*; raises AssertionError with what was printed if that fails."""
    environment = os.environ | {"MAKEFLAGS": ""}
    # The environment is the one that runs the tests, whatever make would choose.
    variables = ["DEV=", f"BIN={Path(sys.executable).parent}", f"SITE={target}"]
    done = subprocess.run(
        ["make", "-C", str(ROOT), "docs", *variables],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout.decode(errors="replace")


def built_site(spare: Path) -> Path:
    """Return the folder of the site: what ``make docs`` has left if that is fresh, otherwise *spare*, built now."""
    if is_fresh(ROOT / "site"):
        return ROOT / "site"
    build_site(spare)
    return spare


def browser_program() -> str | None:
    """Return the path of the Chromium that this machine has, None without one."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class PlainFiles(http.server.SimpleHTTPRequestHandler):
    """Serves files and nothing else, as the host of the site does, with its own page for what is not found."""

    protocol_version = "HTTP/1.1"

    def __init__(self, *arguments: Any, folder: str, directory: str, over: Path | None) -> None:
        self._folder = folder
        self._over = over
        super().__init__(*arguments, directory=directory)

    def end_headers(self) -> None:
        """Let a browser keep what all pages share: reading it again for each page takes longer than the page."""
        if "/assets/" in self.path:
            self.send_header("Cache-Control", "max-age=3600")
        super().end_headers()

    def translate_path(self, path: str) -> str:
        """Return the file for *path*, one that does not exist for what lies outside of the site."""
        plain = urlsplit(path).path
        if not plain.startswith(self._folder):
            return os.path.join(self.directory, "outside", "of", "the", "site")
        path = plain.removeprefix(self._folder)
        if self._over is not None and (self._over / path).is_file():
            return str(self._over / path)
        return super().translate_path("/" + path)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what is not found with the page that the site has for it."""
        page = Path(self.directory, "404.html")
        if code != HTTPStatus.NOT_FOUND or not page.exists():
            super().send_error(code, message, explain)
            return
        body = page.read_bytes()
        self.send_response(code, message)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Say nothing: the tests see what the browser asked for."""


class Server(http.server.ThreadingHTTPServer):
    """A server whose connections may end at any time: a browser drops those that it no longer needs."""

    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        """Pass over connections that the browser has dropped, and report the rest."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


@contextmanager
def serving(site: Path, folder: str = FOLDER, *, over: Path | None = None) -> Iterator[str]:
    """Serve *site* as *folder* of a free port of the loopback interface, and yield the address of its start page.

    A file of *over* is served in place of the one of *site* that has its path.
    """
    with Server(("127.0.0.1", 0), partial(PlainFiles, folder=folder, directory=str(site), over=over)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}{folder}"
        finally:
            server.shutdown()
            thread.join()
