"""Wrong about single records: see spec/checking.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.impostors.impostor import Impostor
from conformance.miniature.adapter import Miniature
from conformance.miniature.checking import Checking
from conformance.miniature.json_text import Fault, Value
from conformance.miniature.record_rules import RecordRules

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def _with_records(rules: type[RecordRules]) -> type[Checking]:
    return type("Checking", (Checking,), {"record_rules": rules})


class TakesTrueForANumber(Miniature):
    """Takes true and false for numbers."""

    class _Rules(RecordRules):
        def is_type(self, value: Value, types: list[str]) -> bool:
            numeric = {"number", "integer"} & set(types)
            return (value.type in {"true", "false"} and bool(numeric)) or super().is_type(value, types)

    checking_type = _with_records(_Rules)


class TakesNullForAnything(Miniature):
    """Takes null for a value of any type."""

    class _Rules(RecordRules):
        def is_type(self, value: Value, types: list[str]) -> bool:
            return value.type == "null" or super().is_type(value, types)

    checking_type = _with_records(_Rules)


class TakesTextForANumber(Miniature):
    """Takes a string of digits for a number."""

    class _Rules(RecordRules):
        def is_type(self, value: Value, types: list[str]) -> bool:
            numeric = {"number", "integer"} & set(types)
            is_digits = value.type == "string" and value.text.replace(".", "").isdigit()
            return (is_digits and bool(numeric)) or super().is_type(value, types)

    checking_type = _with_records(_Rules)


class ReportsEveryKeyword(Miniature):
    """Reports each keyword that a value breaks."""

    class _Rules(RecordRules):
        def judged(self, value: Value, schema: Mapping[str, Any], pointer: str) -> Iterator[Fault]:
            for fault in super().judged(value, schema, pointer):
                yield fault
                if fault.rule == "wrong-type" and fault.pointer.count("/") == 1:
                    yield Fault("unexpected-value", fault.start, fault.pointer)

    checking_type = _with_records(_Rules)


class CallsRangeAFormat(Miniature):
    """Reports a number out of range as a bad format."""

    class _Rules(RecordRules):
        def number_faults(self, literal: str, schema: Mapping[str, Any]) -> Iterator[str]:
            return ("bad-format" for _ in super().number_faults(literal, schema))

    checking_type = _with_records(_Rules)


class TakesAnyDate(Miniature):
    """Takes dates that do not exist."""

    class _Rules(RecordRules):
        def is_date_time(self, text: str) -> bool:
            return super().is_date_time(text[:5] + "01-01" + text[10:]) or super().is_date_time(text)

    checking_type = _with_records(_Rules)


class TakesTimesWithoutZone(Miniature):
    """Takes date-times without a zone."""

    class _Rules(RecordRules):
        def is_date_time(self, text: str) -> bool:
            return super().is_date_time(text) or super().is_date_time(f"{text}Z")

    checking_type = _with_records(_Rules)


class TakesAnySecond(Miniature):
    """Takes second 60 at any time of the day."""

    class _Rules(RecordRules):
        def is_date_time(self, text: str) -> bool:
            return super().is_date_time(text) or super().is_date_time(text.replace(":60", ":59"))

    checking_type = _with_records(_Rules)


def _impostor(make: type[Miniature], proves: str, reason: str, where: str = "") -> Impostor:
    return Impostor(make=make, role="checker", proves=proves, reason=reason, where=where)


ALL: tuple[Impostor, ...] = (
    _impostor(TakesTrueForANumber, "checking/strict-types", "not found: wrong-type"),
    _impostor(TakesNullForAnything, "checking/strict-types", "not found: wrong-type"),
    _impostor(TakesTextForANumber, "checking/strict-types", "not found: wrong-type"),
    _impostor(ReportsEveryKeyword, "checking/one-per-place", "not expected: unexpected-value"),
    _impostor(CallsRangeAFormat, "checking/keywords", "not found: out-of-range", "rules/out-of-range"),
    _impostor(TakesAnyDate, "encoding/date-time", "not found: bad-format"),
    _impostor(TakesTimesWithoutZone, "encoding/date-time", "not found: bad-format"),
    _impostor(TakesAnySecond, "encoding/date-time", "not found: bad-format"),
)
