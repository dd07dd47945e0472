"""Mutants of single records: see spec/checking.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.mutants.mutant import Mutant
from conformance.oracle.adapter import Oracle
from conformance.oracle.checking import Checking, Findings
from conformance.oracle.json_text import Problem, Value, is_integer
from conformance.oracle.record_rules import RecordRules

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from conformance.oracle.lines import Line
    from conformance.oracle.reading import Stream
    from conformance.oracle.sealing import Sealing


def _with_records(rules: type[RecordRules]) -> type[Checking]:
    return type("Checking", (Checking,), {"record_rules": rules})


class TakesTrueForANumber(Oracle):
    """Accepts true and false as numbers."""

    class _Rules(RecordRules):
        def is_type(self, value: Value, types: list[str]) -> bool:
            numeric = {"number", "integer"} & set(types)
            return (value.type in {"true", "false"} and bool(numeric)) or super().is_type(value, types)

    checking_type = _with_records(_Rules)


class TakesNullForAnything(Oracle):
    """Accepts null for every type."""

    class _Rules(RecordRules):
        def is_type(self, value: Value, types: list[str]) -> bool:
            return value.type == "null" or super().is_type(value, types)

    checking_type = _with_records(_Rules)


class TakesNullForATime(Oracle):
    """Accepts null as the time of a record, and for nothing else."""

    class _Rules(RecordRules):
        def problems_in(self, value: Value, schema: Mapping[str, Any], pointer: str) -> Iterator[Problem]:
            found = super().problems_in(value, schema, pointer)
            return (problem for problem in found if value.type != "null" or problem.pointer != "/t")

    checking_type = _with_records(_Rules)


class TakesTextForANumber(Oracle):
    """Accepts a string of digits as a number."""

    class _Rules(RecordRules):
        def is_type(self, value: Value, types: list[str]) -> bool:
            numeric = {"number", "integer"} & set(types)
            is_digits = value.type == "string" and value.text.replace(".", "").isdigit()
            return (is_digits and bool(numeric)) or super().is_type(value, types)

    checking_type = _with_records(_Rules)


class ReportsEveryKeyword(Oracle):
    """Reports each keyword that a value breaks."""

    class _Rules(RecordRules):
        def problems_in(self, value: Value, schema: Mapping[str, Any], pointer: str) -> Iterator[Problem]:
            for problem in super().problems_in(value, schema, pointer):
                yield problem
                if problem.rule == "wrong-type" and problem.pointer.count("/") == 1:
                    yield Problem("unexpected-value", problem.start, problem.pointer)

    checking_type = _with_records(_Rules)


class CallsRangeAFormat(Oracle):
    """Reports a number out of range as a bad format."""

    class _Rules(RecordRules):
        def number_problems(self, literal: str, schema: Mapping[str, Any]) -> Iterator[str]:
            return ("bad-format" for _ in super().number_problems(literal, schema))

    checking_type = _with_records(_Rules)


class TakesAnyDate(Oracle):
    """Accepts dates that do not exist."""

    class _Rules(RecordRules):
        def is_date_time(self, text: str) -> bool:
            return super().is_date_time(text[:5] + "01-01" + text[10:]) or super().is_date_time(text)

    checking_type = _with_records(_Rules)


class TakesTimesWithoutZone(Oracle):
    """Accepts date-times without a zone."""

    class _Rules(RecordRules):
        def is_date_time(self, text: str) -> bool:
            return super().is_date_time(text) or super().is_date_time(f"{text}Z")

    checking_type = _with_records(_Rules)


class TakesAnySecond(Oracle):
    """Accepts second 60 at any time of the day."""

    class _Rules(RecordRules):
        def is_date_time(self, text: str) -> bool:
            return super().is_date_time(text) or super().is_date_time(text.replace(":60", ":59"))

    checking_type = _with_records(_Rules)


class RefusesWholeFloats(Oracle):
    """Reports an integer that is written with a fraction or an exponent as wrong-type."""

    class _Rules(RecordRules):
        def is_integer(self, literal: str) -> bool:
            return is_integer(literal)

    checking_type = _with_records(_Rules)


class ReportsEachWholeFloat(Oracle):
    """Reports every integer that is written with a fraction or an exponent, not only the first."""

    class checking_type(Checking):
        def is_reported(self, found: Findings, kind: str, problem: Problem) -> bool:
            return problem.rule == "integer-as-float" or super().is_reported(found, kind, problem)


class ReportsOneWholeFloatOfAll(Oracle):
    """Reports one integer that is written with a fraction, for stream and manifest together."""

    def check(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer without the second one."""
        answer = super().check(request)
        rules = [finding["rule"] for finding in answer["findings"]]
        if rules.count("integer-as-float") > 1:
            del answer["findings"][len(rules) - 1 - rules[::-1].index("integer-as-float")]
        return answer


