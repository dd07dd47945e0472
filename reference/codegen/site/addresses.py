"""Where the site shows the cases of a statement."""

from __future__ import annotations

_CHAPTERS = {
    "bundle": "writing",
    "conformance": "model",
    "following": "reading",
    "kaun": "model",
    "metrics": "model",
    "toy": "model",
    "versioning": "model",
    "views": "reading",
}
"""Chapters that share a page, by the first part of an id; every other chapter has a page of its own."""


def chapter_of(statement: str) -> str:
    """Return the name of the page that has the cases of the statement with the id *statement*."""
    first = statement.partition("/")[0]
    return _CHAPTERS.get(first, first)


def address_of(statement: str) -> str:
    """Return where the cases of the statement with the id *statement* are, as a path below ``docs/``."""
    return f"requirements/{chapter_of(statement)}.md#{anchor_of(statement)}"


def anchor_of(statement: str) -> str:
    """Return the anchor of the statement with the id *statement* on its page."""
    return statement.replace("/", "-")
