"""Mutants that break the protocol: see PROTOCOL.md. The content of their answers is right."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any, ClassVar

from conformance.mutants.mutant import Mutant
from conformance.oracle.adapter import Oracle

if TYPE_CHECKING:
    from collections.abc import Mapping

Message = dict[str, Any]

_PROVES = "rules/invalid-json"
_NINTH = 9


class Hangs(Oracle):
    """Does not answer if a line is unreadable."""

    def answer(self, request: Message) -> Message:
        """Wait forever."""
        answer = super().answer(request)
        if answer["state"] == "damaged":
            time.sleep(3600)
        return answer


class Dies(Oracle):
    """Crashes with a signal if a line is unreadable."""

    def answer(self, request: Message) -> Message:
        """Crash."""
        answer = super().answer(request)
        if answer["state"] == "damaged":
            os.abort()
        return answer


class Exits(Oracle):
    """Exits with status 0 and no answer if a line is unreadable."""

    def answer(self, request: Message) -> Message:
        """Exit."""
        answer = super().answer(request)
        if answer["state"] == "damaged":
            sys.stdout.flush()
            os._exit(0)
        return answer


class DiesNowAndThen(Oracle):
    """Crashes with a signal at every ninth request, whatever it asks."""

    asked: ClassVar[int] = 0

    def answer(self, request: Message) -> Message:
        """Answer, or crash."""
        DiesNowAndThen.asked += 1
        if DiesNowAndThen.asked % _NINTH == 0:
            os.abort()
        return super().answer(request)


class HangsNowAndThen(Oracle):
    """Does not answer every ninth request, whatever it asks."""

    asked: ClassVar[int] = 0

    def answer(self, request: Message) -> Message:
        """Answer, or wait forever."""
        HangsNowAndThen.asked += 1
        if HangsNowAndThen.asked % _NINTH == 0:
            time.sleep(3600)
        return super().answer(request)


class AnswersOutOfTurn(Oracle):
    """Gives each answer to the previous request."""

    last: ClassVar[Mapping[str, Any]] = {"profile": "toy/v1", "state": "torn", "valid": True}

    def answer(self, request: Message) -> Message:
        """Answer the previous request."""
        before, AnswersOutOfTurn.last = AnswersOutOfTurn.last, super().answer(request)
        return {"findings": [], "suppressed": {}, **before}


class MakesUpIds(Oracle):
    """Answers with an id that no request has."""

    def answer(self, request: Message) -> Message:
        """Answer with another id."""
        return super().answer(request) | {"id": request["id"] + 1000000}


class ForgetsIds(Oracle):
    """Answers without the id."""

    def answer(self, request: Message) -> Message:
        """Answer without an id."""
        return super().answer(request) | {"id": None}


class PrintsForPeople(Oracle):
    """Prints diagnostics to standard output."""

    def answer(self, request: Message) -> Message:
        """Answer, and print a diagnostic."""
        sys.stdout.write("checking a stream\n")
        return super().answer(request)


class GivesNumbersAsText(Oracle):
    """Gives the lines of findings as text."""

    def answer(self, request: Message) -> Message:
        """Answer with text."""
        answer = super().answer(request)
        for finding in answer["findings"]:
            finding["line"] = str(finding["line"])
        return answer


class LeavesOutARequiredMember(Oracle):
    """Leaves out the member valid."""

    def answer(self, request: Message) -> Message:
        """Answer without valid."""
        answer = super().answer(request)
        del answer["valid"]
        return answer


class AddsUnknownMembers(Oracle):
    """Adds members that the protocol does not have."""

    def answer(self, request: Message) -> Message:
        """Answer with more."""
        return super().answer(request) | {"mood": "good"}


class GivesBareNumbers(Oracle):
    """Gives the numbers of records as JSON numbers."""

    def answer(self, request: Message) -> Message:
        """Answer with bare numbers."""
        answer = super().answer(request)
        answer["records"] = [
            {key: 1.0 if isinstance(value, dict) and "float" in value else value for key, value in record.items()}
            for record in answer["records"]
        ]
        return answer


class SaysThatItFailed(Oracle):
    """Answers with an error if a line is unreadable."""

    def answer(self, request: Message) -> Message:
        """Answer with an error."""
        answer = super().answer(request)
        return {"error": "out of ideas"} if answer["state"] == "damaged" else answer


def _mutant(make: type[Oracle], reason: str, role: str = "checker") -> Mutant:
    return Mutant(make=make, role=role, proves=_PROVES, reason=reason, is_program=True)


ALL: tuple[Mutant, ...] = (
    _mutant(Hangs, "no answer within"),
    _mutant(Dies, "terminated by signal"),
    _mutant(DiesNowAndThen, "terminated by signal"),
    _mutant(HangsNowAndThen, "no answer within"),
    _mutant(Exits, "ended with exit status 0"),
    _mutant(AnswersOutOfTurn, "expected|not found"),
    _mutant(MakesUpIds, "which no request in flight has"),
    _mutant(ForgetsIds, "which no request in flight has"),
    _mutant(PrintsForPeople, "stray output on standard output: b'checking"),
    _mutant(GivesNumbersAsText, "/findings/0/line is '.*', expected type integer"),
    _mutant(LeavesOutARequiredMember, "has no member valid"),
    _mutant(AddsUnknownMembers, "has the member 'mood'"),
    _mutant(GivesBareNumbers, "bare number", "reader"),
    _mutant(SaysThatItFailed, "answered with an error"),
)
