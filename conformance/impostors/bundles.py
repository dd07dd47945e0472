"""Wrong about the directory of a run: see spec/bundle.md and spec/writing.md."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from conformance.impostors.impostor import Impostor
from conformance.miniature.adapter import Miniature
from conformance.miniature.bundles import Bundles
from conformance.miniature.writing import RefusedError, Writing

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
        def kept(self, stream: Stream | None, exist: str, writer: Writing) -> bytes:
            return super().kept(stream, "append" if exist == "replace" else exist, writer)

        def is_worth_keeping(self, stream: Stream) -> bool:
            return False

    class writing_type(Writing):
        def judge(self, line: bytes) -> None:
            pass


class ReplacesWhatItShallKeep(Miniature):
    """Replaces an old run when it is told not to."""

    class bundles_type(Bundles):
        def write(self, request: Mapping[str, Any]) -> int:
            return super().write({**request, "exist": "replace"} if request["exist"] == "fail" else request)


class AppendsARun(Miniature):
    """Appends a run to another one when it is told so."""

    class bundles_type(Bundles):
        def demand_open(self, stream: Stream, exist: str) -> None:
            if exist != "append" or stream.profile != "toy/v1":
                super().demand_open(stream, exist)

    class writing_type(Writing):
        def judge(self, line: bytes) -> None:
            pass


class DeletesOldRuns(Miniature):
    """Deletes the stream that it replaces."""

    class bundles_type(Bundles):
        def move_away(self, path: str) -> None:
            os.remove(path)


class OverwritesThePreviousRun(Miniature):
    """Lets the stream that it replaces overwrite the one that was replaced before."""

    class bundles_type(Bundles):
        def move_away(self, path: str) -> None:
            os.replace(path, f"{path}.prev")


class NumbersOnFromTheLast(Miniature):
    """Gives an earlier log the number after the largest one, not the smallest that is free."""

    class bundles_type(Bundles):
        def move_away(self, path: str) -> None:
            folder, name = os.path.split(f"{path}.prev-")
            numbers = [int(found.removeprefix(name)) for found in os.listdir(folder) if found.startswith(name)]
            if os.path.exists(f"{path}.prev"):
                os.rename(f"{path}.prev", f"{path}.prev-{max(numbers, default=0) + 1}")
            os.rename(path, f"{path}.prev")


class KeepsEmptyStreams(Miniature):
    """Keeps a stream that holds nothing, and moves an earlier one for it."""

    class bundles_type(Bundles):
        def is_worth_keeping(self, stream: Stream) -> bool:
            return True


class GluesToFragments(Miniature):
    """Writes the next record behind a fragment."""

    class bundles_type(Bundles):
        def kept(self, stream: Stream | None, exist: str, writer: Writing) -> bytes:
            kept = super().kept(stream, exist, writer)
            return stream.data if stream is not None and exist != "replace" else kept


class DeletesFragments(Miniature):
    """Cuts a fragment off and keeps it nowhere."""

    class bundles_type(Bundles):
        def set_aside(self, stream: Stream, path: str) -> None:
            pass


class KeepsTheBeginning(Miniature):
    """Keeps the first 64 KiB of a fragment alone."""

    class bundles_type(Bundles):
        def set_aside(self, stream: Stream, path: str) -> None:
            offset = len(stream.data) - len(stream.fragment)
            super().set_aside(stream, path)
            if stream.fragment:
                os.truncate(f"{path}.torn-{offset}", min(len(stream.fragment), 65536))


class OverwritesFragments(Miniature):
    """Lets a fragment overwrite the one that was kept from the same place."""

    class bundles_type(Bundles):
        def set_aside(self, stream: Stream, path: str) -> None:
            if stream.fragment:
                with open(f"{path}.torn-{len(stream.data) - len(stream.fragment)}", "wb") as file:
                    file.write(stream.fragment)


class OpensBeforeItLooks(Miniature):
    """Makes the stream before it looks at the first record."""

    class bundles_type(Bundles):
        def lines(self, request: Mapping[str, Any], writer: Writing) -> bytes:
            os.makedirs(request["directory"], exist_ok=True)
            path = os.path.join(request["directory"], "events.jsonl")
            try:
                return super().lines(request, writer)
            except RefusedError:
                with open(path, "ab"):
                    raise


class MovesBeforeItLooks(Miniature):
    """Moves the stream that it replaces before it looks at the first record."""

    class bundles_type(Bundles):
        def lines(self, request: Mapping[str, Any], writer: Writing) -> bytes:
            try:
                return super().lines(request, writer)
            except RefusedError:
                path = os.path.join(request["directory"], "events.jsonl")
                if os.path.exists(path) and request["exist"] == "replace":
                    self.move_away(path)
                raise


class ResumesForeignRecords(Miniature):
    """Resumes, and appends to, records that are of no profile."""

    class bundles_type(Bundles):
        def demand_profile(self, stream: Stream, path: str, exist: str) -> None:
            pass


class DemandsAResumption(Miniature):
    """Refuses to start a run where it is told to resume and finds no record."""

    class bundles_type(Bundles):
        def demand_resume(self, request: Mapping[str, Any], kept: bytes) -> None:
            super().demand_resume(request, b"{}")


class NestsWithoutEnd(Miniature):
    """Writes lines that no reader reads, for example records that are nested too deep."""

    class writing_type(Writing):
        def judge(self, line: bytes) -> None:
            pass


class WritesAnyInteger(NestsWithoutEnd):
    """Writes integers that no binary64 number comes near."""


class RemembersAnEarlierLoss(Miniature):
    """Writes the last loss there was as final_loss, also where the last step has none."""

    class bundles_type(Bundles):
        def final(self, records: Sequence[Any]) -> dict[str, Any]:
            losses = [record["loss"] for record in records if "loss" in record]
            found = super().final(records)
            return found | {"final_loss": losses[-1]} if found and losses else found


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
        def write(self, request: Mapping[str, Any]) -> int:
            return super().write({**request, "run_id": "demo"})


class NamesTheStreamAfterItself(Miniature):
    """Gives the stream a name of its own."""

    class bundles_type(Bundles):
        def write(self, request: Mapping[str, Any]) -> int:
            descriptor = super().write(request)
            for name in ("events.jsonl", "metrics.jsonl"):
                path = os.path.join(request["directory"], name)
                if os.path.exists(path):
                    os.rename(path, os.path.join(request["directory"], "log.jsonl"))
            return descriptor


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
    _impostor(AppendsARun, "writing/existing-run", "outcome is written"),
    _impostor(DeletesOldRuns, "writing/replaced-kept", r"there is no events.jsonl.prev"),
    _impostor(OverwritesThePreviousRun, "writing/nothing-overwritten", r"there is no events.jsonl.prev-1"),
    _impostor(NumbersOnFromTheLast, "writing/replaced-kept", r"there is no events.jsonl.prev-1"),
    _impostor(KeepsEmptyStreams, "writing/empty-not-kept", r"events.jsonl.prev-1 is there"),
    _impostor(OpensBeforeItLooks, "writing/refused-start", "are not what they were: events.jsonl"),
    _impostor(MovesBeforeItLooks, "writing/refused-start", "are not what they were: events.jsonl.prev"),
    _impostor(ResumesForeignRecords, "writing/no-profile-refused", "outcome is written"),
    _impostor(DemandsAResumption, "writing/resume-nothing", "outcome is refused"),
    _impostor(WritesAnyInteger, "writing/invalid-input", "outcome is written"),
    _impostor(NestsWithoutEnd, "encoding/write-within-limits", "outcome is written"),
    _impostor(RemembersAnEarlierLoss, "stream/final-loss", "final_loss is there"),
    _impostor(KeepsTheBeginning, "writing/fragment-aside", "does not hold the fragment: 65536 bytes"),
    _impostor(OverwritesFragments, "bundle/side-file-names", "does not hold what was in"),
    _impostor(GluesToFragments, "writing/no-glue", "unreadable lines"),
    _impostor(DeletesFragments, "writing/fragment-aside", "there is no .*torn"),
    _impostor(GoesOnAnywhere, "writing/resume-refused", "outcome is written"),
    _impostor(AppendsToAnything, "writing/append-refused", "outcome is written"),
    _impostor(ResumesSilently, "stream/resume-written", "outcome is written"),
    _impostor(StartsTimeAnew, "stream/time-forward", "wrote time-goes-backwards"),
    _impostor(TakesAnyRunId, "bundle/run-id-safe", "outcome is written"),
    _impostor(NamesTheStreamAfterItself, "bundle/stream-name", r"there is no \w+\.jsonl"),
)
