"""Makes the pages of earlier revisions: ``docs/earlier/1.2.zip`` becomes ``docs/spec/1.2/``.

An archive has the files of ``spec/`` as they were when the revision ended, and is never changed.
"""

from __future__ import annotations

import json
import posixpath
import re
import zipfile
from typing import TYPE_CHECKING

from codegen import sources

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ARCHIVES = sources.ROOT / "docs/earlier"
_LINK = re.compile(r"\[([^\]\n]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")
_HEADING = re.compile(r"^# (.*)\n", re.MULTILINE)
_FRONT = "---\ntitle: {title}\nsearch:\n  exclude: true\n---\n"
_NOTE = """
!!! note "An earlier revision"

    This is the text of revision {revision}, kept as it was. The current one is [here]({current}).
"""


def earlier_pages() -> dict[str, str]:
    """Return every file of the earlier revisions by its path from the root."""
    return {path: text for archive in _ARCHIVES.glob("*.zip") for path, text in _pages(archive)}


def _pages(path: Path) -> Iterator[tuple[str, str]]:
    revision = path.stem
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        for name in archive.namelist():
            text = archive.read(name).decode()
            yield f"docs/spec/{revision}/{name}", _page(revision, name, text, names) if name.endswith(".md") else text


def _page(revision: str, name: str, text: str, names: set[str]) -> str:
    """Return a page with its links into the archive; others have lost their target, and are text."""

    def link(match: re.Match[str]) -> str:
        label, path = match[1], match[2]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
        return match[0] if target in names or "://" in path else label

    current = posixpath.relpath("README.md", posixpath.dirname(f"{revision}/{name}"))
    note = _NOTE.format(revision=revision, current=current)
    title = _HEADING.search(text)
    front = _FRONT.format(title=json.dumps(f"{title[1] if title else name} (revision {revision})"))
    return front + _HEADING.sub(lambda heading: heading[0] + note, _LINK.sub(link, text), count=1)
