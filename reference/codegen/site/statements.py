"""Finds the statements of the specification in its prose."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codegen import sources

if TYPE_CHECKING:
    from collections.abc import Iterator

_MARK = re.compile(r"\*\*\[([^\]\n]+)\]\*\* ")
_HEADING = re.compile(r"(#{1,6}) (.+)")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_LISTED = re.compile(r"\]\(([\w/.-]+\.md)\)")
_FENCE = "```"


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One normative sentence, as its page has it and as requirements.json has it."""

    id: str
    text: str
    """The sentence in Markdown, without its id."""
    page: str
    """Path of the page below ``spec/``."""
    heading: str
    """The heading above it."""
    entry: dict[str, Any]
    """Its entry in requirements.json."""

    @property
    def anchor(self) -> str:
        """The place in the page, as the site numbers headings."""
        return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", self.heading.lower()).strip())


def requirements() -> list[dict[str, Any]]:
    """Return the entries of requirements.json in their order."""
    found: list[dict[str, Any]] = sources.load(sources.ROOT / "spec/requirements.json")["requirements"]
    return found


def statements() -> list[Statement]:
    """Return every statement, in the order of requirements.json."""
    entries = {entry["id"]: entry for entry in requirements()}
    found = {
        statement.id: statement
        for page in pages()
        for statement in _of_page(page, (sources.ROOT / "spec" / page).read_text(encoding="utf-8"), entries)
    }
    return [found[name] for name in entries]


def pages() -> list[str]:
    """Return the pages below ``spec/`` in the order in which the index lists them."""
    index = (sources.ROOT / "spec/README.md").read_text(encoding="utf-8")
    return list(dict.fromkeys(_LISTED.findall(index.partition("\n## Chapters\n")[2])))


def moved(text: str, source: str, target: str) -> str:
    """Return *text* with its links, which hold at the page *source*, made to hold at the page *target*."""

    def moved_link(match: re.Match[str]) -> str:
        path, hash_sign, anchor = match[1].partition("#")
        if ":" in path:
            return match[0]
        place = posixpath.normpath(posixpath.join(posixpath.dirname(source), path)) if path else source
        return f"]({posixpath.relpath(place, posixpath.dirname(target))}{hash_sign}{anchor})"

    return _LINK.sub(moved_link, text)


def blocks(text: str) -> Iterator[str]:
    """Yield the paragraphs, tables, lists and fenced blocks of a page, without comments."""
    held: list[str] = []
    is_code = False
    for line in text.splitlines():
        if line.startswith(_FENCE):
            is_code = not is_code
        if not line.strip() and not is_code:
            if held:
                yield "\n".join(held)
            held = []
        elif not (line.startswith("<!--") and not is_code):
            held.append(line)
    if held:
        yield "\n".join(held)


def _of_page(page: str, text: str, entries: dict[str, dict[str, Any]]) -> Iterator[Statement]:
    heading = ""
    for block in blocks(text):
        title = _HEADING.fullmatch(block)
        mark = _MARK.match(block)
        if title:
            heading = title[2]
        elif mark:
            sentence = block[mark.end() :]
            yield Statement(id=mark[1], text=sentence, page=page, heading=heading, entry=entries[mark[1]])
