"""Wrong about the protocol: see PROTOCOL.md. Their answers would be right."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any, ClassVar

from conformance.impostors.impostor import Impostor
from conformance.miniature.adapter import Miniature

if TYPE_CHECKING:
    from collections.abc import Mapping

Message = dict[str, Any]

_PROVES = "rules/invalid-json"


class Hangs(Miniature):
    """Does not answer where a line is unreadable."""

    def answer(self, request: Message) -> Message:
        """Wait for ever."""
        answer = super().answer(request)
        if answer["state"] == "damaged":
            time.sleep(3600)
        return answer


class Dies(Miniature):
    """Dies of a signal where a line is unreadable."""

    def answer(self, request: Message) -> Message:
        """Die."""
        answer = super().answer(request)
        if answer["state"] == "damaged":
            os.abort()
        return answer


class Exits(Miniature):
    """Leaves without a word where a line is unreadable."""

    def answer(self, request: Message) -> Message:
        """Leave."""
        answer = super().answer(request)
        if answer["state"] == "damaged":
            sys.stdout.flush()
            os._exit(0)
        return answer


class AnswersOutOfTurn(Miniature):
    """Gives each answer to the request before."""

    last: ClassVar[Mapping[str, Any]] = {"profile": "toy/v1", "state": "torn", "valid": True}

    def answer(self, request: Message) -> Message:
        """Answer what was asked before."""
        before, AnswersOutOfTurn.last = AnswersOutOfTurn.last, super().answer(request)
        return {"findings": [], "suppressed": {}, **before}


class MakesUpIds(Miniature):
    """Answers with an id that nobody has asked with."""

    def answer(self, request: Message) -> Message:
        """Answer with another id."""
        return super().answer(request) | {"id": request["id"] + 1000000}


class ForgetsIds(Miniature):
    """Answers without the id."""

    def answer(self, request: Message) -> Message:
        """Answer without an id."""
        return super().answer(request) | {"id": None}


class PrintsForPeople(Miniature):
    """Writes what it does to standard output."""

    def answer(self, request: Message) -> Message:
        """Answer, and talk about it."""
        sys.stdout.write("checking a stream\n")
        return super().answer(request)


class GivesNumbersAsText(Miniature):
    """Gives the lines of findings as text."""

    def answer(self, request: Message) -> Message:
        """Answer with text."""
        answer = super().answer(request)
        for finding in answer["findings"]:
            finding["line"] = str(finding["line"])
        return answer


class LeavesOutWhatIsDemanded(Miniature):
    """Does not say whether a stream is valid."""

    def answer(self, request: Message) -> Message:
        """Answer without valid."""
        answer = super().answer(request)
        del answer["valid"]
        return answer


class AddsWhatNobodyKnows(Miniature):
    """Adds members that the protocol does not have."""

    def answer(self, request: Message) -> Message:
        """Answer with more."""
        return super().answer(request) | {"mood": "good"}


class GivesBareNumbers(Miniature):
    """Gives the numbers of records as numbers of JSON."""

    def answer(self, request: Message) -> Message:
        """Answer with bare numbers."""
        answer = super().answer(request)
        answer["records"] = [
            {key: 1.0 if isinstance(value, dict) and "float" in value else value for key, value in record.items()}
            for record in answer["records"]
        ]
        return answer


class SaysThatItFailed(Miniature):
    """Says that it failed itself where a line is unreadable."""

    def answer(self, request: Message) -> Message:
        """Answer with an error of its own."""
        answer = super().answer(request)
        return {"error": "out of ideas"} if answer["state"] == "damaged" else answer


def _impostor(make: type[Miniature], reason: str, role: str = "checker") -> Impostor:
    return Impostor(make=make, role=role, proves=_PROVES, reason=reason, talks=True)


ALL: tuple[Impostor, ...] = (
    _impostor(Hangs, "no answer within"),
    _impostor(Dies, "ended by signal"),
    _impostor(Exits, "ended with exit status 0"),
    _impostor(AnswersOutOfTurn, "expected|not found"),
    _impostor(MakesUpIds, "which no open request has"),
    _impostor(ForgetsIds, "which no open request has"),
    _impostor(PrintsForPeople, "not one JSON object"),
    _impostor(GivesNumbersAsText, "/findings/0/line is '.*', not of type integer"),
    _impostor(LeavesOutWhatIsDemanded, "has no member valid"),
    _impostor(AddsWhatNobodyKnows, "has the member 'mood'"),
    _impostor(GivesBareNumbers, "bare number", "reader"),
    _impostor(SaysThatItFailed, "says that it failed"),
)
