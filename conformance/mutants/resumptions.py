"""Mutants that go on with a run: see spec/writing.md."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from conformance.mutants.mutant import Mutant
from conformance.oracle.adapter import Oracle
from conformance.oracle.bundles import Bundles
from conformance.oracle.writing import Writing, is_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from conformance.oracle.reading import Stream


class ResumesForeignRecords(Oracle):
    """Resumes and appends to records without a profile."""

    class bundles_type(Bundles):
        def demand_profile(self, stream: Stream, profile: str) -> None:
            pass


class DemandsAResumption(Oracle):
    """Refuses to resume if there is no record yet, instead of starting a run."""

    class bundles_type(Bundles):
        def demand_resume(self, request: Mapping[str, Any], kept: bytes) -> None:
            super().demand_resume(request, b"{}")


class GoesOnAnywhere(Oracle):
    """Resumes a stream that is complete or damaged."""

    class bundles_type(Bundles):
        def demand_open(self, stream: Stream, exist: str, profile: str) -> None:
            pass

    class writing_type(Writing):
        def validate(self, line: bytes) -> None:
            pass


class AppendsToAnything(GoesOnAnywhere):
    """Appends to a stream that is damaged."""


class ResumesSilently(Oracle):
    """Resumes without run_resume."""

    class bundles_type(Bundles):
        def demand_resume(self, request: Mapping[str, Any], kept: bytes) -> None:
            pass


class StartsTimeAgain(Oracle):
    """Writes the clock of the new process into a resumed stream."""

    class writing_type(Writing):
        def forward_in_time(self, members: dict[str, Any]) -> dict[str, Any]:
            return members

        def validate(self, line: bytes) -> None:
            pass


class StartsItsClockAgain(Oracle):
    """Counts the time of a resumed run from zero, and repeats the last t until its clock has passed that."""

    class writing_type(Writing):
        def open(self) -> None:
            self.start = time.monotonic()


class CountsThePause(Oracle):
    """Counts the time between the crash and the restart."""

    class writing_type(Writing):
        def open(self) -> None:
            super().open()
            assert self.start is not None
            self.start -= 7200.0


class AddsASecond(Oracle):
    """Goes on one second after the last t."""

    class writing_type(Writing):
        def open(self) -> None:
            super().open()
            if self.last_t is not None:
                assert self.start is not None
                self.start -= 1.0


class CountsTheAgeOfTheStream(Oracle):
    """Counts the time since the stream was last written."""

    class bundles_type(Bundles):
        def stream(self, path: str) -> Stream:
            CountsTheAgeOfTheStream.age = time.time() - os.stat(path).st_mtime
            return super().stream(path)

    class writing_type(Writing):
        def open(self) -> None:
            super().open()
            assert self.start is not None
            self.start -= CountsTheAgeOfTheStream.age

    age = 0.0


class ReadsTheLastRecordAlone(Oracle):
    """Goes on from the t of the last record, from zero if that is invalid."""

    class writing_type(Writing):
        def forward_in_time(self, members: dict[str, Any]) -> dict[str, Any]:
            if not is_number(members.get("t")):
                self.last_t = None
            return super().forward_in_time(members)

        def validate(self, line: bytes) -> None:
            pass


class CountsTheTimeOfAnyKind(Oracle):
    """Takes the t of a record of unknown kind for one of the run."""

    class writing_type(Writing):
        def counts_time(self, members: Mapping[str, Any]) -> bool:
            return True


def _mutant(make: type[Oracle], proves: str, reason: str) -> Mutant:
    return Mutant(make=make, role="writer", proves=proves, reason=reason)


ALL: tuple[Mutant, ...] = (
    _mutant(ResumesForeignRecords, "writing/no-profile-refused", "outcome is written"),
    _mutant(DemandsAResumption, "writing/resume-nothing", "outcome is refused"),
    _mutant(GoesOnAnywhere, "writing/resume-refused", "outcome is written"),
    _mutant(AppendsToAnything, "writing/append-refused", "outcome is written"),
    _mutant(ResumesSilently, "stream/resume-written", "outcome is written"),
    _mutant(StartsTimeAgain, "stream/time-forward", "wrote time-goes-backwards"),
    _mutant(StartsItsClockAgain, "stream/time-resumed", "/t of the last record is 100.0, expected 100.0 plus the time"),
    _mutant(AddsASecond, "stream/time-resumed", r"/t of the last record is 1\d\d.*: the request took"),
    _mutant(CountsTheAgeOfTheStream, "stream/time-resumed", "/t of the last record is 73.*: the request took"),
    _mutant(ReadsTheLastRecordAlone, "stream/time-resumed", "/t of the last record is 0|wrote time-goes-backwards"),
    _mutant(CountsTheTimeOfAnyKind, "stream/time-of-known-kinds", r"record \d, /t is|/t of the last record is"),
    _mutant(CountsThePause, "stream/time-resumed", "/t of the last record is 73.*: the request took"),
)
