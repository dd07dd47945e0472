"""The files of a run that are kept in step, by what may happen to them."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, NamedTuple

from toyspec.core.format.profiles import ANNOTATIONS_FILE, METRICS_FILE, SEAL_FILE
from toyspec.core.reading.run_files import files_of, is_media_file, rank_of
from toyspec.core.reading.sealed_files import TEMPORARY_FILE
from toyspec.core.runs.discovery import SIDECARS

if TYPE_CHECKING:
    from collections.abc import Container

    from toyspec.core.places.place import Entry

Kind = Literal["media", "side file", "stream", "sidecar", "seal", "annotations"]
"""Media: never change. Side file: an earlier stream or a fragment, which only gets another name. Stream and
annotations: grow by lines."""

Extent = Literal["logs", "all"]
"""Which files of a run are kept in step: the log with what belongs to it, or all, such as checkpoints, as well."""

_SIDE_FILE = re.compile(r"(.+)\.(gz|prev(-\d+)?|torn-\d+(-\d+)?)")
_OTHER_LOGS = frozenset([*SIDECARS, "import.json", "report.md"])
# A record of media comes after its file. What a rename makes free must have its new name before something else gets the
# old one. Annotations are of no seal, and a conflict about them leaves nothing else behind.
_ORDER: tuple[Kind, ...] = ("media", "side file", "stream", "sidecar", "seal", "annotations")


class BundleFile(NamedTuple):
    """A file of a run."""

    name: str
    """Path from the run's directory, with ``/`` between its parts."""
    kind: Kind

    @property
    def grows(self) -> bool:
        """Whether lines are appended to it, of which only whole ones are sent."""
        return self.kind in ("stream", "annotations")


def files_to_send(directory: str, extent: Extent) -> list[BundleFile]:
    """Return the files in *directory* in the order in which they are sent; raise OSError.

    Symbolic links, hidden files and what is being written under a temporary name are left out.
    """
    found = [file.name for file in files_of(directory, "own" if extent == "all" else "media")]
    names = [name for name in found if name.rpartition("/")[2] != TEMPORARY_FILE and "/." not in f"/{name}"]
    files = [BundleFile(name, _kind(name)) for name in names]
    return sorted((file for file in files if extent == "all" or _is_of_log(file)), key=_place)


def _is_stream(name: str) -> bool:
    """Return whether the file *name* of a run is a log that grows: that of a rank, or metrics.jsonl."""
    return name == METRICS_FILE or rank_of(name) is not None


def run_above(address: str, runs: Container[str], root: str) -> str | None:
    """Return the nearest directory above *address*, up to *root*, that is one of *runs*."""
    while len(address) > len(root):
        address = address.rpartition("/")[0]
        if address in runs:
            return address
    return None


def kept_name(name: str, entry: Entry) -> str:
    """Return the name under which the object *entry* of the log *name* is kept: always the same for the same object."""
    return f"{name}.prev-{sha256(f'{entry.size} {entry.identity}'.encode()).hexdigest()[:8]}"


def _place(file: BundleFile) -> tuple[int, int, str]:
    base, mark, number = file.name.partition(".prev-")
    # The newest number first; .prev itself, which gets another content, after all that have a number.
    return _ORDER.index(file.kind), -int(number) if mark and number.isdecimal() else 1, base


def _kind(name: str) -> Kind:
    if _is_stream(name):
        return "stream"
    side = _SIDE_FILE.fullmatch(name)
    if side is not None and (_is_stream(side[1]) or side[1] == ANNOTATIONS_FILE):
        return "side file"
    if name == ANNOTATIONS_FILE:
        return "annotations"
    if is_media_file(name):
        return "media"
    return "seal" if name == SEAL_FILE else "sidecar"


def _is_of_log(file: BundleFile) -> bool:
    return file.kind != "sidecar" or file.name in _OTHER_LOGS or file.name.startswith(f"{SEAL_FILE}.")
