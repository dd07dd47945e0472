"""The report inside a notebook: the same page as ``toyspec report`` writes, in a frame of its own."""

from __future__ import annotations

import os
import time
from html import escape
from typing import TYPE_CHECKING

from toyspec.core.runs.run import Run
from toyspec.view.report import DEFAULT_BUCKETS, html_report

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_BYTES = 16 << 20
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
    if len(page) > MOST_BYTES:
        raise ValueError(
            f"the report of {number} runs has {len(page) / _MEGABYTE:.1f} MB, and a notebook takes "
            f"{MOST_BYTES / _MEGABYTE:.1f} MB; choose fewer runs, pass buckets={max(2, buckets // 4)}, "
            "or use `toyspec view`"
        )
    return ReportFrame(page, height)
