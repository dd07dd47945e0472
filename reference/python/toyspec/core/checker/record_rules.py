"""Validates one record against its schema and returns every finding: see spec/checking.md.

This is the exact path. It is slow and complete; regular records do not take it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import msgspec

from toyspec.core.checker.collecting import Collector, Location, RecordFinding, and_parent, by_place, offset_at
from toyspec.core.checker.stream_rules import NOTHING_BAD, Observation, identity
from toyspec.core.errors import nearest
from toyspec.core.escaping import shortened
from toyspec.core.files import read_resource
from toyspec.core.format.date_times import is_date_time
from toyspec.core.format.decoding import take_integers
from toyspec.core.format.flattening import pointer_to
from toyspec.core.format.line_validation import spans
from toyspec.core.format.profiles import tag_of
from toyspec.core.generated import messages, rules
from toyspec.core.generated.fields import FIELDS
from toyspec.core.generated.limits import MAX_SAFE_INTEGER, MAX_SUGGESTION_CHARS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from jsonschema.exceptions import ValidationError

    from toyspec.core.checker.stream_checker import BlockProof
    from toyspec.core.findings import Profile
    from toyspec.core.format.decoding import Path

_NUMBER = re.compile(rb"[-+.0-9eE]+")
# Findings that do not make a field wrong.
_HARMLESS = frozenset([rules.UNSAFE_INTEGER, rules.UNKNOWN_KEY])
_FLOATS = ("number", "binary32")
_ALIKE = 0.7


class UnknownKey(msgspec.Struct, frozen=True):
    """A key that the schema does not declare."""

    rule: ClassVar[str] = rules.UNKNOWN_KEY

    pointer: str
    path: str
    """The key, after the keys of the objects around it; array indexes are left out."""
    key: str
    others: list[str]
    """The declared keys that the object lacks."""

    @classmethod
    def at(
        cls, key: str, value: Mapping[str, Any], declared: Mapping[str, Any], path: str = "", pointer: str = ""
    ) -> Self:
        """Return what is reported of *key* in the object *value*, whose own place is *path* and *pointer*."""
        others = [name for name in declared if name not in value]
        return cls(pointer + pointer_to([key]), path + key, key, others)


_KEYWORD_RULES = {
    "required": rules.MISSING_KEY,
    "type": rules.WRONG_TYPE,
    "enum": rules.UNEXPECTED_VALUE,
    "const": rules.UNEXPECTED_VALUE,
    "pattern": rules.BAD_FORMAT,
    "format": rules.BAD_FORMAT,
    "minLength": rules.BAD_FORMAT,
    "maxLength": rules.BAD_FORMAT,
}


# If several keywords fail at one place, the first of these is reported.
_PRIORITY = (
    rules.MISSING_KEY,
    rules.WRONG_TYPE,
    rules.UNSUPPORTED_SCHEMA,
    rules.UNEXPECTED_VALUE,
    rules.BAD_FORMAT,
    rules.OUT_OF_RANGE,
)


_DECLARES_SCHEMA = {("run_start", "/schema"), ("run", "/schema_version")}


@cache
def _library() -> tuple[Any, Any]:
    """Return the class of validators and the formats that they check.

    A stream without findings needs none of the library, which takes as long to import as it takes to check.
    """
    from jsonschema import Draft202012Validator, FormatChecker
    from jsonschema.validators import extend

    types = Draft202012Validator.TYPE_CHECKER.redefine_many(
        {
            # Where 1.0 counts as an integer, it was made an int before.
            "integer": lambda _, value: isinstance(value, int) and not isinstance(value, bool),
            "number": lambda _, value: isinstance(value, (int, float)) and not isinstance(value, bool),
        }
    )
    formats = FormatChecker(formats=())
    formats.checks("date-time")(lambda value: not isinstance(value, str) or is_date_time(value))
    return extend(Draft202012Validator, type_checker=types), formats  # type: ignore[no-untyped-call]  # no types


class RecordValidator:
    """Validates records of one profile."""

    def __init__(self, profile: Profile) -> None:
        from toyspec.core.format.own_profiles import loaded

        self._fields = FIELDS[profile]
        own = loaded(profile)
        self._is_own = own is not None
        text = b"" if own else read_resource("schemas", "bundled", f"{profile.replace('/', '-')}.json")
        self._definitions: dict[str, Any] = own.kinds if own else msgspec.json.decode(text)["$defs"]
        self._validators: dict[str, Any] = {}

    def findings(
        self, kind: str, value: dict[str, Any], *, exact_elsewhere: Collection[str] = ()
    ) -> list[RecordFinding | UnknownKey]:
        """Return the findings in *value* as a record of *kind*, its integers ints; at most one per pointer.

        *exact_elsewhere* are pointers to integers with a fraction or an exponent, which are never unsafe.
        """
        found: dict[str, RecordFinding] = {}
        for error in self._validator(kind).iter_errors(value):
            for finding in _findings_of(kind, error, is_own=self._is_own):
                known = found.get(finding.pointer)
                if known is None or _PRIORITY.index(finding.rule) < _PRIORITY.index(known.rule):
                    found[finding.pointer] = finding
        # What is inside a value of the wrong type is not looked at.
        inside = tuple(f"{pointer}/" for pointer, finding in found.items() if finding.rule == rules.WRONG_TYPE)
        others = [
            finding
            for finding in beyond_schema(value, ("object", self._fields[kind]))
            if finding.pointer not in found
            and finding.pointer not in exact_elsewhere
            and not finding.pointer.startswith(inside)
        ]
        return [*found.values(), *others]

    def _validator(self, kind: str) -> Any:
        validator = self._validators.get(kind)
        if validator is None:
            schema = {**self._definitions[kind], "$defs": self._definitions}
            made, formats = _library()
            validator = self._validators[kind] = made(schema, format_checker=formats)
        return validator


def _suggestion(name: str, known: list[str]) -> str:
    """Return the one of *known* that *name* was probably meant to be, for the end of a message; empty without one."""
    near = None if len(name) > MAX_SUGGESTION_CHARS else nearest(name, known, _ALIKE)
    return "" if near is None else messages.suggestion(name=near)


def _findings_of(kind: str, error: ValidationError, *, is_own: bool) -> Iterator[RecordFinding]:
    path = list(error.absolute_path)
    pointer = pointer_to(path)
    if error.validator == "required":
        # The library names a missing key only in its message.
        required, instance = cast("list[str]", error.validator_value), cast("dict[str, Any]", error.instance)
        for key in required:
            if key not in instance:
                message = messages.missing_key(key=key, place=shortened(pointer[1:]) or kind)
                yield RecordFinding(rules.MISSING_KEY, pointer_to([*path, key]), message)
        return
    rule = _KEYWORD_RULES.get(str(error.validator), rules.OUT_OF_RANGE)
    if (kind, pointer) in _DECLARES_SCHEMA and rule == rules.UNEXPECTED_VALUE:
        rule = rules.UNSUPPORTED_SCHEMA
    # The schemas of a user have keywords, patterns and formats that only the library has words for.
    is_worded = not is_own or error.validator in _EXPECTED.keys() - {"format", "pattern"}
    place = shortened(pointer.removeprefix("/"))
    yield RecordFinding(
        rule, pointer, _message(pointer, error) if is_worded else f"`{place}`: {shortened(error.message)}"
    )


def _message(pointer: str, error: ValidationError) -> str:
    value, keyword = error.instance, str(error.validator)
    # Those that are not listed are the bounds of binary32.
    phrase = _EXPECTED[keyword](error.validator_value) if keyword in _EXPECTED else messages.EXPECTED_BINARY32
    if isinstance(value, list) and keyword in {"minItems", "maxItems"}:
        path = shortened(pointer.removeprefix("/"))
        return messages.unexpected_length(path=path, count=len(value), expected=phrase)
    return _unexpected(pointer, typed(value) if keyword == "type" else _shown(value), phrase)


def _unexpected(pointer: str, found: str, expected: str) -> str:
    return messages.unexpected(path=shortened(pointer.removeprefix("/")), found=found, expected=expected)


def typed(value: Any) -> str:
    """Return the JSON type of *value* with the value, as a noun."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"the boolean {_shown(value)}"
    if isinstance(value, (dict, list)):
        return _shown(value)
    return f"the {'string' if isinstance(value, str) else 'number'} {_shown(value)}"


