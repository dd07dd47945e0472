"""One run whole: what its page shows, of its ranks too. See PROTOCOL.md of the viewer."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from contextlib import closing
from itertools import islice
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toyspec.convert.reports import REPORT_FILE, RunConversion
from toyspec.core.errors import StreamError
from toyspec.core.escaping import encodable
from toyspec.core.format.profiles import EVENTS_FILE, stream_name
from toyspec.core.generated import rules
from toyspec.core.places.addresses import is_address, path_in
from toyspec.core.reading.reader import read
from toyspec.core.reading.records import count_missing, nothing_missing
from toyspec.core.reading.run_files import RunFile, files_of, ranks_beside, run_of
from toyspec.core.reading.step_blocks import StepBlock
from toyspec.core.reading.stream_files import is_compressed
from toyspec.core.runs.ranks import ranks_of
from toyspec.core.runs.run_facts import defined, finite
from toyspec.core.runs.summary import start_after
from toyspec.health.checking import RecordHealth
from toyspec.health.rules import Incidents, project_rules
from toyspec.view.curve_frames import tokens_at
from toyspec.view.opened_files import identity_at, open_file

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterable, Iterator

    from toyspec.core.findings import FileReport, ReadReport
    from toyspec.core.reading.live_stream import Identity
    from toyspec.core.reading.log_detection import DialectChoice
    from toyspec.core.reading.records import Record
    from toyspec.health.rules import HealthAlert
    from toyspec.view.pyramids import Buckets
    from toyspec.view.viewed_runs import ViewedRun

MOST_ITEMS = 2000
_MOST_RECORDS = 500
_MOST_CHARS = 1 << 16
_MOST_BYTES = 8 << 20
_MOST_REPORT_BYTES = 4 << 20
_LISTS = {
    "run_resume": "resumes",
    "eval": "evaluations",
    "sample": "samples",
    "note": "notes",
    "compare": "comparisons",
    "artifact": "artifacts",
    "op_timing": "op_timings",
    "media": "media",
    "reference": "references",
}
_NAMING = ("kind", "gram", "param", "name")
_REGIONS = ("region_enter", "region_exit")
_MOST_KEPT = 64
# What an alert is taken to have where its line is not read.
_ALERT_BYTES = 256
# For the ranks, every stream of the run is read whole: while it is written, at most one part in so many of the time.
_SHARE = 20


def detail_of(
    path: str, row: dict[str, Any], dialect: DialectChoice, report: FileReport | None, tokens: Buckets | None = None
) -> dict[str, Any]:
    """Return what the page of the run with the stream at *path* shows; *row* is its row, *report* that of a check.

    *tokens* are those of the run, as ``tokens_of`` returns them. Lists are cut to ``MOST_ITEMS``, and what is left out
    is counted. Alerts are those of the log, and what the health rules of the project report. Raises StreamError if the
    run cannot be read.
    """
    found = _Collected()
    findings = _findings_of(path, report, is_running=row.get("state") == "running")
    places = _Places(findings, tokens)
    with read(path, mode="salvage", dialect=dialect) as reading:
        if row["profile"] == "toy/v1":
            reading.give_blocks()
        _collect(reading, found, places)
        account = reading.report
    places.finish()
    start = found.start
    lists = {name: found.lists.get(name, []) for name in (*_LISTS.values(), "alerts", "texts")}
    metrics = {name: {**facts, **found.meaning(name)} for name, facts in row["metrics"].items()}
    found.leave_out("gaps", max(0, len(account.gaps) - MOST_ITEMS) + account.unlisted_gaps)
    if report is not None:
        found.leave_out("findings", max(0, len(report.findings) - MOST_ITEMS) + sum(report.suppressed.values()))
    return {
        "id": row["id"],
        "row": row,
        "metadata": {name: value for name, value in start.items() if name not in ("kind", "t", "config")},
        "end": found.end,
        "config": start.get("config", {}),
        "metrics": metrics,
        **_account_of(account),
        **lists,
        "incidents": found.incidents.counts,
        "histograms": list(found.histograms.values()),
        "regions": found.regions,
        "files": _files(path, found),
        "findings": findings,
        "missing": {key: dict(counts) for key, counts in found.missing.items()},
        "imported": _import_of(path),
        "left_out": found.left_out,
    }


def _collect(records: Iterable[Any], found: _Collected, places: _Places) -> None:
    """Take in *records*, or blocks of steps in place of some, with what health rules report of them."""
    health = RecordHealth(project_rules())
    for record in records:
        if isinstance(record, StepBlock):
            _, times, epochs = record.rows()
            for at, alert in health.take_block(record):
                epoch = None if epochs is None else finite(epochs[at])
                found.add_alert(alert, times[at], epoch, size=_ALERT_BYTES)
            places.take_block(record)
            continue
        found.take(record)
        for alert in health.take(record):
            time = record.time if record.time_origin == "run" else None
            found.add_alert(alert, time, record.epoch, size=len(record.raw))
        places.take(record)
        if record.kind == "note" and (notes := found.lists.get("notes")) and notes[-1]["line"] == record.line:
            places.add_to(notes[-1])


def _import_of(path: str) -> dict[str, Any] | None:
    """Return what an import that made the run with the stream at *path* changed and dropped; None without one."""
    file = path_in(os.path.dirname(path), REPORT_FILE)
    if stream_name(os.path.basename(path)) != EVENTS_FILE or (not is_address(path) and os.path.islink(file)):
        return None
    try:
        with closing(open_file(file)) as opened:
            if opened.size > _MOST_REPORT_BYTES:
                return None
            made = msgspec.json.decode(b"".join(opened.blocks(0, opened.size)), type=RunConversion)
    except (OSError, StreamError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    losses = [{"effect": loss.effect, "meaning": loss.meaning, "count": loss.count} for loss in made.losses]
    return {"format": made.format, "item": made.item, "items": made.items, "losses": safe(losses[:MOST_ITEMS])}


def _files(path: str, found: _Collected) -> list[dict[str, Any]]:
    """Return the files of the run with the stream at *path*; those beyond ``MOST_ITEMS`` are counted in *found*."""
    files = files_beside(path)
    listed = [{"path": encodable(file.name), "bytes": file.size} for file in islice(files, MOST_ITEMS)]
    found.leave_out("files", sum(1 for _ in files))
    return listed


def _account_of(report: ReadReport) -> dict[str, Any]:
    """Return how many bytes of the stream are records, and where it cannot be read."""
    return {
        "account": {
            "records": report.records,
            "committed": report.committed_bytes,
            "fragment": report.fragment.length if report.fragment is not None else 0,
            "gap_bytes": report.gap_bytes,
            "size": report.size,
        },
        "gaps": [
            {"line": gap.line, "offset": gap.offset, "length": gap.length, "reason": gap.reason}
            for gap in report.gaps[:MOST_ITEMS]
        ],
    }


class _Places:
    """Adds the place on each axis to findings: that of the record of the line, or of the last one before it."""

    def __init__(self, findings: list[dict[str, Any]], tokens: Buckets | None) -> None:
        self._left = sorted((each for each in findings if each["line"]), key=lambda each: each["line"], reverse=True)
        self._now: dict[str, int | float | None] = dict.fromkeys(("step", "t", "epoch"))
        self._tokens = tokens
        self._first_time: float | None = None
        for each in findings:
            each.update(self._place())

    def take(self, record: Record) -> None:
        """Take in the next record."""
        while self._left and self._left[-1]["line"] < record.line:
            self._left.pop().update(self._place())
        time = self._since_first(record.time) if record.time_origin == "unix" else record.time
        said = {"step": record.step, "t": time, "epoch": record.epoch}
        for name in self._now:
            if (value := finite(said.get(name))) is not None:
                self._now[name] = value
        while self._left and self._left[-1]["line"] == record.line:
            self._left.pop().update(self._place())

    def take_block(self, block: StepBlock) -> None:
        """Take in the next steps, of toy/v1."""
        rows = block.rows()
        while self._left and self._left[-1]["line"] < block.line + block.records:
            self._see(rows, self._left[-1]["line"] - block.line)
            self._left.pop().update(self._place())
        self._see(rows, block.records - 1)

    def _see(self, rows: tuple[array[int], array[float], array[float] | None], at: int) -> None:
        """Take in the last step, time and epoch of *rows* up to the place *at*, which may be before the first."""
        for name, column in zip(self._now, rows, strict=True):
            values = column[: max(at + 1, 0)] if column else ()
            self._now[name] = next(filter(isfinite, reversed(values)), self._now[name])

    def _since_first(self, time: float | None) -> float | None:
        self._first_time = time if self._first_time is None else self._first_time
        return None if time is None or self._first_time is None else time - self._first_time

    def add_to(self, note: dict[str, Any]) -> None:
        """Add the place of the last record to a note, where it does not say its own."""
        note.update({name: value for name, value in self._place().items() if name not in note})

    def _place(self) -> dict[str, Any]:
        """Return the place of the last record."""
        return {**self._now, "tokens": tokens_at(self._tokens, self._now["step"])}

    def finish(self) -> None:
        """Place the findings after the last record."""
        while self._left:
            self._left.pop().update(self._place())


class _Collected:
    """The records of a run by what they are for, in bounded memory."""

    def __init__(self) -> None:
        self.start: dict[str, Any] = {}
        self.end: dict[str, Any] | None = None
        self.lists: dict[str, list[dict[str, Any]]] = {}
        self.histograms: dict[tuple[str, str], dict[str, Any]] = {}
        self.left_out: dict[str, int] = {}
        self.incidents = Incidents()
        self.missing = nothing_missing()
        """What the log lacks by its own notes."""
        self._defined: dict[str, dict[str, Any]] = {}
        self.regions: list[dict[str, Any]] = []
        self._open: list[dict[str, Any]] = []
        self._bytes = 0

    def take(self, record: Record) -> None:
        """Take in one record."""
        kind = record.kind
        if kind == "step":
            return
        if not self.start and (start := record.start) is not None:
            self.start = safe(start)
        if record.changed_config:
            self.start = safe(start_after(self.start, record))
        if record.goes_on:
            self.end = None
        elif (end := record.end) is not None:
            self.end = safe(end)
        count_missing(self.missing, record)
        if record.profile == "toy/v1":
            self._take_of_kind(kind, record)

    def _take_of_kind(self, kind: str | None, record: Record) -> None:
        if kind in _LISTS:
            self._add(_LISTS[kind], record)
        elif kind == "scalars":
            self._add_texts(record)
        elif kind in ("tap", "grad", "histogram"):
            self._add_histogram(kind, record)
        elif kind in _REGIONS:
            self._add_region(record)
        elif kind == "define" and isinstance(record.get("name"), str):
            self._define(record)

    def _define(self, record: Record) -> None:
        name = record["name"]
        if name in self._defined or len(self._defined) < MOST_ITEMS:
            self._defined[name] = safe(record.value)
        else:
            self.leave_out("definitions", 1)

    def meaning(self, name: str) -> dict[str, Any]:
        """Return unit and description of a metric."""
        found = defined(name, self._defined) or {}
        return {key: found.get(key) if isinstance(found.get(key), str) else None for key in ("unit", "description")}

    def leave_out(self, name: str, number: int) -> None:
        """Count *number* items that the list *name* lacks."""
        if number > 0:
            self.left_out[name] = self.left_out.get(name, 0) + number

    def _takes(self, name: str, size: int, *, full: bool) -> bool:
        self._bytes += size
        is_taken = not full and self._bytes <= _MOST_BYTES
        self.leave_out(name, int(not is_taken))
        return is_taken

    def _add(self, name: str, record: Record) -> None:
        items = self.lists.setdefault(name, [])
        if self._takes(name, len(record.raw), full=len(items) >= MOST_ITEMS):
            items.append(
                {key: value for key, value in safe(record.value).items() if key != "kind"} | {"line": record.line}
            )

    def _add_texts(self, record: Record) -> None:
        texts = record.get("texts")
        for name, text in texts.items() if isinstance(texts, dict) else ():
            items = self.lists.setdefault("texts", [])
            if self._takes("texts", len(record.raw), full=len(items) >= MOST_ITEMS):
                place = {"t": record.get("t"), "step": record.get("step"), "line": record.line}
                items.append(safe({**place, "name": name, "text": text}))

    def add_alert(self, alert: HealthAlert, time: float | None, epoch: float | None, *, size: int) -> None:
        """Add what a health rule reports, or the log itself, of a record of so many bytes."""
        self.incidents.take(alert)
        items = self.lists.setdefault("alerts", [])
        if self._takes("alerts", size, full=len(items) >= MOST_ITEMS):
            place = {"t": time, "step": alert.step, "epoch": epoch, "line": alert.line}
            items.append(safe({**alert.event_members, **place}))

    def _add_histogram(self, kind: str, record: Record) -> None:
        named = {"grad": "param", "histogram": "name"}.get(kind)
        name = _tap_name(record) if named is None else record.get(named)
        if not isinstance(name, str):
            return
        key = (kind, name)
        series = self.histograms.get(key)
        is_full = len(self.histograms) >= MOST_ITEMS if series is None else len(series["records"]) >= _MOST_RECORDS
        series = series or {"kind": kind, "name": name, "records": []}
        if self._takes("histograms", len(record.raw), full=is_full):
            self.histograms[key] = series
            wanted = {key: value for key, value in safe(record.value).items() if key not in _NAMING}
            series["records"].append(wanted | {"line": record.line})

    def _add_region(self, record: Record) -> None:
        name, time = record.get("region"), record.get("t")
        if not isinstance(name, str) or not isinstance(time, int | float):
            return
        if record.kind == "region_enter":
            if self._takes("regions", len(record.raw), full=len(self.regions) >= MOST_ITEMS):
                region = {"region": name, "from": time, "to": None, "depth": len(self._open)}
                self.regions.append(region)
                self._open.append(region)
            return
        for at in range(len(self._open) - 1, -1, -1):
            if self._open[at]["region"] == name:
                self._open.pop(at)["to"] = time
                return


def _tap_name(record: Record) -> str | None:
    parts = [record.get("region"), record.get("layer"), record.get("head")]
    known = [str(part) for part in parts if isinstance(part, str | int)]
    return ".".join(known) if known else None


def safe(value: Any) -> Any:
    """Return a value that JSON has: numbers that are not finite are None, and long text is cut."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, str):
        return value if len(value) <= _MOST_CHARS else value[:_MOST_CHARS] + "…"
    if isinstance(value, dict):
        return {key: safe(member) for key, member in value.items()}
    return [safe(item) for item in value] if isinstance(value, list) else value


