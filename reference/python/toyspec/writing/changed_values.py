"""Reports once that a value differs in the log: it is not finite, or an integer that many readers round."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toyspec.escaping import shortened
from toyspec.generated.fields import FIELDS
from toyspec.generated.limits import MAX_SAFE_INTEGER
from toyspec.system_calls import say

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNKNOWN = object()
_NULL = "null"
_ROUNDED = "rounded"


class ChangedValues:
    """The reports made about the values of one stream."""

    __slots__ = ("_path", "_said")

    def __init__(self, path: str) -> None:
        self._path = path
        self._said: tuple[str, ...] = ()

    @property
    def knows_null(self) -> bool:
        """True once a number written as null was reported."""
        return _NULL in self._said

    def say_once(self, what: str, fact: str) -> None:
        """Report a *fact* the first time that *what* happens."""
        if what not in self._said:
            self._said += (what,)
            say(f"{self._path}: {fact} (reported once)")

    def look(self, kind: str, given: Mapping[str, Any], written: Mapping[str, Any]) -> None:
        """Report values that are *written* in another way than they were *given*, once for each way."""
        if {_NULL, _ROUNDED} <= set(self._said):
            return
        for way, place, fact in itertools.chain(_nothings(kind, given), _changes(given, written, kind)):
            if way not in self._said:
                self._said += (way,)
                say(f"{self._path}: {shortened(place)} {fact} (reported once)")


def _nothings(kind: str, given: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for key, declared in FIELDS["toy/v1"].get(kind, {}).items():
        if declared == "number" and key in given and given[key] is None:
            fact = "is None, written as null, which readers take as not finite; leave it out if there is no value"
            yield _NULL, f"{kind}.{key}", fact


def _changes(given: Any, written: Any, place: str) -> Iterator[tuple[str, str, str]]:
    if isinstance(written, Mapping):
        members = given if isinstance(given, Mapping) else {}
        for key, value in written.items():
            yield from _changes(members.get(key, _UNKNOWN), value, f"{place}.{key}")
    elif isinstance(written, list):
        items = given if isinstance(given, list | tuple) and len(given) == len(written) else [_UNKNOWN] * len(written)
        for at, value in enumerate(written):
            yield from _changes(items[at], value, f"{place}[{at}]")
    elif written is None and given is not None and given is not _UNKNOWN:
        yield _NULL, place, f"is {_shown(given)}, written as null, which readers take as not finite"
    elif type(written) is int and abs(written) > MAX_SAFE_INTEGER:
        fact = f"is {shortened(str(written))}: readers with binary64 numbers round it; pass a string to keep it"
        yield _ROUNDED, place, fact


def _shown(given: Any) -> str:
    try:
        value = float(given)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return "not finite"
    return str(value) if not math.isfinite(value) else "not finite in binary64"
