"""Mutants of the views of a run: see spec/views.md."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from conformance.mutants.mutant import Mutant
from conformance.oracle.adapter import Oracle
from conformance.oracle.summarizing import Members, Summarizing
from conformance.tagging import f32_text, to_f32, untag

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from conformance.oracle.json_text import Value
    from conformance.oracle.reading import Stream


class SummarizesAnything(Oracle):
    """Treats a stream without a profile as toy/v1."""

    class summarizing_type(Summarizing):
        def summary(self, stream: Stream, run_id: str | None = None) -> Members:
            return super().summary(replace(stream, profile=stream.profile or "toy/v1"), run_id)


class StopsAtDamage(Oracle):
    """Computes the views of the records before the first gap."""

    class summarizing_type(Summarizing):
        def lines(self, stream: Stream) -> Iterable[Any]:
            reached, _ = self.reading.reached(stream, "prefix")
            return [line for line in reached if line.status == "readable"]


class PlotsEveryAttempt(Oracle):
    """Computes the views of a resumed run from all of its attempts."""

    class summarizing_type(Summarizing):
        def lines(self, stream: Stream) -> Iterable[Any]:
            return [line for line in stream.lines if line.status == "readable"]


class TakesInvalidMembers(Oracle):
    """Uses members that break the schema."""

    class summarizing_type(Summarizing):
        def invalid(self, kind: str, value: Value, profile: str) -> set[str]:
            return set()


class LeavesInvalidStepsOut(Oracle):
    """Leaves out every record with any invalid member."""

    class summarizing_type(Summarizing):
        def invalid(self, kind: str, value: Value, profile: str) -> set[str]:
            return set(value.unique()) if super().invalid(kind, value, profile) else set()


class SaysNullForNothing(Oracle):
    """Gives null for a view that has no value."""

    class summarizing_type(Summarizing):
        def toy(self, records: Sequence[Members]) -> Members:
            return {"run_id": None, "final_loss": None, "duration_seconds": None} | super().toy(records)

        def metrics(self, records: Sequence[Members]) -> Members:
            return {"loss_min": None, "loss_mean": None, "loss_max": None} | super().metrics(records)


class NamesTheLastRun(Oracle):
    """Describes the run by the last run_start."""

    class summarizing_type(Summarizing):
        def start(self, records: Sequence[Members]) -> Members:
            return super().start(records[::-1])


class AlwaysTrains(Oracle):
    """Gives phase train for every run."""

    class summarizing_type(Summarizing):
        def start(self, records: Sequence[Members]) -> Members:
            return super().start(records) | {"phase": "train"}


class CountsEveryPhase(Oracle):
    """Uses the steps of every phase."""

    class summarizing_type(Summarizing):
        def is_step(self, record: Members, phase: str) -> bool:
            return super().is_step(record, record.get("phase", phase))


class PlotsFiniteLosses(Oracle):
    """Leaves losses that were not finite out of the loss curve."""

    class summarizing_type(Summarizing):
        def curve(self, steps: Sequence[Members]) -> list[Any]:
            return [loss for loss in super().curve(steps) if loss is not None]


class BelievesTheLastStep(Oracle):
    """Uses the last loss as the final one, and ignores run_end."""

    class summarizing_type(Summarizing):
        def final_loss(self, end: Members, curve: list[Any]) -> Any:
            return curve[-1] if curve else end["final_loss"]


class TakesNullForNoFinalLoss(Oracle):
    """Treats a final_loss of null as absent."""

    class summarizing_type(Summarizing):
        def final_loss(self, end: Members, curve: list[Any]) -> Any:
            return curve[-1] if curve and end.get("final_loss") is None else end["final_loss"]


class TimesTheLastStep(Oracle):
    """Uses the t of the last step as the duration."""

    class summarizing_type(Summarizing):
        def times(self, records: Sequence[Members]) -> list[Any]:
            return super().times([record for record in records if record.get("") in {"step", "run_start"}])


class BelievesTheFirstEnd(Oracle):
    """Uses the first run_end."""

    class summarizing_type(Summarizing):
        def end(self, records: Sequence[Members]) -> Members:
            return super().end(records[::-1])


class TakesTheLargestStep(Oracle):
    """Uses the entry with the largest step as the last one."""

    class summarizing_type(Summarizing):
        def metrics(self, records: Sequence[Members]) -> Members:
            return super().metrics(sorted(records, key=lambda entry: untag(entry["step"]) if "step" in entry else -1))


class PlotsFiniteEntries(Oracle):
    """Leaves entries whose loss was not finite out of the loss curve."""

    class summarizing_type(Summarizing):
        def metrics(self, records: Sequence[Members]) -> Members:
            return super().metrics([entry for entry in records if entry.get("loss") is not None])


class MeasuresInMilliseconds(Oracle):
    """Gives the duration of a metrics log in milliseconds."""

    class summarizing_type(Summarizing):
        def seconds(self, entries: Sequence[Members]) -> float:
            return super().seconds(entries) * 1000


class AddsInBinary32(Oracle):
    """Accumulates the mean in binary32."""

    class summarizing_type(Summarizing):
        def mean(self, losses: Sequence[float]) -> float:
            total = 0.0
            for loss in losses:
                total = to_f32(total + loss)
            return total / len(losses)


class CountsNullAsZero(Oracle):
    """Counts a non-finite loss as 0 in the statistics."""

    class summarizing_type(Summarizing):
        def metrics(self, records: Sequence[Members]) -> Members:
            found = super().metrics(records)
            losses = [0.0 if loss is None else untag(loss) for loss in found["loss_curve"]]
            return found | ({"loss_min": {"f32": f32_text(min(losses))}} if losses else {})


class NamesTheDirectory(Oracle):
    """Uses the name of the directory as run_id, and ignores the manifest."""

    def bundle_id(self, directory: str) -> str:
        return os.path.basename(directory)


class ForgetsNullValues(Oracle):
    """Leaves values that were not finite out of the count and the latest."""

    class summarizing_type(Summarizing):
        def kaun(self, records: Sequence[Members], run_id: str | None) -> Members:
            return super().kaun([record for record in records if record.get("value") is not None], run_id)


class TakesTheLastScalar(Oracle):
    """Uses the last scalar in the stream as the latest."""

    class summarizing_type(Summarizing):
        def is_later(self, scalar: Members, other: Members) -> bool:
            return True


class LetsEqualScalarsReplace(Oracle):
    """Uses the last of several scalars with the same step and epoch as the latest."""

    class summarizing_type(Summarizing):
        def is_later(self, scalar: Members, other: Members) -> bool:
            return self.moment(scalar) >= self.moment(other)


class ForgetsEpochs(Oracle):
    """Compares scalars by their step alone."""

    class summarizing_type(Summarizing):
        def moment(self, scalar: Members) -> tuple[int, int]:
            return untag(scalar["step"]), 0


class TakesNoEpochForZero(Oracle):
    """Treats an absent epoch as epoch 0."""

    class summarizing_type(Summarizing):
        def moment(self, scalar: Members) -> tuple[int, int]:
            return super().moment({"epoch": {"int": "0"}} | scalar)


class LikesLargeLosses(Oracle):
    """Uses the largest value as the best if minimize is absent."""

    class summarizing_type(Summarizing):
        def sounds_like_loss(self, tag: str) -> bool:
            return False


class HeedsTheCaseOfTags(Oracle):
    """Searches tags for loss and error without lowering their case."""

    class summarizing_type(Summarizing):
        def sounds_like_loss(self, tag: str) -> bool:
            return "loss" in tag or "error" in tag


class FoldsTheCaseOfTags(Oracle):
    """Takes a long s in a tag for an s."""

    class summarizing_type(Summarizing):
        def sounds_like_loss(self, tag: str) -> bool:
            return super().sounds_like_loss(tag.casefold())


class IgnoresMinimize(Oracle):
    """Decides by the tag alone which value is best."""

    class summarizing_type(Summarizing):
        def is_smaller_better(self, tag: str, scalars: Sequence[Members]) -> bool:
            return self.sounds_like_loss(tag)


class KeepsTheFirstGoal(Oracle):
    """Decides by the first minimize of a tag which value is best."""

    class summarizing_type(Summarizing):
        def is_smaller_better(self, tag: str, scalars: Sequence[Members]) -> bool:
            return super().is_smaller_better(tag, scalars[::-1])


class LetsEqualValuesReplace(Oracle):
    """Uses the last of equally good values as the best."""

    class summarizing_type(Summarizing):
        def is_better(self, scalar: Members, other: Members, *, smaller: bool) -> bool:
            return not super().is_better(other, scalar, smaller=smaller)


class DropsLenientScalars(Oracle):
    """Leaves out a scalar with an optional member of the wrong type."""

    class summarizing_type(Summarizing):
        def invalid(self, kind: str, value: Value, profile: str) -> set[str]:
            found = super().invalid(kind, value, profile)
            return set(value.unique()) if found & {"epoch", "wall_time", "minimize"} else found


class RoundsSteps(Oracle):
    """Rounds a fractional step to the nearest integer."""

    class summarizing_type(Summarizing):
        def whole(self, literal: str) -> int:
            return round(float(literal))


class FloorsSteps(Oracle):
    """Rounds a step of -0.5 down to -1, which is not a step."""

    class summarizing_type(Summarizing):
        def whole(self, literal: str) -> int:
            return math.floor(float(literal))


def _mutant(make: type[Oracle], proves: str, reason: str) -> Mutant:
    return Mutant(make=make, role="summarizer", proves=proves, reason=reason)


ALL: tuple[Mutant, ...] = (
    _mutant(SummarizesAnything, "views/no-profile", "summary/phase was not expected"),
    _mutant(StopsAtDamage, "views/salvage", "steps is|count is"),
    _mutant(PlotsEveryAttempt, "views/latest-attempt", "loss_curve has"),
    _mutant(TakesInvalidMembers, "views/faulty-left-out", "was not expected|summary/"),
    _mutant(LeavesInvalidStepsOut, "views/faulty-left-out", "summary/steps is"),
    _mutant(SaysNullForNothing, "views/absent", "was not expected"),
    _mutant(NamesTheLastRun, "views/toy-run-id", 'run_id is "second"'),
    _mutant(AlwaysTrains, "views/toy-phase", 'phase is "train"'),
    _mutant(CountsEveryPhase, "views/toy-steps", "steps is"),
    _mutant(PlotsFiniteLosses, "views/toy-loss-curve", "loss_curve has"),
    _mutant(BelievesTheLastStep, "views/toy-final-loss", "final_loss is"),
    _mutant(TakesNullForNoFinalLoss, "views/toy-final-loss", "final_loss is"),
    _mutant(TimesTheLastStep, "views/toy-duration", "duration_seconds is"),
    _mutant(BelievesTheFirstEnd, "views/toy-reason", 'reason is "errored"'),
    _mutant(TakesTheLargestStep, "views/metrics-steps", "last_step is"),
    _mutant(PlotsFiniteEntries, "views/metrics-loss-curve", "loss_curve has"),
    _mutant(MeasuresInMilliseconds, "views/metrics-duration", "duration_seconds is"),
    _mutant(AddsInBinary32, "views/metrics-statistics", "loss_mean is"),
    _mutant(CountsNullAsZero, "views/metrics-statistics", "loss_min is"),
    _mutant(NamesTheDirectory, "views/kaun-run-id", "run_id is"),
    _mutant(ForgetsNullValues, "views/kaun-tags", "count is|is missing"),
    _mutant(TakesTheLastScalar, "views/kaun-latest", "latest/step is"),
    _mutant(LetsEqualScalarsReplace, "views/kaun-latest", "latest/value is"),
    _mutant(ForgetsEpochs, "views/kaun-latest", "latest/(value|epoch)"),
    _mutant(TakesNoEpochForZero, "views/kaun-latest", "latest/"),
    _mutant(LikesLargeLosses, "views/kaun-best", "best/"),
    _mutant(HeedsTheCaseOfTags, "views/kaun-best", "best/"),
    _mutant(FoldsTheCaseOfTags, "views/kaun-best", "best/"),
    _mutant(IgnoresMinimize, "views/kaun-best", "best/"),
    _mutant(KeepsTheFirstGoal, "views/kaun-best", "best/"),
    _mutant(LetsEqualValuesReplace, "views/kaun-best", "best/step is"),
    _mutant(DropsLenientScalars, "views/kaun-lenient", "count is|is missing"),
    _mutant(RoundsSteps, "views/kaun-lenient", "latest/step is|best/"),
    _mutant(FloorsSteps, "views/kaun-lenient", "count is|is missing"),
)
