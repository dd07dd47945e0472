"""Converts values of program settings to values that JSON can represent."""

from __future__ import annotations

import dataclasses
import datetime as dt
import sys
import types
import uuid
from collections.abc import Mapping, Sequence
from enum import Enum
from os import PathLike, fspath
from typing import Any

import msgspec

from toyspec.core.format.scalars import attribute, scalar

_LIBRARIES = frozenset(["torch", "numpy", "jax", "jaxlib", "ml_dtypes", "tensorflow", "mlx"])
_NAMED_BY_TEXT = frozenset(["dtype", "device", "DType", "Device"])
_AS_DICT = ("model_dump", "to_dict", "_asdict")
_SCALARS = (str, int, float, bool, type(None))
_NO_LISTS = (str, bytes, bytearray, memoryview)
# A range or a lazy sequence may be larger than memory.
_LONGEST_SEQUENCE = 100_000


def mapping_of(value: Any) -> Mapping[Any, Any] | None:
    """Return the members of a mapping, a dataclass, a namespace or another object with named values; else None.

    Raises any exception of the object.
    """
    if isinstance(value, Mapping):
        return value
    if isinstance(value, type):
        return None
    if isinstance(value, types.SimpleNamespace) or _is_parsed(value):
        members: dict[str, Any] = vars(value)
        return members
    names = _field_names(value)
    if names is not None:
        return {name: getattr(value, name) for name in names}
    if callable(attribute(value, "keys")) and hasattr(type(value), "__getitem__"):
        return {key: value[key] for key in value.keys()}  # noqa: SIM118 - only keys() is known to exist
    method = next((found for name in _AS_DICT if callable(found := attribute(value, name))), dict)
    found = method()
    return found if isinstance(found, Mapping) and method is not dict else None


def built_in(value: Any) -> Any:
    """Return *value* of another type as a built-in type, or one step nearer to it; raise TypeError if impossible.

    A class or function is its qualified name, an enumeration member its value, a type of numbers or a device of an
    array library its name.
    """
    named = _as_text(value)
    if named is not None:
        return named
    if isinstance(value, Enum) and not isinstance(value, int | float | str):
        return value.value if isinstance(value.value, _SCALARS) else value.name
    found = scalar(value)
    if found is not value:
        return found
    members = mapping_of(value)
    if members is not None:
        return members
    if isinstance(value, Sequence) and not isinstance(value, _NO_LISTS) and len(value) <= _LONGEST_SEQUENCE:
        return list(value)
    return msgspec.to_builtins(value, str_keys=True)


def plain(value: Any) -> str | float | bool | None:
    """Return what is not a number by itself as the text or number that ``built_in`` makes of it; None for all else.

    That are paths, members of enumerations, dates and times, identifiers, classes, types of numbers and devices.
    """
    found = _as_text(value)
    if found is None and isinstance(value, Enum):
        found = built_in(value)
    if found is None and isinstance(value, dt.date | dt.time):
        found = value.isoformat()
    if found is None and isinstance(value, dt.timedelta | uuid.UUID):
        found = str(value)
    return found if isinstance(found, str | int | float) else None


def fields_of(value: Any) -> dict[str, Any] | None:
    """Return the fields of a dataclass, of a named tuple, or of a class of attrs or msgspec; None for all else."""
    names = _field_names(value)
    if names is None and isinstance(value, tuple | msgspec.Struct):
        names = getattr(value, "_fields" if isinstance(value, tuple) else "__struct_fields__", None)
    return None if names is None or isinstance(value, type) else {name: getattr(value, name) for name in names}


def _field_names(value: Any) -> list[str] | None:
    """Return the names of the fields of a dataclass or a class of attrs."""
    if dataclasses.is_dataclass(value):
        return [field.name for field in dataclasses.fields(value)]
    fields = getattr(type(value), "__attrs_attrs__", None)
    return None if fields is None else [field.name for field in fields]


def _as_text(value: Any) -> str | None:
    """Return the text of a path, a class, a function, a type of numbers or a device; None for all else."""
    if isinstance(value, PathLike):
        path = fspath(value)
        return path if isinstance(path, str) else path.decode("utf-8", "replace")
    name = attribute(value, "__qualname__")
    if isinstance(name, str) and callable(value):
        module = attribute(value, "__module__")
        return name if module in {None, "builtins"} else f"{module}.{name}"
    return str(value) if _is_named_by_text(type(value)) else None


def _is_parsed(value: object) -> bool:
    """Return whether *value* is a namespace of argparse, without importing argparse."""
    argparse = sys.modules.get("argparse")
    return argparse is not None and isinstance(value, argparse.Namespace)


def _is_named_by_text(cls: type) -> bool:
    library = str(getattr(cls, "__module__", "")).partition(".")[0]
    return library in _LIBRARIES and any(
        base.__name__ in _NAMED_BY_TEXT or base.__name__.endswith("DType") for base in cls.__mro__
    )
