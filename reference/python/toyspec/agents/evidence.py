"""What an auditor asks about a run, from its log and files; its energy; whether such a document still holds."""

from __future__ import annotations

import os
from html import escape
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import msgspec

from toyspec.agents.digested_run import DigestedRun
from toyspec.core.format.flattening import pointer_to
from toyspec.core.format.profiles import EVENTS_FILE, SEAL_FILE
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.reading.reader import read
from toyspec.core.reading.run_files import media_file, ranks_beside
from toyspec.core.reading.sealed_files import covered_files, digest_in
from toyspec.core.reading.stream_files import locate_stream
from toyspec.core.runs.metric_names import losses_first
from toyspec.core.runs.summarizing import summarize_run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toyspec.core.reading.records import Record
    from toyspec.core.runs.summary import RunSummary

FORM: Final = "toyspec-evidence/v1"
"""What a document calls its form."""
_ASKED = ("command", "code", "data", "environment", "machines", "duration", "results", "decisions")
_BESIDE = ("changes.diff", "environment.json")
_NAMING = ("artifact", "media", "reference")
_OF_ARTIFACTS = ("path", "uri", "name", "role", "step", "media_type", "size_bytes", "sha256")
_FACTS = ("run_id", "profile", "state", "ended", "reason", "error", "first_step", "last_step", "records", "bytes")
_SUFFIX = "power_watts"
_MOST_WATTS = 1e9
_LONGEST = 3.0
"""An interval longer than this many median intervals is not measured."""


def evidence_of(
    run: str | os.PathLike[str], *, leave_out: str | None = None, dialect: DialectChoice | None = None
) -> dict[str, Any]:
    """Return the evidence about *run* as JSON has it: the same log and files always give the same.

    *leave_out* is the path of a file that does not count as one of the run. Raises StreamError for a run that cannot
    be read, and OSError for its folder.
    """
    choice = dialect or DialectChoice()
    path = locate_stream(os.fspath(run), choice.stream_files)
    summary = summarize_run(path, dialect=choice)
    values = DigestedRun(summary, None, None)
    values.read(choice)
    start = summary.start
    files = list(_files(path, leave_out))
    machines, energy = _machines(path, summary, choice)
    found: dict[str, Any] = {
        "form": FORM,
        "run": {name: summary.facts[name] for name in _FACTS} | {"name": start.get("name")},
        "command": start.get("argv"),
        "code": start.get("git"),
        "data": start.get("data"),
        "environment": start.get("packages"),
        "settings": summary.facts.settings or {},
        "machines": machines,
        "energy": energy,
        "duration": _duration(summary),
        "results": _results(summary, values),
        "decisions": [_decision(record) for record in values.notes],
        "artifacts": list(_artifacts(path, choice, files)),
        "seal": next((file for file in files if file["path"] == SEAL_FILE), None),
        "files": files,
    }
    names = {file["path"] for file in files}
    missing = [name for name in _ASKED if not found[name]]
    missing += [name for name in _BESIDE if name not in names]
    missing += [] if found["seal"] else ["seal"]
    missing += [f"file of line {each['line']}" for each in found["artifacts"] if each["problem"] is not None]
    if values.metrics_left_out or values.records_left_out:
        missing.append(f"{values.metrics_left_out} metrics and {values.records_left_out} records beyond the limits")
    document: dict[str, Any] = msgspec.to_builtins(found | {"not_recorded": missing})
    return document


def differences(document: Any, now: dict[str, Any]) -> list[str]:
    """Return the JSON Pointers at which *document* differs from the evidence of *now*; empty where it still holds."""
    return list(_differences(document, now, ""))


def evidence_page(document: dict[str, Any]) -> str:
    """Return *document* as one page of HTML, without scripts; texts of the log are text."""
    run = document["run"]
    title = escape(f"Evidence of {run.get('name') or run.get('run_id') or 'a run'}")
    parts = "".join(f"<h2>{escape(name)}</h2>{_html(value)}" for name, value in document.items() if name != "form")
    style = (
        "body{font:16px/1.5 sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}table{border-collapse:collapse}"
        "th,td{text-align:left;vertical-align:top;border-top:1px solid #ccc;padding:.2rem .6rem;overflow-wrap:anywhere}"
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{style}</style>'
        f"<h1>{title}</h1>{parts}</html>\n"
    )


