"""Keeps the curves and the row of each run in a cache directory, by the identity and the size of its stream.

The curves of a run are one block of numbers, in which equal columns are once.

The cache holds nothing that the streams do not say: deleting it costs time only. A file is written beside its place and
then renamed, so that two servers may share the directory.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
from array import array
from contextlib import suppress
from math import isfinite, nan
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.core.directories import Directory, directory_of
from toyspec.core.engine import native
from toyspec.core.files import open_file
from toyspec.core.reading.attempts import Attempts
from toyspec.version import __version__
from toyspec.view.pyramids import COLUMNS, MOST_BUCKETS, Buckets, EnginePyramid

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from toyspec.core.reading.live_stream import Identity
    from toyspec.view.pyramids import AnyPyramid
    from toyspec.view.scans import ScannedRun

VARIABLE = "TOYSPEC_CACHE"
"""The environment variable that names the cache directory."""
FORMAT = f"toyspec view 11 {__version__} {sys.byteorder}"
"""What the files of the cache begin with: change it with what they say."""
_MOST_BYTES = 2 << 30
_MOST_AGE = 90 * 86400.0
# The first picture of a run needs no more buckets.
_FEWEST_BUCKETS = 64
ITEM = 8
"""Bytes of a number."""


class Curves:
    """The curves of one run, as they were when its stream had an identity."""

    def __init__(self, head: dict[str, Any], data: bytes | memoryview) -> None:
        self._head = head
        self._data = data
        self.gaps: list[dict[str, Any]] = head["gaps"]
        self.resumes: list[dict[str, Any]] = head["resumes"]
        self.alerts: list[dict[str, Any]] = head["alerts"]
        self.attempts = Attempts.of(*head["attempts"])
        self.identity: Identity = tuple(head["identity"])
        self.profile: str | None = head["profile"]

    @property
    def metrics(self) -> list[str]:
        """The names of all metrics."""
        return list(self._head["latest"])

    def best(self, name: str) -> tuple[int, float] | None:
        """Return step and value of the best point of a metric; None without a goal."""
        found = self._head["best"].get(name)
        return None if found is None else (found[0], found[1])

    def latest(self, name: str, most: int | None = None) -> Buckets | None:
        """Return the curve of a metric as the latest attempt made it; None if the run does not have it.

        With *most* it may be halved as often as ``Buckets.fitting`` does.
        """
        levels = self._head["latest"].get(name)
        if levels is None:
            return None
        fitting = (each for each in levels if most is None or each["count"] <= most)
        return self._buckets(next(fitting, levels[-1]))

    def first(self, name: str) -> tuple[float, float, float] | None:
        """Return step, time and epoch of the first point of a metric, NaN where unknown; None without the metric."""
        places = self._head["first"].get(name)
        if places is None:
            return None
        step, time, epoch = (nan if place is None else place for place in places)
        return step, time, epoch

    def abandoned(self, name: str) -> list[Buckets]:
        """Return what later attempts did again, a curve for each stretch."""
        found = (self._buckets(stretch.get(name)) for stretch in self._head["abandoned"])
        return [each for each in found if each is not None]

    def _buckets(self, described: dict[str, Any] | None) -> Buckets | None:
        if described is None:
            return None
        count = described["count"]
        columns = {}
        for name, place in zip(COLUMNS, described["columns"], strict=True):
            if isinstance(place, list):
                columns[name] = array("d", [nan if place[0] is None else place[0]]) * count
            else:
                columns[name] = array("d")
                columns[name].frombytes(self._data[place * ITEM : (place + count) * ITEM])
        return Buckets(columns, described["level"], described["tail"])


def pack(
    file: ScannedRun, fewest: int = _FEWEST_BUCKETS, wanted: Container[str] | None = None
) -> tuple[dict[str, Any], bytes]:
    """Return the head and the columns of the curves of *file*, or of those *wanted*; equal columns are kept once.

    Each curve is there with half as many buckets again and again, down to *fewest* at most.
    """
    packing = Packing()
    scan, summary = file.scan, file.scan.summary
    best = {name: summary.best(name) for name in summary.series}
    latest = {name: curve for name, curve in scan.latest.items() if wanted is None or name in wanted}
    # A line of gzip data is not in the file, to be looked up.
    unknown = ("offset",) if file.is_compressed else ()
    gaps, alerts = (
        [{name: said for name, said in mark.items() if name not in unknown} for mark in marks]
        for marks in (scan.gaps, scan.alerts)
    )
    head = {
        "format": FORMAT,
        "identity": file.identity(),
        "profile": summary.profile,
        "gaps": gaps,
        "resumes": scan.resumes,
        "alerts": alerts,
        "best": {name: pair for name, pair in best.items() if pair is not None},
        "attempts": summary.attempts.state(),
        "latest": {name: packing.levels(curve, fewest) for name, curve in latest.items()},
        "first": {
            name: [place if isfinite(place) else None for place in curve.first_places] for name, curve in latest.items()
        },
        "abandoned": [
            {
                name: packing.levels(curve, MOST_BUCKETS)[0]
                for name, curve in stretch.items()
                if wanted is None or name in wanted
            }
            for stretch in scan.abandoned
        ],
    }
    return head, packing.data()


def curves_of(file: ScannedRun, wanted: Container[str] | None = None) -> Curves:
    """Return the curves of *file* as far as it was read, or those *wanted*; they do not change when it is read on."""
    return Curves(*pack(file, MOST_BUCKETS, wanted))


class CurveStore:
    """The cache directory."""

    def __init__(self, directory: str | None = None) -> None:
        """Use *directory*, by default the user's own; one that cannot be written is replaced until ``close``."""
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        wanted = directory or default_directory()
        try:
            os.makedirs(wanted, mode=0o700, exist_ok=True)
            usable = os.access(wanted, os.W_OK | os.X_OK)
        except OSError:
            usable = False
        if not usable:
            self._temporary = tempfile.TemporaryDirectory(prefix="toyspec-view-")
            wanted = self._temporary.name
        self.directory = wanted

    def load(self, path: str, identity: Identity | None) -> Curves | None:
        """Return what is kept of the stream at *path*; None if that is another one, or not of *identity*."""
        try:
            with open_file(self._file(path)) as file:
                data = file.read()
            size = int.from_bytes(data[:ITEM], "little")
            head = msgspec.json.decode(data[ITEM : ITEM + size])
            if head["format"] != FORMAT or (identity is not None and tuple(head["identity"]) != identity):
                return None
            # A copy would take as long as reading.
            return Curves(head, memoryview(data)[ITEM + size :])
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError, ValueError, AttributeError):
            # A file that another version wrote, or that is cut, counts as none.
            return None

    def save(self, path: str, head: dict[str, Any], columns: bytes) -> None:
        """Keep the curves of the stream at *path*; do nothing if they cannot be written."""
        text = msgspec.json.encode(head)
        _write_whole(self._file(path), len(text).to_bytes(ITEM, "little") + text + columns)

    def load_rows(self, root: str) -> dict[str, tuple[Identity, dict[str, Any]]]:
        """Return the rows of the runs below *root*, with the identities of their streams, by path."""
        try:
            with open_file(self._file(root, "rows")) as file:
                found = msgspec.json.decode(file.read())
            if found["format"] != FORMAT:
                return {}
            return {path: ((at[0], at[1], at[2], at[3]), row) for path, at, row in found["rows"]}
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError, ValueError, IndexError):
            return {}

    def save_rows(self, root: str, rows: dict[str, tuple[Identity, dict[str, Any]]]) -> None:
        """Keep the rows of the runs below *root*."""
        listed = [(path, at, row) for path, (at, row) in rows.items() if _is_text(path)]
        _write_whole(self._file(root, "rows"), msgspec.json.encode({"format": FORMAT, "rows": listed}))

    def trim(self) -> None:
        """Delete what was not used for long, and the oldest files beyond the largest size."""
        found = []
        with suppress(OSError), os.scandir(self.directory) as listing:
            for entry in listing:
                if entry.name.startswith("toyspec-"):
                    with suppress(OSError):
                        status = entry.stat(follow_symlinks=False)
                        found.append((status.st_mtime, status.st_size, entry.name))
        total, now = 0, time.time()
        for changed, size, name in sorted(found, reverse=True):
            total += size
            if total > _MOST_BYTES or now - changed > _MOST_AGE:
                with suppress(OSError), Directory(self.directory) as directory:
                    directory.delete(name)

    def close(self) -> None:
        """Delete the directory if it is a temporary one."""
        if self._temporary is not None:
            self._temporary.cleanup()

    def _file(self, path: str, of: str = "curves") -> str:
        digest = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:32]
        return os.path.join(self.directory, f"toyspec-{digest}.{of}")