def _type_names(expected: str | list[str]) -> str:
    nouns = {"integer": "an integer", "object": "an object", "array": "an array", "null": "null"}
    names = [expected] if isinstance(expected, str) else expected
    return " or ".join(nouns.get(name, f"a {name}") for name in names)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        # Cut first: a long string must not be encoded whole for a message.
        text = value[:200]
        return shortened(msgspec.json.encode(text).decode() if text.isprintable() else f'"{text}"')
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "an array"
    return shortened(msgspec.json.encode(value).decode())


_SAFE = messages.expected_safe_integer(limit=MAX_SAFE_INTEGER)


_EXPECTED: dict[str, Callable[[Any], str]] = {
    "type": _type_names,
    "const": _shown,
    "enum": lambda expected: messages.expected_one_of(values=", ".join(map(_shown, expected))),
    "format": lambda _: messages.EXPECTED_DATE_TIME,
    "pattern": lambda _: messages.EXPECTED_NAME,
    "minItems": lambda expected: messages.expected_at_least(bound=expected),
    "maxItems": lambda expected: messages.expected_at_most(bound=expected),
    "minimum": lambda expected: messages.expected_at_least(bound=expected),
    "maximum": lambda expected: messages.expected_at_most(bound=expected),
}


def beyond_schema(value: Any, declared: Any, path: str = "", pointer: str = "") -> Iterator[RecordFinding | UnknownKey]:
    """Yield what no schema says: the keys of *value* that are not *declared*, and its integers that are not exact.

    Integers must be exact in integer fields and in open maps. All indexes of an array are the same *path*.
    """
    constructor, part = declared if isinstance(declared, tuple) else (declared, None)
    if type(value) is int:
        if constructor in ("integer", "open") and abs(value) > MAX_SAFE_INTEGER:
            yield RecordFinding(rules.UNSAFE_INTEGER, pointer, _unexpected(pointer, shortened(str(value)), _SAFE))
    elif isinstance(value, dict) and constructor == "object":
        for key, item in value.items():
            if key not in part:
                yield UnknownKey.at(key, value, part, path, pointer)
            else:
                yield from beyond_schema(item, part[key], f"{path}{key}.", pointer + pointer_to([key]))
    elif isinstance(value, dict) and constructor in ("map", "open"):
        for key, item in value.items():
            # Values of an open map have any type: an integer literal there must be exact.
            inner = "open" if isinstance(item, int) else part or "open"
            yield from beyond_schema(item, inner, path, pointer + pointer_to([key]))
    elif isinstance(value, list) and constructor in ("array", "open"):
        for index, item in enumerate(value):
            yield from beyond_schema(item, part or "open", path, f"{pointer}/{index}")


