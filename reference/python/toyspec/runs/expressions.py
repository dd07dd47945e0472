"""Filters of runs as text, ``lr < 1e-3 and val/acc > .7``: the language of the viewer's filter field too.

``reference/python/tests/expressions.json`` is its specification by example, which both implementations pass.
"""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.errors import ExpressionError
from toyspec.escaping import shortened

if TYPE_CHECKING:
    from collections.abc import Callable

    Lookup = Callable[[str], Any]
    """Returns the value of a field of a run, a list of texts among them; UNKNOWN where it has none."""

    Holds = Callable[["Question"], bool]
    Compare = Callable[[Any], bool]

UNKNOWN = object()
"""The value of a field that a run does not have."""

_TOKEN = re.compile(r"""\s*(?:(<=|>=|!=|!~|==|=|<|>|~)|(\()|(\))|"([^"]*)"|'([^']*)'|([^\s()<>=!~"']+))""")
_KINDS = ("operator", "open", "close", "text", "text", "word")
_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)([a-z%]*)", re.ASCII | re.IGNORECASE)
_LEADING_ZERO = re.compile(r"(e[+-])0+(?=\d)")
_ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_UNITS = {
    "": 1.0, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86_400.0,
    "k": 1e3, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "%": 0.01,
}  # fmt: skip
# Nested deeper, an expression is a mistake or an attack.
_DEEPEST = 100


class Question(NamedTuple):
    """What is asked of a run."""

    field: Lookup
    text: Callable[[], str]
    """Returns everything that words are looked for in, in lower case: most filters have none."""


class Expression(NamedTuple):
    """A filter that was read."""

    holds: Holds
    fields: tuple[str, ...]
    """The names of the fields that are compared."""
    has_words: bool
    """Whether words are looked for in the text of a run."""


class _Token(NamedTuple):
    kind: str
    text: str
    at: int

    @property
    def shown(self) -> str:
        return "the end" if self.kind == "end" else f'"{shortened(self.text)}"'


def expression(text: str) -> Expression:
    """Return the filter in *text*; an empty one lets every run pass. Raise ExpressionError."""
    parser = _Parser(_tokens(text))
    holds = parser.whole() if text.strip() else lambda _: True
    return Expression(holds, tuple(dict.fromkeys(parser.fields)), parser.has_words)


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
        self.fields: list[str] = []
        self.has_words = False

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _is_word(self, word: str) -> bool:
        return self._next.kind == "word" and self._next.text.lower() == word

    def whole(self) -> Holds:
        holds = self._either()
        if self._next.kind != "end":
            raise ExpressionError(f"{self._next.shown} was not expected here", self._next.at)
        return holds

    def _either(self) -> Holds:
        parts = [self._both()]
        while self._is_word("or"):
            self._at += 1
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else lambda question: any(part(question) for part in parts)

    def _both(self) -> Holds:
        parts = [self._one()]
        while not (self._is_word("or") or self._next.kind in ("close", "end")):
            self._at += self._is_word("and")
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else lambda question: all(part(question) for part in parts)

    def _one(self) -> Holds:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ExpressionError(f"more than {_DEEPEST} levels of parentheses and not", self._next.at)
        try:
            if self._is_word("not") and self._tokens[self._at + 1].kind != "operator":
                self._at += 1
                part = self._one()
                return lambda question: not part(question)
            return self._inner() if self._next.kind == "open" else self._comparison()
        finally:
            self._depth -= 1

    def _inner(self) -> Holds:
        begin = self._take()
        part = self._either()
        if self._next.kind != "close":
            raise ExpressionError("this parenthesis is not closed", begin.at)
        self._at += 1
        return part

    def _comparison(self) -> Holds:
        left = self._next
        if left.kind not in ("word", "text"):
            raise ExpressionError(f"a name or a word was expected, found {left.shown}", left.at)
        self._at += 1
        if self._next.kind != "operator":
            self.has_words = True
            word = left.text.lower()
            return lambda question: word in question.text()
        sign = self._take().text
        right = self._next
        if right.kind not in ("word", "text"):
            raise ExpressionError(f"a value was expected after {sign}, found {right.shown}", right.at)
        self._at += 1
        self.fields.append(left.text)
        compare = _comparison(sign, right)
        every = all if sign.startswith("!") else any

        def holds(question: Question) -> bool:
            value = question.field(left.text)
            return every(map(compare, value)) if isinstance(value, list | tuple) else compare(value)

        return holds


def _comparison(sign: str, right: _Token) -> Compare:
    text = right.text.lower()
    number = None if right.kind == "text" else _number(right.text)
    if sign in _ORDERS:
        return _order(_ORDERS[sign], text, number)
    if sign in ("~", "!~"):
        return lambda value: (value is not UNKNOWN and text in _text(value)) == (sign == "~")

    def equal(value: Any) -> bool:
        if value is UNKNOWN or value is None:
            return text == "null"
        return bool(value == number) if _is_number(value) else _text(value) == text

    return equal if sign != "!=" else lambda value: not equal(value)


def _order(order: Callable[[Any, Any], bool], text: str, number: float | None) -> Compare:
    if number is not None:
        return lambda value: _is_number(value) and order(value, number)
    key = _units_of(text)
    return lambda value: isinstance(value, str) and order(_units_of(value.lower()), key)


def _units_of(text: str) -> bytes:
    """Return what orders texts as a browser does."""
    return text.encode("utf-16-be", "surrogatepass")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Any) -> str:
    """Return a value as text, as a browser writes it, in lower case."""
    if _is_number(value):
        return _number_text(value)
    return "null" if value is None else str(value).lower()


def _number_text(value: float) -> str:
    if 1e-7 < abs(value) < 1e21 or value == 0:
        from decimal import Decimal

        text = format(Decimal(repr(value)), "f")
        return text.removesuffix(".0") if value else "0"
    return _LEADING_ZERO.sub(r"\1", repr(value))


def _number(text: str) -> float | None:
    """Return a number, which may have a unit of time or size; None for other text."""
    match = _NUMBER.fullmatch(text.replace("_", ""))
    unit = None if match is None else _UNITS.get(match[2].lower())
    return None if match is None or unit is None else float(match[1]) * unit