def _duration(summary: RunSummary) -> dict[str, Any]:
    end = summary.end or {}
    found = {
        "seconds": summary.facts.seconds,
        "started_at": summary.facts.started_at,
        "ended_at": end.get("ended_at"),
    }
    return {name: value for name, value in found.items() if value is not None}


def _results(summary: RunSummary, values: DigestedRun) -> dict[str, Any]:
    metrics = {
        name: {
            "values": values.metrics[name].count,
            "not_finite": values.metrics[name].not_finite,
            "extremes": msgspec.to_builtins(values.metrics[name].extremes),
            "last": msgspec.to_builtins(values.metrics[name].curve[-1]),
        }
        for name in losses_first(values.metrics)
    }
    said = {name: (summary.end or {}).get(name) for name in ("final_step", "final_loss", "quality_gate")}
    return ({"metrics": metrics} if metrics else {}) | {
        name: value for name, value in said.items() if value is not None
    }


def _decision(record: Record) -> dict[str, Any]:
    names = ("text", "topic", "by", "step", "t", "left_out", "dropped")
    return {"line": record.line} | {name: record.get(name) for name in names if record.get(name) is not None}


def _machines(path: str, summary: RunSummary, choice: DialectChoice) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the machine of each process, and the energy of all."""
    machines, devices = [], list[DeviceEnergy]()
    unsampled = []
    for rank, stream in {0: path, **ranks_beside(path)}.items():
        start = summary.start
        if rank:
            start = next((found for record in _records(stream, choice) if (found := record.start)), {})
        host, backend = start.get("host"), start.get("backend")
        if host or backend:
            machines.append({"rank": rank, "host": host, "backend": backend})
        name = host.get("name") if isinstance(host, dict) else None
        sampled = devices_of(_records(stream, choice), name if isinstance(name, str) else None, rank)
        devices += sampled
        unsampled += [] if sampled else [rank]
    said = (summary.end or {}).get("energy_joules")
    return machines, energy_of(devices, summary.facts.seconds, said, unsampled)


def _artifacts(path: str, choice: DialectChoice, files: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield what each record says that names a file of the run, or one elsewhere, and whether the run has it so."""
    digests = {file["path"]: file["sha256"] for file in files}
    for record in _records(path, choice):
        if record.profile != "toy/v1" or record.kind not in _NAMING:
            continue
        said = {name: record.get(name) for name in _OF_ARTIFACTS if record.get(name) is not None}
        place, problem = record.get("path"), None
        if record.kind == "media":
            place = media_file(str(record.get("sha256")), str(record.get("media_type")))
        if record.kind != "reference" and place not in digests:
            problem = "not among the files of the run"
        elif record.kind != "reference" and record.get("sha256") not in (None, digests[place]):
            problem = "the file has another digest"
        yield {"line": record.line, "kind": record.kind} | said | {"problem": problem}


def _records(path: str, choice: DialectChoice) -> Iterator[Record]:
    with read(path, mode="salvage", dialect=choice) as reading:
        yield from reading


def _files(path: str, leave_out: str | None) -> Iterator[dict[str, Any]]:
    """Yield each file of the run with its size and digest, and its seal; of a log alone, the log."""
    directory, name = os.path.split(path)
    directory = directory or "."
    left_out = None if leave_out is None else os.path.realpath(leave_out)
    names = [os.fsencode(name)]
    if name == EVENTS_FILE:
        names = [each for each, _ in covered_files(directory)]
        names += [os.fsencode(SEAL_FILE)] if os.path.isfile(os.path.join(directory, SEAL_FILE)) else []
    for each in names:
        if left_out == os.path.realpath(os.path.join(os.fsencode(directory), each)).decode("utf-8", "backslashreplace"):
            continue
        found = digest_in(directory, each.split(b"/"))
        shown = each.decode("utf-8", "backslashreplace")
        yield {"path": shown, "size_bytes": found.size, "sha256": found.digest, "problem": found.problem}


