"""Answers what the viewer asks: see PROTOCOL.md of the viewer. It knows nothing of sockets."""

from __future__ import annotations

import os
from contextlib import closing
from functools import cached_property, partial
from itertools import cycle
from math import isfinite
from typing import TYPE_CHECKING, Any, cast

import msgspec

from toyspec.core import rooms
from toyspec.core.errors import StreamError, ToyspecError, must_be_one_of
from toyspec.core.escaping import encodable
from toyspec.core.generated.media import EXTENSIONS
from toyspec.core.places.addresses import path_in
from toyspec.core.reading.run_files import media_file
from toyspec.core.reading.step_blocks import StepBlockFeed
from toyspec.core.reading.stream_files import is_compressed
from toyspec.core.system_calls import cause_of
from toyspec.version import __version__
from toyspec.view.curve_frames import AXES, Axis, Request, curve_frames, frame, tokens_of
from toyspec.view.opened_files import is_inside, open_file
from toyspec.view.scans import Scan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from toyspec.view.curve_store import Curves
    from toyspec.view.details import ShownRanks
    from toyspec.view.live_runs import LiveRuns
    from toyspec.view.opened_files import OpenFile
    from toyspec.view.pyramids import Buckets
    from toyspec.view.viewed_runs import ViewedRun

    Query = Mapping[str, Sequence[str]]

MOST_ASKED_BUCKETS = 4096
"""Number of buckets of a curve that one request may ask for; a pyramid keeps `pyramids.MOST_BUCKETS`."""
MOST_RUNS = 10_000
_USUAL_BUCKETS = 300.0
# A page takes a few pieces more quickly than many.
_PIECE_BYTES = 64 << 10
# A part of a file that is read for one finer curve.
_MOST_PART_BYTES = 256 << 20
_MOST_COMPARED_BYTES = 64 << 20
_NO_FILE = "the run has no such file; `api/run` lists its files"
_NO_MEDIA = "the run has no such media file; `toyspec check` says which are missing"


