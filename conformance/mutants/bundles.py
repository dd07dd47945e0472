"""Mutants of the directory of a run: see spec/bundle.md and spec/writing.md."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from conformance import locking
from conformance.mutants.mutant import Mutant
from conformance.oracle.adapter import Oracle
from conformance.oracle.bundles import Bundles, content
from conformance.oracle.writing import RefusedError, Writing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from conformance.oracle.reading import Stream
    from conformance.oracle.stream_rules import Seen


class EndsWithoutAWord(Oracle):
    """Writes no run_end when the run is closed."""

    class bundles_type(Bundles):
        def ending(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
            return None


class EndsTwice(Oracle):
    """Writes a run_end when the run is closed, even if the program wrote one."""

    class bundles_type(Bundles):
        def lines(self, request: Mapping[str, Any], writer: Writing) -> bytes:
            return super().lines(request, writer) + writer.record({"kind": "run_end", "t": {"float": "9.0"}})

    class writing_type(Writing):
        def validate(self, line: bytes) -> None:
            pass


class ForgetsWhatItEndedWith(Oracle):
    """Writes neither final_step nor final_loss."""

    class bundles_type(Bundles):
        def final(self, step: Seen | None) -> dict[str, Any]:
            return {}


class EndsWithAnyPhase(Oracle):
    """Uses the last step of any phase as the final one."""

    class bundles_type(Bundles):
        def last(self, request: Mapping[str, Any], writer: Writing) -> list[Any]:
            steps = [record for record in request["records"] if record.get("kind") == "step"]
            final = {f"final_{key}": steps[-1][key] for key in ("step", "loss") if key in steps[-1]} if steps else {}
            return [record | final for record in super().last(request, writer)]


class CallsErrorsCompleted(Oracle):
    """Writes reason completed when an error ends the run."""

    class bundles_type(Bundles):
        def ending(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
            found = super().ending(request)
            return {"reason": "completed"} if request["end"] == "errored" else found


class HidesTheError(Oracle):
    """Writes reason errored without the error."""

    class bundles_type(Bundles):
        def ending(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
            found = super().ending(request)
            return {"reason": "errored"} if request["end"] == "errored" else found


class CallsInterruptionsErrors(Oracle):
    """Writes reason errored when the user stops the run."""

    class bundles_type(Bundles):
        def ending(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
            found = super().ending(request)
            return {"reason": "errored", "error": "KeyboardInterrupt"} if request["end"] == "interrupted" else found


class EndsAKilledRun(Oracle):
    """Ends a run that was killed."""

    class bundles_type(Bundles):
        def ending(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
            return super().ending(request) or {"reason": "interrupted"}


class WritesAfterAnOldRun(Oracle):
    """Appends a new run to an old one."""

    class bundles_type(Bundles):
        def kept(self, stream: Stream | None, exist: str, writer: Writing) -> bytes:
            return super().kept(stream, "append" if exist == "replace" else exist, writer)

        def is_worth_keeping(self, stream: Stream) -> bool:
            return False

    class writing_type(Writing):
        def validate(self, line: bytes) -> None:
            pass


class ReplacesWhatItShallKeep(Oracle):
    """Replaces an old run although the request forbids it."""

    class bundles_type(Bundles):
        def write(self, request: Mapping[str, Any]) -> int:
            return super().write({**request, "exist": "replace"} if request["exist"] == "fail" else request)


class AppendsARun(Oracle):
    """Appends a run to another one on request."""

    class bundles_type(Bundles):
        def demand_open(self, stream: Stream, exist: str, profile: str) -> None:
            if exist != "append" or profile != "toy/v1":
                super().demand_open(stream, exist, profile)

    class writing_type(Writing):
        def validate(self, line: bytes) -> None:
            pass


class DeletesOldRuns(Oracle):
    """Deletes the stream that it replaces."""

    class bundles_type(Bundles):
        def move_away(self, path: str) -> None:
            os.remove(path)


class OverwritesThePreviousRun(Oracle):
    """Overwrites the previously replaced stream with the one that it replaces."""

    class bundles_type(Bundles):
        def move_away(self, path: str) -> None:
            os.replace(path, f"{path}.prev")


class NumbersOnFromTheLast(Oracle):
    """Numbers an earlier log after the largest number, not with the smallest free one."""

    class bundles_type(Bundles):
        def move_away(self, path: str) -> None:
            folder, name = os.path.split(f"{path}.prev-")
            numbers = [int(found.removeprefix(name)) for found in os.listdir(folder) if found.startswith(name)]
            if os.path.exists(f"{path}.prev"):
                os.rename(f"{path}.prev", f"{path}.prev-{max(numbers, default=0) + 1}")
            os.rename(path, f"{path}.prev")


class KeepsEmptyStreams(Oracle):
    """Keeps an empty stream, and moves an earlier one for it."""

    class bundles_type(Bundles):
        def is_worth_keeping(self, stream: Stream) -> bool:
            return True


class LeavesRanks(Oracle):
    """Leaves the streams of the other ranks of the run that it replaces."""

    class bundles_type(Bundles):
        def move_ranks(self, directory: str, profile: str) -> None:
            pass


class LeavesOpenRanks(Oracle):
    """Leaves the streams of other ranks that have no run_end, as if a process still wrote them."""

    class bundles_type(Bundles):
        def move_rank(self, path: str) -> None:
            if b'"run_end"' in (content(path) or b""):
                super().move_rank(path)


class OverwritesRanks(Oracle):
    """Overwrites the log of another rank that was kept earlier."""

    class bundles_type(Bundles):
        def move_rank(self, path: str) -> None:
            os.replace(path, f"{path}.prev")


class MovesRanksOfAnyRun(Oracle):
    """Moves the streams of other ranks of a run that is resumed, or beside an empty stream, too."""

    class bundles_type(Bundles):
        def written(self, path: str, descriptor: int | None, kept: bytes, lines: bytes) -> int:
            self.move_ranks(os.path.dirname(path), "toy/v1")
            return super().written(path, descriptor, kept, lines)


class MovesRanksBeforeItStarts(Oracle):
    """Moves the streams of other ranks, and is refused then."""

    class bundles_type(Bundles):
        def lines(self, request: Mapping[str, Any], writer: Writing) -> bytes:
            if request["exist"] == "replace" and os.path.isdir(request["directory"]):
                self.move_ranks(request["directory"], request["profile"])
            return super().lines(request, writer)


class TakesAnyNumberForARank(Oracle):
    """Moves files whose names are almost those of ranks."""

    class bundles_type(Bundles):
        def move_ranks(self, directory: str, profile: str) -> None:
            for name in os.listdir(directory):
                if re.fullmatch(r"events\.rank-[0-9]+\.jsonl", name):
                    self.move_rank(os.path.join(directory, name))


class GluesToFragments(Oracle):
    """Appends the next record to a fragment."""

    class bundles_type(Bundles):
        def kept(self, stream: Stream | None, exist: str, writer: Writing) -> bytes:
            kept = super().kept(stream, exist, writer)
            return stream.data if stream is not None and exist != "replace" else kept


class DeletesFragments(Oracle):
    """Cuts off a fragment without keeping it."""

    class bundles_type(Bundles):
        def move_fragment(self, stream: Stream, path: str) -> None:
            pass


class KeepsTheBeginning(Oracle):
    """Keeps only the first 64 KiB of a fragment."""

    class bundles_type(Bundles):
        def move_fragment(self, stream: Stream, path: str) -> None:
            offset = len(stream.data) - len(stream.fragment)
            super().move_fragment(stream, path)
            if stream.fragment:
                os.truncate(f"{path}.torn-{offset}", min(len(stream.fragment), 65536))


class TidiesFragments(Oracle):
    """Keeps a fragment as text: without carriage returns, NUL bytes and what is not UTF-8."""

    class bundles_type(Bundles):
        def move_fragment(self, stream: Stream, path: str) -> None:
            super().move_fragment(stream, path)
            if stream.fragment:
                with open(f"{path}.torn-{len(stream.data) - len(stream.fragment)}", "wb") as file:
                    file.write(stream.fragment.decode("utf-8", "ignore").translate({0: "", 13: ""}).encode())


class OverwritesFragments(Oracle):
    """Overwrites a kept fragment with another one from the same place."""

    class bundles_type(Bundles):
        def move_fragment(self, stream: Stream, path: str) -> None:
            if stream.fragment:
                with open(f"{path}.torn-{len(stream.data) - len(stream.fragment)}", "wb") as file:
                    file.write(stream.fragment)


class OpensBeforeItValidates(Oracle):
    """Creates the stream before it validates the first record."""

    class bundles_type(Bundles):
        def lines(self, request: Mapping[str, Any], writer: Writing) -> bytes:
            os.makedirs(request["directory"], exist_ok=True)
            path = os.path.join(request["directory"], "events.jsonl")
            try:
                return super().lines(request, writer)
            except RefusedError:
                with open(path, "ab"):
                    raise


class MovesBeforeItValidates(Oracle):
    """Moves the stream that it replaces before it validates the first record."""

    class bundles_type(Bundles):
        def lines(self, request: Mapping[str, Any], writer: Writing) -> bytes:
            try:
                return super().lines(request, writer)
            except RefusedError:
                path = os.path.join(request["directory"], "events.jsonl")
                if os.path.exists(path) and request["exist"] == "replace":
                    self.move_away(path)
                raise


class NestsWithoutEnd(Oracle):
    """Writes lines that no reader accepts, for example records that are nested too deep."""

    class writing_type(Writing):
        def validate(self, line: bytes) -> None:
            pass


class WritesAnyInteger(NestsWithoutEnd):
    """Writes integers beyond the range of binary64."""


class RemembersAnEarlierLoss(Oracle):
    """Writes the last loss of any step as final_loss, even if the last step has none."""

    class bundles_type(Bundles):
        def lines(self, request: Mapping[str, Any], writer: Writing) -> bytes:
            self.losses = [record["loss"] for record in request["records"] if "loss" in record]
            return super().lines(request, writer)

        def final(self, step: Seen | None) -> dict[str, Any]:
            found = super().final(step)
            return found | {"final_loss": self.losses[-1]} if found and self.losses else found


class TakesAnyRunId(Oracle):
    """Accepts any text as the name of a directory."""

    class bundles_type(Bundles):
        def write(self, request: Mapping[str, Any]) -> int:
            return super().write({**request, "run_id": "demo"})


class NamesTheStreamAfterItself(Oracle):
    """Names the stream after the run."""

    class bundles_type(Bundles):
        def write(self, request: Mapping[str, Any]) -> int:
            descriptor = super().write(request)
            for name in ("events.jsonl", "metrics.jsonl"):
                path = os.path.join(request["directory"], name)
                if os.path.exists(path):
                    os.rename(path, os.path.join(request["directory"], "log.jsonl"))
            return descriptor


class TakesEmptyStreams(Oracle):
    """Writes into an existing stream that is empty, although the request says to refuse it."""

    class bundles_type(Bundles):
        def demand_open(self, stream: Stream, exist: str, profile: str) -> None:
            if stream.data or exist != "fail":
                super().demand_open(stream, exist, profile)


class LetsInASecondWriter(Oracle):
    """Opens a stream that another writer holds."""

    class bundles_type(Bundles):
        def locked(self, descriptor: int) -> int:
            return descriptor


class WritesWhenItCloses(Oracle):
    """Acknowledges records of an open stream, and writes them when it is closed."""

    def write(self, request: dict[str, Any]) -> dict[str, Any]:
        """Keep what an open stream gets."""
        if request.get("end") == "held":
            self.kept = {**request, "end": "killed"}
            return {"outcome": "written"}
        return super().write(self.kept if "release" in request else request)


class _TakesOneLock(Bundles):
    kind = ""

    def locked(self, descriptor: int) -> int:
        try:
            locking.take(descriptor, (self.kind,))
        except locking.HeldError:
            os.close(descriptor)
            raise RefusedError("another writer holds the stream") from None
        return descriptor


class TakesTheWholeFileLockAlone(Oracle):
    """Takes flock, and no record lock."""

    class bundles_type(_TakesOneLock):
        kind = "flock"


class TakesTheRecordLockAlone(Oracle):
    """Takes a record lock, and no flock."""

    class bundles_type(_TakesOneLock):
        kind = "record"


class LocksExistingStreamsAlone(Oracle):
    """Takes no lock on a stream that it creates."""

    class bundles_type(Bundles):
        def written(self, path: str, descriptor: int | None, kept: bytes, lines: bytes) -> int:
            if descriptor is None:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL)
            return super().written(path, descriptor, kept, lines)


class UnlocksOnceItIsOpen(Oracle):
    """Releases the locks as soon as the stream is open."""

    class bundles_type(Bundles):
        def written(self, path: str, descriptor: int | None, kept: bytes, lines: bytes) -> int:
            written = super().written(path, descriptor, kept, lines)
            os.close(written)
            return os.open(path, os.O_RDWR | os.O_APPEND)


class WritesIntoDevices(Oracle):
    """Opens whatever is at the path."""

    class bundles_type(Bundles):
        def demand_regular(self, descriptor: int) -> None:
            pass

        def stream(self, path: str) -> Stream:
            return self.reading.open(b"", name=os.path.basename(path))


def _mutant(make: type[Oracle], proves: str, reason: str) -> Mutant:
    return Mutant(make=make, role="writer", proves=proves, reason=reason)


ALL: tuple[Mutant, ...] = (
    _mutant(WritesWhenItCloses, "writing/acknowledged", r"the file \w+\.jsonl is missing"),
    _mutant(TakesTheWholeFileLockAlone, "writing/lock", "outcome is written, expected refused|has no record lock"),
    _mutant(TakesTheRecordLockAlone, "writing/lock", "outcome is written, expected refused|has no flock lock"),
    _mutant(LocksExistingStreamsAlone, "writing/lock", "has no flock lock while the writer holds it"),
    _mutant(UnlocksOnceItIsOpen, "writing/lock", "has no flock lock while the writer holds it"),
    _mutant(WritesIntoDevices, "writing/regular-file", "outcome is written, expected refused|crashed"),
    _mutant(LetsInASecondWriter, "writing/one-writer", "outcome is written, expected refused"),
    _mutant(EndsWithoutAWord, "stream/run-end-written", "records, expected"),
    _mutant(EndsTwice, "stream/run-end-last", "wrote event-after-run-end"),
    _mutant(ForgetsWhatItEndedWith, "stream/final-step", "final_step is missing"),
    _mutant(EndsWithAnyPhase, "stream/final-loss", "final_loss is"),
    _mutant(CallsErrorsCompleted, "writing/end-errored", 'reason is "completed"'),
    _mutant(HidesTheError, "stream/error-explained", "error is missing"),
    _mutant(CallsInterruptionsErrors, "writing/end-interrupted", 'reason is "errored"'),
    _mutant(EndsAKilledRun, "following/no-invention", "records, expected"),
    _mutant(WritesAfterAnOldRun, "writing/existing-run", "wrote run-start-repeated|wrote event-after"),
    _mutant(ReplacesWhatItShallKeep, "writing/existing-run", "outcome is written"),
    _mutant(AppendsARun, "writing/existing-run", "outcome is written"),
    _mutant(DeletesOldRuns, "writing/replaced-kept", r"the file events.jsonl.prev is missing"),
    _mutant(OverwritesThePreviousRun, "writing/nothing-overwritten", r"the file events.jsonl.prev-1 is missing"),
    _mutant(NumbersOnFromTheLast, "writing/replaced-kept", r"the file events.jsonl.prev-1 is missing"),
    _mutant(KeepsEmptyStreams, "writing/empty-not-kept", r"events.jsonl.prev-1 was not expected"),
    _mutant(LeavesRanks, "ranks/replaced-together", r"events.rank-1.jsonl was not expected"),
    _mutant(LeavesOpenRanks, "ranks/replaced-together", r"events.rank-2.jsonl was not expected"),
    _mutant(OverwritesRanks, "writing/nothing-overwritten", r"the file events.rank-2.jsonl.prev-1 is missing"),
    _mutant(MovesRanksOfAnyRun, "ranks/replaced-together", r"events.rank-1.jsonl.prev was not expected"),
    _mutant(MovesRanksBeforeItStarts, "writing/refused-start", r"events.rank-1.jsonl"),
    _mutant(TakesAnyNumberForARank, "ranks/replaced-together", r"the file events.rank-01.jsonl is missing"),
    _mutant(OpensBeforeItValidates, "writing/refused-start", "the file 'events.jsonl' changed: "),
    _mutant(MovesBeforeItValidates, "writing/refused-start", "the file 'events.jsonl.prev' changed: "),
    _mutant(WritesAnyInteger, "writing/invalid-input", "outcome is written"),
    _mutant(NestsWithoutEnd, "encoding/write-within-limits", "outcome is written"),
    _mutant(RemembersAnEarlierLoss, "stream/final-loss", "final_loss was not expected"),
    _mutant(KeepsTheBeginning, "writing/fragment-aside", "must hold the fragment: it has 65536 bytes, expected"),
    _mutant(TidiesFragments, "writing/fragment-aside", "must hold the fragment"),
    _mutant(OverwritesFragments, "bundle/side-file-names", "must hold the bytes that"),
    _mutant(GluesToFragments, "writing/no-glue", "unreadable lines"),
    _mutant(DeletesFragments, "writing/fragment-aside", "the file .*torn.* is missing"),
    _mutant(TakesEmptyStreams, "writing/existing-refused", "outcome is written"),
    _mutant(TakesAnyRunId, "bundle/run-id-safe", "outcome is written"),
    _mutant(NamesTheStreamAfterItself, "bundle/stream-name", r"the file \w+\.jsonl is missing"),
)
