"""Mutants of the rules that relate records: see spec/stream.md."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from conformance.mutants.mutant import Mutant
from conformance.oracle import stream_rules
from conformance.oracle.adapter import Oracle
from conformance.oracle.checking import Checking, Findings
from conformance.oracle.stream_rules import Finding, MetricsRules, Seen, StreamRules, ToyRules

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from conformance.oracle.json_text import Problem
    from conformance.oracle.lines import Line


def _with_rules(toy: type[ToyRules] = ToyRules, metrics: type[MetricsRules] = MetricsRules) -> type[Checking]:
    rules_of: Mapping[str, type[StreamRules]] = {**stream_rules.RULES_OF, "toy/v1": toy, "metrics/v1": metrics}
    return type("Checking", (Checking,), {"rules_of": rules_of})


class ChecksUnknownKinds(Oracle):
    """Applies the rules that relate records to records of unknown kind."""

    class _Toy(ToyRules):
        def record(self, seen: Seen) -> Iterator[Finding]:
            return super().record(Seen(seen.kind, True, seen.value, seen.invalid))

    checking_type = _with_rules(_Toy)


class LetsInvalidFieldsTakePart(Oracle):
    """Compares values that are invalid."""

    class _Toy(ToyRules):
        def record(self, seen: Seen) -> Iterator[Finding]:
            return super().record(Seen(seen.kind, seen.known, seen.value, frozenset()))

    checking_type = _with_rules(_Toy)


class ComparesAFaultyParent(Oracle):
    """Compares the parent of a run whose step is invalid."""

    class _Toy(ToyRules):
        def parent(self, seen: Seen) -> Iterator[Finding]:
            return super().parent(Seen(seen.kind, seen.known, seen.value, seen.invalid - {"parent"}))

    checking_type = _with_rules(_Toy)


class LeavesUnknownKeysOut(Oracle):
    """Leaves a field with an unknown key inside it out of the rules."""

    class checking_type(Checking):
        def known(self, kind: str, line: Line, problems: list[Problem], found: Findings) -> frozenset[str]:
            unknown = {problem.pointer.split("/")[1] for problem in problems if problem.rule == "unknown-key"}
            return super().known(kind, line, problems, found) | unknown


class ComparesWithTheLargest(Oracle):
    """Compares t with the largest so far, not with the previous one."""

    class _Toy(ToyRules):
        def time(self, seen: Seen) -> Iterator[Finding]:
            before = self.t
            yield from super().time(seen)
            if before is not None and self.t is not None:
                self.t = max(before, self.t)

    checking_type = _with_rules(_Toy)


class KnowsOnePhase(Oracle):
    """Counts the steps of all phases together."""

    class _Toy(ToyRules):
        def phase(self, seen: Seen) -> str:
            return "train"

    checking_type = _with_rules(_Toy)


class SearchesTheRunOfRank0(Oracle):
    """Compares a rank with the first run_start of rank 0, wherever it is."""

    class _Toy(ToyRules):
        def run_of_rank_0(self) -> str | None:
            with open(os.path.join(self.directory or "", "events.jsonl"), encoding="utf-8") as file:
                starts = (record for line in file if (record := json.loads(line))["kind"] == "run_start")
                return next((record["run_id"] for record in starts), None)

    checking_type = _with_rules(_Toy)


class FollowsALinkToMedia(Oracle):
    """Looks for media in a folder that is a symbolic link."""

    class _Toy(ToyRules):
        def filed(self, seen: Seen) -> Iterator[Finding]:
            is_link = os.path.islink(os.path.join(self.directory or "", "media"))
            return iter(()) if is_link else super().filed(seen)

    checking_type = _with_rules(_Toy)


class ForgetsThePhaseOfTheRun(Oracle):
    """Does not take the phase of run_start for records without one."""

    class _Toy(ToyRules):
        def phase(self, seen: Seen) -> str:
            return seen.text("phase") or "train"

    checking_type = _with_rules(_Toy)


class FollowsTheLastRunStart(Oracle):
    """Takes phase, subsample and compare_to from the last run_start."""

    class _Toy(ToyRules):
        def record(self, seen: Seen) -> Iterator[Finding]:
            yield from super().record(seen)
            if seen.kind == "run_start":
                self.start = seen

    checking_type = _with_rules(_Toy)


class IgnoresResumption(Oracle):
    """Ignores run_resume when it counts steps."""

    class _Toy(ToyRules):
        def resume(self, seen: Seen) -> None:
            pass

    checking_type = _with_rules(_Toy)


class KeepsOtherPhasesOnResumption(Oracle):
    """Forgets only the steps of phase train at run_resume."""

    class _Toy(ToyRules):
        def resume(self, seen: Seen) -> None:
            kept = {phase: base for phase, base in self.bases.items() if phase != "train"}
            super().resume(seen)
            self.bases.update(kept)

    checking_type = _with_rules(_Toy)


class RemembersAcrossGaps(Oracle):
    """Remembers steps and regions across a gap."""

    class _Toy(ToyRules):
        def forget(self) -> None:
            pass

    class _Metrics(MetricsRules):
        def forget(self) -> None:
            pass

    checking_type = _with_rules(_Toy, _Metrics)


class ForgetsTimeAtGaps(Oracle):
    """Forgets the last t at a gap."""

    class _Toy(ToyRules):
        def forget(self) -> None:
            super().forget()
            self.t = None

    class _Metrics(MetricsRules):
        def forget(self) -> None:
            super().forget()
            self.wall = None

    checking_type = _with_rules(_Toy, _Metrics)


class BlamesAfterGaps(Oracle):
    """Reports as missing what an unreadable line may have held."""

    class _Toy(ToyRules):
        def gap(self) -> None:
            self.forget()

    checking_type = _with_rules(_Toy)


class IgnoresSubsample(Oracle):
    """Reports skipped steps of a run that declares subsampling."""

    class _Toy(ToyRules):
        def subsampled(self) -> bool:
            return False

    checking_type = _with_rules(_Toy)


class TakesNullForSubsampled(Oracle):
    """Accepts any member subsample, even null, as a declaration."""

    class _Toy(ToyRules):
        def subsampled(self) -> bool:
            config = self.start.field("config") if self.start else None
            return config is not None and config.get("subsample") is not None

    checking_type = _with_rules(_Toy)


class AllowsRepeatedSteps(Oracle):
    """Accepts a repeated step."""

    class _Toy(ToyRules):
        def steps(self, seen: Seen) -> Iterator[Finding]:
            step = seen.number("step") if seen.kind == "step" else None
            if step is None or step != self.bases.get(self.phase(seen)):
                yield from super().steps(seen)

    checking_type = _with_rules(_Toy)


class AllowsRepeatedEntries(Oracle):
    """Accepts a repeated step of an entry."""

    class _Metrics(MetricsRules):
        def step(self, seen: Seen) -> Iterator[Finding]:
            if seen.number("step") != self.last:
                yield from super().step(seen)

    checking_type = _with_rules(ToyRules, _Metrics)


class TracksRegionsWithoutEnd(Oracle):
    """Follows more than 4096 open regions."""

    class _Toy(ToyRules):
        def enter(self, region: str) -> Iterator[Finding]:
            self.open.append(region)
            return iter(())

    checking_type = _with_rules(_Toy)


class GivesUpRegionsEarly(Oracle):
    """Follows no more than 4095 open regions."""

    class _Toy(ToyRules):
        def enter(self, region: str) -> Iterator[Finding]:
            if len(self.open) == stream_rules.MAX_OPEN_REGIONS - 1:
                self.regions_off = True
                yield "region-not-nested", "/region"
            self.open.append(region)

    checking_type = _with_rules(_Toy)


class LosesAllRegionsAtOnce(Oracle):
    """Closes every inner region of a region that is left out of turn."""

    class _Toy(ToyRules):
        def leave(self, region: str) -> Iterator[Finding]:
            yield from super().leave(region)
            self.open.clear()

    checking_type = _with_rules(_Toy)


class ComparesFinalsOfAnyPhase(Oracle):
    """Compares final_step with the last step of any phase."""

    class _Toy(ToyRules):
        def record(self, seen: Seen) -> Iterator[Finding]:
            yield from super().record(seen)
            if seen.kind == "step":
                self.last_step = seen

    checking_type = _with_rules(_Toy)


def _mutant(make: type[Oracle], proves: str, reason: str, where: str = "") -> Mutant:
    return Mutant(make=make, role="checker", proves=proves, reason=reason, where=where)


ALL: tuple[Mutant, ...] = (
    _mutant(ChecksUnknownKinds, "stream/unknown-kind-out", "not expected: "),
    _mutant(LetsInvalidFieldsTakePart, "stream/faulty-field-out", "not expected: |not found: "),
    _mutant(ComparesAFaultyParent, "stream/faulty-field-out", "not expected: parent-is-itself"),
    _mutant(LeavesUnknownKeysOut, "stream/faulty-field-out", "not found: parent-is-itself"),
    _mutant(ComparesWithTheLargest, "stream/previous-value", "not expected: time-goes-backwards"),
    _mutant(KnowsOnePhase, "stream/phase", "not expected: step-"),
    _mutant(ForgetsThePhaseOfTheRun, "stream/phase", "not expected: |not found: "),
    _mutant(FollowsTheLastRunStart, "stream/first-run-start-counts", "not expected: |not found: "),
    _mutant(IgnoresResumption, "stream/resume-sets-steps", "not expected: step-"),
    _mutant(KeepsOtherPhasesOnResumption, "stream/resume-sets-steps", "not expected: step-"),
    _mutant(RemembersAcrossGaps, "stream/gap-forgets", "not expected: "),
    _mutant(ForgetsTimeAtGaps, "stream/gap-keeps-time", "not found: "),
    _mutant(BlamesAfterGaps, "stream/gap-silences", "not expected: "),
    _mutant(IgnoresSubsample, "rules/step-skipped", "not expected: step-skipped"),
    _mutant(TakesNullForSubsampled, "rules/step-skipped", "not found: step-skipped"),
    _mutant(AllowsRepeatedSteps, "rules/step-goes-backwards", "not found: step-goes-backwards"),
    _mutant(AllowsRepeatedEntries, "rules/step-goes-backwards", "not found: step-goes-backwards"),
    _mutant(TracksRegionsWithoutEnd, "checking/region-limit", "region-not-nested"),
    _mutant(GivesUpRegionsEarly, "checking/region-limit", "region-not-nested"),
    _mutant(LosesAllRegionsAtOnce, "rules/region-not-nested", "region-not-nested"),
    _mutant(SearchesTheRunOfRank0, "rules/rank-of-another-run", "not expected: rank-of-another-run"),
    _mutant(FollowsALinkToMedia, "rules/media-missing", "not found: media-missing"),
    _mutant(ComparesFinalsOfAnyPhase, "rules/final-step-mismatch", "not expected: final-|not found: final-"),
)
