"""What a tracker has and its stand-in does not log: it takes every call, and is counted in the log."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Self, cast

from toyspec.core.system_calls import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_OF_ARRAYS: Final = frozenset(["detach", "dtype", "item", "shape", "tolist"])
"""What makes an object a number or an array, which this is not."""
_TABLE: Final = "stand_ins.json"


@cache
def _table() -> dict[str, dict[str, Any]]:
    """Return what is known of each tracker.

    Its public names, those that must return data, with advice, those that are given no data, and constants of its
    modules. They are facts about the real package; a test compares them with it where it is installed.
    """
    from importlib.resources import files

    found: dict[str, dict[str, Any]] = json.loads(files(__package__).joinpath(_TABLE).read_bytes())
    return found


@cache
def _constants() -> dict[str, Any]:
    return {path: value for each in _table().values() for path, value in each["constants"].items()}


class Error(Exception):
    """What stands for the exceptions of a tracker."""


def _nothing(name: str) -> None:
    """Count nothing: *name* is part of what was counted, or is logged as a value and counted then."""
    del name


class _AnyName(type):
    """The class of classes that have every public attribute."""

    def __getattr__(cls, name: str) -> Any:
        return part_of(cls.__name__, name, cls.counting)

    counting: Callable[[str], None]


class Unlogged(metaclass=_AnyName):
    """An object that can be called, read, set, entered and gone through, and does nothing.

    Calls are counted by *counting*, which gets what was called; as a value that is logged, it is left out as any other
    that is not a number or a text.
    """

    counting: Callable[[str], None] = staticmethod(_nothing)

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Return what stands for the answer; a function that is decorated is returned unchanged."""
        if len(args) == 1 and not options and callable(args[0]) and not isinstance(args[0], Unlogged):
            return args[0]
        type(self).counting(type(self).__name__)
        return _kind(type(self).__name__, _nothing)()

    def __getattr__(self, name: str) -> Any:
        return part_of(type(self).__name__, name, type(self).counting)

    def __setattr__(self, name: str, value: Any) -> None:
        pass

    def __getitem__(self, key: Any) -> Self:
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def part_of(owner: str, name: str, counting: Callable[[str], None]) -> Any:
    """Return what stands for *name* of *owner*: a class of that name where it is written as one, else an object.

    Raises AttributeError for what Python itself asks for, and for what would make of it a number or an array.
    """
    if name.startswith("__") or name in _OF_ARRAYS:
        raise AttributeError(name)
    path = f"{owner}.{name}".lstrip(".")
    if path in _constants():
        return _constants()[path]
    if name.endswith(("Error", "Exception")):
        return _error(name)
    kind = _kind(name if name[:1].isupper() else path, counting)
    return kind if name[:1].isupper() else kind()


@cache
def _error(name: str) -> type[Error]:
    return type(name, (Error,), {})


@cache
def _kind(name: str, counting: Callable[[str], None]) -> type[Unlogged]:
    made: Any = _AnyName(name, (Unlogged,), {"counting": staticmethod(counting)})
    return cast("type[Unlogged]", made)


def substitute(tracker: str, name: str, counting: Callable[[str], None], *, of: str = "names") -> Any:
    """Return what stands for the public *name* of *tracker*, which its stand-in does not have.

    Raises AttributeError for a name that *tracker* has not; what must return data raises Error when it is called.
    """
    names = _table()[tracker]
    if name in names["must return"]:
        return _refusing(tracker, name, names["must return"][name])
    if name not in names[of] and not name.startswith("_"):
        raise AttributeError(f"{tracker} has no {name!r}")
    return part_of("", name, _nothing if name in names["no data"] or name[:1] == "_" else counting)


def _refusing(tracker: str, name: str, advice: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise Error(
            f"{tracker}.{name} returns data of a server, which this stand-in of toyspec does not have; {advice}"
        )

    return refuse


@cache
def say_left_out(what: str) -> None:
    """Say once on standard error that *what* is left out, where there is no log that could count it."""
    say(f"{what} is left out: toyspec does not log what it is given (reported once)")
