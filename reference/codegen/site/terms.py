"""Makes the terms of the glossary show their meaning under the pointer, on every page of the site."""

from __future__ import annotations

import re

from codegen import sources

GLOSSARY = "docs/glossary.md"
PATH = "docs/includes/terms.md"
_ROW = re.compile(r"^\| ([a-z ]+) \| (.+) \|$", re.MULTILINE)
_UNMARKED = frozenset(["finding", "profile", "stream"])
"""Terms that are on every page, many times: marking each would be noise."""


def terms() -> dict[str, str]:
    """Return the meaning of each term of the glossary, in its order."""
    rows = _ROW.findall((sources.ROOT / GLOSSARY).read_text(encoding="utf-8"))
    return {term: meaning for term, meaning in rows if term != "term"}


def terms_file() -> dict[str, str]:
    """Return, by its path from the root, the file that the site appends to every page."""
    lines = (f"*[{term}]: {meaning.replace('`', '')}" for term, meaning in terms().items() if term not in _UNMARKED)
    return {PATH: "\n".join(lines) + "\n"}