def _write_whole(path: str, data: bytes) -> None:
    """Write *data* beside *path* and rename it; leave what is there if that is impossible."""
    with suppress(OSError), directory_of(path) as (directory, name):
        beside = f"{name}.{os.getpid()}"
        with directory.replaced(name, beside=beside), directory.new(beside) as file:
            file.write(data)


def default_directory() -> str:
    """Return the directory that keeps curves: that of TOYSPEC_CACHE, else ``toyspec`` in the user's own cache."""
    named = os.environ.get(VARIABLE)
    if named:
        return named
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "toyspec")


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


class Packing:
    """Columns of curves, equal ones once."""

    def __init__(self) -> None:
        engine = native()
        self._engine = None if engine is None else engine.Packing()
        self._kept: dict[bytes, int] = {}
        self._items = 0

    def levels(self, curve: AnyPyramid, fewest: int) -> list[dict[str, Any]]:
        """Add the buckets of *curve*, then each time half as many, down to *fewest* at most; say where they are.

        A column is at an item of ``data``, or has one value, in a list.
        """
        if self._engine is not None and isinstance(curve, EnginePyramid):
            found: list[dict[str, Any]] = self._engine.levels(curve.native, fewest)
            return found
        return [self._described(each) for each in _halved(curve.buckets(), fewest)]

    def data(self) -> bytes:
        """Return all columns, in the layout of this machine."""
        return b"".join(self._kept) if self._engine is None else self._engine.data()

    def _described(self, buckets: Buckets) -> dict[str, Any]:
        columns: list[int | list[float | None]] = []
        for name in COLUMNS:
            data = buckets.columns[name].tobytes()
            if data and data == data[:ITEM] * buckets.number:
                first = buckets.columns[name][0]
                columns.append([None if first != first else first])  # noqa: PLR0124 - NaN alone differs from itself
                continue
            if data not in self._kept:
                self._kept[data] = self._items
                self._items += buckets.number
            columns.append(self._kept[data])
        return {"count": buckets.number, "level": buckets.level, "tail": buckets.tail, "columns": columns}


def _halved(buckets: Buckets, fewest: int) -> Iterator[Buckets]:
    yield buckets
    while buckets.number > fewest:
        buckets = buckets.halved()
        yield buckets
