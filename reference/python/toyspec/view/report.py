"""One HTML file with runs and their curves in it, which any browser shows offline, in a notebook too.

See PROTOCOL.md of the viewer.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
import re
import time
from contextlib import closing, suppress
from functools import partial
from html import escape
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.core.errors import StreamError
from toyspec.core.places.addresses import is_address, path_in
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.reading.run_files import media_file, rank_file, ranks_beside
from toyspec.core.runs.run import Run, named_streams
from toyspec.core.workers.processes import Processes, cores
from toyspec.core.workers.running import Threads, Work, results_of
from toyspec.core.writing.clocks import utc_text
from toyspec.health.checking import counted_incidents
from toyspec.version import __version__
from toyspec.view.curve_frames import AXES, Request, curve_frames, frame, tokens_of
from toyspec.view.curve_store import curves_of
from toyspec.view.details import detail_of, shown_ranks
from toyspec.view.opened_files import open_file
from toyspec.view.roots import roots_of, run_id
from toyspec.view.rows import row_of
from toyspec.view.scanning import ALONE_BYTES
from toyspec.view.scans import ScannedRun
from toyspec.view.server import app_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from toyspec.core.runs.discovery import Stream
    from toyspec.view.curve_store import Curves

DEFAULT_BUCKETS = 1000
# A page of more is slow to open and to send.
_MOST_MEDIA_BYTES = 24 << 20
_LARGEST_MEDIA_BYTES = 1 << 20
# The highest level takes 25 times as long for numbers, and saves half a per cent.
_LEVEL = 4
_POLICY = re.compile(r'(<meta http-equiv="Content-Security-Policy" content=")[^"]*(">)')


def html_report(
    roots: Sequence[str],
    *,
    now: float,
    buckets: int = DEFAULT_BUCKETS,
    dialect: DialectChoice | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> tuple[str, int]:
    """Return the page with the runs at and below *roots*, and the number of runs; *now* is the time that it names.

    A curve has at most *buckets* buckets, each with its minimum and maximum. *on_progress* is given the bytes of the
    streams that were read, and of all. Raises StreamError if a root or a stream that was named cannot be read, and
    FileNotFoundError if the viewer was not built.
    """
    files = app_files()
    if "index.html" not in files:
        raise FileNotFoundError("the viewer was not built; `make viewer` builds it")
    rows: list[dict[str, Any]] = []
    details: dict[str, Any] = {}
    ranks: dict[str, Any] = {}
    media = _Media()
    frames: list[bytes] = []
    for path, made in _all_reported(roots, buckets, dialect or DialectChoice(), on_progress):
        rows.append(made.row)
        run = made.row["id"]
        details[run] = made.detail
        if made.ranks is not None:
            ranks[run] = made.ranks
        media.take(path, made.detail["media"])
        frames += made.frames
    listing = {"revision": "1", "complete": True, "root": "report", "version": __version__, "runs": rows}
    header = {"report": 1, "written": utc_text(now), "listing": listing, "details": details}
    header |= {"ranks": ranks, "media": media.files}
    packed = gzip.compress(b"".join([frame(header), *frames]), _LEVEL, mtime=0)
    return _page(files, base64.b64encode(packed).decode()), len(rows)


class _Reported(NamedTuple):
    """What the page holds of one run."""

    row: dict[str, Any]
    detail: dict[str, Any]
    ranks: dict[str, Any] | None
    frames: list[bytes]
    """Those of its curves."""


def _all_reported(
    roots: Sequence[str], buckets: int, choice: DialectChoice, on_progress: Callable[[int, int], None] | None
) -> Iterator[tuple[str, _Reported]]:
    """Yield the path of each run below *roots*, in order, and what the page holds of it."""
    asked = _runs_below(roots, choice)
    total = sum(_size(each) for each in asked)
    number = min(cores(), len(asked))
    pays = total > ALONE_BYTES and number > 1 and not any(is_address(each.stream.path) for each in asked)
    workers = Processes(number) if pays else Threads(1)
    work = Work(partial(_reported_batch, buckets=buckets, choice=choice), _size, _not_read)
    done = 0
    with closing(results_of(asked, work, workers)) as results:
        for each, made in results:
            done += _size(each)
            if on_progress is not None:
                on_progress(done, total)
            if made is not None:
                yield each.stream.path, made


class _PageRun(NamedTuple):
    stream: Stream
    id: str


def _size(run: _PageRun) -> int:
    return run.stream.size


def _reported_batch(batch: list[_PageRun], buckets: int, choice: DialectChoice) -> list[_Reported | None]:
    return [_reported(run.stream.path, run.id, buckets, choice) for run in batch]


def _not_read(run: _PageRun, reason: str) -> _Reported:
    raise StreamError(run.stream.path, f"not read: {reason}; make the report of the other runs")


def _reported(path: str, run: str, buckets: int, choice: DialectChoice) -> _Reported | None:
    """Return what the page holds of the run *run* with the stream at *path*; None if its format is not known."""
    with closing(ScannedRun(path, choice)) as file:
        file.read_whole()
        if not file.is_known:
            return None
        row = row_of(file.scan.summary.facts, run, list(ranks_beside(path)))
        # Imported here: start-up time counts.
        from toyspec.core.checker.checking import check_run, counted

        report = check_run(path, choice)
        row["findings"] = report and counted(report)
        curves = curves_of(file)
        detail = detail_of(path, row, choice, report, tokens_of(curves, ("tokens",)))
        ranks = shown_ranks(path, run)
        # What is found between ranks is not in the stream of one.
        row.update(detail["incidents"] if ranks is None else counted_incidents(path, choice) or {})
        frames = list(_frames(curves, run, buckets))
        for rank, stream in ranks_beside(path).items():
            # The facts about the ranks name one that cannot be read.
            with suppress(StreamError), closing(ScannedRun(stream, choice)) as other:
                other.read_whole()
                frames += _frames(curves_of(other), f"{run}/{rank_file(rank)}", buckets)
        return _Reported(row, detail, ranks, frames)


class _Media:
    """The media files that a report has in it, each once: those that are small, until all have a size."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        """Base64 of each file, by its hash."""
        self._left = _MOST_MEDIA_BYTES

    def take(self, path: str, records: Sequence[dict[str, Any]]) -> None:
        """Take in the files beside the stream at *path* that *records* name, the last ones first."""
        for record in reversed(records):
            sha256, media_type = record.get("sha256"), record.get("media_type")
            if not isinstance(sha256, str) or not isinstance(media_type, str) or sha256 in self.files:
                continue
            name = media_file(sha256, media_type)
            data = None if name is None else self._bytes(path_in(os.path.dirname(path), name))
            if data is not None and hashlib.sha256(data).hexdigest() == sha256:
                self.files[sha256] = base64.b64encode(data).decode()
                self._left -= len(data)

    def _bytes(self, path: str) -> bytes | None:
        """Return the content of a file that is there and small enough; None otherwise."""
        if os.path.islink(path) or os.path.islink(os.path.dirname(path)):
            return None
        try:
            with closing(open_file(path)) as file:
                is_small = file.size <= min(_LARGEST_MEDIA_BYTES, self._left)
                return b"".join(file.blocks(0, file.size)) if is_small else None
        except (OSError, StreamError):
            return None


def _runs_below(paths: Sequence[str], choice: DialectChoice) -> list[_PageRun]:
    """Return each run at and below *paths*, in the order of its path."""
    roots, found = roots_of(paths), dict[str, _PageRun]()
    for stream in named_streams([root.path for root in roots], choice):
        root = next(each for each in roots if each.lists(stream.path))
        run = run_id(root, stream.path, is_only=len(roots) == 1, taken=found)
        found[run] = _PageRun(stream, run)
    return list(found.values())


def _frames(curves: Curves, run: str, buckets: int) -> Iterator[bytes]:
    tokens = tokens_of(curves, AXES)
    for metric in curves.metrics:
        whole = curves.latest(metric)
        has_epochs = whole is not None and any(map(isfinite, whole.columns["epoch"]))
        is_missing = {"epoch": not has_epochs, "tokens": tokens is None}
        request = Request(tuple(axis for axis in AXES if not is_missing.get(axis)), buckets)
        yield from curve_frames(curves, run, metric, request, tokens)


def _page(files: dict[str, bytes], data: str) -> str:
    page, style, script = (files[name].decode() for name in ("index.html", "app.css", "app.js"))
    if "</script" in script.lower() or "</style" in style.lower():
        raise ValueError("the viewer's own files cannot be put into a page")
    policy = (
        f"default-src 'none'; script-src 'sha256-{_digest(script)}'; style-src 'sha256-{_digest(style)}'; "
        "img-src data: blob:; media-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    page = _POLICY.sub(lambda found: f"{found.group(1)}{policy}{found.group(2)}", page)
    page = page.replace('<link rel="stylesheet" href="app.css">', f"<style>{style}</style>")
    held = f'<script type="text/plain" id="toyspec-data">{data}</script>'
    return page.replace('<script src="app.js"></script>', f"{held}\n<script>{script}</script>")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


MOST_NOTEBOOK_BYTES = 16 << 20
"""The largest page that is put into a notebook, which keeps it."""

_MEGABYTE = 1e6


class ReportFrame:
    """A report that a notebook shows. Its frame has neither the origin of the notebook nor the network."""

    def __init__(self, page: str, height: int) -> None:
        self.page = page
        """The report: an HTML page with everything in it."""
        self._height = height

    def _repr_html_(self) -> str:
        return (
            f'<iframe title="toyspec report" sandbox="allow-scripts allow-downloads" width="100%" '
            f'height="{self._height}" style="border:1px solid #8884" srcdoc="{escape(self.page)}"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<toyspec report, {len(self.page) / _MEGABYTE:.1f} MB; a notebook shows it>"


def report(
    runs: Run | str | os.PathLike[str] | Iterable[Run | str | os.PathLike[str]],
    *,
    height: int = 600,
    buckets: int = DEFAULT_BUCKETS,
) -> ReportFrame:
    """Return the report of *runs*, which a notebook shows: the views of ``toyspec view``, offline.

    *runs* is one run or several. A run is one of ``list_runs``, or a path or an address, of which all runs below are
    shown. *height* is in pixels; a curve has at most *buckets* buckets. Raises ValueError for a report that is too
    large for a notebook, and StreamError for a run that cannot be read.
    """
    several = [runs] if isinstance(runs, (Run, str, os.PathLike)) else runs
    paths = [run.path if isinstance(run, Run) else os.fspath(run) for run in several]
    page, number = html_report(paths, now=time.time(), buckets=buckets)
    if len(page) > MOST_NOTEBOOK_BYTES:
        raise ValueError(
            f"the report of {number} runs has {len(page) / _MEGABYTE:.1f} MB, and a notebook takes "
            f"{MOST_NOTEBOOK_BYTES / _MEGABYTE:.1f} MB; choose fewer runs, pass buckets={max(2, buckets // 4)}, "
            "or use `toyspec view`"
        )
    return ReportFrame(page, height)
