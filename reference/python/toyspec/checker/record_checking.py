"""Checks the records of a stream one by one, and prepares each for the rules that relate records."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from toyspec.checker.collecting import Collector, Location, and_parent, by_place, offset_at, pointer_to
from toyspec.checker.observing import Observation, identity, shown_suggestion, shown_times
from toyspec.escaping import shortened
from toyspec.format.integers import take_integers
from toyspec.format.line_validation import spans
from toyspec.format.profiles import tag_of
from toyspec.generated import messages, rules
from toyspec.generated.fields import FIELDS
from toyspec.generated.limits import MAX_SAFE_INTEGER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from toyspec.findings import Profile
    from toyspec.format.integers import Path

NOTHING_BAD: frozenset[str] = frozenset()
"""The fields of a record without findings that later rules ignore: none."""

_NUMBER = re.compile(rb"[-+.0-9eE]+")
# Findings that do not make a field wrong.
_HARMLESS = frozenset([rules.UNSAFE_INTEGER])
_FLOATS = ("number", "binary32")


class RecordChecker:
    """Checks the records of one stream."""

    def __init__(self, profile: Profile, collector: Collector) -> None:
        self._profile = profile
        self._collector = collector
        self._tag = tag_of(profile)
        self._kinds = [kind for kind, fields in FIELDS[profile].items() if self._tag is None or self._tag in fields]
        self._validator: Any = None
        self._has_whole_float = False

    def check(self, value: dict[str, Any], place: Location) -> tuple[Observation, list[str]]:
        """Report the findings of a record, unsorted; return it, and its unknown keys if it has no other finding.

        Its integers are made ints, whatever their spelling.
        """
        kind = "entry" if self._tag is None else value.get(self._tag)
        kind = kind if isinstance(kind, str) else None
        if kind is None or kind not in self._kinds:
            self._report_tag(kind, value, place)
            return Observation(value, dict.get, kind=kind, known=False, bad=NOTHING_BAD), []
        bad, unknown_keys = self._check_fields(kind, value, place)
        held = _held(value, FIELDS[self._profile][kind], bad)
        return Observation(held, dict.get, kind=kind, known=True, bad=bad), unknown_keys

    def report_whole_floats(self, paths: Iterable[Path], place: Location) -> None:
        """Report the first integer of a line that has a fraction or an exponent, once per stream."""
        if self._has_whole_float:
            return
        self._has_whole_float = True
        pointers = [pointer_to(path) for path in paths]
        pointer, byte = min(spans(place.data, pointers).items(), key=lambda item: item[1])
        where = Location(place.line, place.line_offset, byte, place.data)
        self._collector.add(
            rules.INTEGER_AS_FLOAT, where, whole_float_message(pointer, place.data, byte), pointer=pointer
        )

    def locate(self, place: Location, pointer: str) -> Location:
        """Return the place of the value at *pointer* in a line; if it is missing, of the object around it."""
        byte = offset_at(pointer, spans(place.data, list(and_parent(pointer))))
        return Location(place.line, place.line_offset, byte, place.data)

    def _report_tag(self, kind: str | None, value: dict[str, Any], place: Location) -> None:
        from toyspec.checker.record_rules import nearest, typed

        tag = self._tag
        if kind is not None:
            near = nearest(kind, self._kinds)
            meant = shown_suggestion(near)
            self._collector.tally(
                rules.UNKNOWN_KIND,
                identity(kind),
                lambda: self.locate(place, f"/{tag}"),
                lambda count: messages.unknown_kind(kind=shortened(kind)) + shown_times(count) + meant,
                f"/{tag}",
            )
        elif tag in value:
            message = messages.unexpected(path=tag, found=typed(value[tag]), expected=messages.EXPECTED_STRING)
            self._collector.add(rules.WRONG_TYPE, self.locate(place, f"/{tag}"), message, pointer=f"/{tag}")
        else:
            where = self.locate(place, f"/{tag}")
            self._collector.add(rules.MISSING_KEY, where, messages.missing_tag(key=tag), pointer=f"/{tag}")

    def _check_fields(self, kind: str, value: dict[str, Any], place: Location) -> tuple[frozenset[str], list[str]]:
        """Report the findings of a record of a known kind; return the fields that later rules ignore."""
        whole_floats = take_integers(value, self._profile, kind)
        if whole_floats:
            self.report_whole_floats(whole_floats, place)
        if self._validator is None:
            from toyspec.checker.record_rules import RecordValidator

            self._validator = RecordValidator(self._profile)
        findings = self._validator.findings(kind, value, exact_elsewhere=frozenset(map(pointer_to, whole_floats)))
        unknown = self._validator.unknown_keys(kind, value)
        if not findings and not unknown:
            return NOTHING_BAD, []
        places = spans(
            place.data, [pointer for finding in [*findings, *unknown] for pointer in and_parent(finding.pointer)]
        )
        for finding in sorted([*findings, *unknown], key=lambda finding: by_place(finding, places)):
            where = Location(place.line, place.line_offset, offset_at(finding.pointer, places), place.data)
            if finding.rule == rules.UNKNOWN_KEY:
                self._tally_key(kind, finding, where)
            else:
                self._collector.add(finding.rule, where, finding.message, pointer=finding.pointer)
        keys = [] if findings else [key.path for key in unknown]
        return _fields_of(finding.pointer for finding in findings if finding.rule not in _HARMLESS), keys

    def _tally_key(self, kind: str, key: Any, place: Location) -> None:
        fact, meant = messages.unknown_key(key=shortened(key.path), kind=kind), shown_suggestion(key.suggestion)
        self._collector.tally(
            rules.UNKNOWN_KEY,
            identity(f"{kind} {key.path}"),
            lambda: place,
            lambda count: fact + shown_times(count) + meant,
            key.pointer,
        )


def whole_float_message(pointer: str, data: bytes, byte: int) -> str:
    """Return the message about the integer with a fraction or an exponent at *byte* of *data*."""
    found = _NUMBER.match(data, byte)
    written = shortened(found.group().decode()) if found else ""
    return messages.integer_as_float(path=shortened(pointer.removeprefix("/")), literal=written)


def _fields_of(pointers: Iterable[str]) -> frozenset[str]:
    return frozenset(pointer[1:].partition("/")[0] for pointer in pointers)


def _held(value: dict[str, Any], declared: Mapping[str, Any], bad: frozenset[str]) -> dict[str, Any]:
    """Return *value* as its types hold it: a number field has a float, so its large integers are rounded."""
    large = [key for key, member in value.items() if type(member) is int and abs(member) > MAX_SAFE_INTEGER]
    rounded = {key: float(value[key]) for key in large if key not in bad and declared.get(key) in _FLOATS}
    return value | rounded if rounded else value
