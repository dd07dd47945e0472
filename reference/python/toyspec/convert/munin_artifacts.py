"""The artifacts of a munin root: manifests by name and version, and their files by digest."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from toyspec.convert.incoming_files import file_below
from toyspec.convert.sources import files_below, object_in
from toyspec.writing.artifacts import placed_file

if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS: Final = ("dataset", "model", "checkpoint", "file", "dir", "other")
SCHEME: Final = "munin:"
"""Begins the address of an artifact, ``munin:NAME:VERSION``."""


class MuninArtifact(NamedTuple):
    """What the manifest of an artifact says, and where its files are."""

    kind: str
    digest: str | None
    size: int | None
    files: tuple[tuple[str, str], ...]
    """The path of each file, and its path in the bundle's folder of artifacts."""


def root_of(directory: str) -> str:
    """Return the root in which the run *directory* is: it is below ``experiments/EXPERIMENT/runs``."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(directory)))))


def artifact_of(directory: str, name: str, version: str) -> MuninArtifact | None:
    """Return the artifact that the run *directory* names; None where the root has no manifest of it."""
    root = root_of(directory)
    manifest = file_below(os.path.join(root, "artifacts"), f"{name}/versions/{version}/manifest.json")
    found = object_in(manifest) if manifest else None
    if found is None:
        return None
    digest, size = found.get("digest"), found.get("size_bytes")
    return MuninArtifact(
        str(found.get("kind")),
        digest if isinstance(digest, str) and found.get("payload") == "file" else None,
        size if type(size) is int and size >= 0 else None,
        tuple(_files(root, found.get("path"), name)),
    )


def _files(root: str, relative: Any, name: str) -> Iterator[tuple[str, str]]:
    file = file_below(root, relative)
    if file is not None:
        yield file, name
        return
    folder = os.path.realpath(os.path.join(root, str(relative)))
    if isinstance(relative, str) and os.path.isdir(folder) and folder.startswith(os.path.realpath(root) + os.sep):
        for _, files in files_below(folder, bool):
            for each in files:
                yield each, f"{name}/{os.path.relpath(each, folder).replace(os.sep, '/')}"


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
