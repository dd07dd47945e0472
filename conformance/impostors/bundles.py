"""Wrong about the directory of a run: see spec/bundle.md and spec/writing.md."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from conformance.impostors.impostor import Impostor
from conformance.miniature.adapter import Miniature
from conformance.miniature.bundles import Bundles
from conformance.miniature.writing import Writing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from conformance.miniature.reading import Stream


class EndsWithoutAWord(Miniature):
    """Writes no run_end when the run is left."""

    class bundles_type(Bundles):
        def ending(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
            return None


class EndsTwice(Miniature):
    """Writes a run_end when the run is left, also where the program wrote one."""

    class bundles_type(Bundles):
        def all_records(self, request: Mapping[str, Any], writer: Writing) -> list[Any]:
            found = super().all_records(request, writer)
            return [*found, found[-1]] if found[-1]["kind"] == "run_end" else found

    class writing_type(Writing):
        def judge(self, line: bytes) -> None:
            pass


class ForgetsWhatItEndedWith(Miniature):
    """Writes neither final_step nor final_loss."""

    class bundles_type(Bundles):
        def final(self, records: Sequence[Any]) -> dict[str, Any]:
            return {}


class EndsWithAnyPhase(Miniature):
    """Takes the last step of any phase for the final one."""

    class bundles_type(Bundles):
        def final(self, records: Sequence[Any]) -> dict[str, Any]:
            return super().final([{key: item for key, item in record.items() if key != "phase"} for record in records])


class CallsErrorsCompleted(Miniature):
    """Writes reason completed when the run is left by an error."""

    class bundles_type(Bundles):
        def ending(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
            found = super().ending(request)
            return {"reason": "completed"} if request["end"] == "errored" else found


class HidesTheError(Miniature):
    """Writes reason errored without the error."""

    class bundles_type(Bundles):
        def ending(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
            found = super().ending(request)
            return {"reason": "errored"} if request["end"] == "errored" else found


class CallsInterruptionsErrors(Miniature):
    """Writes reason errored when the user stops the run."""

    class bundles_type(Bundles):
        def ending(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
            found = super().ending(request)
            return {"reason": "errored", "error": "KeyboardInterrupt"} if request["end"] == "interrupted" else found


class EndsAKilledRun(Miniature):
    """Ends a run that nobody has ended."""

    class bundles_type(Bundles):
        def ending(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
            return super().ending(request) or {"reason": "interrupted"}


class WritesBehindAnOldRun(Miniature):
    """Writes a new run behind an old one."""

    class bundles_type(Bundles):
        def existing(self, path: str, request: Mapping[str, Any], writer: Writing) -> bytes:
            if request["exist"] != "replace" or not os.path.exists(path):
                return super().existing(path, request, writer)
            with open(path, "rb") as file:
                return file.read()


class ReplacesWhatItShallKeep(Miniature):
    """Replaces an old run when it is told not to."""

    class bundles_type(Bundles):
        def existing(self, path: str, request: Mapping[str, Any], writer: Writing) -> bytes:
            if request["exist"] == "fail":
                request = {**request, "exist": "replace"}
            return super().existing(path, request, writer)


class DeletesOldRuns(Miniature):
    """Deletes the stream that it replaces."""

    class bundles_type(Bundles):
        def existing(self, path: str, request: Mapping[str, Any], writer: Writing) -> bytes:
            kept = super().existing(path, request, writer)
            if os.path.exists(f"{path}.prev"):
                os.remove(f"{path}.prev")
            return kept


class GluesToFragments(Miniature):
    """Writes the next record behind a fragment."""

    class bundles_type(Bundles):
        def existing(self, path: str, request: Mapping[str, Any], writer: Writing) -> bytes:
            kept = super().existing(path, request, writer)
            if request["exist"] == "replace":
                return kept
            with open(path, "rb") as file:
                return file.read()


class DeletesFragments(Miniature):
    """Cuts a fragment off and keeps it nowhere."""

    class bundles_type(Bundles):
        def set_aside(self, stream: Stream, path: str) -> None:
            pass


class GoesOnAnywhere(Miniature):
    """Resumes a stream that is complete or damaged."""

    class bundles_type(Bundles):
        def demand_open(self, stream: Stream, exist: str) -> None:
            pass

    class writing_type(Writing):
        def judge(self, line: bytes) -> None:
            pass


class AppendsToAnything(GoesOnAnywhere):
    """Appends to a stream that is damaged."""


class ResumesSilently(Miniature):
    """Goes on without run_resume."""

    class bundles_type(Bundles):
        def demand_resume(self, request: Mapping[str, Any], kept: bytes) -> None:
            pass


class StartsTimeAnew(Miniature):
    """Writes what the clock of the new process says into a resumed stream."""

    class writing_type(Writing):
        def forward_in_time(self, members: dict[str, Any]) -> dict[str, Any]:
            return members

        def judge(self, line: bytes) -> None:
            pass


class TakesAnyRunId(Miniature):
    """Takes any text for the name of a directory."""

    class bundles_type(Bundles):
        def write(self, request: Mapping[str, Any]) -> None:
            super().write({**request, "run_id": "demo"})


class NamesTheStreamAfterItself(Miniature):
    """Gives the stream a name of its own."""

    class bundles_type(Bundles):
        def write(self, request: Mapping[str, Any]) -> None:
            super().write(request)
            for name in ("events.jsonl", "metrics.jsonl"):
                path = os.path.join(request["directory"], name)
                if os.path.exists(path):
                    os.rename(path, os.path.join(request["directory"], "log.jsonl"))


def _impostor(make: type[Miniature], proves: str, reason: str) -> Impostor:
    return Impostor(make=make, role="writer", proves=proves, reason=reason)


ALL: tuple[Impostor, ...] = (
    _impostor(EndsWithoutAWord, "stream/run-end-written", "records, expected"),
    _impostor(EndsTwice, "stream/run-end-last", "wrote event-after-run-end"),
    _impostor(ForgetsWhatItEndedWith, "stream/final-step", "final_step is missing"),
    _impostor(EndsWithAnyPhase, "stream/final-loss", "final_loss is"),
    _impostor(CallsErrorsCompleted, "writing/end-errored", "reason is 'completed'"),
    _impostor(HidesTheError, "stream/error-explained", "error is missing"),
    _impostor(CallsInterruptionsErrors, "writing/end-interrupted", "reason is 'errored'"),
    _impostor(EndsAKilledRun, "following/no-invention", "records, expected"),
    _impostor(WritesBehindAnOldRun, "writing/existing-run", "wrote run-start-repeated|wrote event-after"),
    _impostor(ReplacesWhatItShallKeep, "writing/existing-run", "outcome is written"),
    _impostor(DeletesOldRuns, "writing/replaced-kept", "holds the previous"),
    _impostor(GluesToFragments, "writing/no-glue", "unreadable lines"),
    _impostor(DeletesFragments, "writing/fragment-aside", "holds the fragment"),
    _impostor(GoesOnAnywhere, "writing/resume-refused", "outcome is written"),
    _impostor(AppendsToAnything, "writing/append-refused", "outcome is written"),
    _impostor(ResumesSilently, "stream/resume-written", "outcome is written"),
    _impostor(StartsTimeAnew, "stream/time-forward", "wrote time-goes-backwards"),
    _impostor(TakesAnyRunId, "bundle/run-id-safe", "outcome is written"),
    _impostor(NamesTheStreamAfterItself, "bundle/stream-name", r"there is no \w+\.jsonl"),
)
