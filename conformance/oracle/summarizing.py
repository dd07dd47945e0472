"""Computes the views of a run: see spec/views.md."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from conformance.oracle import tables
from conformance.oracle.json_text import is_integer
from conformance.oracle.record_rules import RecordRules
from conformance.tagging import TAGS, f32_text, float_text, untag

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from conformance.oracle.json_text import Value
    from conformance.oracle.reading import Reading, Stream

Members = dict[str, Any]


class Summarizing:
    """Summarizes streams. Each step is a method that a mutant can override."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading

    def summary(self, stream: Stream, run_id: str | None = None) -> Members:
        """Return the summary of a stream; *run_id* is that of a kaun/v1 bundle."""
        if stream.profile is None:
            return {}
        records = [self.record(line.value, stream.profile) for line in self.lines(stream)]
        if stream.profile == "toy/v1":
            return self.toy(records)
        return self.metrics(records) if stream.profile == "metrics/v1" else self.kaun(records, run_id)

    def lines(self, stream: Stream) -> Iterable[Any]:
        """Return the lines with the records that count."""
        records = [line for line in stream.lines if line.status == "readable"]
        return self.reading.latest(records, stream.profile)

    def record(self, value: Value | None, profile: str) -> Members:
        """Return the tagged members of a record, its kind as ``""``, without invalid ones."""
        assert value is not None
        kind = self.reading.kind(value, profile)
        members: Members = dict(self.reading.tagged_record(value, profile))
        if kind not in tables.kinds(profile):
            return {}
        assert kind is not None
        for name in self.invalid(kind, value, profile):
            members.pop(name, None)
        if profile == "kaun/v1":
            members |= self.truncated(value)
        return members | {"": kind}

    def invalid(self, kind: str, value: Value, profile: str) -> set[str]:
        """Return the names of the members that break the schema."""
        problems = RecordRules(profile).problems(kind, value)
        errors = (problem for problem in problems if tables.severity(problem.rule, profile) == "error")
        return {problem.pointer.split("/")[1] for problem in errors}

    def truncated(self, value: Value) -> Members:
        """Return step and epoch of a scalar as integers, if they are numbers ≥ 0."""
        found = {key: value.get(key) for key in ("step", "epoch")}
        numbers = {key: self.whole(item.text) for key, item in found.items() if item and item.type == "number"}
        return {key: {"int": str(number)} for key, number in numbers.items() if number >= 0}

    def whole(self, literal: str) -> int:
        """Return a number truncated to an integer."""
        return int(literal) if is_integer(literal) else math.trunc(float(literal))

    def toy(self, records: Sequence[Members]) -> Members:
        """Return the views of a toy/v1 stream."""
        start = self.start(records)
        end = self.end(records)
        phase = start.get("phase", "train")
        steps = [record for record in records if self.is_step(record, phase)]
        curve = self.curve(steps)
        found: Members = {"phase": phase, "steps": number(len(steps)), "loss_curve": curve}
        if "run_id" in start:
            found["run_id"] = start["run_id"]
        if steps:
            found["last_step"] = steps[-1]["step"]
        if "final_loss" in end or curve:
            found["final_loss"] = self.final_loss(end, curve)
        times = self.times(records)
        if times:
            found["duration_seconds"] = times[-1]
        if "reason" in end:
            found["reason"] = end["reason"]
        return found

    def ranks(self, streams: Mapping[int, Stream]) -> Members:
        """Return the views of the ranks of a run, given their streams."""
        rows = {rank: self.rank(stream) for rank, stream in streams.items()}
        first = self.first_stopped(rows)
        listed = {"ranks": [{"rank": number(rank), **row} for rank, row in rows.items()]}
        return listed | ({} if first is None else {"first_stopped": number(first)})

    def rank(self, stream: Stream) -> Members:
        """Return the views of one rank."""
        views = self.summary(stream)
        shown: Members = {key: views[key] for key in ("steps", "last_step", "reason") if key in views}
        return {"state": self.reading.state(stream), **shown}

    def first_stopped(self, rows: Mapping[int, Members]) -> int | None:
        """Return the rank that stopped before the others, None if the streams do not tell."""
        lowest = min(self.came_to(row) for row in rows.values())
        left = {rank: row for rank, row in rows.items() if self.came_to(row) == lowest}
        if len(left) > 1:
            left = {rank: row for rank, row in left.items() if row["state"] != "complete"}
        return next(iter(left)) if len(left) == 1 else None

    def came_to(self, row: Members) -> int:
        """Return the last step of a rank, -1 without one."""
        return untag(row["last_step"]) if "last_step" in row else -1

    def start(self, records: Sequence[Members]) -> Members:
        """Return the run_start that describes the run, empty if there is none."""
        return next((record for record in records if record.get("") == "run_start"), {})

    def end(self, records: Sequence[Members]) -> Members:
        """Return the run_end that counts, empty if there is none."""
        closing = {"run_end", "run_resume"} if tables.has("1.3") else {"run_end"}
        frame = (record for record in reversed(records) if record.get("") in closing)
        last = next(frame, {})
        return last if last.get("") == "run_end" else {}

    def is_step(self, record: Members, phase: str) -> bool:
        """Return whether a record is a step of the run's own phase."""
        return record.get("") == "step" and {"t", "step"} <= record.keys() and record.get("phase", phase) == phase

    def curve(self, steps: Sequence[Members]) -> list[Any]:
        """Return the losses of *steps*."""
        return [step["loss"] for step in steps if "loss" in step]

    def final_loss(self, end: Members, curve: list[Any]) -> Any:
        """Return the final loss, from run_end or from the curve."""
        return end["final_loss"] if "final_loss" in end else curve[-1]

    def times(self, records: Sequence[Members]) -> list[Any]:
        """Return the times that decide the duration."""
        return [record["t"] for record in records if "t" in record]

    def metrics(self, records: Sequence[Members]) -> Members:
        """Return the views of a metrics/v1 stream."""
        required = tables.kinds("metrics/v1")["entry"]["required"]
        entries = [record for record in records if record.keys() >= set(required)]
        curve = [entry["loss"] for entry in entries]
        finite = [untag(loss) for loss in curve if loss is not None]
        found = {"steps": number(len(entries)), "loss_curve": curve, "non_finite": number(len(curve) - len(finite))}
        if entries:
            found |= {
                "last_step": entries[-1]["step"],
                "final_loss": curve[-1],
                "duration_seconds": {"float": float_text(self.seconds(entries))},
            }
        return found | (self.statistics(finite) if finite else {})

    def seconds(self, entries: Sequence[Members]) -> float:
        """Return the duration."""
        return float(untag(entries[-1]["wall_time_ms"])) / 1000

    def statistics(self, losses: Sequence[float]) -> Members:
        """Return smallest, mean and largest of losses that are finite."""
        return {
            "loss_min": {"f32": f32_text(min(losses))},
            "loss_mean": {"f32": f32_text(self.mean(losses))},
            "loss_max": {"f32": f32_text(max(losses))},
        }

    def mean(self, losses: Sequence[float]) -> float:
        """Return the mean, accumulated one by one in binary64."""
        total = 0.0
        for loss in losses:
            total += loss
        return total / len(losses)

    def kaun(self, records: Sequence[Members], run_id: str | None) -> Members:
        """Return the views of a kaun/v1 stream."""
        scalars: dict[str, list[Members]] = {}
        for record in records:
            if {"step", "tag", "value"} <= record.keys():
                scalars.setdefault(record["tag"], []).append(record)
        tags = {tag: self.tag(tag, of_tag) for tag, of_tag in scalars.items()}
        shown = {"object": tags} if len(tags) == 1 and TAGS.issuperset(tags) else tags
        return {"tags": shown} | ({} if run_id is None else {"run_id": run_id})

    def tag(self, tag: str, scalars: Sequence[Members]) -> Members:
        """Return the views of one tag."""
        best = self.best(scalars, smaller=self.is_smaller_better(tag, scalars))
        found = {"count": number(len(scalars)), "latest": self.point(self.latest(scalars))}
        return found | ({} if best is None else {"best": self.point(best)})

    def is_smaller_better(self, tag: str, scalars: Sequence[Members]) -> bool:
        """Return whether the smallest value of a tag is the best."""
        goals = [scalar["minimize"] for scalar in scalars if "minimize" in scalar]
        return bool(goals[-1]) if goals else self.sounds_like_loss(tag)

    def sounds_like_loss(self, tag: str) -> bool:
        """Return whether the name of a tag says that smaller is better."""
        return "loss" in tag.lower() or "error" in tag.lower()

    def latest(self, scalars: Sequence[Members]) -> Members:
        """Return the latest scalar of a tag."""
        found = scalars[0]
        for scalar in scalars:
            if self.is_later(scalar, found):
                found = scalar
        return found

    def is_later(self, scalar: Members, other: Members) -> bool:
        """Return whether a scalar replaces *other* as the latest one."""
        return self.moment(scalar) > self.moment(other)

    def moment(self, scalar: Members) -> tuple[int, int]:
        """Return the sort key of scalars in time."""
        return untag(scalar["step"]), untag(scalar["epoch"]) if "epoch" in scalar else -1

    def best(self, scalars: Sequence[Members], *, smaller: bool) -> Members | None:
        """Return the best scalar of a tag, None if no value is finite."""
        found: Members | None = None
        for scalar in scalars:
            if scalar["value"] is not None and (found is None or self.is_better(scalar, found, smaller=smaller)):
                found = scalar
        return found

    def is_better(self, scalar: Members, other: Members, *, smaller: bool) -> bool:
        """Return whether a scalar replaces *other* as the best one."""
        one, two = untag(scalar["value"]), untag(other["value"])
        return bool(one < two if smaller else one > two)

    def point(self, scalar: Members) -> Members:
        """Return the point of a scalar."""
        return {key: scalar[key] for key in ("step", "epoch", "value") if key in scalar}


def number(count: int) -> Members:
    """Return a count as a tagged value."""
    return {"int": str(count)}
