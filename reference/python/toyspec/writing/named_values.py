"""Names the values of nested mappings: the members of an inner one follow its key and a slash."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toyspec.escaping import shortened
from toyspec.system_calls import say

# Deeper mappings are data, not metrics, and would take unbounded recursion.
_DEPTH = 8
_PLAIN = frozenset([float, int])


class NamedValues:
    """Names what one run logs, and reports once that two values of a record have one name."""

    __slots__ = ("_has_said",)

    def __init__(self) -> None:
        self._has_said = False

    def named(self, values: Mapping[Any, Any], place: str) -> Mapping[Any, Any]:
        """Return *values* by their names; of two with one name the later one, as readers do. *place* is for the report.

        An inner mapping without members has no values.
        """
        # Most records have plain numbers only, and training waits for this.
        if _PLAIN.issuperset(map(type, values.values())):
            return values
        if not any(isinstance(value, Mapping) for value in values.values()):
            return values
        found: dict[Any, Any] = {}
        self._add(values, None, found, (_DEPTH, place))
        return found

    def _add(self, values: Mapping[Any, Any], prefix: str | None, found: dict[Any, Any], rest: tuple[int, str]) -> None:
        depth, place = rest
        for key, value in values.items():
            name = key if prefix is None else f"{prefix}{key}"
            if isinstance(value, Mapping) and depth:
                self._add(value, f"{name}/", found, (depth - 1, place))
                continue
            if name in found and not self._has_said:
                self._has_said = True
                fact = "the later one is written, the earlier one is left out; rename one of them"
                say(f"{place}: two values of a record are named {shortened(str(name))}: {fact} (reported once)")
            found[name] = value
