"""Filters of runs as text, ``lr < 1e-3 and val/acc > .7``: one language, read into a function.

The viewer has a reader of its own, and
``reference/python/tests/expressions.json`` is the specification by example of both.
"""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.core.errors import ExpressionError
from toyspec.core.escaping import shortened
from toyspec.core.format.numbers import number
from toyspec.core.runs.run_facts import number_text

if TYPE_CHECKING:
    from collections.abc import Callable

    Lookup = Callable[[str], Any]
    """Returns the value of a field of a run, a list of texts among them; UNKNOWN where it has none."""
    Filter = Callable[["Question"], bool]

UNKNOWN = object()
"""The value of a field that a run does not have."""

ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
"""The signs that compare an order: of two numbers, or of two texts by their code points."""

_TOKEN = re.compile(r"""\s*(?:(<=|>=|!=|==|=|<|>|~)|(\()|(\))|"([^"]*)"|'([^']*)'|([^\s()<>=!~"']+))""")
_KINDS = ("operator", "open", "close", "text", "text", "word")
_NUMBER = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)([a-z%]*)", re.ASCII | re.IGNORECASE)
_UNITS = {
    "": 1.0, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86_400.0,
    "k": 1e3, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "%": 0.01,
}  # fmt: skip
# What other languages compare and join by.
_FOREIGN = frozenset(["&&", "&", "||", "|", ",", "is", "in", "like", "contains", "matches", "regexp", "between"])
# Nested deeper, an expression is a mistake or an attack.
_DEEPEST = 100


class Question(NamedTuple):
    """What is asked of a run."""

    field: Lookup
    text: Callable[[], str]
    """Returns everything that words are looked for in, as ``lowered`` text: most filters have none."""


class Expression(NamedTuple):
    """A filter that was read."""

    text: str
    holds: Filter
    """Returns whether a run meets it."""
    fields: dict[str, int]
    """The fields that are compared, in the order of the text: each with the number of characters before its name."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"


def expression(text: str) -> Expression:
    """Return the filter in *text*; an empty one lets every run pass. Raise ExpressionError."""
    if not text.strip():
        return Expression(text, lambda _: True, {})
    parser = _Parser(_tokens(text))
    return Expression(text, parser.whole(), parser.fields)


def _comparison(sign: str, text: str, wanted: float | None) -> Callable[[Any], bool]:
    """Return what compares a value with *text*, which is ``lowered``, or with the number in it, *wanted*."""
    if sign in ORDERS:
        order = ORDERS[sign]
        if wanted is not None:
            return lambda value: number(value) is not None and order(value, wanted)
        return lambda value: isinstance(value, str) and order(lowered(value), text)
    if sign == "~":
        return lambda value: value is not UNKNOWN and text in _text(value)
    return lambda value: _equals(value, text, wanted) == (sign != "!=")


def _equals(value: Any, text: str, wanted: float | None) -> bool:
    if value is UNKNOWN or value is None:
        return text == "null"
    return bool(value == wanted) if number(value) is not None else _text(value) == text


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
        self.fields: dict[str, int] = {}

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _is_word(self, word: str) -> bool:
        return self._next.kind == "word" and self._next.text.lower() == word

    def whole(self) -> Filter:
        found = self._either()
        if self._next.kind != "end":
            raise ExpressionError(f"{self._next.shown} was not expected here", self._next.at)
        return found

    def _either(self) -> Filter:
        parts = [self._every()]
        while self._is_word("or"):
            self._at += 1
            parts.append(self._every())
        return lambda question: any(part(question) for part in parts)

    def _every(self) -> Filter:
        parts = [self._one()]
        while not (self._is_word("or") or self._next.kind in ("close", "end")):
            self._at += self._is_word("and")
            parts.append(self._one())
        return lambda question: all(part(question) for part in parts)

    def _one(self) -> Filter:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ExpressionError(f"more than {_DEEPEST} levels of parentheses and not", self._next.at)
        try:
            if self._is_word("not") and self._tokens[self._at + 1].kind != "operator":
                self._at += 1
                part = self._one()
                return lambda question: not part(question)
            return self._inner() if self._next.kind == "open" else self._compared()
        finally:
            self._depth -= 1

    def _inner(self) -> Filter:
        begin = self._take()
        found = self._either()
        if self._next.kind != "close":
            raise ExpressionError("this parenthesis is not closed", begin.at)
        self._at += 1
        return found

    def _value(self, what: str) -> _Token:
        found = self._next
        if found.kind not in ("word", "text"):
            raise ExpressionError(f"{what}, found {found.shown}", found.at)
        return self._take()

    def _compared(self) -> Filter:
        left = self._value("a name or a word was expected")
        if self._next.kind != "operator":
            return self._words(left)
        field, sign = left.text, self._take().text
        right = self._value(f"a value was expected after {sign}")
        wanted = None if right.kind == "text" else _number(right, sign)
        self.fields.setdefault(field, left.at)
        compare = _comparison(sign, lowered(right.text), wanted)

        def holds(question: Question) -> bool:
            value = question.field(field)
            if isinstance(value, list | tuple):
                return all(map(compare, value)) if sign == "!=" else any(map(compare, value))
            return compare(value)

        return holds

    def _words(self, word: _Token) -> Filter:
        """Return the search for *word*; refuse one that joins, and what another language compares by."""
        text = lowered(word.text)
        if word.kind == "word" and text in ("and", "or"):
            raise ExpressionError(f"a name or a word was expected, found {word.shown}", word.at)
        before = self._tokens[self._at - 2].kind if self._at > 1 else "operator"
        is_between = before in ("word", "text", "close") and self._next.kind in ("word", "text", "open")
        if word.kind == "word" and is_between and text in _FOREIGN:
            signs = "and, or, not, ~ for contains, and < <= > >= = !="
            raise ExpressionError(f"{word.shown} is not an operator here; write {signs}, or quote the word", word.at)
        return lambda question: text in question.text()


def _text(value: Any) -> str:
    """Return a value as text, as a browser writes it, in lower case."""
    if number(value) is not None:
        return number_text(value)
    return "null" if value is None else lowered(str(value))


def _number(token: _Token, sign: str) -> float | None:
    """Return a number, which may have a unit of time or size; None for other text."""
    match = _NUMBER.fullmatch(token.text.replace("_", ""))
    unit = _UNITS.get(match[2].lower()) if match else None
    if match and unit is None and sign in ORDERS:
        units = "s, min, h, d, k, kb, mb, gb, tb, %"
        raise ExpressionError(f"{token.shown} has an unknown unit; use {units}, or quote text", token.at)
    return float(match[1]) * unit if match and unit else None
