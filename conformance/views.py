"""The views of a run that a summarizer must give, derived only from the records and findings of a case.

See ``spec/views.md``. Nothing here reads bytes: the case lists the records and the findings about their members.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.accounting import readable_lines
from conformance.format_facts import RECORD_ERRORS
from conformance.oracle.tables import kinds
from conformance.tagging import TAGS, f32_text, float_text, untag

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from conformance.cases import Case

PHASES = frozenset({"train", "eval", "decode", "serve"})
_ABSENT: Any = object()


@dataclass(frozen=True)
class Row:
    """One record with the names of its invalid members."""

    members: Mapping[str, Any]
    invalid: frozenset[str]

    def get(self, key: str) -> Any:
        """Return the tagged value of a member, ``_ABSENT`` if it is missing or invalid."""
        return _ABSENT if key in self.invalid else self.members.get(key, _ABSENT)

    def has_all(self, *keys: str) -> bool:
        """Return whether every one of *keys* is there and valid."""
        return all(self.get(key) is not _ABSENT for key in keys)


def summary(case: Case) -> dict[str, Any]:
    """Return the summary of *case* as one tagged value."""
    rows = list(_rows(case))
    if case.profile == "toy/v1":
        return {**_without_absent(_toy(rows, goes_on=case.until is None)), **_listed_ranks(case)}
    if case.profile == "metrics/v1":
        return _without_absent(_metrics(rows))
    return _without_absent(_kaun(rows, case)) if case.profile == "kaun/v1" else {}


def _listed_ranks(case: Case) -> dict[str, Any]:
    """Return the views of ranks as *case* lists them: they depend on the records of other streams."""
    return {key: case.summary[key] for key in ("ranks", "first_stopped") if case.summary and key in case.summary}


def _rows(case: Case) -> Iterator[Row]:
    invalid: dict[int, set[str]] = {}
    for finding in case.findings:
        if finding.rule in RECORD_ERRORS and finding.sidecar is None:
            invalid.setdefault(finding.line, set()).add(_first(finding.pointer))
    for line, record in zip(readable_lines(case), case.records, strict=True):
        members = record["object"] if len(record) == 1 and "object" in record else record
        yield Row(members, frozenset(invalid.get(line, ())))


def _first(pointer: str) -> str:
    return pointer.split("/")[1].replace("~1", "/").replace("~0", "~") if pointer else ""


def _toy(rows: Sequence[Row], *, goes_on: bool) -> dict[str, Any]:
    """Return the views of toy/v1; until revision 1.2, no run *goes_on* after its end."""
    known = [row for row in rows if _is_text(row.members.get("kind"), kinds("toy/v1"))]
    start = next((row for row in known if row.members["kind"] == "run_start"), Row({}, frozenset()))
    phase = start.get("phase") if start.get("phase") in PHASES else "train"
    kept = list(_latest_attempt(known, phase))
    closing = {"run_end", "run_resume"} if goes_on else {"run_end"}
    frame = next((row for row in reversed(kept) if row.members["kind"] in closing), Row({"kind": None}, frozenset()))
    end = frame if frame.members["kind"] == "run_end" else Row({}, frozenset())
    steps = [
        row
        for row in kept
        if row.members["kind"] == "step" and row.has_all("t", "step") and _phase(row, phase) == phase
    ]
    curve = [row.get("loss") for row in steps if row.has_all("loss")]
    last = curve[-1] if curve else _ABSENT
    return {
        "run_id": start.get("run_id"),
        "phase": phase,
        "steps": _int(len(steps)),
        "last_step": steps[-1].get("step") if steps else _ABSENT,
        "loss_curve": curve,
        "final_loss": end.get("final_loss") if end.has_all("final_loss") else last,
        "duration_seconds": next((row.get("t") for row in reversed(kept) if row.has_all("t")), _ABSENT),
        "reason": end.get("reason"),
    }


def _latest_attempt(rows: Sequence[Row], phase: str) -> Iterator[Row]:
    """Yield the rows that no later run_resume supersedes; see spec/reading.md."""
    resumes = [
        (index, untag(row.get("from_step")))
        for index, row in enumerate(rows)
        if row.members["kind"] == "run_resume" and row.has_all("from_step")
    ]
    for index, row in enumerate(rows):
        kind, own = row.members["kind"], _phase(row, phase)
        trains = own == "train" or (own == "eval" and kind != "step")
        counts = kind not in {"run_start", "run_resume", "run_config", "run_end"} and trains and row.has_all("step")
        if not (counts and any(at > index and untag(row.get("step")) > limit for at, limit in resumes)):
            yield row


def _phase(row: Row, default: str) -> str:
    own = row.get("phase")
    return own if own in PHASES else default


def _metrics(rows: Sequence[Row]) -> dict[str, Any]:
    required = ("step", "wall_time_ms", "loss", "grad_norm", "throughput_samples_per_sec")
    entries = [row for row in rows if row.has_all(*required)]
    curve = [row.get("loss") for row in entries]
    finite = [untag(loss) for loss in curve if loss is not None]
    found = {
        "steps": _int(len(entries)),
        "loss_curve": curve,
        "non_finite": _int(len(curve) - len(finite)),
    }
    if entries:
        seconds = untag(entries[-1].get("wall_time_ms")) / 1000
        last = {"last_step": entries[-1].get("step"), "duration_seconds": {"float": float_text(seconds)}}
        found |= {**last, "final_loss": curve[-1]}
    if finite:
        found |= {"loss_min": _f32(min(finite)), "loss_max": _f32(max(finite))}
        found["loss_mean"] = _f32(_sum(finite) / len(finite))
    return found


def _sum(numbers: Sequence[float]) -> float:
    # Added one by one: ``sum`` of the standard library is more exact than the chapter requires.
    total = 0.0
    for number in numbers:
        total += number
    return total


def _kaun(rows: Sequence[Row], case: Case) -> dict[str, Any]:
    tags: dict[str, list[Row]] = {}
    for row in rows:
        if row.members.get("type") == "scalar" and row.has_all("tag", "value") and _whole(row, "step") is not None:
            tags.setdefault(row.get("tag"), []).append(row)
    found = {tag: _without_absent(_tag(tag, of_tag)) for tag, of_tag in tags.items()}
    shown = {"object": found} if len(found) == 1 and TAGS.issuperset(found) else found
    return {"run_id": _kaun_run_id(case), "tags": shown}


def _tag(tag: str, rows: Sequence[Row]) -> dict[str, Any]:
    goals = [row.get("minimize") for row in rows if row.has_all("minimize")]
    smaller = goals[-1] if goals else any(word in tag.lower() for word in ("loss", "error"))
    finite = [row for row in rows if row.get("value") is not None]
    latest = max(rows, key=lambda row: (_whole(row, "step"), _epoch(row)))
    best = (min if smaller else max)(finite, key=lambda row: untag(row.get("value")), default=None)
    point = _point(best) if best else _ABSENT
    return {"count": _int(len(rows)), "latest": _point(latest), "best": point}


def _point(row: Row) -> dict[str, Any]:
    epoch = _whole(row, "epoch")
    found = {"step": _int(_whole(row, "step")), "value": row.get("value")}
    return found if epoch is None else {**found, "epoch": _int(epoch)}


def _epoch(row: Row) -> float:
    epoch = _whole(row, "epoch")
    return -math.inf if epoch is None else epoch


def _whole(row: Row, key: str) -> int | None:
    """Return a step or epoch, truncated to an integer ≥ 0; None if it is not a number ≥ 0."""
    value = row.members.get(key)
    if not isinstance(value, dict) or value.keys() not in ({"int"}, {"float"}):
        return None
    number = math.trunc(untag(value))
    return number if number >= 0 else None


def _kaun_run_id(case: Case) -> Any:
    if case.scope != "bundle":
        return _ABSENT
    invalid = {(finding.rule, finding.pointer) for finding in case.findings if finding.sidecar == "run.json"}
    spoiled = {("sidecar-unreadable", ""), *((rule, "/run_id") for rule in RECORD_ERRORS)}
    if invalid & spoiled or "run.json" not in case.files:
        return os.path.basename(case.folder)
    return json.loads(case.files["run.json"])["run_id"]


def _is_text(value: Any, choices: Mapping[str, Any]) -> bool:
    return isinstance(value, str) and value in choices


def _int(number: int | None) -> dict[str, str]:
    return {"int": str(number)}


def _f32(number: float) -> dict[str, str]:
    return {"f32": f32_text(number)}


def _without_absent(members: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in members.items() if value is not _ABSENT}
