"""Files that come into the bundle with an import: an event names one by its member ``file``, and is settled here."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from toyspec.convert.losses import Cause
from toyspec.format.run_files import MEDIA_FOLDER, parts_below
from toyspec.system_calls import PASSING_ERRORS, SYSTEM_CALLS, cause_of
from toyspec.writing.artifacts import FOLDER, placed_file
from toyspec.writing.opening import free_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.losses import Ledger
    from toyspec.writing.media import Media

MOST_COPIED_BYTES: Final = 1 << 26
"""A larger artifact stays where it is."""

MISSING_FILE = Cause("missing-file", "dropped", "its file is not there, lies elsewhere, or is not what its record says")
LARGE_FILE = Cause("large-file", "changed", "a file of more than 64 MiB stays where it is: a `reference` names it")
FILE_CAUSES = (MISSING_FILE, LARGE_FILE)


class IncomingMedia(NamedTuple):
    """The file of a ``media`` event, or the bins of a ``histogram``."""

    content: Media
    place: str
    """For reports."""

    def placed(self, directory: str, ledger: Ledger) -> dict[str, Any]:
        """See IncomingArtifact."""
        del ledger
        return self.content.placed(directory, SYSTEM_CALLS)


class IncomingArtifact(NamedTuple):
    """The file of an ``artifact`` event."""

    path: str
    name: str
    """Its path below the folder ``artifacts`` of the bundle, with ``/``."""
    place: str

    def placed(self, directory: str, ledger: Ledger) -> dict[str, Any]:
        """Bring the file into the bundle *directory*, and return the members of its event; raise OSError, ValueError.

        A large file stays where it is: the members are those of a ``reference``.
        """
        size = os.stat(self.path).st_size
        if size > MOST_COPIED_BYTES:
            ledger.changed(LARGE_FILE, self.place, f"{size} bytes", self.path)
            found = placed_file(directory, os.path.abspath(self.path), copy=False)
            return {"kind": found.kind, **found.members}
        parts = parts_below(self.name) or ["file"]
        target = os.path.join(directory, FOLDER, *parts)
        if os.path.lexists(target):
            target = next(free_names(target, first=2))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(self.path, target)
        found = placed_file(directory, os.path.relpath(target, directory), copy=False)
        return {"kind": found.kind, **found.members}


def settled(event: dict[str, Any], directory: str, ledger: Ledger) -> dict[str, Any] | None:
    """Return *event* with its file in the bundle *directory*, its item settled; None if its file is not there."""
    file = event.pop("file")
    try:
        members = file.placed(directory, ledger)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in PASSING_ERRORS:
            raise
        ledger.drop(MISSING_FILE, file.place, cause_of(error) if isinstance(error, OSError) else str(error))
        return None
    ledger.done()
    return {**event, **members}


def file_below(root: str, relative: object) -> str | None:
    """Return the regular file at the path *relative* to the directory *root*, which a log names.

    None where there is none, and for a path that leaves *root*, also by a link.
    """
    if not isinstance(relative, str) or not relative or "\0" in relative:
        return None
    path = os.path.realpath(os.path.join(root, *relative.replace("\\", "/").split("/")))
    is_below = path.startswith(os.path.join(os.path.realpath(root), ""))
    return path if is_below and not os.path.isabs(relative) and os.path.isfile(path) else None


def files_to_bring(partial: str, target: str) -> Iterator[tuple[str, str]]:
    """Yield each file that an import brought into *partial*, and its place in the bundle *target*."""
    for folder in (MEDIA_FOLDER, FOLDER):
        for place, _, names in os.walk(os.path.join(partial, folder)):
            for name in sorted(names):
                path = os.path.join(place, name)
                yield path, os.path.join(target, os.path.relpath(path, partial))