class RecordChecker:
    """Checks the records of one stream. *proof* knows the types of regular records; None if there are none."""

    def __init__(self, profile: Profile, collector: Collector, proof: BlockProof | None) -> None:
        self._profile = profile
        self._collector = collector
        self._proof = proof
        self._tag = tag_of(profile)
        self._kinds = [kind for kind, fields in FIELDS[profile].items() if self._tag is None or self._tag in fields]
        self._validator: RecordValidator | None = None
        self._has_whole_float = False

    def check(self, value: dict[str, Any], place: Location) -> Observation:
        """Report the findings of a record, unsorted; return it.

        Its integers are made ints, whatever their spelling.
        """
        kind = "entry" if self._tag is None else value.get(self._tag)
        kind = kind if isinstance(kind, str) else None
        if kind is None or kind not in self._kinds:
            self._report_tag(kind, value, place)
            return Observation(value, kind=kind, known=False)
        bad = self._check_fields(kind, value, place)
        return Observation(_held(value, FIELDS[self._profile][kind], bad), kind=kind, known=True, bad=bad)

    def _report_whole_floats(self, paths: Iterable[Path], place: Location) -> None:
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
        tag = self._tag
        if kind is not None:
            key = identity(kind)
            if not self._collector.tallied(rules.UNKNOWN_KIND, key):
                found = RecordFinding(rules.UNKNOWN_KIND, f"/{tag}", messages.unknown_kind(kind=shortened(kind)))
                suggestion = _suggestion(kind, self._kinds)
                self._collector.tally(found, key, self.locate(place, found.pointer), suggestion)
        elif tag in value:
            message = messages.unexpected(path=tag, found=typed(value[tag]), expected=messages.EXPECTED_STRING)
            self._collector.add(rules.WRONG_TYPE, self.locate(place, f"/{tag}"), message, pointer=f"/{tag}")
        else:
            where = self.locate(place, f"/{tag}")
            self._collector.add(rules.MISSING_KEY, where, messages.missing_tag(key=tag), pointer=f"/{tag}")

    def _check_fields(self, kind: str, value: dict[str, Any], place: Location) -> frozenset[str]:
        """Report the findings of a record of a known kind; return the fields that later rules ignore."""
        whole_floats = take_integers(value, self._profile, kind)
        if whole_floats:
            self._report_whole_floats(whole_floats, place)
        declared = FIELDS[self._profile][kind]
        known = value if value.keys() <= declared.keys() else {key: value[key] for key in value if key in declared}
        is_proven = self._proof is not None and self._proof.fits(kind, known)
        if is_proven and known is value:
            return NOTHING_BAD
        found: list[RecordFinding | UnknownKey]
        if is_proven:
            new = [key for key in value if key not in declared and self._is_new(kind, key)]
            found = [UnknownKey.at(key, value, declared) for key in new]
        else:
            self._validator = self._validator or RecordValidator(self._profile)
            exact_elsewhere = frozenset(map(pointer_to, whole_floats))
            found = [
                finding
                for finding in self._validator.findings(kind, value, exact_elsewhere=exact_elsewhere)
                if isinstance(finding, RecordFinding) or self._is_new(kind, finding.path)
            ]
        if not found:
            return NOTHING_BAD
        places = spans(place.data, [pointer for finding in found for pointer in and_parent(finding.pointer)])
        for finding in sorted(found, key=lambda finding: by_place(finding, places)):
            where = Location(place.line, place.line_offset, offset_at(finding.pointer, places), place.data)
            if isinstance(finding, UnknownKey):
                unknown = messages.unknown_key(key=shortened(finding.path), kind=kind)
                key, meant = identity(f"{kind} {finding.path}"), _suggestion(finding.key, finding.others)
                self._collector.tally(RecordFinding(finding.rule, finding.pointer, unknown), key, where, meant)
            else:
                self._collector.add(finding.rule, where, finding.message, pointer=finding.pointer)
        return frozenset(finding.pointer[1:].partition("/")[0] for finding in found if finding.rule not in _HARMLESS)

    def _is_new(self, kind: str, path: str) -> bool:
        """Return whether an unknown key is to be listed; if not, count it."""
        return not self._collector.tallied(rules.UNKNOWN_KEY, identity(f"{kind} {path}"))


def whole_float_message(pointer: str, data: bytes, byte: int) -> str:
    """Return the message about the integer with a fraction or an exponent at *byte* of *data*."""
    found = _NUMBER.match(data, byte)
    written = shortened(found.group().decode()) if found else ""
    return messages.integer_as_float(path=shortened(pointer.removeprefix("/")), literal=written)


def _held(value: dict[str, Any], declared: Mapping[str, Any], bad: frozenset[str]) -> dict[str, Any]:
    """Return *value* as its types hold it: a number field has a float, so its large integers are rounded."""
    large = [key for key, member in value.items() if type(member) is int and abs(member) > MAX_SAFE_INTEGER]
    rounded = {key: float(value[key]) for key in large if key not in bad and declared.get(key) in _FLOATS}
    return value | rounded if rounded else value
