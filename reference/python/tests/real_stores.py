"""Starts object stores that are not of this project, on loopback: versitygw for S3, Azurite for Azure.

``nox -s interop_stores`` installs them. Tests that need one are skipped without it.
"""

from __future__ import annotations

import base64
import hmac
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from loopback_store import BUCKET

if TYPE_CHECKING:
    from collections.abc import Iterator

_PLACES = os.pathsep.join([os.environ.get("TOYSPEC_STORES", ""), str(Path.home() / "go" / "bin")])
_SECONDS = 300.0

VERSITYGW = shutil.which("versitygw") or shutil.which("versitygw", path=_PLACES)
AZURITE = shutil.which("azurite-blob") or shutil.which("azurite-blob", path=_PLACES)

# The account of every emulator, which its manual gives.
_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_VERSION = "2021-08-06"


@contextmanager
def versitygw(root: Path) -> Iterator[dict[str, str]]:
    """Serve a bucket below the directory *root*; yield the environment in which ``s3://`` names it."""
    assert VERSITYGW is not None
    place = f"127.0.0.1:{_free_port()}"
    (root / BUCKET).mkdir(parents=True)
    keys = ["--access", "testkey", "--secret", "testsecret"]
    with _served([VERSITYGW, "--port", place, *keys, "--quiet", "posix", str(root)], place):
        settings = {"ENDPOINT": f"http://{place}", "ACCESS_KEY_ID": "testkey", "SECRET_ACCESS_KEY": "testsecret"}
        yield {f"AWS_{name}": value for name, value in {**settings, "REGION": "us-east-1"}.items()}


@contextmanager
def azurite() -> Iterator[dict[str, str]]:
    """Serve a container; yield the environment in which ``az://`` names it."""
    assert AZURITE is not None
    place = f"127.0.0.1:{_free_port()}"
    options = ["--silent", "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
    address = ["--blobHost", "127.0.0.1", "--blobPort", place.partition(":")[2]]
    with _served([AZURITE, *options, *address], place):
        endpoint = f"http://{place}/{_ACCOUNT}"
        _make_container(endpoint)
        settings = {"ENDPOINT": endpoint, "ACCOUNT_NAME": _ACCOUNT, "ACCOUNT_KEY": _KEY}
        yield {f"AZURE_STORAGE_{name}": value for name, value in settings.items()}


@contextmanager
def _served(command: list[str], place: str) -> Iterator[None]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _await_server(place)
        yield
    finally:
        process.terminate()
        process.wait(_SECONDS)


def _make_container(endpoint: str) -> None:
    now = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    named = f"x-ms-date:{now}\nx-ms-version:{_VERSION}\n/{_ACCOUNT}/{_ACCOUNT}/{BUCKET}\nrestype:container"
    signed = hmac.new(base64.b64decode(_KEY), b"PUT" + b"\n" * 12 + named.encode(), "sha256").digest()
    headers = {
        "x-ms-date": now,
        "x-ms-version": _VERSION,
        "Authorization": f"SharedKey {_ACCOUNT}:{base64.b64encode(signed).decode()}",
        "Content-Length": "0",
    }
    request = urllib.request.Request(f"{endpoint}/{BUCKET}?restype=container", method="PUT", headers=headers)
    with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
        assert 201 == answer.status


def _free_port() -> int:
    """Return a free port on loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await_server(place: str) -> None:
    """Return as soon as something listens at *place*."""
    host, _, port = place.partition(":")
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection((host, int(port)), timeout=1.0):
            return
        time.sleep(0.05)
    pytest.fail(f"nothing listens at {place}")
