"""The artifacts of a munin root: manifests by name and version, and their files by digest."""

from __future__ import annotations

import os
import shutil
from typing import Final

import msgspec

from toyspec.writing.artifacts import placed_file

KINDS: Final = ("dataset", "model", "checkpoint", "file", "dir", "other")
SCHEME: Final = "munin:"
"""Begins the address of an artifact, ``munin:NAME:VERSION``."""


def write_artifact(root: str, path: str, *, name: str, role: str, producer: tuple[str, float]) -> str:
    """Put the file *path* into *root* as an artifact *name*, and return its version; *producer* is run id and time."""
    facts = placed_file(os.path.dirname(path), os.path.basename(path), copy=False).members
    digest = str(facts.get("sha256") or f"size-{facts.get('size_bytes')}")
    blob = os.path.join(root, "blobs", "sha256", digest)
    os.makedirs(os.path.dirname(blob), exist_ok=True)
    if not os.path.exists(blob):
        shutil.copyfile(path, blob)
    versions = os.path.join(root, "artifacts", name, "versions")
    os.makedirs(versions, exist_ok=True)
    version = f"v{len(os.listdir(versions)) + 1}"
    manifest = {
        "schema_version": 2,
        "name": name,
        "version": version,
        "kind": role if role in KINDS else "other",
        "payload": "file",
        "digest": digest,
        "path": f"blobs/sha256/{digest}",
        "size_bytes": facts.get("size_bytes", 0),
        "metadata": {},
        "aliases": [],
        "consumer_run_ids": [],
        "created_at": producer[1],
        "producer_run_id": producer[0],
    }
    os.makedirs(os.path.join(versions, version))
    with open(os.path.join(versions, version, "manifest.json"), "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
    return version
