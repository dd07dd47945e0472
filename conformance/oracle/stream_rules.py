"""Checks the rules that relate records: see spec/stream.md and the pages of the rules."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from conformance.oracle import tables
from conformance.oracle.json_text import Value, token, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_OPEN_REGIONS = 4096
_RANK = re.compile(r"events(?:\.rank-([1-9][0-9]{0,8}))?\.jsonl(?![\s\S])")
_HASH = re.compile(r"[0-9a-f]{64}(?![\s\S])")
OUTSIDE = re.compile(r"^[/\\]|^[A-Za-z]:|(?:^|[/\\])\.\.(?:[/\\]|(?![\s\S]))")

Finding = tuple[str, str]
"""A rule and the pointer to its place in the record."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A record, as the rules that relate records see it."""

    kind: str | None
    known: bool
    value: Value
    invalid: frozenset[str]
    """Invalid fields, which the rules ignore."""

    def field(self, key: str) -> Value | None:
        """Return the field *key*, None if it is absent or invalid, or the kind is unknown."""
        return None if key in self.invalid or not self.known else self.value.get(key)

    def text(self, key: str) -> str | None:
        """Return the string *key*, None if it is absent or ignored."""
        found = self.field(key)
        return found.text if found else None

    def number(self, key: str) -> float | None:
        """Return the number *key* as the binary64 value that it is, None if it is absent or ignored."""
        found = self.field(key)
        return float(found.text) if found is not None and found.type == "number" else None

    def integer(self, key: str) -> int | None:
        """Return the integer *key*, None if it is absent or ignored."""
        found = self.field(key)
        return None if found is None else whole(found.text)


class StreamRules:
    """Checks the records and gaps of a stream in order. Each rule is a method that a mutant can override."""

    rules: tuple[str, ...] = ()
    """Names of the methods, in the order in which their findings are listed."""

    gap_seen = False
    begun = False
    directory: str | None = None
    """Path of the bundle, None if there is none."""
    file = ""
    """Name of the stream's file."""

    def record(self, seen: Seen) -> Iterator[Finding]:
        """Yield the findings at a record."""
        for rule in self.rules:
            yield from getattr(self, rule)(seen)
        self.begun = True

    def gap(self) -> None:
        """Note an unreadable line."""
        self.gap_seen = True
        self.forget()

    def forget(self) -> None:
        """Forget the values that an unreadable line may have changed."""

    def end(self) -> Iterator[Finding]:
        """Yield the findings at the last record of a stream without a fragment."""
        return iter(())


