"""A folder that any web server serves: the viewer with runs in it, and the logs of these runs to download."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

from toyspec.core.files import open_file
from toyspec.core.format.profiles import ANNOTATIONS_FILE, MANIFEST_FILE
from toyspec.core.places.addresses import is_address
from toyspec.core.places.remote_files import RemoteFile
from toyspec.core.reading.run_files import parts_below, ranks_beside
from toyspec.core.writing.clocks import utc_text
from toyspec.view.report import html_report, runs_below

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toyspec.core.reading.log_detection import DialectChoice

INDEX_FILE = "site.json"
"""Names the runs of a site with the sizes and digests of their logs; a folder without it is not written over."""
_PARTS_BESIDE = (MANIFEST_FILE, ANNOTATIONS_FILE)


class Site(NamedTuple):
    """What was written."""

    runs: int
    bytes: int
    """Size of all its files."""


def write_site(  # noqa: PLR0913 - each is an option of the command or what it shows
    roots: Sequence[str],
    directory: str,
    *,
    buckets: int,
    dialect: DialectChoice,
    has_logs: bool = True,
    on_progress: Callable[[int, int], None] | None = None,
) -> Site:
    """Write the runs at and below *roots* into *directory* as a site; return its size.

    With *has_logs*, each log is copied as it is at this moment. *on_progress* is that of ``html_report``. The site that
    was there is replaced once the new one is whole. Raises FileExistsError if *directory* has other files, StreamError
    if a root or a log that was named cannot be read, and FileNotFoundError if the viewer was not built.
    """
    _demand_own(roots, directory)
    now = time.time()
    beside = f"{os.path.normpath(directory)}.new"
    shutil.rmtree(beside, ignore_errors=True)
    os.makedirs(beside)
    try:
        page, count = html_report(roots, now=now, buckets=buckets, dialect=dialect, on_progress=on_progress)
        _write(beside, "index.html", page.encode())
        _write(beside, ".nojekyll", b"")  # so that GitHub Pages serves every name
        logs = list(_logs(roots, beside, dialect)) if has_logs else []
        index = {"site": 1, "written": utc_text(now), "runs": logs}
        _write(beside, INDEX_FILE, json.dumps(index, indent=2).encode() + b"\n")
        total = sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(beside) for name in names)
        if os.path.isdir(directory):
            shutil.rmtree(directory)
        os.rename(beside, directory)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return Site(count, total)


def _demand_own(roots: Sequence[str], directory: str) -> None:
    target = os.path.realpath(directory)
    for root in roots:
        if not is_address(root) and os.path.commonpath([target, os.path.realpath(root)]) == os.path.realpath(root):
            raise FileExistsError(f"{directory} is inside {root}, where its logs would be read as runs; name another")
    if os.path.lexists(directory) and not os.path.isdir(directory):
        raise FileExistsError(f"{directory} is a file; name a folder")
    if os.path.isdir(directory) and os.listdir(directory) and not os.path.isfile(os.path.join(directory, INDEX_FILE)):
        raise FileExistsError(f"{directory} has files that no site of toyspec has; name a new or empty folder")


def _logs(roots: Sequence[str], directory: str, dialect: DialectChoice) -> Any:
    for stream, run in runs_below(roots, dialect):
        path = stream.path
        folder = os.path.join("runs", *parts_below(run))
        name = path.rstrip("/").rpartition("/")[2] if is_address(path) else os.path.basename(path)
        place = os.path.join(folder, name)
        size, digest = _copied(path, os.path.join(directory, place))
        for other in _PARTS_BESIDE:
            source = os.path.join(os.path.dirname(path), other)
            if not is_address(path) and os.path.isfile(source) and not os.path.islink(source):
                _copied(source, os.path.join(directory, folder, other))
        yield {"id": run, "log": place.replace(os.sep, "/"), "bytes": size, "sha256": digest}
        for source in ranks_beside(path).values():
            place = os.path.join(folder, os.path.basename(source))
            size, digest = _copied(source, os.path.join(directory, place))
            yield {"id": run, "log": place.replace(os.sep, "/"), "bytes": size, "sha256": digest}


def _copied(source: str, target: str) -> tuple[int, str]:
    """Copy a log up to the size that it has now, since a running one grows; return its size and SHA-256."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    digest, size = hashlib.sha256(), 0
    opened = cast("BinaryIO", RemoteFile(source)) if is_address(source) else open_file(source)
    with opened as file, open(target, "xb") as copy:
        left = file.seek(0, os.SEEK_END)
        file.seek(0)
        while left and (data := file.read(min(left, 1 << 20))):
            copy.write(data)
            digest.update(data)
            size += len(data)
            left -= len(data)
    return size, digest.hexdigest()


def _write(directory: str, name: str, data: bytes) -> None:
    with open(os.path.join(directory, name), "wb") as file:
        file.write(data)
