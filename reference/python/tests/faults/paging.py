"""Puts what a run has counted into a page of the site, between two marks, so that no figure is typed by hand."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable
from pathlib import Path

PAGE = os.environ.get("TOYSPEC_FAULTS_PAGE", "")
"""Path of the page that the figures are written into; empty for none."""


def replaced(text: str, mark: str, lines: Iterable[str]) -> str:
    """Return *text* with *lines* in place of what is between ``<!-- mark -->`` and ``<!-- /mark -->``."""
    marks = (f"<!-- {mark} -->", f"<!-- /{mark} -->")
    pattern = re.compile(rf"(?<={re.escape(marks[0])}\n).*?(?={re.escape(marks[1])})", re.DOTALL)
    inside = "".join(f"{line}\n" for line in ("", *lines, ""))
    changed, count = pattern.subn(lambda _: inside, text)
    if count != 1:
        raise ValueError(f"{marks[0]} has to be there once, with {marks[1]} after it")
    return changed


def publish(mark: str, lines: Iterable[str]) -> None:
    """Write *lines* into the page, where one is named."""
    if PAGE:
        page = Path(PAGE)
        page.write_text(replaced(page.read_text(encoding="utf-8"), mark, lines), encoding="utf-8")


def system() -> str:
    """Return what a run ran on."""
    kernel = ".".join(platform.release().split(".")[:2])
    version = ".".join(platform.python_version_tuple()[:2])
    return f"{platform.system()} {kernel}, {os.cpu_count()} cores, with {platform.python_implementation()} {version}"


def block(lines: Iterable[str]) -> list[str]:
    """Return *lines* as a block of text."""
    return ["```text", *lines, "```"]
