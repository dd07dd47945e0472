"""What a program logs, as a record can hold it: numbers, texts, and what has to be left out, which takes nothing along.

In maps of numbers a boolean is 1.0 or 0.0, a text goes to ``texts``, as do a path, a date and a member of an
enumeration, and the members of an inner mapping or dataclass follow its key and a slash. A number that is not finite is
null, and ``nonfinite`` names what it was.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeGuard, get_args

import msgspec
from msgspec import UNSET

from toyspec.core.errors import let_through
from toyspec.core.escaping import shortened
from toyspec.core.format.canonical import InvalidEventError, RecordRefusedError, key_text
from toyspec.core.format.decoding import event_types
from toyspec.core.format.foreign_values import fields_of, mapping_of, plain
from toyspec.core.format.scalars import attempt, attribute, scalar
from toyspec.core.format.scalars import text as whole_text
from toyspec.core.generated.fields import FIELDS
from toyspec.core.generated.limits import MAX_LINE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from toyspec.core.writing.media import Media


_FIELDS: Final = FIELDS["toy/v1"]
_NUMBER_MAPS: Final = {"scalars": "values", "step": "extra", "system": "extra"}
# Deeper mappings are data, not metrics, and would take unbounded recursion.
_DEPTH: Final = 8
_PLAIN: Final = frozenset([float, int])
_BUILT_IN: Final = frozenset([float, int, bool, str])
_MOST_PLACES: Final = 256
"""A list or an array of more numbers is data, not metrics."""
_NOTHING: Final = object()
_MOST_DIGITS: Final = 15
# From here on, an integer may be infinite as binary64.
_BEYOND_STEPS: Final = 1 << 1023


class LeftOut(NamedTuple):
    """A value that is not written."""

    name: str
    why: str


class SortedValues:
    """The values of one record by name: numbers, texts, and those that are neither."""

    __slots__ = ("_prefix", "left_out", "media", "numbers", "texts")

    def __init__(self, values: Mapping[Any, Any], prefix: str = "") -> None:
        """Sort *values*; the names of what is left out begin with *prefix*."""
        self.numbers: dict[str, Any] = {}
        """Numbers and None; booleans are 1.0 and 0.0."""
        self.texts: dict[str, str] = {}
        self.left_out: list[LeftOut] = []
        self.media: dict[str, list[Media]] = {}
        self._prefix = prefix
        self._add_all(members_in(values) or {}, "", _DEPTH)

    def _add_all(self, values: Mapping[Any, Any], prefix: str, depth: int) -> None:
        for key, value in values.items():
            try:
                name = prefix + key_text(key)
            except InvalidEventError:
                fact = f"its name is of type {type(key).__name__}; name it by a string"
                self._leave_out(prefix + shortened(_repr(key)), fact)
                continue
            if value is UNSET:
                continue
            members = _mapping_or_fields(value)
            if members is None:
                members = _by_place(value)
            if members is None:
                self._add(name, value)
            elif depth:
                self._add_all(members, f"{name}/", depth - 1)
            else:
                self._leave_out(name, f"it is nested in more than {_DEPTH} mappings; log fewer levels")

    def _add(self, name: str, value: Any) -> None:
        if name in self.numbers or name in self.texts:
            self.numbers.pop(name, None)
            self.texts.pop(name, None)
            fact = "two values of one record have this name, and the later one is written; rename one of them"
            self._leave_out(name, fact)
        if (media := media_of(value)) is not None:
            self.media[name] = media
            return
        try:
            found = scalar(value)
            if found is not None and type(found) not in _BUILT_IN:
                found = _NOTHING if (text := plain(found)) is None else text
        except Exception as error:  # noqa: BLE001 - an array may raise anything, and the other values are to be written
            let_through(error)
            self._leave_out(name, _not_a_value(value, error))
            return
        if type(found) is bool:
            found = float(found)
        if type(found) in (float, int) or found is None:
            self.numbers[name] = found
        elif type(found) is str:
            self.texts[name] = whole_text(found)
        else:
            self._leave_out(name, _not_a_value(value, None))

    def _leave_out(self, name: str, why: str) -> None:
        self.left_out.append(LeftOut(self._prefix + name, why))


def prepared(
    kind: str, given: Mapping[str, Any], *, is_lenient: bool
) -> tuple[dict[str, Any], dict[str, str], list[LeftOut], dict[str, list[Media]]]:
    """Return the members of a record of *kind* as they can be written; those that only the encoder refuses stay.

    Returned are also the texts that the kind has no room for, which a ``scalars`` record of the same step holds, what
    is left out, and pictures and the like by name, each of which has a record of its own.

    If *is_lenient*, a boolean is a number, a whole number an integer, and a text that is given as a number of a step
    goes to the texts. A count that is not an integer ≥ 0 is a member of ``extra``. In maps of numbers all of this is so
    in any case.
    """
    members = dict(given)
    texts: dict[str, str] = {}
    left_out: list[LeftOut] = []
    media: dict[str, list[Media]] = {}
    key = _NUMBER_MAPS.get(kind)
    if is_lenient:
        _make_fit(kind, members)
    if key is not None and key in members:
        found = _sorted(members[key], "" if kind == "scalars" else f"{key}/", kind)
        if found is not None:
            members[key], texts, left_out, media = found.numbers, found.texts, found.left_out, found.media
            if not found.numbers and kind != "scalars":
                del members[key]
    if kind == "scalars" and texts:
        members["texts"] = {**texts, **(members["texts"] if isinstance(members.get("texts"), Mapping) else {})}
        texts = {}
    return members, texts, left_out, media


def not_by_name(argument: str, values: object) -> str:
    """Return why the *values* of an *argument* cannot be written: they have no names."""
    got = f"{type(values).__name__} {shortened(repr(values))}"
    return f'{argument} must be a mapping, got {got}; pass names with their values, for example {{"loss": 2.5}}'


def whole(value: Any) -> Any:
    """Return *value* as an int if it is a whole number of any type; else unchanged."""
    found = attempt(scalar, value, value)  # the encoder says what is wrong with it
    if type(found) is float and found.is_integer():
        return int(found)
    return found if type(found) is int else value


def step_number(value: Any) -> int | None:
    """Return *value* as the number of a step, also a text of digits; None if it cannot be one."""
    found = whole(value)
    if type(found) is str and len(found) <= _MOST_DIGITS and found.isascii() and found.isdecimal():
        found = int(found)
    return found if is_step(found) else None


def is_count(value: Any) -> TypeGuard[int]:
    """Return whether *value* is an integer that is not negative."""
    return type(value) is int and value >= 0


def is_step(value: Any) -> TypeGuard[int]:
    """Return whether *value* is an integer that can be the number of a step."""
    return is_count(value) and value < _BEYOND_STEPS


def as_value(value: Any) -> float | str | None:
    """Return what was passed as a step and is none, as a number or a text that a record can hold."""
    return attempt(_number_or_text, value, _repr(value))


def _number_or_text(value: Any) -> float | str:
    found = scalar(value)
    return float(found) if type(found) in _PLAIN or type(found) is bool else shortened(whole_text(str(found)))


def writable(
    kind: str, given: Mapping[str, Any], size: Callable[[Mapping[str, Any]], int]
) -> tuple[dict[str, Any], list[LeftOut]]:
    """Return the members of a record that can be written, and those that cannot.

    *size* returns the length of a record, or raises InvalidEventError or RecordRefusedError, which is raised here too
    where a required member is wrong, or the phase: without it the record would belong to another one.
    """
    required = _required(kind)
    base = {key: value for key, value in given.items() if key in required}
    if kind == "scalars" and isinstance(base.get("values"), Mapping):
        base["values"] = {}
    base_size = size(base)
    room, is_after_value, left_out = MAX_LINE_BYTES - base_size, False, list[LeftOut]()

    def part(path: list[Any], value: Any) -> Any:
        """Return what can be written of the *value* at *path*; UNSET for nothing."""
        nonlocal room, is_after_value
        placed = value
        for key in reversed(path):
            placed = {key: placed}
        try:
            # A value is measured without the others, and has a comma beside them.
            length = size({**base, **placed}) - base_size + (is_after_value and path[0] == "values")
            if length <= room:
                room -= length
                is_after_value = is_after_value or path[0] == "values"
                return value
            fact = f"the record would have more than {MAX_LINE_BYTES} bytes; write it to a file"
        except (InvalidEventError, RecordRefusedError) as error:
            fact = str(error)
        members = members_in(value) if len(path) <= _DEPTH else None
        if not members:
            left_out.append(LeftOut("/".join(map(str, path)).removeprefix("values/"), fact))
            return UNSET
        kept = {key: part([*path, key], member) for key, member in members.items()}
        return {key: member for key, member in kept.items() if member is not UNSET} or UNSET

    written = dict(base)
    for key, value in given.items():
        if key not in required or base[key] is not value:
            found = part([key], value)
            if found is not UNSET:
                written[key] = found
    return {key: written[key] for key in given if key in written}, left_out


def _sorted(values: Any, prefix: str, kind: str) -> SortedValues | None:
    """Return *values* by what they are; None if all are numbers by name, or this is an optional member of wrong type.

    Raise InvalidEventError if a record of *kind* would have nothing without them.
    """
    members = values if type(values) is dict else members_in(values)
    if members is None and kind == "scalars":
        raise InvalidEventError(not_by_name("values", values))
    if members is None:
        return None
    # Most records have plain numbers only, and training waits for this.
    if _PLAIN.issuperset(map(type, members.values())) and all(type(key) is str for key in members):
        return None
    return SortedValues(members, prefix)


def members_in(value: Any) -> dict[Any, Any] | None:
    """Return the members of a mapping or an object with named values; None for all else, and if that raises."""
    return attempt(_copied, value, None)


def _copied(value: Any) -> dict[Any, Any] | None:
    members = mapping_of(value)
    return None if members is None else dict(members.items())


def _make_fit(kind: str, members: dict[str, Any]) -> None:
    """Make the numbers of a record what its fields take; all else that extra can hold moves there, under its name.

    That is a count that is not an integer ≥ 0, and of a step a text or the parts of a mapping. All else stays: the
    encoder says what is wrong with it.
    """
    fields = _FIELDS.get(kind, {})
    for name, declared in fields.items():
        if name not in members or name == "t" or declared not in ("number", "integer"):
            continue
        value = members[name]
        if is_count(value) or (declared == "number" and type(value) in _PLAIN):
            continue
        found = attempt(scalar, value, value)
        if declared == "integer":
            found = whole(found)
            is_misfit = type(found) in _PLAIN and not is_count(found)
        else:
            found = float(found) if type(found) is bool else found
            is_misfit = False
        if kind == "step":
            is_misfit = is_misfit or type(found) is str or _mapping_or_fields(value) is not None
        extra = members.get("extra", {})
        if is_misfit and name != "step" and "extra" in fields and isinstance(extra, Mapping) and name not in extra:
            members["extra"] = {**extra, name: members.pop(name)}
        else:
            members[name] = found


def _mapping_or_fields(value: Any) -> Mapping[Any, Any] | None:
    return (
        None if type(value) in _BUILT_IN else attempt(_copied if isinstance(value, Mapping) else fields_of, value, None)
    )


def _by_place(value: Any) -> Mapping[Any, Any] | None:
    """Return the numbers of a list, a tuple or an array by their places; None for all else, and for more than so many.

    An array of one number is that number.
    """
    if isinstance(value, list | tuple):
        items: Any = value
    else:
        shape = attribute(value, "shape")
        is_array = isinstance(shape, tuple) and shape and all(type(length) is int for length in shape)
        if not is_array or not 1 < math.prod(shape) <= _MOST_PLACES:
            return None
        items = attempt(_listed, value, None)
    if items is None or not 0 < _numbers_in(items, _DEPTH) <= _MOST_PLACES:
        return None
    return dict(enumerate(items))


def _listed(array: Any) -> Any:
    return array.tolist()


def _numbers_in(value: Any, depth: int) -> int:
    """Return how many numbers are in nested lists; more than can be written where something else is in them."""
    if not isinstance(value, list | tuple):
        return 1 if type(attempt(scalar, value, _NOTHING)) in (float, int, bool) else _MOST_PLACES + 1
    if not depth or len(value) > _MOST_PLACES:
        return _MOST_PLACES + 1
    return sum(_numbers_in(each, depth - 1) for each in value)


def _repr(value: object) -> str:
    return attempt(repr, value, object.__repr__(value))


def _not_a_value(value: Any, error: Exception | None) -> str:
    shown = type(value).__name__
    shape = attribute(value, "shape")
    if isinstance(shape, tuple) and shape:
        got = f"{shown} of shape {shortened(str(tuple(shape)))}"
        return f"it must be a number, a text or at most {_MOST_PLACES} numbers, got {got}; {_INSTEAD}"
    if isinstance(value, list | tuple):
        got = f"{shown} of {len(value):,}"
        return f"it must be a number, a text or at most {_MOST_PLACES} numbers, got {got}; {_INSTEAD}"
    cause = f" ({shortened(str(error))})" if error is not None and str(error) else ""
    return f"it must be a number or a text, got {shown}{cause}; pass a number, or str() of it"


_INSTEAD: Final = "log it as toyspec.Histogram or toyspec.Table, or reduce it to one number, as by mean()"
_required_keys: dict[str, frozenset[str]] = {}


def _required(kind: str) -> frozenset[str]:
    if kind not in _required_keys:
        types: Mapping[Any, Any] = event_types("toy/v1")
        fields: Iterable[Any] = msgspec.structs.fields(types[kind]) if kind in types else ()
        _required_keys[kind] = frozenset(["kind", "phase", *(field.encode_name for field in fields if field.required)])
    return _required_keys[kind]


def media_of(value: Any) -> list[Media] | None:
    """Return the media that *value* is, one or several in a list; None for all else."""
    module = sys.modules.get("toyspec.core.writing.media")
    return None if module is None else module.media_of(value)


Kind = Literal["step", "eval", "system"]
"""Kind of an event that metrics are written as."""

_ENVELOPE: Final = ("kind", "phase", "t", "step", "name", "extra", "nonfinite")
_METRIC_FIELDS = {kind: {key: key for key in FIELDS["toy/v1"][kind] if key not in _ENVELOPE} for kind in get_args(Kind)}
_METRIC_FIELDS["eval"] |= {"val_loss": "loss", "val_perplexity": "ppl"}


def event_members(kind: Kind, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of an event of *kind* that hold *metrics*, those without a field of their own in ``extra``.

    Of two metrics with the same field the first gets it. What a value becomes is the writer's to decide.
    """
    members: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, value in metrics.items():
        field = _METRIC_FIELDS[kind].get(name)
        if field is None or field in members:
            extra[name] = value
        else:
            # Clocks give fractions of a microsecond, which no reader needs.
            is_fraction = field.endswith("_us") and type(value) is float and 0 <= value < math.inf
            members[field] = math.floor(value + 0.5) if is_fraction else value
    return {**members, "extra": extra} if extra else members
