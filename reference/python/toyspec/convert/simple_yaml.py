"""Reads and writes the YAML that loggers write for settings: nested maps of scalars, one key on a line."""

from __future__ import annotations

import re
from typing import Any

import msgspec

_LINE = re.compile(r"( *)((?:[^\s:#'\"\[\]{}&*!|>-][^:]*?|'(?:[^']|'')*'|\"(?:[^\"\\]|\\.)*\")) *:(?: +(.*?))? *")
_INTEGER = re.compile(r"[-+]?[0-9]{1,400}")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
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
    root: dict[str, Any] = {}
    odd: list[str] = []
    open_maps: list[tuple[int, dict[str, Any]]] = [(0, root)]
    for line in text.split("\n"):
        if not line.strip() or line.lstrip().startswith("#") or line in ("{}", "---"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            odd.append(line)
            continue
        depth = len(match[1])
        while len(open_maps) > 1 and depth < open_maps[-1][0]:
            open_maps.pop()
        if depth > open_maps[-1][0]:
            odd.append(line)
            continue
        key = str(_scalar(match[2]) if match[2][0] in "'\"" else match[2])
        if match[3] is None and len(open_maps) < 32:
            inner: dict[str, Any] = {}
            open_maps[-1][1][key] = inner
            open_maps.append((_next_depth(depth), inner))
        else:
            open_maps[-1][1][key] = _scalar(match[3] or "")
    return root, odd


def _next_depth(depth: int) -> int:
    return depth + 2


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
