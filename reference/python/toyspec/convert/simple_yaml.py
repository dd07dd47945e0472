"""Reads and writes the YAML that loggers write for settings: nested maps of scalars, one key on a line."""

from __future__ import annotations

import re
from typing import Any

import msgspec

_LINE = re.compile(r"( *)((?:[^\s:#'\"\[\]{}&*!|>-][^:]*?|'(?:[^']|'')*'|\"(?:[^\"\\]|\\.)*\")) *:(?: +(.*?))? *")
_INTEGER = re.compile(r"[-+]?[0-9]{1,400}")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_MOST_MAPS = 32
# What begins an element that is a list, a map, an anchor, an alias, a tag or a text of several lines.
_MARKS = re.compile(r"-( |$)|\?( |$)|[&*!|>]")
_WORDS: dict[str, Any] = {
    "true": True,
    "false": False,
    "null": None,
    "~": None,
    ".nan": float("nan"),
    ".inf": float("inf"),
    "-.inf": -float("inf"),
}
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./ -]*[A-Za-z0-9_]|[A-Za-z_]")


def parsed(text: str) -> tuple[dict[str, Any], list[str]]:
    """Return the settings in *text*, and the lines that are in a part of YAML that this does not read."""
    parser = _Parser()
    for line in text.split("\n"):
        if line.strip() and not line.lstrip().startswith("#") and line not in ("{}", "---"):
            parser.take(line)
    return parser.root, parser.odd


class _Parser:
    """Takes the lines of a document, one after the other."""

    def __init__(self) -> None:
        self.root: dict[str, Any] = {}
        self.odd: list[str] = []
        self._maps: list[tuple[int, dict[str, Any]]] = [(0, self.root)]
        self._open: tuple[int, dict[str, Any], str] | None = None
        """Depth, map and key of a value that the next lines have, and which is null without any."""
        self._lines: list[str] = []
        """The lines of that value, and of its key."""
        self._skipped: int | None = None
        """Depth of a key whose value cannot be read."""

    def take(self, line: str) -> None:
        """Take in *line*."""
        depth = len(line) - len(line.lstrip(" "))
        is_element = line[depth : depth + 2] in ("-", "- ")
        if self._skipped is not None and (depth > self._skipped or (is_element and depth == self._skipped)):
            self.odd.append(line)
            return
        self._skipped = None
        if is_element:
            self._element(line, depth)
            return
        match = _LINE.fullmatch(line)
        if match is None or not self._enter(depth):
            self.odd.append(line)
            return
        key = str(_scalar(match[2]) if match[2][0] in "'\"" else match[2])
        into = self._maps[-1][1]
        into[key] = None if match[3] is None else _scalar(match[3])
        self._open = (depth, into, key) if match[3] is None else None
        self._lines = [line]

    def _element(self, line: str, depth: int) -> None:
        """Take in an element of a list; a list with one that is not a scalar is left out."""
        element = line[depth + 1 :].strip()
        if self._open is None or depth < self._open[0]:
            self.odd.append(line)
            return
        at, into, key = self._open
        if not element or _MARKS.match(element) or _LINE.fullmatch(element):
            del into[key]
            self._open, self._skipped = None, at
            self.odd += [*self._lines, line]
        else:
            into[key] = [*(into[key] or []), _scalar(element)]
            self._lines.append(line)

    def _enter(self, depth: int) -> bool:
        """Make the map at *depth* the last one; return False if there is none."""
        if self._open is not None and depth > self._open[0] and len(self._maps) < _MOST_MAPS:
            _, into, key = self._open
            if into[key] is not None:
                return False
            into[key] = {}
            self._maps.append((depth, into[key]))
        self._open = None
        while len(self._maps) > 1 and depth < self._maps[-1][0]:
            self._maps.pop()
        return depth == self._maps[-1][0]


def _scalar(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for pattern, kind in ((_INTEGER, int), (_FLOAT, float)):
        if pattern.fullmatch(text):
            return kind(text)
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return _json(text) if text[:1] in ('"', "[", "{") else text


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return text


def written(config: dict[str, Any], indent: str = "") -> str:
    """Return *config* as YAML; lists and texts that need quotes are in JSON, which is YAML too."""
    lines = []
    for key, value in config.items():
        name = key if _PLAIN.fullmatch(key) and key.lower() not in _WORDS else msgspec.json.encode(key).decode()
        if isinstance(value, dict) and value:
            lines.append(f"{indent}{name}:\n{written(value, indent + '  ')}")
        else:
            text = msgspec.json.encode(value).decode()
            is_plain = isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS
            lines.append(f"{indent}{name}: {value if is_plain else text}\n")
    return "".join(lines)
