"""A small hub on loopback: repositories with commits, and buckets whose content a real ``hf_xet`` keeps in a folder."""

from __future__ import annotations

import base64
import fnmatch
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from loopback_store import LoopbackServer, body_of
from toyspec.core.places import place

TOKEN = "hf_token-of-the-tests"
NAME = "me/runs"
_LFS = "*tfevents*"
_DATE = "2026-01-01T00:00:00.000Z"


@dataclass
class Repository:
    """The commits of a repository: an identity and all files by path."""

    commits: list[tuple[str, dict[str, bytes]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.add({".gitattributes": b"*tfevents* filter=lfs\n"})

    @property
    def head(self) -> str:
        """The identity of the newest commit."""
        return self.commits[-1][0]

    @property
    def files(self) -> dict[str, bytes]:
        """The files of the newest commit."""
        return self.commits[-1][1]

    def add(self, files: dict[str, bytes]) -> str:
        """Add a commit in which *files* are added to those before."""
        before = self.commits[-1][1] if self.commits else {}
        self.commits.append((hashlib.sha1(str(len(self.commits)).encode()).hexdigest(), before | files))
        return self.head

    def at(self, revision: str) -> dict[str, bytes] | None:
        """Return the files of a commit; those of the newest one for ``main``."""
        return self.files if revision == "main" else dict(self.commits).get(revision)


@dataclass
class BucketObject:
    """A file of a bucket."""

    xet_hash: str
    data: bytes | None = None
    """None until it is asked for: a program that has sent it keeps the store locked."""


class Hub:
    """What the server has, what was asked, and special answers."""

    def __init__(self, store: Path) -> None:
        self.store = store
        """The folder in which ``hf_xet`` keeps the content of buckets."""
        self.repositories: dict[str, Repository] = {}
        """By kind and name, such as ``models/me/runs``."""
        self.buckets: dict[str, dict[str, BucketObject]] = {}
        self.large: dict[str, bytes] = {}
        """Content outside of commits, by its SHA-256."""
        self.requests: list[str] = []
        """Method and path of each request."""
        self.answers: list[Callable[[Handler], bool]] = []
        """Each may answer one of the next requests; the first that returns True is removed."""
        self.created: list[dict[str, Any]] = []
        self.messages: list[str] = []
        self.port = 0
        self.lock = threading.Lock()

    @property
    def endpoint(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.port}"

    def model(self) -> Repository:
        """Return the model of the tests."""
        return self.repositories[f"models/{NAME}"]

    def content(self, path: str) -> bytes:
        """Return the content of a file in the bucket of the tests."""
        return self.bytes_of(self.buckets[NAME][path])

    def bytes_of(self, found: BucketObject) -> bytes:
        """Return the content of an object."""
        import hf_xet

        if found.data is None:
            group = hf_xet.XetSession().new_download_stream_group(
                endpoint=f"local://{self.store}", token="x", token_expiry_unix_secs=9_999_999_999
            )
            found.data = b"".join(group.download_stream(hf_xet.XetFileInfo(found.xet_hash)))
        return found.data


class Handler(BaseHTTPRequestHandler):
    """Answers requests."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    hub: Hub
    body = b""

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        """Answer any request."""
        self.body = body_of(self)
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append(f"{self.command} {path}")
        for special in list(self.hub.answers):
            if special(self):
                self.hub.answers.remove(special)
                return
        with self.hub.lock:
            self._answer(path)

    def do_HEAD(self) -> None:
        """Answer without content."""
        self.do_GET()

    def do_PUT(self) -> None:
        """Take large content."""
        self.do_GET()

    def do_POST(self) -> None:
        """Take what is asked for or sent."""
        self.do_GET()

    def send(self, content: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        """Send *content*, as JSON if it is not bytes."""
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def fail(self, status: int, code: str = "", message: str = "") -> None:
        """Send an error as the hub does."""
        self.send({"error": message}, status, {"X-Error-Code": code, "X-Error-Message": message})

    def _answer(self, path: str) -> None:
        parts = path.strip("/").split("/")
        if parts[0] == "api" and parts[1:2] == ["buckets"]:
            self._bucket(parts[2:])
        elif parts[:3] == ["api", "repos", "create"]:
            wanted = json.loads(self.body)
            self.hub.created.append(wanted)
            self.hub.repositories.setdefault(f"{wanted.get('type', 'model')}s/{NAME}", Repository())
            self.send({"url": f"{self.hub.endpoint}/{NAME}"})
        elif parts[0] == "api":
            self._repository(parts[1], "/".join(parts[2:4]), parts[4:])
        elif parts[0] == "large":
            self.hub.large[parts[1]] = self.body
            self.send({})
        elif path.endswith(".git/info/lfs/objects/batch"):
            self._large_files()
        elif parts[0] == "buckets":
            found = self.hub.buckets[NAME].get("/".join(parts[4:]))
            self._file(None if found is None else self.hub.bytes_of(found), found)
        elif "resolve" in parts:
            at = parts.index("resolve")
            kind = parts[0] if at == 3 else "models"
            files = self.hub.repositories[f"{kind}/{NAME}"].at(parts[at + 1]) or {}
            self._file(files.get("/".join(parts[at + 2 :])), None, commit=parts[at + 1])
        else:
            self.fail(404)

    def _file(self, data: bytes | None, found: BucketObject | None, commit: str = "") -> None:
        if data is None:
            self.fail(404, "EntryNotFound", "Entry not found")
            return
        headers = {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": commit}
        if found is not None:
            route = f"{self.hub.endpoint}/api/buckets/{NAME}/xet-read-token"
            headers |= {"X-Xet-Hash": found.xet_hash, "X-Linked-Size": str(len(data))}
            headers |= {"Link": f'<{route}>; rel="xet-auth"'}
        wanted = self.headers.get("Range", "").removeprefix("bytes=").partition("-")
        if wanted[1]:
            first, last = int(wanted[0]), min(int(wanted[2] or len(data)), len(data) - 1)
            headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
            self.send(data[first : last + 1], 206, headers)
        else:
            self.send(data, 200, headers)

    def _is_allowed(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def _repository(self, kind: str, name: str, parts: list[str]) -> None:
        found = self.hub.repositories.get(f"{kind}/{name}")
        if found is None:
            self.fail(401 if not self._is_allowed() else 404, "RepoNotFound", "Repository not found")
        elif not parts or parts[0] == "revision":
            revision = parts[1] if parts else "main"
            if found.at(revision) is None:
                self.fail(404, "RevisionNotFound", "Invalid rev id")
            else:
                sha = found.head if revision == "main" else revision
                self.send({"id": name, "modelId": name, "sha": sha, "siblings": [], "private": True, "tags": []})
        elif parts[0] == "tree":
            files = {path: _listed(path, data) for path, data in (found.at(parts[1]) or {}).items()}
            self._send_tree(files, "/".join(parts[2:]))
        elif parts[0] == "paths-info":
            wanted = parse_qs(self.body.decode())["paths"]
            there = found.at(parts[1]) or {}
            self.send([_listed(path, there[path]) for path in wanted if path in there])
        elif not self._is_allowed():
            self.fail(403, "", "Forbidden")
        elif parts[0] == "preupload":
            self.send({"files": [self._mode(each, found) for each in json.loads(self.body)["files"]]})
        elif parts[0] == "commit":
            self._commit(found)
        else:
            self.fail(404)

    @staticmethod
    def _mode(wanted: dict[str, Any], found: Repository) -> dict[str, Any]:
        path = wanted["path"]
        oid = _listed(path, found.files[path])["oid"] if path in found.files else None
        mode = "lfs" if fnmatch.fnmatch(path, _LFS) else "regular"
        return {"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid}

    def _commit(self, found: Repository) -> None:
        lines = [json.loads(line) for line in self.body.splitlines()]
        header = next(each["value"] for each in lines if each["key"] == "header")
        if header.get("parentCommit") not in (None, found.head):
            self.fail(412, "", "A commit has happened since. Please refresh and try again.")
            return
        added: dict[str, bytes] = {}
        for each in lines:
            value = each["value"]
            if each["key"] == "file":
                added[value["path"]] = base64.b64decode(value["content"])
            elif each["key"] == "lfsFile":
                added[value["path"]] = self.hub.large[value["oid"]]
        self.hub.messages.append(header["summary"])
        oid = found.add(added)
        self.send({"commitUrl": f"{self.hub.endpoint}/{NAME}/commit/{oid}", "commitOid": oid, "hookOutput": ""})

    def _large_files(self) -> None:
        wanted = json.loads(self.body)["objects"]
        objects = [
            each | {"actions": {"upload": {"href": f"{self.hub.endpoint}/large/{each['oid']}"}}} for each in wanted
        ]
        self.send({"objects": objects, "transfer": "basic"})

    def _bucket(self, parts: list[str]) -> None:
        name, rest = "/".join(parts[:2]), parts[2:]
        files = self.hub.buckets.get(name)
        if files is None and self.command == "POST" and not rest:
            self.hub.created.append(json.loads(self.body))
            self.hub.buckets[name] = {}
            self.send({"url": f"{self.hub.endpoint}/buckets/{name}"})
        elif files is None:
            self.fail(404, "RepoNotFound", "Bucket not found")
        elif not rest and self.command == "POST":
            self.fail(409, "", "It exists already")
        elif not rest:
            self.send({"id": name, "private": True, "createdAt": _DATE, "size": 0, "totalFiles": len(files)})
        elif rest[0].startswith("xet-"):
            self.send({"casUrl": f"local://{self.hub.store}", "accessToken": "x", "exp": 9_999_999_999})
        elif rest[0] == "tree":
            self._send_tree({path: self._in_bucket(path, each) for path, each in files.items()}, "/".join(rest[1:]))
        elif rest[0] == "paths-info":
            self.send([self._in_bucket(p, files[p]) for p in json.loads(self.body)["paths"] if p in files])
        else:
            self._batch(files)

    def _send_tree(self, files: dict[str, dict[str, Any]], below: str) -> None:
        wanted = parse_qs(urlsplit(self.path).query).get("recursive", ["false"])[0]
        found = _tree(files, below, is_recursive=wanted.lower() == "true")
        if below and not found and "/buckets/" not in self.path:
            self.fail(404, "EntryNotFound", "Not found")
        else:
            self.send(found)

    def _in_bucket(self, path: str, found: BucketObject) -> dict[str, Any]:
        size = len(self.hub.bytes_of(found))
        return {"type": "file", "path": path, "size": size, "xetHash": found.xet_hash, "mtime": _DATE}

    def _batch(self, files: dict[str, BucketObject]) -> None:
        for line in self.body.splitlines():
            each = json.loads(line)
            files[each["path"]] = BucketObject(each["xetHash"])
        self.send({"success": True, "failed": []})


def _listed(path: str, data: bytes) -> dict[str, Any]:
    oid = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
    found: dict[str, Any] = {"type": "file", "path": path, "size": len(data), "oid": oid}
    if fnmatch.fnmatch(path, _LFS):
        sha256 = hashlib.sha256(data).hexdigest()
        found |= {"oid": sha256[:40], "lfs": {"oid": sha256, "size": len(data), "pointerSize": 130}}
    return found


def _tree(files: dict[str, dict[str, Any]], below: str, *, is_recursive: bool) -> list[dict[str, Any]]:
    """Return *files* and folders in the folder *below*, as the hub lists them."""
    start = f"{below}/" if below else ""
    found: dict[str, dict[str, Any]] = {}
    for path, each in files.items():
        if path.startswith(start):
            parts = path[len(start) :].split("/")
            for depth in range(1, len(parts) if is_recursive else min(len(parts), 2)):
                folder = start + "/".join(parts[:depth])
                found[folder] = {"type": "directory", "path": folder, "size": 0, "oid": "0" * 40, "uploadedAt": _DATE}
            if is_recursive or len(parts) == 1:
                found[path] = each
    return list(found.values())


@contextmanager
def known_hub(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Serve a hub that this process knows, with a token; large files go by LFS, which needs no other server."""
    constants = pytest.importorskip("huggingface_hub.constants", reason="the extra hub is not installed")
    with serving(folder / "xet") as served:
        patch.setenv("HF_TOKEN", TOKEN)
        patch.setattr(constants, "ENDPOINT", served.endpoint)
        template = f"{served.endpoint}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        patch.setattr(constants, "HF_URL_HOSTS", frozenset(["127.0.0.1"]), raising=False)
        patch.setattr(constants, "HF_TOKEN_PATH", str(folder / "no-token"))
        patch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        # An opened place remembers the address of its hub.
        place._opened.cache_clear()
        pytest.importorskip("huggingface_hub").HfFileSystem.clear_instance_cache()
        yield served
        place._opened.cache_clear()


@contextmanager
def serving(store: Path) -> Iterator[Hub]:
    """Serve a hub with a model and a bucket for the length of the block."""
    hub = Hub(store)
    hub.repositories[f"models/{NAME}"] = Repository()
    hub.buckets[NAME] = {}
    server = LoopbackServer(("127.0.0.1", 0), type("HubHandler", (Handler,), {"hub": hub}))
    server.daemon_threads = True
    hub.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