class LooksNoFurtherAtWholeFloats(Oracle):
    """Reports nothing else about an integer that is written with a fraction."""

    class _Rules(RecordRules):
        def problems(self, kind: str, value: Value) -> list[Problem]:
            found = super().problems(kind, value)
            places = {problem.pointer for problem in found if problem.rule == "integer-as-float"}
            return [problem for problem in found if problem.pointer not in places or problem.rule == "integer-as-float"]

    checking_type = _with_records(_Rules)


class LeavesWholeFloatsOut(Oracle):
    """Ignores an integer that is written with a fraction in the rules that relate records."""

    class checking_type(Checking):
        def known(self, kind: str, line: Line, problems: list[Problem], found: Findings) -> frozenset[str]:
            places = (problem.pointer.split("/")[1] for problem in problems if problem.rule == "integer-as-float")
            return super().known(kind, line, problems, found) | frozenset(places)


class ReportsMoreOfForeignStreams(Oracle):
    """Reports a fragment of a stream without profile too."""

    class checking_type(Checking):
        def unknown(self, stream: Stream, sealing: Sealing | None) -> dict[str, Any]:
            answer = super().unknown(stream, sealing)
            if stream.fragment:
                offset = len(stream.data) - len(stream.fragment)
                place = {"line": len(stream.lines) + 1, "offset": offset, "pointer": ""}
                answer["findings"].append({"rule": "unterminated-line", "severity": "warning", **place})
            return answer


class NamesAProfileForForeignStreams(Oracle):
    """Gives toy/v1 as the profile of a stream that has none."""

    def check(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer with a profile."""
        answer = super().check(request)
        return answer | {"profile": "toy/v1"} if answer["state"] else answer


def _mutant(make: type[Oracle], proves: str, reason: str, where: str = "") -> Mutant:
    return Mutant(make=make, role="checker", proves=proves, reason=reason, where=where)


ALL: tuple[Mutant, ...] = (
    _mutant(TakesTrueForANumber, "checking/strict-types", "not found: wrong-type"),
    _mutant(TakesNullForAnything, "checking/strict-types", "not found: wrong-type"),
    _mutant(TakesNullForATime, "rules/wrong-type", "not found: wrong-type"),
    _mutant(TakesTextForANumber, "checking/strict-types", "not found: wrong-type"),
    _mutant(ReportsEveryKeyword, "checking/one-per-place", "not expected: unexpected-value"),
    _mutant(CallsRangeAFormat, "checking/keywords", "not found: out-of-range", "rules/out-of-range"),
    _mutant(TakesAnyDate, "encoding/date-time", "not found: bad-format"),
    _mutant(TakesTimesWithoutZone, "encoding/date-time", "not found: bad-format"),
    _mutant(RefusesWholeFloats, "encoding/integer-read", "not expected: wrong-type"),
    _mutant(ReportsEachWholeFloat, "rules/integer-as-float", "not expected: integer-as-float"),
    _mutant(ReportsOneWholeFloatOfAll, "rules/integer-as-float", "not found: integer-as-float at run.json"),
    _mutant(LooksNoFurtherAtWholeFloats, "rules/integer-as-float", "not found: out-of-range"),
    _mutant(LeavesWholeFloatsOut, "rules/integer-as-float", "not found: step-goes-backwards"),
    _mutant(ReportsMoreOfForeignStreams, "rules/unknown-format", "not expected: unterminated-line"),
    _mutant(NamesAProfileForForeignStreams, "checking/no-profile", "profile is toy/v1, expected None"),
    _mutant(TakesAnySecond, "encoding/date-time", "not found: bad-format"),
)
