"""Checks one record after the other of a stream, reports its faults, and gives it as the rules between lines see it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from toyspec.checker.collecting import Collector, Place
from toyspec.checker.line_places import and_parent, by_place, offset_at, pointer_to
from toyspec.checker.observing import Observation, identity, shown_times
from toyspec.escaping import shortened
from toyspec.format.integers import take_integers
from toyspec.format.line_validation import spans
from toyspec.format.profiles import tag_of
from toyspec.generated import rules
from toyspec.generated.fields import FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toyspec.findings import Profile
    from toyspec.format.integers import Path

NOTHING_BAD: frozenset[str] = frozenset()
"""The fields of a record without fault that take no part in later rules."""

_NUMBER = re.compile(rb"[-+.0-9eE]+")
# Findings that leave a field right.
_HARMLESS = frozenset([rules.UNSAFE_INTEGER])


class RecordChecker:
    """Checks the records of one stream."""

    def __init__(self, profile: Profile, collector: Collector) -> None:
        self._profile = profile
        self._collector = collector
        self._tag = tag_of(profile)
        self._kinds = [kind for kind, fields in FIELDS[profile].items() if self._tag is None or self._tag in fields]
        self._judge: Any = None
        self._has_whole_float = False

    def check(self, value: dict[str, Any], place: Place) -> tuple[Observation, bool]:
        """Report the faults of a record, not in order; return it, and whether it has none but unknown keys.

        Its integers are ints afterwards, however they are written.
        """
        kind = "entry" if self._tag is None else value.get(self._tag)
        kind = kind if isinstance(kind, str) else None
        if kind is None or kind not in self._kinds:
            self._report_tag(kind, value, place)
            return Observation(value, dict.get, kind=kind, known=False, bad=NOTHING_BAD), False
        bad, only_unknown_keys = self._check_fields(kind, value, place)
        return Observation(value, dict.get, kind=kind, known=True, bad=bad), only_unknown_keys

    def report_whole_floats(self, paths: Iterable[Path], place: Place) -> None:
        """Report the first integer of a line that is written with a fraction or an exponent, once for the stream."""
        if self._has_whole_float:
            return
        self._has_whole_float = True
        pointers = [pointer_to(path) for path in paths]
        pointer, byte = min(spans(place.data, pointers).items(), key=lambda item: item[1])
        where = Place(place.line, place.line_offset, byte, place.data)
        self._collector.add(
            rules.INTEGER_AS_FLOAT, where, whole_float_message(pointer, place.data, byte), pointer=pointer
        )

    def locate(self, place: Place, pointer: str) -> Place:
        """Return the place of the value at *pointer* in a line, of the object around it where it is missing."""
        byte = offset_at(pointer, spans(place.data, list(and_parent(pointer))))
        return Place(place.line, place.line_offset, byte, place.data)

    def _report_tag(self, kind: str | None, value: dict[str, Any], place: Place) -> None:
        from toyspec.checker.record_rules import nearest, typed

        tag = self._tag
        if kind is not None:
            near = nearest(kind, self._kinds)
            meant = f"; did you mean {near}?" if near else ""
            self._collector.tally(
                rules.UNKNOWN_KIND,
                identity(kind),
                lambda: self.locate(place, f"/{tag}"),
                lambda count: f"kind {shortened(kind)} is not known{shown_times(count)}{meant}",
                f"/{tag}",
            )
        elif tag in value:
            message = f"`{tag}` is {typed(value[tag])}, not a string"
            self._collector.add(rules.WRONG_TYPE, self.locate(place, f"/{tag}"), message, pointer=f"/{tag}")
        else:
            where = self.locate(place, f"/{tag}")
            self._collector.add(rules.MISSING_KEY, where, f"the record has no `{tag}`", pointer=f"/{tag}")

    def _check_fields(self, kind: str, value: dict[str, Any], place: Place) -> tuple[frozenset[str], bool]:
        """Report the faults of a record of a known kind; return the fields that take no part in later rules."""
        whole_floats = take_integers(value, self._profile, kind)
        if whole_floats:
            self.report_whole_floats(whole_floats, place)
        if self._judge is None:
            from toyspec.checker.record_rules import RecordJudge

            self._judge = RecordJudge(self._profile)
        faults = self._judge.faults(kind, value, exact_elsewhere=frozenset(map(pointer_to, whole_floats)))
        unknown = self._judge.unknown_keys(kind, value)
        if not faults and not unknown:
            return NOTHING_BAD, False
        places = spans(place.data, [pointer for fault in [*faults, *unknown] for pointer in and_parent(fault.pointer)])
        for fault in sorted([*faults, *unknown], key=lambda fault: by_place(fault, places)):
            where = Place(place.line, place.line_offset, offset_at(fault.pointer, places), place.data)
            if fault.rule == rules.UNKNOWN_KEY:
                self._tally_key(kind, fault, where)
            else:
                self._collector.add(fault.rule, where, fault.message, pointer=fault.pointer)
        return _fields_of(fault.pointer for fault in faults if fault.rule not in _HARMLESS), not faults

    def _tally_key(self, kind: str, key: Any, place: Place) -> None:
        meant = f"; did you mean {key.suggestion}?" if key.suggestion else ""
        self._collector.tally(
            rules.UNKNOWN_KEY,
            identity(f"{kind} {key.path}"),
            lambda: place,
            lambda count: f"{kind} has no key `{shortened(key.path)}`{shown_times(count)}{meant}",
            key.pointer,
        )


def whole_float_message(pointer: str, data: bytes, byte: int) -> str:
    """Return the message about an integer that is written with a fraction or an exponent, at *byte* of *data*."""
    found = _NUMBER.match(data, byte)
    written = shortened(found.group().decode()) if found else ""
    return f"`{shortened(pointer.removeprefix('/'))}` is written {written}, an integer with a fraction or exponent"


def _fields_of(pointers: Iterable[str]) -> frozenset[str]:
    return frozenset(pointer[1:].partition("/")[0] for pointer in pointers)
