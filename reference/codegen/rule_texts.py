"""Renders the pages of rules as plain text for terminals, which `toyspec explain` prints."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from codegen import sources
from codegen.tables import marked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_REQUIREMENT = re.compile(r"\*\*\[[^\]]+\]\*\* ")
_STRONG = re.compile(r"\*\*([^*]+)\*\*")
_ITEM = re.compile(r"(\s*)([-*]|\d+\.) ")
_FENCE = re.compile(r"\s*(```|~~~)")
_RULER = re.compile(r"[|:\s-]+\Z")


# The widest table that keeps its columns; code is indented by four spaces, and nothing else is.
_TABLE_COLUMNS = 76


def rule_texts_module(pages: Mapping[str, str]) -> str:
    """Return the module of what `toyspec explain` prints, made from *pages*, text by path from the root."""
    paths = {rule["id"]: f"spec/rules/{rule['id']}.md" for rule in sources.rules()}
    texts = {rule: sections(pages[path]) for rule, path in paths.items() if path in pages}
    body = json.dumps(texts, ensure_ascii=False, indent=1)
    declared = f"TEXTS: dict[str, dict[str, list[str]]] = {body}\n"
    return marked("spec/rules/", "The page of every rule as plain text: the lines of its sections by title.", declared)


def sections(page: str) -> dict[str, list[str]]:
    """Return the lines of each section of the Markdown *page* by its title, without markup, comments and ids.

    A paragraph and an item of a list are one line each. Code is indented; tables have columns, or a line for each cell.
    """
    found: dict[str, list[str]] = {}
    shown: list[str] = []
    for kind, lines in _blocks(_COMMENT.sub("", page).splitlines()):
        if kind == "heading":
            shown = found[_inline(lines[0].lstrip("#").strip())] = []
            continue
        shown.extend([""] if shown else [])
        shown.extend(_shown(kind, lines))
    return found


def _blocks(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each block as (kind, lines); kinds are heading, code, table, item and text."""
    kind, block, fenced = "", [], False
    for line in [*lines, ""]:
        if fenced and not _FENCE.match(line):
            block.append(line)
            continue
        found = _kind(line)
        if block and (fenced or found != kind or kind in {"heading", "item"}):
            continues = kind == "item" and found == "text" and not fenced
            if continues:
                block.append(line)
                continue
            yield kind, block
            kind, block = "", []
        if fenced:
            fenced = False
            continue
        if found == "fence":
            fenced, kind, block = True, "code", []
        elif found:
            kind = found
            block.append(line)


def _kind(line: str) -> str:
    if not line.strip():
        return ""
    if _FENCE.match(line):
        return "fence"
    if line.startswith("#"):
        return "heading"
    if line.startswith("|"):
        return "table"
    return "item" if _ITEM.match(line) else "text"


def _shown(kind: str, lines: list[str]) -> list[str]:
    if kind == "code":
        return [f"    {line}".rstrip() for line in lines]
    if kind == "table":
        return _table([_cells(line) for line in lines if not _RULER.match(line)])
    return [_inline(" ".join(line.strip() for line in lines))]


def _inline(text: str) -> str:
    return _STRONG.sub(r"\1", _LINK.sub(r"\1", _REQUIREMENT.sub("", text)))


def _cells(line: str) -> list[str]:
    return [_inline(cell.strip()) for cell in line.strip().strip("|").split("|")]


def _table(rows: list[list[str]]) -> list[str]:
    """Return the table in columns; if they are too wide, each row as a list of its cells."""
    widths = [max(len(row[index]) for row in rows if index < len(row)) for index in range(len(rows[0]))]
    if sum(widths) + 2 * len(widths) - 2 <= _TABLE_COLUMNS:
        return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip() for row in rows]
    titles, *others = rows
    return [f"{title}: {cell}" for row in others for title, cell in zip(titles, row, strict=False)]