def _differences(one: Any, other: Any, pointer: str) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted({*one, *other}, key=str):
            place = pointer + pointer_to([name])
            if name not in one or name not in other:
                yield place
            else:
                yield from _differences(one[name], other[name], place)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for at, (each, its) in enumerate(zip(one, other, strict=True)):
            yield from _differences(each, its, f"{pointer}/{at}")
    elif one != other or isinstance(one, bool) != isinstance(other, bool):
        yield pointer


def _html(value: Any) -> str:
    if isinstance(value, dict):
        rows = "".join(f"<tr><th>{escape(str(name))}</th><td>{_html(each)}</td></tr>" for name, each in value.items())
        return f"<table>{rows}</table>"
    if isinstance(value, list):
        return f"<ol>{''.join(f'<li>{_html(each)}</li>' for each in value)}</ol>" if value else "none"
    return "not recorded" if value is None else escape(str(value))


class DeviceEnergy(msgspec.Struct, frozen=True):
    """What one device used, as far as it was sampled."""

    host: str | None
    """Name of the machine; None where the log does not have it."""
    device: str
    """Name of the metric of its power, in watts."""
    rank: int
    """The process whose samples these are."""
    joules: float
    """Energy between samples, by the trapezoidal rule."""
    samples: int
    measured_seconds: float
    """Time between samples that were near enough to each other."""
    left_out_seconds: float
    """Time between samples that were further apart than 3 median intervals."""


def devices_of(records: Iterable[Record], host: str | None, rank: int) -> list[DeviceEnergy]:
    """Return the energy of each device that *records* have samples of, superseded ones included: they used it too."""
    samples: dict[str, list[tuple[float, float]]] = {}
    for record in records:
        extra = record.get("extra") if record.kind == "system" else None
        if record.time is None or not isinstance(extra, dict):
            continue
        for name, watts in extra.items():
            if name.endswith(_SUFFIX) and type(watts) in (int, float) and 0 <= watts < _MOST_WATTS:
                samples.setdefault(name, []).append((record.time, float(watts)))
    return [_integrated(name, host, rank, found) for name, found in samples.items()]


def energy_of(devices: list[DeviceEnergy], seconds: float | None, said: Any, unsampled: list[int]) -> dict[str, Any]:
    """Return the energy of a run that took *seconds*, with all that was not measured.

    *said* is what the log itself says, in joules; *unsampled* are the processes without samples. A device that several
    processes of one machine sampled counts once.
    """
    best: dict[tuple[str | None, str], DeviceEnergy] = {}
    for each in sorted(devices, key=lambda device: (-device.measured_seconds, device.rank)):
        best.setdefault((each.host, each.device), each)
    counted = sorted(best.values(), key=lambda device: (device.rank, device.device))
    gaps = ["processors, memory, network, storage and cooling, unless a sampled device includes them"]
    gaps += [f"rank {rank}: it has no samples of power" for rank in unsampled]
    for each in counted:
        missing = None if seconds is None else max(0.0, seconds - each.measured_seconds)
        if missing is None or missing > 0:
            shown = "an unknown number of" if missing is None else f"{missing:.3f}"
            gaps.append(f"{shown} seconds of {each.device} on rank {each.rank}: no samples near enough to each other")
    return {
        "joules": sum(each.joules for each in counted) if counted else None,
        "devices": [msgspec.to_builtins(each) for each in counted],
        "log_says_joules": said if isinstance(said, int | float) else None,
        "not_measured": gaps,
    }


def _integrated(name: str, host: str | None, rank: int, samples: list[tuple[float, float]]) -> DeviceEnergy:
    pairs = [(one, two) for one, two in pairwise(samples) if two[0] > one[0]]
    longest = _LONGEST * median(two[0] - one[0] for one, two in pairs) if pairs else 0.0
    near = [(one, two) for one, two in pairs if two[0] - one[0] <= longest]
    joules = sum((two[0] - one[0]) * (one[1] + two[1]) / 2 for one, two in near)
    measured = sum(two[0] - one[0] for one, two in near)
    whole = sum(two[0] - one[0] for one, two in pairs)
    return DeviceEnergy(host, name, rank, joules, len(samples), measured, whole - measured)