class ToyRules(StreamRules):
    """The rules of toy/v1."""

    rules = (
        "start_first",
        "start_once",
        "end_last",
        "time",
        "steps",
        "final",
        "regions",
        "compare",
        "error",
        "rank",
        "parent",
        "path",
        "lacking",
        "rank_of_file",
        "same_run",
        "filed",
    )

    def __init__(self) -> None:
        self.start: Seen | None = None
        self.ended = False
        self.t: float | None = None
        self.bases: dict[str, int | None] = {}
        self.last_step: Seen | None = None
        self.last_numbered: Seen | None = None
        self.open: list[str] = []
        self.regions_off = False

    def record(self, seen: Seen) -> Iterator[Finding]:
        """Yield the findings at a record."""
        if seen.kind == "run_start" and self.start is None:
            self.start = seen
        if seen.kind == "run_resume" and self.ended and tables.has("1.3"):
            self.reopen()
        yield from super().record(seen)
        if seen.kind == "step" and self.phase(seen) == "train":
            self.last_step = seen
            if seen.integer("step") is not None:
                self.last_numbered = seen
        self.ended = self.ended or seen.kind == "run_end"

    def reopen(self) -> None:
        """Let the run go on after its end."""
        self.ended = False
        self.regions_off = False

    def forget(self) -> None:
        """Forget steps and regions."""
        self.bases.clear()
        self.open.clear()

    def phase(self, seen: Seen) -> str:
        """Return the phase of a record."""
        return seen.text("phase") or (self.start.text("phase") if self.start else None) or "train"

    def start_first(self, seen: Seen) -> Iterator[Finding]:
        """Require that the first record is a run_start."""
        if not self.begun and not self.gap_seen and seen.kind not in {"run_start", None}:
            yield "run-start-missing", ""

    def start_once(self, seen: Seen) -> Iterator[Finding]:
        """Require a single run_start."""
        if seen.kind == "run_start" and seen is not self.start:
            yield "run-start-repeated", ""

    def end_last(self, _: Seen) -> Iterator[Finding]:
        """Require that nothing follows the end of the run."""
        if self.ended:
            yield "event-after-run-end", ""

    def time(self, seen: Seen) -> Iterator[Finding]:
        """Require that t does not decrease."""
        t = seen.number("t")
        if t is None:
            return
        if self.t is not None and t < self.t:
            yield "time-goes-backwards", "/t"
        self.t = t

    def steps(self, seen: Seen) -> Iterator[Finding]:
        """Require that steps count up by one in each phase."""
        if seen.kind == "run_resume":
            self.resume(seen)
        step = seen.integer("step") if seen.kind == "step" else None
        if step is None:
            return
        phase = self.phase(seen)
        base = self.bases.get(phase)
        self.bases[phase] = step
        if base is None:
            return
        if step <= base:
            yield "step-goes-backwards", "/step"
        elif step > base + 1 and not self.subsampled():
            yield "step-skipped", "/step"

    def resume(self, seen: Seen) -> None:
        """Restart the count after from_step."""
        self.bases.clear()
        self.bases["train"] = seen.integer("from_step")

    def subsampled(self) -> bool:
        """Return whether the run declares subsampling."""
        config = self.start.field("config") if self.start else None
        subsample = config.get("subsample") if config else None
        return subsample is not None and subsample.type != "null"

    def final(self, seen: Seen) -> Iterator[Finding]:
        """Require that run_end repeats the values of the last training step."""
        if self.ended or self.gap_seen or self.last_step is None:
            return
        for rule, field, of, value in (
            ("final-step-mismatch", "final_step", "step", Seen.integer),
            ("final-loss-mismatch", "final_loss", "loss", Seen.number),
        ):
            own, other = seen.field(field), self.last_step.field(of)
            if own is None or other is None or value(seen, field) == value(self.last_step, of):
                continue
            if rule != "final-step-mismatch" or not self.counts_a_part(seen):
                yield rule, f"/{field}"

    def counts_a_part(self, seen: Seen) -> bool:
        """Return whether final_step may be smaller than the last step, and is."""
        assert self.last_step is not None
        own, other = seen.integer("final_step"), self.last_step.integer("step")
        return tables.has("1.4") and own is not None and other is not None and own < other

    def regions(self, seen: Seen) -> Iterator[Finding]:
        """Require that regions nest and are closed at the end."""
        if self.regions_off:
            return
        if seen.kind == "run_end":
            self.regions_off = True
            for _ in self.open:
                yield "region-not-nested", ""
        region = seen.text("region")
        if region is not None and seen.kind == "region_enter":
            yield from self.enter(region)
        elif region is not None and seen.kind == "region_exit":
            yield from self.leave(region)

    def enter(self, region: str) -> Iterator[Finding]:
        """Open a region."""
        if len(self.open) == MAX_OPEN_REGIONS:
            self.regions_off = True
            yield "region-not-nested", "/region"
        self.open.append(region)

    def leave(self, region: str) -> Iterator[Finding]:
        """Close a region."""
        if not self.open or self.open[-1] != region:
            yield "region-not-nested", "/region"
        if region in self.open:
            del self.open[len(self.open) - 1 - self.open[::-1].index(region)]

    def compare(self, seen: Seen) -> Iterator[Finding]:
        """Require a baseline where there is a comparison."""
        if seen.kind == "compare" and self.start is not None and self.start.value.get("compare_to") is None:
            yield "compare-without-baseline", ""

    def error(self, seen: Seen) -> Iterator[Finding]:
        """Require an explanation of an error."""
        if seen.kind == "run_end" and seen.text("reason") == "errored" and seen.value.get("error") is None:
            yield "error-not-explained", "/error"

    def rank(self, seen: Seen) -> Iterator[Finding]:
        """Require that a rank is one of the ranks of the run."""
        rank, size = seen.integer("rank"), seen.integer("world_size")
        if tables.has("1.3") and seen.kind == "run_start" and rank is not None and size is not None and rank >= size:
            yield "rank-beyond-world-size", "/rank"

    def parent(self, seen: Seen) -> Iterator[Finding]:
        """Require that a run is not its own parent."""
        parent = seen.field("parent") if seen.kind == "run_start" and tables.has("1.3") else None
        run_id = parent.get("run_id") if parent else None
        if run_id is not None and run_id.text == seen.text("run_id"):
            yield "parent-is-itself", "/parent/run_id"

    def path(self, seen: Seen) -> Iterator[Finding]:
        """Require that artifacts are in the bundle."""
        path = seen.text("path") if seen.kind == "artifact" and tables.has("1.3") else None
        if path is not None and OUTSIDE.search(path):
            yield "artifact-outside", "/path"

    def lacking(self, seen: Seen) -> Iterator[Finding]:
        """Report what a note says that the log lacks."""
        for rule, name in (("values-left-out", "left_out"), ("records-dropped", "dropped")):
            counts = seen.field(name) if seen.kind == "note" and tables.has("1.3") else None
            if counts and any(float(count.text) > 0 for count in counts.unique().values()):
                yield rule, f"/{name}"

    def rank_of_name(self) -> int | None:
        """Return the rank that the name of the file implies, None if it is not in a bundle."""
        found = _RANK.match(self.file)
        if self.directory is None or found is None or not tables.has("1.3"):
            return None
        return int(found[1] or 0)

    def rank_of_file(self, seen: Seen) -> Iterator[Finding]:
        """Require that a rank is that of the file's name."""
        expected, rank = self.rank_of_name(), seen.integer("rank")
        if seen.kind == "run_start" and expected is not None and rank is not None and rank != expected:
            yield "rank-mismatch", "/rank"

    def same_run(self, seen: Seen) -> Iterator[Finding]:
        """Require that a rank is one of the run of rank 0."""
        run_id = seen.text("run_id") if seen.kind == "run_start" and self.rank_of_name() else None
        if run_id is not None and self.run_of_rank_0() not in {None, run_id}:
            yield "rank-of-another-run", "/run_id"

    def run_of_rank_0(self) -> str | None:
        """Return the run_id in the first record of rank 0, None if it has none."""
        assert self.directory is not None
        try:
            with open(os.path.join(self.directory, "events.jsonl"), encoding="utf-8") as file:
                first = json.loads(next(line for line in file if line.strip()))
        except (OSError, ValueError, StopIteration):
            return None
        run_id = first.get("run_id") if isinstance(first, dict) and first.get("kind") == "run_start" else None
        return run_id if isinstance(run_id, str) else None

    def filed(self, seen: Seen) -> Iterator[Finding]:
        """Require that media are in the bundle."""
        sha256, media_type = seen.text("sha256"), seen.text("media_type")
        if seen.kind != "media" or self.directory is None or sha256 is None or media_type is None:
            return
        folder = os.path.join(self.directory, "media")
        path = os.path.join(folder, f"{sha256}.{tables.extension(media_type)}")
        there = os.path.isfile(path) and not os.path.islink(path) and not os.path.islink(folder)
        if _HASH.match(sha256) and not there:
            yield "media-missing", "/sha256"

    def end(self) -> Iterator[Finding]:
        """Require that a run_end was written."""
        if not self.ended:
            yield "run-end-missing", ""


