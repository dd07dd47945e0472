"""Wrong about the views of a run: see spec/views.md."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from conformance.impostors.impostor import Impostor
from conformance.miniature.adapter import Miniature
from conformance.miniature.summarizing import Members, Summarizing
from conformance.tagging import f32_text, to_f32, untag

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from conformance.miniature.json_text import Value
    from conformance.miniature.reading import Stream


class SummarizesAnything(Miniature):
    """Takes a stream without a profile for one of toy/v1."""

    class summarizing_type(Summarizing):
        def summary(self, stream: Stream, run_id: str | None = None) -> Members:
            return super().summary(replace(stream, profile=stream.profile or "toy/v1"), run_id)


class StopsAtDamage(Miniature):
    """Computes the views of the records before the first gap."""

    class summarizing_type(Summarizing):
        def lines(self, stream: Stream) -> Iterable[Any]:
            reached, _ = self.reading.reached(stream, "prefix")
            return [line for line in reached if line.status == "readable"]


class PlotsEveryAttempt(Miniature):
    """Computes the views of a resumed run from all of its attempts."""

    class summarizing_type(Summarizing):
        def lines(self, stream: Stream) -> Iterable[Any]:
            return [line for line in stream.lines if line.status == "readable"]


class TakesFaultyMembers(Miniature):
    """Lets members take part that break the schema."""

    class summarizing_type(Summarizing):
        def faulty(self, kind: str, value: Value, profile: str) -> set[str]:
            return set()


class LeavesFaultyStepsOut(Miniature):
    """Leaves out every record with a faulty member, whichever it is."""

    class summarizing_type(Summarizing):
        def faulty(self, kind: str, value: Value, profile: str) -> set[str]:
            return set(value.unique()) if super().faulty(kind, value, profile) else set()


class SaysNullForNothing(Miniature):
    """Gives null for a view that has no value."""

    class summarizing_type(Summarizing):
        def toy(self, records: Sequence[Members]) -> Members:
            return {"run_id": None, "final_loss": None, "duration_seconds": None} | super().toy(records)

        def metrics(self, records: Sequence[Members]) -> Members:
            return {"loss_min": None, "loss_mean": None, "loss_max": None} | super().metrics(records)


class NamesTheLastRun(Miniature):
    """Takes the last run_start for the one that describes the run."""

    class summarizing_type(Summarizing):
        def start(self, records: Sequence[Members]) -> Members:
            return super().start(records[::-1])


class AlwaysTrains(Miniature):
    """Says that every run is in phase train."""

    class summarizing_type(Summarizing):
        def start(self, records: Sequence[Members]) -> Members:
            return super().start(records) | {"phase": "train"}


class CountsEveryPhase(Miniature):
    """Takes the steps of every phase for those of the run."""

    class summarizing_type(Summarizing):
        def is_step(self, record: Members, phase: str) -> bool:
            return super().is_step(record, record.get("phase", phase))


class PlotsFiniteLosses(Miniature):
    """Leaves losses that were not finite out of the loss curve."""

    class summarizing_type(Summarizing):
        def curve(self, steps: Sequence[Members]) -> list[Any]:
            return [loss for loss in super().curve(steps) if loss is not None]


class BelievesTheLastStep(Miniature):
    """Takes the last loss for the final one, whatever run_end says."""

    class summarizing_type(Summarizing):
        def final_loss(self, end: Members, curve: list[Any]) -> Any:
            return curve[-1] if curve else end["final_loss"]


class TakesNullForNoFinalLoss(Miniature):
    """Takes a final_loss of null for one that is not there."""

    class summarizing_type(Summarizing):
        def final_loss(self, end: Members, curve: list[Any]) -> Any:
            return curve[-1] if curve and end.get("final_loss") is None else end["final_loss"]


class TimesTheLastStep(Miniature):
    """Takes the t of the last step for the duration."""

    class summarizing_type(Summarizing):
        def times(self, records: Sequence[Members]) -> list[Any]:
            return super().times([record for record in records if record.get("") in {"step", "run_start"}])


class BelievesTheFirstEnd(Miniature):
    """Takes the first run_end for the one that counts."""

    class summarizing_type(Summarizing):
        def end(self, records: Sequence[Members]) -> Members:
            return super().end(records[::-1])


class TakesTheLargestStep(Miniature):
    """Takes the entry with the largest step for the last one."""

    class summarizing_type(Summarizing):
        def metrics(self, records: Sequence[Members]) -> Members:
            return super().metrics(sorted(records, key=lambda entry: untag(entry["step"]) if "step" in entry else -1))


class PlotsFiniteEntries(Miniature):
    """Leaves entries whose loss was not finite out of the loss curve."""

    class summarizing_type(Summarizing):
        def metrics(self, records: Sequence[Members]) -> Members:
            return super().metrics([entry for entry in records if entry.get("loss") is not None])


class MeasuresInMilliseconds(Miniature):
    """Gives the duration of a metrics log in milliseconds."""

    class summarizing_type(Summarizing):
        def seconds(self, entries: Sequence[Members]) -> float:
            return super().seconds(entries) * 1000


class AddsInBinary32(Miniature):
    """Accumulates the mean in binary32."""

    class summarizing_type(Summarizing):
        def mean(self, losses: Sequence[float]) -> float:
            total = 0.0
            for loss in losses:
                total = to_f32(total + loss)
            return total / len(losses)


class CountsNullAsZero(Miniature):
    """Takes a loss that was not finite for 0 in the statistics."""

    class summarizing_type(Summarizing):
        def metrics(self, records: Sequence[Members]) -> Members:
            found = super().metrics(records)
            losses = [0.0 if loss is None else untag(loss) for loss in found["loss_curve"]]
            return found | ({"loss_min": {"f32": f32_text(min(losses))}} if losses else {})


class NamesTheDirectory(Miniature):
    """Takes the name of the directory for the run_id, whatever the manifest says."""

    def bundle_id(self, directory: str) -> str:
        return os.path.basename(directory)


class ForgetsNullValues(Miniature):
    """Leaves values that were not finite out of the count and the latest."""

    class summarizing_type(Summarizing):
        def kaun(self, records: Sequence[Members], run_id: str | None) -> Members:
            return super().kaun([record for record in records if record.get("value") is not None], run_id)


class TakesTheLastScalar(Miniature):
    """Takes the last scalar in the stream for the latest."""

    class summarizing_type(Summarizing):
        def is_later(self, scalar: Members, other: Members) -> bool:
            return True


class LetsEqualScalarsReplace(Miniature):
    """Takes the last of the scalars with one step and epoch for the latest."""

    class summarizing_type(Summarizing):
        def is_later(self, scalar: Members, other: Members) -> bool:
            return self.moment(scalar) >= self.moment(other)


class ForgetsEpochs(Miniature):
    """Compares scalars by their step alone."""

    class summarizing_type(Summarizing):
        def moment(self, scalar: Members) -> tuple[int, int]:
            return untag(scalar["step"]), 0


class TakesNoEpochForZero(Miniature):
    """Takes an absent epoch for epoch 0."""

    class summarizing_type(Summarizing):
        def moment(self, scalar: Members) -> tuple[int, int]:
            return super().moment({"epoch": {"int": "0"}} | scalar)


class LikesLargeLosses(Miniature):
    """Takes the largest value for the best where minimize is absent."""

    class summarizing_type(Summarizing):
        def sounds_like_loss(self, tag: str) -> bool:
            return False


class HeedsTheCaseOfTags(Miniature):
    """Looks for loss and error in tags as they are spelled."""

    class summarizing_type(Summarizing):
        def sounds_like_loss(self, tag: str) -> bool:
            return "loss" in tag or "error" in tag


class IgnoresMinimize(Miniature):
    """Decides by the name of the tag alone which value is the best."""

    class summarizing_type(Summarizing):
        def is_smaller_better(self, tag: str, scalars: Sequence[Members]) -> bool:
            return self.sounds_like_loss(tag)


class KeepsTheFirstGoal(Miniature):
    """Decides by the first minimize of a tag which value is the best."""

    class summarizing_type(Summarizing):
        def is_smaller_better(self, tag: str, scalars: Sequence[Members]) -> bool:
            return super().is_smaller_better(tag, scalars[::-1])


class LetsEqualValuesReplace(Miniature):
    """Takes the last of equally good values for the best."""

    class summarizing_type(Summarizing):
        def is_better(self, scalar: Members, other: Members, *, smaller: bool) -> bool:
            return not super().is_better(other, scalar, smaller=smaller)


class DropsLenientScalars(Miniature):
    """Leaves out a scalar with an optional member of the wrong type."""

    class summarizing_type(Summarizing):
        def faulty(self, kind: str, value: Value, profile: str) -> set[str]:
            found = super().faulty(kind, value, profile)
            return set(value.unique()) if found & {"epoch", "wall_time", "minimize"} else found


class RoundsSteps(Miniature):
    """Rounds a fractional step to the nearest integer."""

    class summarizing_type(Summarizing):
        def whole(self, literal: str) -> int:
            return round(float(literal))


def _impostor(make: type[Miniature], proves: str, reason: str) -> Impostor:
    return Impostor(make=make, role="summarizer", proves=f"views/{proves}", reason=reason)


ALL: tuple[Impostor, ...] = (
    _impostor(SummarizesAnything, "no-profile", "summary/phase is there"),
    _impostor(StopsAtDamage, "salvage", "steps is|count is"),
    _impostor(PlotsEveryAttempt, "latest-attempt", "loss_curve has"),
    _impostor(TakesFaultyMembers, "faulty-left-out", "is there, but not expected|summary/"),
    _impostor(LeavesFaultyStepsOut, "faulty-left-out", "summary/steps is"),
    _impostor(SaysNullForNothing, "absent", "is there, but not expected"),
    _impostor(NamesTheLastRun, "toy-run-id", "run_id is 'second'"),
    _impostor(AlwaysTrains, "toy-phase", "phase is 'train'"),
    _impostor(CountsEveryPhase, "toy-steps", "steps is"),
    _impostor(PlotsFiniteLosses, "toy-loss-curve", "loss_curve has"),
    _impostor(BelievesTheLastStep, "toy-final-loss", "final_loss is"),
    _impostor(TakesNullForNoFinalLoss, "toy-final-loss", "final_loss is"),
    _impostor(TimesTheLastStep, "toy-duration", "duration_seconds is"),
    _impostor(BelievesTheFirstEnd, "toy-reason", "reason is 'errored'"),
    _impostor(TakesTheLargestStep, "metrics-steps", "last_step is"),
    _impostor(PlotsFiniteEntries, "metrics-loss-curve", "loss_curve has"),
    _impostor(MeasuresInMilliseconds, "metrics-duration", "duration_seconds is"),
    _impostor(AddsInBinary32, "metrics-statistics", "loss_mean is"),
    _impostor(CountsNullAsZero, "metrics-statistics", "loss_min is"),
    _impostor(NamesTheDirectory, "kaun-run-id", "run_id is"),
    _impostor(ForgetsNullValues, "kaun-tags", "count is|is missing"),
    _impostor(TakesTheLastScalar, "kaun-latest", "latest/step is"),
    _impostor(LetsEqualScalarsReplace, "kaun-latest", "latest/value is"),
    _impostor(ForgetsEpochs, "kaun-latest", "latest/(value|epoch)"),
    _impostor(TakesNoEpochForZero, "kaun-latest", "latest/"),
    _impostor(LikesLargeLosses, "kaun-best", "best/"),
    _impostor(HeedsTheCaseOfTags, "kaun-best", "best/"),
    _impostor(IgnoresMinimize, "kaun-best", "best/"),
    _impostor(KeepsTheFirstGoal, "kaun-best", "best/"),
    _impostor(LetsEqualValuesReplace, "kaun-best", "best/step is"),
    _impostor(DropsLenientScalars, "kaun-lenient", "count is|is missing"),
    _impostor(RoundsSteps, "kaun-lenient", "latest/step is|best/"),
)
