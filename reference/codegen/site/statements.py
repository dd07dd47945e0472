"""Finds the statements of the specification in its prose, each with what is said around it."""

from __future__ import annotations

import itertools
import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codegen import sources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MARK = re.compile(r"\*\*\[([^\]\n]+)\]\*\* ")
_HEADING = re.compile(r"(#{1,6}) (.+)")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_LISTED = re.compile(r"\]\(([\w/.-]+\.md)\)")
_FENCE = "```"


@dataclass(frozen=True)
class Passage:
    """A piece of a page of the specification."""

    page: str
    """Path of the page below ``spec/``; links in the text hold there."""
    text: str


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One normative sentence, as its page has it and as requirements.json has it."""

    id: str
    text: str
    """The sentence in Markdown, without its id."""
    page: str
    """Path of the page below ``spec/``."""
    heading: str
    """The heading that it stands under."""
    explanation: tuple[Passage, ...]
    """What is said about it: the text that follows it, and the reason of its rule."""
    part: Passage
    """All that stands under its heading, other statements too; where there is no prose, the first words of the page."""
    entry: dict[str, Any]
    """Its entry in requirements.json."""

    @property
    def anchor(self) -> str:
        """The place in the page, as the site numbers headings."""
        return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", self.heading.lower()).strip())

    @property
    def chapter(self) -> str:
        """The first part of the id: the chapter, ``rules``, or the family of the kind."""
        return self.id.partition("/")[0]


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
    heading, part = "", []
    found = list(blocks(text))
    for index, block in enumerate(found):
        title = _HEADING.fullmatch(block)
        mark = _MARK.match(block)
        if title:
            heading, part = title[2], _part(found[index + 1 :])
        elif mark:
            entry = entries[mark[1]]
            passages = [Passage(page, "\n\n".join(_following(found[index + 1 :]))), *_reason(entry.get("rule"))]
            has_prose = any(not _MARK.match(other) for other in part)
            yield Statement(
                id=mark[1],
                text=block[mark.end() :],
                page=page,
                heading=heading,
                explanation=tuple(passage for passage in passages if passage.text),
                part=Passage(page, "\n\n".join(part if has_prose else found[1:2])),
                entry=entry,
            )


def _part(rest: Iterable[str]) -> list[str]:
    """Return the blocks before the next heading."""
    return list(itertools.takewhile(lambda block: not _HEADING.fullmatch(block), rest))


def _following(rest: Iterable[str]) -> list[str]:
    """Return the blocks before the next statement or heading."""
    return list(itertools.takewhile(lambda block: not _MARK.match(block), _part(rest)))


def _reason(rule: str | None) -> Iterator[Passage]:
    """Yield what stands under "Why" on the page of *rule*."""
    if rule is not None:
        page = f"rules/{rule}.md"
        found = list(blocks((sources.ROOT / "spec" / page).read_text(encoding="utf-8")))
        yield Passage(page, "\n\n".join(_part(found[found.index("## Why") + 1 :])))
