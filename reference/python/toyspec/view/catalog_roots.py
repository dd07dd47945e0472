"""Roots whose runs a catalog lists: each row is made from its columns, and no run is read until it is looked at."""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toyspec.catalog.layout import MANIFEST, read_manifest
from toyspec.catalog.shown_runs import shown_runs
from toyspec.errors import CatalogError
from toyspec.format.profiles import EVENTS_FILE, METRICS_FILE, stream_name
from toyspec.runs.rows import MOST_METRICS, MOST_SETTINGS, MOST_TAGS, encodable
from toyspec.runs.run_facts import cut, finite, planned_of, progress_of, remaining_of, settings_of
from toyspec.view.roots import Root

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.catalog.shown_runs import ShownRun
    from toyspec.view.viewed_runs import ViewedCatalogRun


class CataloguedRun(NamedTuple):
    """A run as its catalog has it."""

    stream: str
    run: str
    """The id of the run."""
    identity: str
    """That of the stream and of the files beside it when the catalog read them."""
    size: int
    """Number of bytes of the stream."""
    row: bytes
    """Its row of the table, as JSON."""


class CatalogRoot(Root):
    """A root of the catalog in the directory *catalog*."""

    def __init__(self, catalog: str, path: str, name: str | None = None) -> None:
        super().__init__(path, name)
        self.catalog = catalog
        self.visited: dict[str, ViewedCatalogRun] = {}
        """The runs that were looked at since the catalog was read, by id."""

    def place_of(self, path: str, *, whole: bool = False) -> str:
        """See Root; it asks for no file."""
        if path == self.path:
            return "."
        place = path.replace(os.sep, "/")
        directory, _, name = place.rpartition("/")
        is_bundle = stream_name(name) in (EVENTS_FILE, METRICS_FILE)
        return (directory if is_bundle and not whole else place)[len(self.path) :].strip("/") or "."

    def runs(self, *, is_only: bool) -> Iterator[CataloguedRun]:
        """Yield the runs below this root; unless it *is_only* one, ids begin with its name. Raise CatalogError."""
        name = encodable(self.name)
        known: set[str] = set()
        for shown in shown_runs(self.catalog):
            if not _is_below(shown.stream, self.path):
                continue
            place = self.place_of(shown.stream, whole=self.place_of(shown.stream) in known)
            known.add(place)
            run = place if is_only else name if place == "." else f"{name}/{place}"
            row = _row(shown, run) | ({} if is_only else {"root": name})
            yield CataloguedRun(shown.stream, run, shown.identity, shown.bytes, msgspec.json.encode(row))

    def note(self, entry: ViewedCatalogRun) -> None:
        """Take in that *entry* was looked at, and say what has changed since the catalog was written."""
        self.visited[entry.run] = entry
        since = Counter(each.since for each in self.visited.values())
        words = [_counted(since["changed"], "has", "have", "changed"), _counted(since["gone"], "is", "are", "gone")]
        facts = " and ".join(filter(None, words))
        self.problem = (
            f"since the catalog was written ({self.written}), {facts}; `toyspec catalog update {self.catalog}`"
            if facts
            else None
        )

    @property
    def version(self) -> tuple[int, int]:
        """A pair that changes when the catalog is written; raise OSError where it is gone."""
        status = os.stat(os.path.join(self.catalog, MANIFEST))
        return status.st_mtime_ns, status.st_ino

    @property
    def written(self) -> str:
        """When the catalog was written, for a person."""
        return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self.version[0] / 1e9))


class _Metric(msgspec.Struct):
    """What a table shows of a metric; a catalog has more."""

    last: float | None = None
    best: float | None = None
    goal: str | None = None
    count: int = 0
    nan: int = 0
    finite: float | msgspec.UnsetType = msgspec.UNSET
    """The last finite value where the last one is not."""


_metrics = msgspec.json.Decoder(dict[str, _Metric])


def catalog_roots(catalog: str, name: str | None = None) -> list[CatalogRoot]:
    """Return the roots of the catalog in the directory *catalog*, a single one as *name*; raise CatalogError."""
    paths = read_manifest(catalog).roots
    return [CatalogRoot(catalog, path, name if len(paths) == 1 else None) for path in paths]


def is_catalog(path: str) -> bool:
    """Return whether the directory *path* is a catalog."""
    if not os.path.isfile(os.path.join(path, MANIFEST)):
        return False
    try:
        read_manifest(path)
    except CatalogError as error:
        # Another version's is one too, and is said to be of another version when it is opened.
        return error.fact.startswith("layout")
    return True


def _is_below(path: str, root: str) -> bool:
    outer = root.rstrip("/" + os.sep)
    return path == root or path.startswith((f"{outer}/", outer + os.sep))


def _row(shown: ShownRun, run: str) -> dict[str, Any]:
    """Return the row of a run: see ``toyspec.runs.rows``."""
    start = {part: _decoded(text) for part, text in (("config", shown.config), ("model", shown.model))}
    settings = settings_of(start)
    metrics = _shown_metrics(shown.metrics or "{}")
    dialect = _decoded(shown.dialect)
    return {
        "id": run,
        "run_id": _cut(shown.run_id),
        "name": cut(shown.name or shown.run),
        "group": _cut(shown.group),
        "tags": [cut(tag) for tag in shown.tags[:MOST_TAGS]],
        "notes": _cut(shown.notes),
        "starred": shown.starred,
        "hidden": shown.hidden,
        "state": shown.state,
        "profile": None if dialect else shown.profile,
        "dialect": dialect["name"] if dialect else None,
        "started_at": shown.started_at,
        "seconds": finite(shown.seconds),
        "first_step": shown.first_step,
        "last_step": shown.last_step,
        "records": shown.records,
        "ended": shown.ended,
        "error": _cut(shown.error),
        "final_loss": finite(shown.final_loss),
        "reason": _cut(shown.reason),
        "sealed": shown.sealed,
        "progress": progress_of(shown.last_step, settings),
        "remaining": None
        if shown.ended == "yes"
        else remaining_of(shown.seconds, (shown.first_step, shown.last_step), planned_of(settings)),
        "bytes": shown.bytes,
        "findings": {"error": shown.errors, "warning": shown.warnings, "info": shown.infos},
        "config": settings if len(settings) <= MOST_SETTINGS else dict(list(settings.items())[:MOST_SETTINGS]),
        "metrics": metrics if len(metrics) <= MOST_METRICS else dict(list(metrics.items())[:MOST_METRICS]),
        "left_out": {
            "metrics": max(0, len(metrics) - MOST_METRICS),
            "config": max(0, len(settings) - MOST_SETTINGS),
        },
        "message": None,
    }


def _shown_metrics(text: str) -> dict[str, _Metric]:
    found = _metrics.decode(text)
    for metric in found.values() if '"finite"' in text else ():
        if metric.finite is not msgspec.UNSET:
            metric.last, metric.finite = metric.finite, msgspec.UNSET
    return found


def _counted(number: int, one: str, several: str, what: str) -> str:
    return f"{number} {'run' if number == 1 else 'runs'} {one if number == 1 else several} {what}" if number else ""


def _cut(text: str | None) -> str | None:
    return None if text is None else cut(text)


def _decoded(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)
