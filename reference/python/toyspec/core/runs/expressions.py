"""Filters of runs as text, ``lr < 1e-3 and val/acc > .7``: one language, read into a syntax tree.

``Expression.holds`` evaluates the tree for a run in memory. The viewer has a reader of its own, and
``reference/python/tests/expressions.json`` is the specification by example of both.
"""

from __future__ import annotations

import fnmatch
import operator
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import msgspec

from toyspec.core.errors import ExpressionError
from toyspec.core.escaping import shortened
from toyspec.core.runs.run_facts import number_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Lookup = Callable[[str], Any]
    """Returns the value of a field of a run, a list of texts among them; UNKNOWN where it has none."""

UNKNOWN = object()
"""The value of a field that a run does not have."""

Sign = Literal["<", "<=", ">", ">=", "=", "!=", "~", "!~", "=~"]
"""How a field is compared; ``==`` is read as ``=``."""

ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
"""The signs that compare an order: of two numbers, or of two texts by their code points."""

_TOKEN = re.compile(r"""\s*(?:(<=|>=|!=|!~|=~|==|=|<|>|~)|(\()|(\))|"([^"]*)"|'([^']*)'|([^\s()<>=!~"']+))""")
_KINDS = ("operator", "open", "close", "text", "text", "word")
_NUMBER = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)([a-z%]*)", re.ASCII | re.IGNORECASE)
# What such a pattern of another language begins or ends with, or has for a class of characters.
_REGULAR = re.compile(r"^\^|\$\Z|\\[dwsDWS]")
_UNITS = {
    "": 1.0, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86_400.0,
    "k": 1e3, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "%": 0.01,
}  # fmt: skip
# What other languages have, with what this one has.
_FOREIGN = {
    "&&": "write and", "&": "write and", "||": "write or", "|": "write or", ",": "write and, or or",
    "is": "write =", "in": "compare with = once for each value, joined by or", "like": "write ~",
    "contains": "write ~", "matches": "write =~", "regexp": "write =~ and a pattern with * and ?",
    "between": "write two comparisons, joined by and",
}  # fmt: skip
# Nested deeper, an expression is a mistake or an attack.
_DEEPEST = 100


class Question(NamedTuple):
    """What is asked of a run."""

    field: Lookup
    text: Callable[[], str]
    """Returns everything that words are looked for in, as ``lowered`` text: most filters have none."""


class Words(msgspec.Struct, frozen=True):
    """Holds where the text of a run contains *text*."""

    text: str
    """As ``lowered`` text."""


class Comparison(msgspec.Struct, frozen=True):
    """Holds where the value of a field compares with what is given; of a list, where one does, or with ``!`` all."""

    field: str
    sign: Sign
    text: str
    """What is given, as ``lowered`` text; for ``=~``, ``*`` is any text in it and ``?`` any character."""
    number: float | None
    """What is given as a number, with its unit; None where it is not one, or was quoted."""
    at: int
    """Number of characters before the name of the field."""


class Not(msgspec.Struct, frozen=True):
    """Holds where its part does not."""

    part: Node


class Every(msgspec.Struct, frozen=True):
    """Holds where each of its parts does; without parts, always."""

    parts: tuple[Node, ...]


class Either(msgspec.Struct, frozen=True):
    """Holds where one of its parts does."""

    parts: tuple[Node, ...]


Node = Words | Comparison | Not | Every | Either


class Expression(msgspec.Struct, frozen=True):
    """A filter that was read."""

    tree: Node

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The comparisons in the order of the text."""
        return tuple(node for node in _nodes(self.tree) if isinstance(node, Comparison))

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields that are compared, each once."""
        return tuple(dict.fromkeys(each.field for each in self.comparisons))

    def holds(self, question: Question) -> bool:
        """Return whether the run of *question* meets it."""
        return _holds(self.tree, question)


def expression(text: str) -> Expression:
    """Return the filter in *text*; an empty one lets every run pass. Raise ExpressionError."""
    return Expression(_Parser(_tokens(text)).whole() if text.strip() else Every(()))


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    if isinstance(node, Every | Either):
        for part in node.parts:
            yield from _nodes(part)
    elif isinstance(node, Not):
        yield from _nodes(node.part)


def _holds(node: Node, question: Question) -> bool:
    if isinstance(node, Comparison):
        value = question.field(node.field)
        if isinstance(value, list | tuple):
            every = all if node.sign.startswith("!") else any
            return every(_compares(node, each) for each in value)
        return _compares(node, value)
    if isinstance(node, Every):
        return all(_holds(part, question) for part in node.parts)
    if isinstance(node, Either):
        return any(_holds(part, question) for part in node.parts)
    return not _holds(node.part, question) if isinstance(node, Not) else node.text in question.text()


def _compares(node: Comparison, value: Any) -> bool:
    sign = node.sign
    if sign in ORDERS:
        if node.number is not None:
            return _is_number(value) and ORDERS[sign](value, node.number)
        return isinstance(value, str) and ORDERS[sign](lowered(value), node.text)
    if sign in ("~", "!~"):
        return (value is not UNKNOWN and node.text in _text(value)) == (sign == "~")
    if sign == "=~":
        return value is not UNKNOWN and _glob(node.text).match(_text(value)) is not None
    return _equals(node, value) == (sign == "=")


