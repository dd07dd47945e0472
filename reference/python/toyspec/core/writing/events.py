"""The events of toy/v1 as a writer takes them: the types of its arguments, and the check of a record by its schema."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, SupportsFloat, SupportsIndex, TypeAlias, TypedDict, get_args

import msgspec
from msgspec.inspect import LiteralType, type_info

from toyspec.core.errors import must_be_one_of
from toyspec.core.escaping import shortened
from toyspec.core.format.canonical import InvalidEventError
from toyspec.core.format.date_times import is_date_time
from toyspec.core.format.decoding import event_types, typed
from toyspec.core.generated.fields import DATE_TIMES

if TYPE_CHECKING:
    from datetime import date, timedelta
    from enum import Enum
    from os import PathLike

    from toyspec.core.generated.toy_v1 import Backend, Cost, Dataset, Git, Host, Model, Parent
    from toyspec.core.writing.media import Media


Measure = SupportsFloat | None
"""A measured number, None where there is none; a value that is not finite is written as null."""

Value: TypeAlias = "SupportsFloat | str | PathLike[str] | date | timedelta | Enum | Media | Sequence[Media] | None"
"""A number of any library, a boolean, which is 1.0 or 0.0, what is written as a text, or pictures and the like."""

Measures = Mapping[str, Value] | None
"""Measured numbers by name."""

Count = SupportsIndex | None
"""An integer that is not negative, None where there is none."""

_Phase = Literal["train", "eval", "decode", "serve"]
Phase = _Phase | None
PHASES = get_args(_Phase)
Reason = Literal["completed", "interrupted", "aborted", "errored"]


class StartMembers(TypedDict, total=False):
    """The members of ``run_start`` that a caller may give: who runs what, and where."""

    model: Model | Mapping[str, Any] | str | None
    """The model; a text is its ``arch``."""
    backend: Backend | Mapping[str, Any] | str | None
    """What computes; a text is its ``kind``."""
    host: Host | Mapping[str, Any] | str | None
    """The machine, this one unless given; a text is its ``name``, and an empty one leaves it out."""
    git: Git | Mapping[str, Any] | str | None
    """The revision; a text is its ``sha``."""
    phase: Phase
    step: Count
    """The step that the model has when the run starts."""
    compare_to: str | None
    """Run id of a baseline."""
    name: str | None
    """Name for people, as *group*, *tags* and *notes* are."""
    group: str | None
    tags: Sequence[str] | None
    notes: str | None
    argv: Sequence[str] | None
    """The command line."""
    packages: Mapping[str, str] | None
    """Versions by name."""
    rank: Count
    """Number of this process of *world_size*."""
    world_size: Count
    parent: Parent | Mapping[str, Any] | str | None
    """The run, or its id, from whose checkpoint this one starts."""
    data: Sequence[Dataset | Mapping[str, Any]] | None
    """The data sets."""
    cost: Cost | Mapping[str, Any] | None
    franken: Mapping[str, Any] | None
    franken_moe: Mapping[str, Any] | None
    dfa: Mapping[str, Any] | None
    started_at: str | None
    """The time, now unless given; an empty text leaves it out."""


def check_start_members(call: str, members: Mapping[str, Any]) -> None:
    """Raise TypeError, as Python does for arguments of *call*, if *members* are not all those of ``run_start``."""
    unknown = members.keys() - StartMembers.__annotations__.keys()
    if unknown:
        raise TypeError(f"{call}() got an unexpected keyword argument {min(unknown)!r}")


def is_phase(value: object) -> bool:
    """Return whether *value* is a phase that the format has."""
    return type(value) is str and value in PHASES


# What msgspec adds to a message: "at `$.model.vocab`".
_PLACE = re.compile(r" - at `\$\.([\w.]+)`\Z")
# Members of which null says which place is meant: outside of all layers, or all heads together.
_PLACES_OF = {"tap": frozenset(["layer", "head"]), "grad": frozenset(["head"])}


def check_record(line: bytes, kind: str | None) -> None:
    """Raise InvalidEventError when *line*, a readable toy/v1 record, is invalid by the schema of *kind*.

    A record of an unknown kind is not checked.
    """
    if kind not in event_types("toy/v1") or kind is None:
        return
    try:
        event = typed(line, kind, "toy/v1")
    except msgspec.ValidationError as error:
        raise InvalidEventError(f"{kind} is invalid: {_what_is_wrong(error, line, kind)}") from error
    for key in DATE_TIMES["toy/v1"].get(kind, ()):
        text = getattr(event, key)
        if isinstance(text, str) and not is_date_time(text):
            shown = shortened(repr(text))
            raise InvalidEventError(f"{kind} is invalid: {key} {shown} must be an RFC 3339 date-time with a zone")


def _what_is_wrong(error: msgspec.ValidationError, line: bytes, kind: str) -> str:
    """Return the text of *error*, with the value at the place that it names, and what is allowed there."""
    place = _PLACE.search(str(error))
    value: Any = msgspec.json.decode(line)
    for key in place[1].split(".") if place else ():
        if not isinstance(value, dict) or key not in value:
            return str(error)
        value = value[key]
    if place is None or isinstance(value, dict | list):
        return str(error)
    fields: Any = type_info(event_types("toy/v1")[kind])
    declared = [each.type for each in fields.fields if each.encode_name == place[1]]
    types = [part for each in declared for part in getattr(each, "types", [each])]
    choices = [choice for each in types if isinstance(each, LiteralType) for choice in each.values]
    if choices:
        return f"{place[1]} is {shortened(repr(value))}; {must_be_one_of(choices)}"
    return f"{error}, which is {shortened(repr(value))}"


def given_members(kind: str, members: dict[str, Any]) -> dict[str, Any]:
    """Return *members* of an event of *kind* that are given: an optional one is not if it is None, or ``...``.

    The layer and the head of a tap or a gradient remain null: outside of all layers, and of all heads together.
    """
    optional = _may_be_left_out(kind)
    return {
        name: value for name, value in members.items() if value is not ... and not (value is None and name in optional)
    }


@cache
def _may_be_left_out(kind: str) -> frozenset[str]:
    """Return the optional members of *kind*, without those in which null names a place."""
    places = _PLACES_OF.get(kind, frozenset())
    fields = msgspec.structs.fields(event_types("toy/v1")[kind])
    return frozenset(each.name for each in fields if not each.required) - places
