"""One HTML file with runs and their curves in it, which any browser shows offline. See PROTOCOL.md of the viewer."""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
import re
import sys
from array import array
from math import isfinite
from typing import TYPE_CHECKING, Any

from toyspec.errors import StreamError, UnknownFormatError
from toyspec.reading.log_detection import DialectChoice, usual_names
from toyspec.runs.listing import streams_below
from toyspec.version import __version__
from toyspec.view.curve_frames import AXES, Request, curve_frames
from toyspec.view.details import detail_of
from toyspec.view.frames import frame, little
from toyspec.view.live_curves import LiveCurves
from toyspec.view.requests import curve_of
from toyspec.view.rows import row_of
from toyspec.view.run_files import RunFile
from toyspec.view.scanning import count_findings
from toyspec.view.server import app_files
from toyspec.writing.clocks import utc_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DEFAULT_BUCKETS = 1000
_STEPS = 65534
_NAN = 65535
_POLICY = re.compile(r'(<meta http-equiv="Content-Security-Policy" content=")[^"]*(">)')


def html_report(
    roots: Sequence[str], *, now: float, buckets: int = DEFAULT_BUCKETS, dialect: DialectChoice | None = None
) -> tuple[str, int]:
    """Return the page with the runs at and below *roots*, and the number of runs; *now* is the time that it names.

    A curve has at most *buckets* buckets, each with its minimum and maximum. Raises StreamError if a root or a stream
    that was named cannot be read, and FileNotFoundError if the viewer was not built.
    """
    files = app_files()
    if "index.html" not in files:
        raise FileNotFoundError("the viewer was not built; `make viewer` builds it")
    choice = dialect or DialectChoice()
    rows: list[dict[str, Any]] = []
    details: dict[str, Any] = {}
    frames: list[bytes] = []
    for path, run in _runs(roots, choice):
        file = RunFile(path, choice)
        try:
            file.read()
            if not file.is_known:
                continue
            row = row_of(file.scan.summary, run, metrics_left_out=file.scan.metrics_left_out)
            row["findings"] = count_findings(path, choice)
            rows.append(row)
            details[row["id"]] = detail_of(path, row, choice)
            frames += _frames(file, row["id"], buckets)
        finally:
            file.close()
    listing = {"revision": "1", "complete": True, "root": "report", "version": __version__, "runs": rows}
    header = {"report": 1, "written": utc_text(now), "listing": listing, "details": details}
    packed = gzip.compress(b"".join([frame(header), *frames]), mtime=0)
    return _page(files, base64.b64encode(packed).decode()), len(rows)


def _runs(roots: Sequence[str], choice: DialectChoice) -> Iterator[tuple[str, str]]:
    """Yield path and id of each run; the id is the shortest end of its path that no other run has."""
    errors, streams = streams_below(roots, usual_names(choice))
    for error in errors:
        raise StreamError(error.path, error.message)
    if not streams:
        raise UnknownFormatError(", ".join(roots), "no run here")
    places = [os.path.dirname(os.path.abspath(stream.path)) for stream in streams]
    whole = places if len(set(places)) == len(places) else [os.path.abspath(stream.path) for stream in streams]
    shared = os.path.commonpath([os.path.dirname(place) for place in whole])
    for stream, place in zip(streams, whole, strict=True):
        yield stream.path, os.path.relpath(place, shared).replace(os.sep, "/")


def _frames(file: RunFile, run: str, buckets: int) -> Iterator[bytes]:
    import threading

    curves = LiveCurves(file, threading.Lock())
    for metric in curves.metrics:
        curve = curve_of(curves, run, metric, str(file.size))
        axes = tuple(axis for axis in AXES if axis in ("step", "time") or _has(curve, axis))
        yield from curve_frames(curve, Request(axes, buckets), encode=_packed)


def _has(curve: Any, axis: str) -> bool:
    if axis == "tokens":
        return curve.tokens is not None
    return curve.buckets is not None and any(map(isfinite, curve.buckets.columns["epoch"]))


def _packed(name: str, column: array[float]) -> tuple[dict[str, Any], bytes]:
    """Return a column in 16 bits a value, which the drawing cannot tell from more; whole steps stay exact."""
    known = [value for value in column if isfinite(value)]
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    unit = (high - low) / _STEPS
    if name == "step" and len(column) > 1 and column[1] > column[0]:
        gap = column[1] - column[0]
        unit = gap if all((value - low) % gap == 0 for value in known) and (high - low) / gap <= _STEPS else unit
    if not isfinite(unit) or (name in ("step", "count", "nan") and unit != 0 and unit % 1):
        return {"name": name, "type": "f8"}, little(column)
    numbers = array("H", [_number(value, low, unit) for value in column])
    if sys.byteorder != "little":
        numbers.byteswap()
    return {"name": name, "type": "u2", "scale": [low, unit]}, numbers.tobytes()


def _number(value: float, low: float, unit: float) -> int:
    if not isfinite(value):
        return _NAN
    return round((value - low) / unit) if unit else 0


def _page(files: dict[str, bytes], data: str) -> str:
    page, style, script = (files[name].decode() for name in ("index.html", "app.css", "app.js"))
    if "</script" in script.lower() or "</style" in style.lower():
        raise ValueError("the viewer's own files cannot be put into a page")
    policy = (
        f"default-src 'none'; script-src 'sha256-{_digest(script)}'; style-src 'sha256-{_digest(style)}'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    page = _POLICY.sub(lambda found: f"{found.group(1)}{policy}{found.group(2)}", page)
    page = page.replace('<link rel="stylesheet" href="app.css">', f"<style>{style}</style>")
    held = f'<script type="text/plain" id="toyspec-data">{data}</script>'
    return page.replace('<script src="app.js"></script>', f"{held}\n<script>{script}</script>")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