def files_beside(path: str) -> Iterator[RunFile]:
    """Yield every file of the run whose stream is at *path*: the stream, and what is in its directory.

    A stream with a name of its own is alone. Links are left out.
    """
    name = os.path.basename(path)
    if run_of(path) == path:
        yield RunFile(name, path, identity_at(path)[2])
    else:
        try:
            yield from files_of(os.path.dirname(path) or ".", on_error=lambda _: None)
        except OSError:
            # A web server has no lists.
            yield RunFile(name, path, identity_at(path)[2])


def _findings_of(path: str, report: FileReport | None, *, is_running: bool) -> list[dict[str, Any]]:
    # A run that is written has no end yet.
    findings = [
        each
        for each in (() if report is None else report.findings)
        if not (is_running and each.rule == rules.RUN_END_MISSING)
    ]
    is_packed = bool(findings) and is_compressed(path)
    return [
        {
            "rule": finding.rule,
            "severity": finding.severity,
            "file": finding.sidecar or os.path.basename(path),
            "line": finding.line,
            # A line of gzip data is not in the file, to be looked up.
            "offset": None if is_packed and finding.sidecar is None else finding.offset,
            "pointer": finding.pointer,
            "message": finding.message,
            "help": finding.help,
        }
        for finding in islice(findings, MOST_ITEMS)
    ]


