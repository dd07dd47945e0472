"""Reads the pages of the built site as text: what each links to, loads, names and shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
LOADING = {"audio", "embed", "iframe", "img", "input", "link", "script", "source", "track", "video"}
"""Elements whose address is loaded with the page; that of others is followed by a reader."""

RELATED = {"alternate", "canonical", "next", "prev"}
"""Relations of a ``link`` to other pages, which are not loaded with it."""


@dataclass
class BuiltPage:
    """What a page of the site says about itself."""

    address: str
    """Address of the page from the start page: empty for the start page, otherwise it ends in a slash."""
    title: str = ""
    language: str | None = None
    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    """Addresses that a reader can follow, as they are written."""
    loads: list[str] = field(default_factory=list)
    """Addresses that come with the page, as they are written."""
    headings: list[tuple[int, str]] = field(default_factory=list)
    """Level and text of each heading of the article."""
    unnamed: list[str] = field(default_factory=list)
    """Pictures of the article that a reader who cannot see them is not told about."""


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
        self._note_addresses(tag, values)
        if tag == "html":
            self.page.language = values.get("lang")
        if (tag == "title" and not self._is_inside("svg")) or re.fullmatch("h[1-6]", tag):
            self._text = []
        if tag in ("img", "svg") and self._is_inside("article"):
            self._note_picture(tag, values)
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

    def _note_addresses(self, tag: str, values: dict[str, str | None]) -> None:
        self.page.anchors.update(value for key in ("id", "name") if (value := values.get(key)))
        is_loaded = tag in LOADING and values.get("rel") not in RELATED
        addresses = self.page.loads if is_loaded else self.page.links
        addresses.extend(value for key in ("href", "src", "data") if (value := values.get(key)) is not None)

    def _note_picture(self, tag: str, values: dict[str, str | None]) -> None:
        around = [values, *(attributes for _, attributes in self._open)]
        if any("aria-hidden" in one and one["aria-hidden"] != "false" for one in around):
            return
        # A drawing inside a link or button is named by it.
        names = ("alt",) if tag == "img" else ("aria-label", "aria-labelledby")
        holders = [one for name, one in self._open if name in ("a", "button", "label")]
        named = any(values.get(name) for name in names) or any(
            one.get("aria-label") or one.get("title") for one in holders
        )
        if not named or (tag == "svg" and not holders and values.get("role") != "img"):
            self.page.unnamed.append(self.get_starttag_text() or tag)


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


def is_elsewhere(address: str) -> bool:
    """Return whether *address*, as it is written in a page, names a host or a scheme."""
    parts = urlsplit(address)
    return bool(parts.scheme or parts.netloc)


def broken(page: BuiltPage, addresses: list[str], site: Path, pages: dict[str, BuiltPage]) -> Iterator[str]:
    """Yield each of *addresses*, which are in *page*, that leads to no file of *site* or to no anchor of a page."""
    for address in addresses:
        if is_elsewhere(address):
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
