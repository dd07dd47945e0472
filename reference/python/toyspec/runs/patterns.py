"""Regular expressions of filters: the part of the syntax that all languages read alike, matched in linear time.

A filter comes with a link, and names come from logs: with backtracking, a few characters of one could keep the other
busy for hours. The viewer has the same matcher; ``reference/python/tests/expressions.json`` has the examples of both.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

_MOST_STATES = 2000
_MOST_REPEATS = 200
_MOST_KNOWN = 5000
_DEEPEST = 50
_SPECIAL = frozenset("\\^$.|?*+()[]{}/-")
_CLASSES = {
    "d": [("0", "9")],
    "w": [("0", "9"), ("_", "_"), ("a", "z")],
    "s": [("\t", "\r"), (" ", " ")],
}


class PatternError(ValueError):
    """A regular expression that cannot be read."""


class _Letters(NamedTuple):
    """A character: one in *ranges*, or with *is_other* one that is not."""

    ranges: tuple[tuple[str, str], ...]
    is_other: bool

    def has(self, letter: str) -> bool:
        return any(low <= letter <= high for low, high in self.ranges) != self.is_other


class _Sequence(NamedTuple):
    parts: tuple[_Node, ...]


class _Choice(NamedTuple):
    parts: tuple[_Node, ...]


class _Repeat(NamedTuple):
    part: _Node
    least: int
    most: int | None


class _Edge(NamedTuple):
    """The start of the text, or its end."""

    is_end: bool


_Node = _Letters | _Sequence | _Choice | _Repeat | _Edge
_Range = tuple[str, str]


class _Parser:
    """Reads a pattern, whose letters are compared in lower case."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def whole(self) -> _Node:
        node = self._choice()
        if self._at < len(self._text):
            raise PatternError("a ) without its (")
        return node

    @property
    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self) -> str:
        self._at += 1
        return self._text[self._at - 1 : self._at]

    def _choice(self) -> _Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise PatternError(f"more than {_DEEPEST} levels of parentheses")
        parts = [self._sequence()]
        while self._next == "|":
            self._at += 1
            parts.append(self._sequence())
        self._depth -= 1
        return parts[0] if len(parts) == 1 else _Choice(tuple(parts))

    def _sequence(self) -> _Node:
        parts: list[_Node] = []
        while self._next and self._next not in "|)":
            parts.append(self._repeated(self._one()))
        return _Sequence(tuple(parts))

    def _repeated(self, part: _Node) -> _Node:
        if not self._next or self._next not in "*+?{":
            return part
        if isinstance(part, _Edge):
            raise PatternError(f"{self._next} after ^ or $")
        sign = self._take()
        least, most = self._bounds() if sign == "{" else {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        if self._next == "?":
            # As little as possible: whether there is a match is the same.
            self._at += 1
        if self._next and self._next in "*+?{":
            raise PatternError(f"{self._next} after {sign}")
        return _Repeat(part, least, most)

    def _bounds(self) -> tuple[int, int | None]:
        end = self._text.find("}", self._at)
        least, comma, most = self._text[self._at : end].partition(",")
        if end < 0 or not _is_count(least) or not (most == "" or _is_count(most)):
            raise PatternError("{ without numbers; write \\{ for the character")
        self._at = end + 1
        found = int(least), int(most) if most else None if comma else int(least)
        if max(found[0], found[1] or 0) > _MOST_REPEATS or (found[1] is not None and found[1] < found[0]):
            raise PatternError(f"{{{least}{comma}{most}}}: the numbers must ascend, up to {_MOST_REPEATS}")
        return found

    def _one(self) -> _Node:
        letter = self._take()
        if letter == "(":
            return self._group()
        if letter == "[":
            return self._letters()
        if letter == "\\":
            return _Letters(*self._escaped())
        if letter == ".":
            return _Letters((), is_other=True)
        if letter in "^$":
            return _Edge(letter == "$")
        if letter in "*+?{}]":
            raise PatternError(f"{letter} repeats nothing; write \\{letter} for the character")
        return _Letters(((_low(letter), _low(letter)),), is_other=False)

    def _group(self) -> _Node:
        if self._text.startswith("?:", self._at):
            self._at += 2
        elif self._next == "?":
            raise PatternError("(? is not supported; write ( or (?:")
        node = self._choice()
        if self._take() != ")":
            raise PatternError("a ( is not closed")
        return node

    def _escaped(self) -> tuple[tuple[_Range, ...], bool]:
        letter = self._take()
        if letter and letter.lower() in _CLASSES:
            return tuple(_CLASSES[letter.lower()]), letter.isupper()
        if letter not in _SPECIAL:
            raise PatternError(f"\\{letter} is not supported")
        return ((letter, letter),), False

    def _letters(self) -> _Node:
        is_other = self._next == "^"
        self._at += is_other
        ranges: list[_Range] = []
        while self._next != "]":
            low = self._member(ranges)
            if low is None:
                continue
            high = low
            if self._next == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                found = self._member([])
                high = "" if found is None else found
            if high < low:
                raise PatternError(f"{low}-{high} is not a range")
            ranges.append((low, high))
        self._at += 1
        if not ranges:
            raise PatternError("[] is empty")
        return _Letters(tuple(ranges), is_other)

    def _member(self, ranges: list[_Range]) -> str | None:
        """Return the next character of a class; None after a name of several, which is added to *ranges*."""
        letter = self._take()
        if letter in ("", "["):
            raise PatternError("a [ is not closed; within it, write \\[ for the character")
        if letter != "\\":
            return _low(letter)
        found, is_other = self._escaped()
        if is_other:
            raise PatternError("\\D, \\W and \\S are not supported within [ ]")
        if self._text[self._at - 1] in _SPECIAL:
            return found[0][0]
        ranges += found
        return None


def _is_count(text: str) -> bool:
    # Databases read a number that begins with 0 as characters.
    return text.isascii() and text.isdigit() and len(text) < 5 and (text == "0" or text[0] != "0")


def _low(letter: str) -> str:
    return "i" if letter == "\u0130" else letter.lower()


class _Step(NamedTuple):
    """A state of the matcher: a character to the next state, or to others without one."""

    letters: _Letters | None
    edge: _Edge | None
    to: list[int]


class Pattern:
    """A regular expression that was read."""

    def __init__(self, text: str) -> None:
        """Read *text*; raise PatternError."""
        self._steps: list[_Step] = []
        self._last = self._add(_Parser(text).whole(), self._step())
        self._first = self._reached([0], is_start=True, is_end=False)
        self._again = self._reached([0], is_start=False, is_end=False)
        self._known: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def is_in(self, text: str) -> bool:
        """Return whether *text*, which is ``lowered``, has a match."""
        states = self._first
        for letter in text:
            if self._last in states:
                return True
            states = self._after(states, letter)
        return self._last in self._reached(states, is_start=not text, is_end=True)

    def _after(self, states: frozenset[int], letter: str) -> frozenset[int]:
        found = self._known.get((states, letter))
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            met = [
                to for at in states if (step := self._steps[at]).letters and step.letters.has(letter) for to in step.to
            ]
            found = self._reached(met, is_start=False, is_end=False) | self._again
            self._known[states, letter] = found
        return found

    def _reached(self, states: list[int] | frozenset[int], *, is_start: bool, is_end: bool) -> frozenset[int]:
        """Return *states* and those that are reached from them without a character."""
        found: set[int] = set()
        waiting = list(states)
        while waiting:
            at = waiting.pop()
            if at in found:
                continue
            found.add(at)
            _, edge, to = step = self._steps[at]
            if step.letters is None and (edge is None or (is_end if edge.is_end else is_start)):
                waiting += to
        return frozenset(found)

    def _step(self, letters: _Letters | None = None, edge: _Edge | None = None) -> int:
        if len(self._steps) >= _MOST_STATES:
            raise PatternError("it is too long, or repeats too much")
        self._steps.append(_Step(letters, edge, []))
        return len(self._steps) - 1

    def _add(self, node: _Node, begin: int) -> int:
        """Add *node* after the state *begin*; return the state after it."""
        if isinstance(node, _Letters | _Edge):
            at = self._step(node, None) if isinstance(node, _Letters) else self._step(None, node)
            self._steps[begin].to.append(at)
            end = self._step()
            self._steps[at].to.append(end)
            return end
        if isinstance(node, _Sequence):
            for part in node.parts:
                begin = self._add(part, begin)
            return begin
        if isinstance(node, _Choice):
            end = self._step()
            for part in node.parts:
                first = self._step()
                self._steps[begin].to.append(first)
                self._steps[self._add(part, first)].to.append(end)
            return end
        return self._add_repeat(node, begin)

    def _add_repeat(self, node: _Repeat, begin: int) -> int:
        for _ in range(node.least):
            begin = self._add(node.part, begin)
        end = self._step()
        if node.most is None:
            again = self._step()
            self._steps[begin].to.append(again)
            self._steps[self._add(node.part, again)].to.append(again)
            self._steps[again].to.append(end)
            return end
        for _ in range(node.most - node.least):
            self._steps[begin].to.append(end)
            begin = self._add(node.part, begin)
        self._steps[begin].to.append(end)
        return end


@lru_cache(maxsize=64)
def pattern(text: str) -> Pattern:
    """Return the regular expression in *text*; raise PatternError."""
    return Pattern(text)
