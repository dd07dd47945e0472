"""Where the site shows the cases of a statement."""

from __future__ import annotations

_PAGES = {
    "format": (
        "model",
        "encoding",
        "toy",
        "metrics",
        "kaun",
        "stream",
        "bundle",
        "writing",
        "versioning",
        "conformance",
    ),
    "reading": ("views", "following", "checking"),
}
"""Chapters that share a page, by their first part of an id; every other chapter has a page of its own."""

_PAGE_OF = {chapter: page for page, chapters in _PAGES.items() for chapter in chapters}


def chapter_of(statement: str) -> str:
    """Return the name of the page that has the cases of the statement with the id *statement*."""
    first = statement.partition("/")[0]
    return _PAGE_OF.get(first, first)


def address_of(statement: str) -> str:
    """Return where the cases of the statement with the id *statement* are, as a path below ``docs/``."""
    return f"requirements/{chapter_of(statement)}.md#{anchor_of(statement)}"


def anchor_of(statement: str) -> str:
    """Return the anchor of the statement with the id *statement* on its page."""
    return statement.replace("/", "-")