def shown_ranks(path: str, run: str) -> dict[str, Any] | None:
    """Return what the ranks of the run with the stream at *path* have logged; None where only one has a stream.

    *run* is the id of the run; the stream of another rank has an id below it. Raises StreamError if none can be read.
    """
    return _shown(path, run) if ranks_beside(path) else None


def _shown(path: str, run: str) -> dict[str, Any]:
    ranks = ranks_of(path)
    found: dict[str, Any] = msgspec.to_builtins(ranks)
    for each in found["ranks"]:
        name = os.path.basename(each.pop("path"))
        del each["last_at"]
        each["run"] = f"{run}/{name}" if each["rank"] else run
    found["errors"] = [f"{os.path.basename(each.path)}: {each.message}" for each in ranks.errors]
    del found["directory"], found["run_id"]
    return found


class ShownRanks:
    """The last answers about ranks, as JSON. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def find(self, entry: ViewedRun) -> bytes:
        """Return what ``shown_ranks`` does of a run, as of some time ago while it is written; raise StreamError."""
        beside = ranks_beside(entry.path)
        if not beside:
            return msgspec.json.encode(None)
        identities = [identity_at(path) for path in (entry.path, *beside.values())]
        with self._lock:
            kept = self._kept.get(entry.path)
            began = time.monotonic()
            if kept is not None and (kept.identities == identities or began < kept.next_at):
                return kept.data
            data = msgspec.json.encode(_shown(entry.path, entry.run))
            ended = time.monotonic()
            self._kept[entry.path] = _Kept(identities, data, ended + _SHARE * (ended - began))
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return data


class _Kept(NamedTuple):
    identities: list[Identity]
    data: bytes
    next_at: float
    """When it may be made again, on the monotonic clock."""