class RefusedError(Exception):
    """The request cannot be answered; *status* is that of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Answers:
    """What the viewer may ask of the runs of a catalog."""

    def __init__(self, catalog: LiveRuns) -> None:
        self.catalog = catalog

    @cached_property
    def _ranks(self) -> ShownRanks:
        # Imported here, as below: a list of runs and their curves need none of it, and start-up time counts.
        from toyspec.view.details import ShownRanks

        return ShownRanks()

    def runs(self, query: Query) -> bytes:
        """Return the rows of all runs, or of those that changed."""
        listing = self.catalog.listing(_one(query, "since", None), is_quick=True)
        roots = self.catalog.roots
        problems = [encodable(root.problem) for root in roots if root.problem is not None]
        names = ", ".join(encodable(root.name) for root in roots)
        listing |= {"root": names, "problems": problems, "version": __version__}
        return msgspec.json.encode(listing)

    def detail(self, query: Query) -> bytes:
        """Return one run whole."""
        from toyspec.view.details import detail_of

        entry = self._entry(query)
        try:
            dialect = self.catalog.dialect
            # Imported here: start-up time counts.
            from toyspec.core.checker.checking import check_run

            report = check_run(entry.path, dialect)
            curves = self.catalog.curves(entry)
            tokens = None if curves is None else tokens_of(curves, ("tokens",))
            return msgspec.json.encode(detail_of(entry.path, self.catalog.row(entry), dialect, report, tokens))
        except StreamError as error:
            raise RefusedError(404, f"{error.fact}; check the run with `toyspec check`") from error

    def curves(self, query: Query) -> Iterator[bytes]:
        """Return the frames of the curves that were asked for, in pieces as soon as those are ready."""
        metrics = query.get("metric") or [_required(query, "metric")]
        axis = _one(query, "x", "step")
        if axis not in AXES:
            raise RefusedError(400, f"x is {axis!r}; {must_be_one_of(AXES)}")
        runs = query.get("run", ())
        if len(runs) > MOST_RUNS:
            raise RefusedError(400, f"{len(runs)} runs; ask for {MOST_RUNS} at most")
        buckets = [_number(each, "buckets") or _USUAL_BUCKETS for each in query.get("buckets", ())] or [_USUAL_BUCKETS]
        if len(buckets) not in (1, len(metrics)):
            raise RefusedError(400, f"{len(buckets)} numbers of buckets; name one, or one for each metric")
        low, high = (_number(_one(query, name, ""), name) for name in ("from", "to"))
        requests = [
            (metric, Request((cast("Axis", axis),), int(min(MOST_ASKED_BUCKETS, max(2, most))), low, high))
            for metric, most in zip(metrics, cycle(buckets), strict=False)
        ]
        return self._frames(requests, runs)

    def _frames(self, requests: Sequence[tuple[str, Request]], runs: Sequence[str]) -> Iterator[bytes]:
        entries = self.catalog.entries(runs)
        self.catalog.want([entry for entry in entries if entry is not None])
        for read in self.catalog.as_read(entries):
            made = bytearray()
            for at in read:
                made += self._frames_of(runs[at], entries[at], requests)
                if len(made) >= _PIECE_BYTES:
                    yield bytes(made)
                    made.clear()
            yield bytes(made)

    def _frames_of(self, run: str, entry: ViewedRun | None, requests: Sequence[tuple[str, Request]]) -> bytes:
        try:
            return b"".join(self._each_frame(run, entry, requests))
        except (StreamError, OSError) as error:
            return b"".join(frame({"run": run, "metric": metric, "message": str(error)}) for metric, _ in requests)

    def _each_frame(
        self, run: str, entry: ViewedRun | None, requests: Sequence[tuple[str, Request]]
    ) -> Iterator[bytes]:
        curves = None if entry is None else self.catalog.curves(entry, [metric for metric, _ in requests])
        if entry is None or curves is None:
            problem = None if entry is None else self.catalog.row(entry)["message"] or "the run cannot be read"
            message = problem or "no such run; it may have been deleted"
            yield from (frame({"run": run, "metric": metric, "message": message}) for metric, _ in requests)
            return
        tokens = tokens_of(curves, requests[0][1].axes)
        for metric, request in requests:
            deepen = partial(finer_buckets, entry.path, curves, metric)
            yield from curve_frames(curves, run, metric, request, tokens, deepen=deepen)

    def ranks(self, query: Query) -> bytes:
        """Return what the processes of a run have logged, as ``shown_ranks`` does; null where there is only one."""
        entry = self._entry(query)
        try:
            return self._ranks.find(entry)
        except StreamError as error:
            raise RefusedError(404, f"{error.fact}; check the run with `toyspec check`") from error

    def partings(self, query: Query) -> bytes:
        """Return the first step at which each metric of the runs *a* and *b* differs, as ``compare_runs`` finds it.

        It is null of large runs, and of those that have no metric in common.
        """
        a, b = (self._entry(query, name) for name in ("a", "b"))
        if sum(each.found.size for each in (a, b)) > _MOST_COMPARED_BYTES:
            return b"null"
        room = rooms.expect_partings
        try:
            found = room.compare_runs(a.path, b.path, tolerance=room.Tolerance(), choice=self.catalog.dialect).partings
        except ToyspecError:
            return b"null"
        return msgspec.json.encode([{"metric": each.metric, "step": each.step} for each in found])

    def media(self, query: Query) -> tuple[OpenFile, str | None]:
        """Return a media file of a run, open, and the type that it is shown as; None for one that is only saved."""
        entry = self._entry(query)
        media_type = _required(query, "type")
        name = media_file(_required(query, "sha256"), media_type)
        if name is None:
            raise RefusedError(400, "sha256 must have 64 lower-case hexadecimal digits")
        path = path_in(os.path.dirname(entry.path), name)
        # A link may lead to any file.
        if not entry.root.is_remote and (os.path.islink(path) or os.path.islink(os.path.dirname(path))):
            raise RefusedError(404, _NO_MEDIA)
        return self._opened(entry, path, _NO_MEDIA), media_type if media_type in EXTENSIONS else None

    def file(self, query: Query) -> OpenFile:
        """Return a file of a run that may be sent, open: its stream, if none is named."""
        from toyspec.view.details import files_beside

        entry = self._entry(query)
        own = os.path.basename(entry.path)
        wanted = _one(query, "path", own)
        path = next((file.path for file in files_beside(entry.path) if file.name == wanted), None)
        if path is None and wanted != own:
            raise RefusedError(404, _NO_FILE)
        return self._opened(entry, path or entry.path, _NO_FILE)

    @staticmethod
    def _opened(entry: ViewedRun, path: str, absent: str) -> OpenFile:
        try:
            file = open_file(path)
        except StreamError as error:
            raise RefusedError(404, error.fact) from error
        except OSError as error:
            raise RefusedError(404, cause_of(error)) from error
        if not is_inside(entry.root, path, file):
            file.close()
            raise RefusedError(404, absent)
        return file

    def _entry(self, query: Query, name: str = "run") -> ViewedRun:
        run = _required(query, name)
        entry = self.catalog.entry(run)
        if entry is None:
            raise RefusedError(404, "no such run; it may have been deleted")
        return entry


def finer_buckets(path: str, curves: Curves, metric: str, begin: int, end: int) -> Buckets | None:
    """Return the points of the buckets from *begin* to *end* of a curve, from the file; None if that is impossible."""
    base = curves.latest(metric)
    profile = cast("Any", curves.profile)
    if base is None or profile not in ("toy/v1", "metrics/v1"):
        return None
    reach = _reach(path, curves, base, (begin, end))
    if reach is None:
        return None
    scan = Scan(path, attempts=curves.attempts, wanted=lambda name: name == metric, most=2 * MOST_ASKED_BUCKETS)
    scan.summary.placing.begin_at(_step_before(curves, base, metric, begin))
    feed = StepBlockFeed(profile=profile, attempts=curves.attempts)
    feed.skip(reach[0], int(base.columns["line"][begin]) - 1)
    with closing(open_file(path)) as file:
        for chunk in file.blocks(*reach):
            scan.take(feed.feed(chunk))
    found = scan.latest.get(metric)
    return None if found is None else found.buckets()


def _step_before(curves: Curves, base: Buckets, metric: str, begin: int) -> float:
    """Return the step at which the first value of the bucket *begin* is, if its record has none."""
    steps, first = base.columns["step"], curves.first(metric)
    if base.level > 1 and begin == 0 and first is not None:
        return first[0]
    # A bucket has the place of its last point.
    return steps[begin if base.level == 1 or begin == 0 else begin - 1]


def _reach(path: str, curves: Curves, base: Buckets, part: tuple[int, int]) -> tuple[int, int] | None:
    """Return where the lines of the buckets are in the file; None if they are too much, or the file is compressed."""
    if is_compressed(path):
        return None
    begin, end = part
    offsets = base.columns["offset"]
    first = int(offsets[begin])
    # The line after the last bucket may be in the block that the bucket is in too.
    after = next((int(offset) for offset in offsets[end:] if offset > offsets[min(end, base.number) - 1]), None)
    last = curves.identity[2] if after is None else after
    return (first, last) if last - first <= _MOST_PART_BYTES else None


def _one(query: Query, name: str, default: str | None) -> Any:
    values = query.get(name)
    return values[0] if values else default


def _required(query: Query, name: str) -> str:
    value = _one(query, name, None)
    if value is None:
        raise RefusedError(400, f"the request has no {name}")
    return str(value)


def _number(text: str, name: str) -> float | None:
    if text == "":
        return None
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise RefusedError(400, f"{name} must be a number")
    return value
