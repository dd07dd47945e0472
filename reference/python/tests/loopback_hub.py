"""A small hub on loopback: one repository of Hugging Face, for programs that read it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from loopback_store import body_of, listening
from toyspec.core.places import place

NAME = "me/runs"
_COMMIT = "0123456789" * 4


class Handler(BaseHTTPRequestHandler):
    """Answers requests."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    files: dict[str, bytes]

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        """Answer any request."""
        body, url = body_of(self), urlsplit(self.path)
        parts = unquote(url.path).strip("/").split("/")
        if parts[2:3] == ["resolve"]:
            self._send_file(self.files.get("/".join(parts[4:])))
        elif parts[:2] != ["api", "models"] or "/".join(parts[2:4]) != NAME:
            self._fail("RepoNotFound")
        elif parts[4:5] == ["tree"]:
            self._send(self._tree("/".join(parts[6:]), parse_qs(url.query).get("recursive") in (["true"], ["True"])))
        elif parts[4:5] == ["paths-info"]:
            wanted = parse_qs(body.decode())["paths"]
            self._send([_listed(path, self.files[path]) for path in wanted if path in self.files])
        else:
            self._send({"id": NAME, "sha": _COMMIT})

    do_HEAD = do_POST = do_GET  # noqa: N815 - names that the server calls

    def _send(self, content: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _fail(self, code: str) -> None:
        self._send({"error": code}, 404, {"X-Error-Code": code, "X-Error-Message": code})

    def _send_file(self, data: bytes | None) -> None:
        if data is None:
            self._fail("EntryNotFound")
            return
        headers = {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": _COMMIT}
        first, is_range, last = self.headers.get("Range", "").removeprefix("bytes=").partition("-")
        if is_range:
            end = min(int(last or len(data)) + 1, len(data))
            headers["Content-Range"] = f"bytes {first}-{end - 1}/{len(data)}"
            self._send(data[int(first) : end], 206, headers)
        else:
            self._send(data, 200, headers)

    def _tree(self, below: str, is_recursive: bool) -> list[dict[str, Any]]:
        """Return the files and folders in the folder *below*, as the hub lists them."""
        start = f"{below}/" if below else ""
        found: dict[str, dict[str, Any]] = {}
        for path, data in self.files.items():
            if path.startswith(start):
                parts = path[len(start) :].split("/")
                for depth in range(1, len(parts) if is_recursive else min(len(parts), 2)):
                    folder = start + "/".join(parts[:depth])
                    found[folder] = {"type": "directory", "path": folder, "size": 0, "oid": "0" * 40}
                if is_recursive or len(parts) == 1:
                    found[path] = _listed(path, data)
        return list(found.values())


def _listed(path: str, data: bytes) -> dict[str, Any]:
    oid = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
    return {"type": "file", "path": path, "size": len(data), "oid": oid}


@contextmanager
def serving(files: dict[str, bytes]) -> Iterator[str]:
    """Serve a model with *files* for the length of the block, and give the address of the hub."""
    with listening(type("HubHandler", (Handler,), {"files": files})) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def known_hub(files: dict[str, bytes], patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Serve a model with *files* at the hub that this process knows, for the length of the block."""
    constants = pytest.importorskip("huggingface_hub.constants", reason="the extra hub is not installed")
    with serving(files) as endpoint:
        patch.setattr(constants, "ENDPOINT", endpoint)
        template = f"{endpoint}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        patch.setattr(constants, "HF_URL_HOSTS", frozenset(["127.0.0.1"]), raising=False)
        patch.setattr(constants, "HF_TOKEN_PATH", "no-token")
        patch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        # An opened place remembers the address of its hub.
        place._opened.cache_clear()
        pytest.importorskip("huggingface_hub").HfFileSystem.clear_instance_cache()
        yield
        place._opened.cache_clear()
