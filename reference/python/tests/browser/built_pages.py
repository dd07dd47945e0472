"""Reads the pages of the built site as text: what each links to, names and shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


@dataclass
class BuiltPage:
    """What a page of the site says about itself."""

    address: str
    """Address of the page from the start page: empty for the start page, otherwise it ends in a slash."""
    title: str = ""
    language: str | None = None
    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    """Addresses that a reader can follow and of what comes with the page, as they are written."""
    headings: list[tuple[int, str]] = field(default_factory=list)
    """Level and text of each heading of the article."""


class _Reader(HTMLParser):
    """Fills a page from its text."""

    def __init__(self, page: BuiltPage) -> None:
        super().__init__(convert_charrefs=True)
        self.page = page
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self._text: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the element names and links to."""
        values = dict(attrs)
        self.page.anchors.update(value for key in ("id", "name") if (value := values.get(key)))
        self.page.links.extend(value for key in ("href", "src", "data") if (value := values.get(key)) is not None)
        if tag == "html":
            self.page.language = values.get("lang")
        if (tag == "title" and not self._is_inside("svg")) or re.fullmatch("h[1-6]", tag):
            self._text = []
        if tag not in VOID:
            self._open.append((tag, values))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Read an element that closes itself, which only those of a drawing do."""
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        """Close the element, and those in it that were left open."""
        if self._text is not None and tag == "title" and not self._is_inside("svg"):
            self.page.title, self._text = "".join(self._text).strip(), None
        elif self._text is not None and re.fullmatch("h[1-6]", tag):
            if self._is_inside("article"):
                self.page.headings.append((int(tag[1]), "".join(self._text).strip().removesuffix("¶").strip()))
            self._text = None
        while any(name == tag for name, _ in self._open):
            if self._open.pop()[0] == tag:
                break

    def handle_data(self, data: str) -> None:
        """Collect the text of a title or heading."""
        if self._text is not None:
            self._text.append(data)

    def _is_inside(self, tag: str) -> bool:
        return any(name == tag for name, _ in self._open)


def read_page(text: str, address: str) -> BuiltPage:
    """Return what the HTML *text* of the page at *address* says."""
    page = BuiltPage(address)
    reader = _Reader(page)
    reader.feed(text)
    reader.close()
    return page


def addresses_of(site: Path) -> list[str]:
    """Return the address of each page of the folder *site*: no file to be saved, and not the page for stale links."""
    found = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    return [name.removesuffix("index.html") for name in found if name != "404.html" and not name.startswith("assets/")]


def read_site(site: Path) -> dict[str, BuiltPage]:
    """Return each page of the folder *site* by its address."""
    pages = {}
    for address in addresses_of(site):
        file = site / address
        text = (file / "index.html" if file.is_dir() else file).read_text(encoding="utf-8")
        pages[address] = read_page(text, address)
    return pages


def broken(page: BuiltPage, site: Path, pages: dict[str, BuiltPage]) -> Iterator[str]:
    """Yield each address in *page* without a scheme that leads to no file of *site* or to no anchor of a page."""
    for address in page.links:
        if urlsplit(address).scheme or address.startswith("//"):
            continue
        parts = urlsplit(urljoin("/" + page.address, address))
        path = unquote(parts.path).removeprefix("/")
        # An address from the root of the host is right on one host only.
        is_found = not address.startswith("/") and _exists(site, path)
        has_anchor = not parts.fragment or path not in pages or unquote(parts.fragment) in pages[path].anchors
        if not (is_found and has_anchor):
            yield address


def _exists(site: Path, path: str) -> bool:
    file = site / path
    # Without its slash, the address of a folder needs a host that redirects.
    return file.joinpath("index.html").is_file() if not path or path.endswith("/") else file.is_file()
