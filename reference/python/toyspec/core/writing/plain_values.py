"""Converts what nearly every record has, numbers and texts, by the type of each: training waits for this.

All else is odd, and for ``logged_values`` to look at, which does the same for what is here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from toyspec.core.errors import let_through
from toyspec.core.format.foreign_values import fields_of
from toyspec.core.format.scalars import attempt, scalar
from toyspec.core.writing.logged_values import media_of

_NUMPY: Final = (
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
)
_reals: set[type] = {int, bool}
"""The types that ``float`` converts at once: also those of NumPy that were seen."""
_converters: dict[type, Callable[[Any], Any] | None] = {}
"""What makes a number of a value, by its type; None for a type that is odd."""


def plain_values(values: Mapping[Any, Any]) -> tuple[dict[str, float], dict[str, str]] | None:
    """Return the numbers and the texts of *values*, both in the order of their names; None if one of them is odd."""
    numbers: dict[str, float] = {}
    texts: dict[str, str] = {}
    try:
        # One loop without calls for what is most: each would cost as much as all of it.
        for name in sorted(values):
            if type(name) is not str:
                return None
            value = values[name]
            kind = type(value)
            if kind is float:
                numbers[name] = value
            elif kind in _reals:
                numbers[name] = float(value)
            elif kind is str:
                texts[name] = value
            else:
                found = plain_number(value)
                if found is None:
                    return None
                numbers[name] = found
    except (OverflowError, TypeError):
        return None
    return numbers, texts


def plain_number(value: Any) -> float | None:
    """Return *value*, a number of any library, as binary64; None if it is odd, as a boolean is without a name."""
    kind = type(value)
    try:
        if kind is not int and kind is not float:
            convert = _converters[kind] if kind in _converters else _converters.setdefault(kind, _converter(value))
            if convert is None:
                return None
            value = convert(value)
            kind = type(value)
        return float(value) if kind is float or kind is int else None
    except Exception as error:  # noqa: BLE001 - an object of another library may raise anything
        let_through(error)
        return None


def _converter(value: Any) -> Callable[[Any], Any] | None:
    kind = type(value)
    if kind.__module__ == "numpy" and kind.__name__ in _NUMPY:
        _reals.add(kind)
        return float
    is_odd = isinstance(value, Mapping | list | tuple | str) or value is None or media_of(value) is not None
    return None if is_odd or attempt(fields_of, value, {}) is not None else scalar