def _equals(node: Comparison, value: Any) -> bool:
    if value is UNKNOWN or value is None:
        return node.text == "null"
    return bool(value == node.number) if _is_number(value) else _text(value) == node.text


def lowered(text: str) -> str:
    """Return *text* in lower case, one character for each, as all evaluators do it."""
    return text.lower() if text.isascii() else "".join(map(str.lower, text.replace("\u0130", "i")))


class _Token(NamedTuple):
    kind: str
    text: str
    at: int

    @property
    def shown(self) -> str:
        return "the end" if self.kind == "end" else f'"{shortened(self.text)}"'


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    end, at = len(text.rstrip()), 0
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            place = end - len(text[at:end].lstrip())
            raise ExpressionError(f'"{shortened(text[place])}" was not expected here', place)
        group = match.lastindex or 1
        begin = match.start(group) - (group in (4, 5))
        found.append(_Token(_KINDS[group - 1], match[group], begin))
        at = match.end()
    return [*found, _Token("end", "", len(text))]


class _Parser:
    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _is_word(self, word: str) -> bool:
        return self._next.kind == "word" and self._next.text.lower() == word

    def whole(self) -> Node:
        node = self._either()
        if self._next.kind != "end":
            raise ExpressionError(f"{self._next.shown} was not expected here", self._next.at)
        return node

    def _either(self) -> Node:
        parts = [self._every()]
        while self._is_word("or"):
            self._at += 1
            parts.append(self._every())
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def _every(self) -> Node:
        parts = [self._one()]
        while not (self._is_word("or") or self._next.kind in ("close", "end")):
            self._at += self._is_word("and")
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else Every(tuple(parts))

    def _one(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ExpressionError(f"more than {_DEEPEST} levels of parentheses and not", self._next.at)
        try:
            if self._is_word("not") and self._tokens[self._at + 1].kind != "operator":
                self._at += 1
                return Not(self._one())
            return self._inner() if self._next.kind == "open" else self._comparison()
        finally:
            self._depth -= 1

    def _inner(self) -> Node:
        begin = self._take()
        node = self._either()
        if self._next.kind != "close":
            raise ExpressionError("this parenthesis is not closed", begin.at)
        self._at += 1
        return node

    def _comparison(self) -> Node:
        left = self._next
        if left.kind not in ("word", "text"):
            raise ExpressionError(f"a name or a word was expected, found {left.shown}", left.at)
        self._at += 1
        if self._next.kind != "operator":
            return self._words(left)
        sign = self._take().text
        right = self._next
        if right.kind not in ("word", "text"):
            raise ExpressionError(f"a value was expected after {sign}, found {right.shown}", right.at)
        self._at += 1
        number = None if right.kind == "text" else _number(right)
        if (
            sign in ORDERS
            and number is None
            and right.kind == "word"
            and _NUMBER.fullmatch(right.text.replace("_", ""))
        ):
            units = "s, min, h, d, k, kb, mb, gb, tb, %"
            raise ExpressionError(f"{right.shown} has an unknown unit; use {units}, or quote text", right.at)
        if sign == "=~" and _REGULAR.search(right.text):
            raise ExpressionError(
                f"{right.shown} is a regular expression; write * for any text and ? for a character", right.at
            )
        return Comparison(left.text, cast("Sign", "=" if sign == "==" else sign), lowered(right.text), number, left.at)

    def _words(self, word: _Token) -> Words:
        """Return the search for *word*; refuse one that joins, and what another language compares by."""
        if word.kind == "word" and word.text.lower() in ("and", "or"):
            raise ExpressionError(f"a name or a word was expected, found {word.shown}", word.at)
        before = self._tokens[self._at - 2].kind if self._at > 1 else "operator"
        advice = _FOREIGN.get(word.text.lower()) if word.kind == "word" else None
        if advice and before in ("word", "text", "close") and self._next.kind in ("word", "text", "open"):
            raise ExpressionError(f"{word.shown} is not an operator here; {advice}, or quote the word", word.at)
        return Words(lowered(word.text))


@lru_cache(maxsize=64)
def _glob(text: str) -> re.Pattern[str]:
    """Return what matches as *text* says, in time that grows with the two lengths: an asterisk is not tried again."""
    return re.compile(fnmatch.translate(text.replace("[", "[[]")))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Any) -> str:
    """Return a value as text, as a browser writes it, in lower case."""
    if _is_number(value):
        return number_text(value)
    return "null" if value is None else lowered(str(value))


def _number(token: _Token) -> float | None:
    """Return a number, which may have a unit of time or size; None for other text."""
    match = _match(token.text)
    unit = None if match is None else _UNITS.get(match[2].lower())
    return None if match is None or unit is None else float(match[1]) * unit


def _match(text: str) -> re.Match[str] | None:
    """Return the match of a number with a unit, known or not."""
    return _NUMBER.fullmatch(text.replace("_", ""))
