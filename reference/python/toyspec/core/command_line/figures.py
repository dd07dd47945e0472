"""Numbers, values and paths of a log as short text for a person."""

from __future__ import annotations

import os
import re
from math import floor, inf
from typing import TYPE_CHECKING, Any

from toyspec.core.escaping import printable, shortened

if TYPE_CHECKING:
    from collections.abc import Callable

    from toyspec.core.findings import Finding


_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d):\d\d(?:\.\d+)?(Z|[+-]\d\d:\d\d)\Z", re.ASCII)
_MINUTE = 60.0
_HOUR = 3600.0
_DAY = 86400.0
_MAX_DURATION = 10_000 * _DAY
_UNITS = ("B", "kB", "MB", "GB", "TB")
_VALUE_CHARS = 40
_MOST_ITEMS = 12


def figure(value: Any) -> str:
    """Return a scalar for a person: a number with at most six digits, a string escaped and cut, null as ``null``."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return _listed(value)
    if isinstance(value, dict):
        return "{…}" if value else "{}"
    return shortened(str(value), _VALUE_CHARS)


def cell(value: Any, form: Callable[[Any], str] = figure) -> str:
    """Return *value* in a *form* for a table; nothing for None."""
    return "" if value is None else form(value)


def share(part: float) -> str:
    """Return a *part* of a whole as whole per cent, of which nothing is done too early."""
    return f"{floor(100 * part)} %"


def metric_figure(name: str, value: object) -> str:
    """Return a value of the metric *name*: the unit of a measurement is at the end of its name."""
    if name.endswith("_bytes") and isinstance(value, int | float) and 0 <= value < inf:
        return size(int(value))
    return figure(value)


def size(number: int) -> str:
    """Return *number* bytes in the largest unit that leaves at least one, for example ``1.5 MB``."""
    value, unit = float(number), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.1f} {_UNITS[unit]}" if unit and value < 100 else f"{value:.0f} {_UNITS[unit]}"


def _listed(values: list[Any]) -> str:
    """Return a list as its values, and the number of those for which there is no room."""
    shown = [figure(value) for value in values[:_MOST_ITEMS]]
    text = ", ".join(shown)
    while len(shown) > 1 and len(text) > _VALUE_CHARS:
        shown.pop()
        text = ", ".join(shown)
    more = len(values) - len(shown)
    return f"[{text}, {more} more]" if more else f"[{text}]"


def duration(seconds: float) -> str:
    """Return a time span in one or two units, for example ``3.5 s`` or ``2 h 05 min``."""
    if not 0 <= seconds < _MAX_DURATION:
        return f"{seconds:.3g} s"
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    if seconds < _HOUR:
        return f"{int(seconds // _MINUTE)} min {int(seconds % _MINUTE):02d} s"
    if seconds < _DAY:
        return f"{int(seconds // _HOUR)} h {int(seconds % _HOUR // _MINUTE):02d} min"
    return f"{int(seconds // _DAY)} d {int(seconds % _DAY // _HOUR):02d} h"


def when(text: str) -> str:
    """Return an RFC 3339 time to the minute, without its zone where that is UTC; other text escaped and cut."""
    match = _TIME.match(text)
    if not match:
        return figure(text)
    return f"{match[1]} {match[2]}{'' if match[3] in ('Z', '+00:00') else f' {match[3]}'}"


def shown(path: str) -> str:
    """Return *path* for a person, inert, without the ``./`` of a search from the current directory."""
    return printable(path.removeprefix("./") or path)


def place(path: str, finding: Finding) -> str:
    """Return the path of the file that *finding* is in: the stream at *path*, or a file beside it."""
    return path if finding.sidecar is None else os.path.join(os.path.dirname(path), finding.sidecar)


def counted(number: int, noun: str) -> str:
    """Return *number* with *noun*, in the plural unless it is one."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