class MetricsRules(StreamRules):
    """The rules of metrics/v1."""

    rules: tuple[str, ...] = ("step", "wall_time", "null")
    measures: tuple[str, ...] = ("loss", "grad_norm", "throughput_samples_per_sec", "extra")

    def __init__(self) -> None:
        self.last: int | None = None
        self.wall: float | None = None
        self.null_seen = False

    def forget(self) -> None:
        """Forget the last step."""
        self.last = None

    def step(self, seen: Seen) -> Iterator[Finding]:
        """Require that steps increase."""
        step = seen.integer("step")
        if step is None:
            return
        if self.last is not None and step <= self.last:
            yield "step-goes-backwards", "/step"
        self.last = step

    def wall_time(self, seen: Seen) -> Iterator[Finding]:
        """Require that wall_time_ms does not decrease."""
        wall = seen.number("wall_time_ms")
        if wall is None:
            return
        if self.wall is not None and wall < self.wall:
            yield "wall-time-goes-backwards", "/wall_time_ms"
        self.wall = wall

    def null(self, seen: Seen) -> Iterator[Finding]:
        """Report the first null number."""
        if self.null_seen:
            return
        fields = [(measure, found) for measure in self.measures if (found := seen.field(measure))]
        for measure, found in sorted(fields, key=lambda field: field[1].start):
            pointer = _null_in(found, f"/{measure}")
            if pointer is not None:
                self.null_seen = True
                yield "not-readable-by-source", pointer
                return


class KaunRules(MetricsRules):
    """The rules of kaun/v1."""

    rules = ("null",)
    measures = ("value",)


RULES_OF = {"toy/v1": ToyRules, "metrics/v1": MetricsRules, "kaun/v1": KaunRules}


def _null_in(value: Value, pointer: str) -> str | None:
    if value.type == "null":
        return pointer
    inner = (_null_in(item, pointer + token(key)) for key, item in value.unique().items())
    return next((found for found in inner if found is not None), None)
