"""Converts the scalars of any library to built-in types, exactly and once."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, TypeVar

from toyspec.core.errors import let_through

if TYPE_CHECKING:
    from collections.abc import Callable

_Result = TypeVar("_Result")
_Other = TypeVar("_Other")

# An integer of more bits may round to an infinite binary64.
_FINITE_BITS = 1023
_BUILT_IN = frozenset([float, int, bool, str, type(None)])


def attempt(convert: Callable[[Any], _Result], value: Any, otherwise: _Other) -> _Result | _Other:
    """Return what *convert* makes of *value*, an object of any library; *otherwise* if that raises anything."""
    try:
        return convert(value)
    except Exception as error:  # noqa: BLE001 - an object of another library may raise anything
        let_through(error)
        return otherwise


def attribute(value: object, name: str) -> Any:
    """Return the attribute *name* of an object of any library, None where it has none or raises anything."""
    try:
        return getattr(value, name, None)
    except Exception as error:  # noqa: BLE001 - a property may raise anything, as that of a nested tensor's shape does
        let_through(error)
        return None


def scalar(value: Any) -> Any:
    """Return a scalar of any library as float, int, bool, str or None; all else unchanged.

    A masked number is None. ``item()`` is called at most once, because it may wait for a device. Raises any exception
    of the object's methods.
    """
    if type(value) in _BUILT_IN:
        return value
    # PyTorch warns when a number is taken from a tensor that is part of a graph.
    if attribute(value, "requires_grad") is True and callable(attribute(value, "detach")):
        value = value.detach()
    item = attribute(value, "item")
    if callable(item):
        # The number of a masked array is what its mask hides.
        is_hidden = type(value).__module__.startswith("numpy.ma") and bool(value.mask.all())
        value = None if is_hidden else _item(value, item())
    if type(value) in _BUILT_IN:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if hasattr(type(value), "__index__"):
        return operator.index(value)
    if hasattr(type(value), "__float__") and (_is_wide(value) or attribute(value, "tolist") is None):
        return _as_float(value)
    return value


def _item(value: Any, found: Any) -> Any:
    """Return *found*, the item of *value*; the text of a date or a time span that is finer than Python's: a count."""
    is_counted = type(found) is int and attribute(attribute(value, "dtype"), "kind") in ("M", "m")
    return str(value.ravel()[0]) if is_counted else found


def _is_wide(value: Any) -> bool:
    """Return whether *value* is one real number of an array library wider than binary64: ``item()`` is itself."""
    return bool(attribute(value, "ndim") == 0 and attribute(attribute(value, "dtype"), "kind") == "f")


def number(value: Any) -> float | None:
    """Return *value* as binary64, None if it is a masked number; raise TypeError if it is not a number."""
    found = scalar(value)
    if type(found) is int:
        found = _as_float(found)
    if found is not None and type(found) is not float:
        raise TypeError("not a number")
    return found


def integer(value: Any) -> int | None:
    """Return *value* as an integer; raise TypeError if it is not one; 1.0 is not."""
    found = scalar(value)
    if type(found) is int or found is None:
        return found
    raise TypeError("not an integer")


def is_finite(value: int) -> bool:
    """Return whether an integer is finite as binary64, which a reader of JSON may use."""
    if value.bit_length() <= _FINITE_BITS:
        return True
    try:
        float(value)
    except OverflowError:
        return False
    return True


def items(value: Any) -> list[Any] | tuple[Any, ...] | None:
    """Return the items of a list, tuple, set or array of any library; None for all else, arrays of no dimension too."""
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, set | frozenset):
        try:
            return sorted(value)
        except TypeError:
            return sorted(value, key=repr)
    to_list = attribute(value, "tolist")
    if not callable(to_list) or isinstance(value, type) or attribute(value, "ndim") == 0:
        return None
    try:
        found = to_list()
    except Exception as error:  # noqa: BLE001 - an array of another library may raise anything
        let_through(error)
        return None
    return found if isinstance(found, list) else None


def text(value: str) -> str:
    """Return *value* with every half of a surrogate pair replaced by U+FFFD; a whole pair becomes its character."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return str.__str__(value)


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
