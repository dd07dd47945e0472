"""Shows a page of the specification on a terminal: plain text, wrapped, without markup."""

from __future__ import annotations

import re
from textwrap import wrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_REQUIREMENT = re.compile(r"\*\*\[[^\]]+\]\*\* ")
_STRONG = re.compile(r"\*\*([^*]+)\*\*")
_ITEM = re.compile(r"(\s*)([-*]|\d+\.) ")
_FENCE = re.compile(r"\s*(```|~~~)")
_RULER = re.compile(r"[|:\s-]+\Z")


def plain(page: str, width: int, *, heading: Callable[[str], str] = str) -> str:
    """Return the Markdown *page* as text of at most *width* columns; code and tables keep their lines.

    Comments, the ids of requirements and the marks of links and emphasis are left out; *heading* styles each
    title.
    """
    blocks = _blocks(_COMMENT.sub("", page).splitlines())
    return "\n\n".join(filter(None, (_shown(kind, lines, width, heading) for kind, lines in blocks)))


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


def _shown(kind: str, lines: list[str], width: int, heading: Callable[[str], str]) -> str:
    if kind == "code":
        return "\n".join(f"    {line}".rstrip() for line in lines)
    if kind == "heading":
        return heading(_inline(lines[0].lstrip("#").strip()))
    if kind == "table":
        return _table([_cells(line) for line in lines if not _RULER.match(line)], width)
    first = _ITEM.match(lines[0])
    hang = " " * len(first[0]) if first else ""
    text = _inline(" ".join(line.strip() for line in lines))
    lead = first[1] if first else ""
    return "\n".join(
        wrap(text, width, initial_indent=lead, subsequent_indent=hang, break_long_words=False, break_on_hyphens=False)
    )


def _inline(text: str) -> str:
    return _STRONG.sub(r"\1", _LINK.sub(r"\1", _REQUIREMENT.sub("", text)))


def _cells(line: str) -> list[str]:
    return [_inline(cell.strip()) for cell in line.strip().strip("|").split("|")]


def _table(rows: list[list[str]], width: int) -> str:
    """Return the table in columns; where they are too wide, each row as a list of its cells."""
    widths = [max(len(row[index]) for row in rows if index < len(row)) for index in range(len(rows[0]))]
    if sum(widths) + 2 * len(widths) - 2 <= width:
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip() for row in rows
        )
    titles, *others = rows
    return "\n\n".join("\n".join(_listed(titles, row, width)) for row in others)


def _listed(titles: list[str], row: list[str], width: int) -> Iterator[str]:
    hang = max(map(len, titles)) + 2
    for title, cell in zip(titles, row, strict=False):
        yield from wrap(f"{title.ljust(hang)}{cell}", width, subsequent_indent=" " * hang, break_long_words=False)
