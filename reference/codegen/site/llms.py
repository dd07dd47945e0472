"""Makes llms.txt, which lists the pages for language models, and llms-full.txt, the specification as one text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from codegen import sources
from codegen.site.statements import blocks, pages

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LIST = "docs/llms.txt"
FULL = "docs/llms-full.txt"

_ENTRY = re.compile(r"^( *)- (?:([^:\n]+): *)?(\S+\.md)?$", re.MULTILINE)
_SNIPPET = re.compile(r'^--8<-- "([^"]+)"$', re.MULTILINE)
_SITE = re.compile(r"^(site_name|site_description): (.+)$", re.MULTILINE)
_PROSE = re.compile(r"[A-Za-z*\[]|`(?!``)")
_MARKUP = re.compile(r"\[([^\]]*)\]\([^)]*\)|\*\*|(?<!\w)\*|\*(?!\w)")
_OUTERMOST = 2
"""Columns before a section of the navigation that is in no other."""
_OPTIONAL = "Rules"
"""What a reader may leave out who has little room; llms.txt calls such a section Optional."""


def llms_texts(made: Mapping[str, str]) -> dict[str, str]:
    """Return both texts by path from the root; *made* has the pages that are not in the tree."""
    return {LIST: "\n".join(_list(made)) + "\n", FULL: "\n\n".join(_full()) + "\n"}


def _list(made: Mapping[str, str]) -> Iterator[str]:
    configuration = (sources.ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    site = dict(_SITE.findall(configuration))
    yield f"# {site['site_name']}\n\n> {site['site_description']}.\n"
    yield (
        "All addresses are relative to this file. The specification as one text is in [llms-full.txt](llms-full.txt), "
        "its data under [Downloads](downloads/).\n"
    )
    optional: list[str] = []
    depth: int | None = None
    for indent, title, path in _ENTRY.findall(configuration.partition("\nnav:\n")[2]):
        if depth is not None and len(indent) <= depth:
            depth = None
        if not path:
            if title == _OPTIONAL:
                depth = len(indent)
            if len(indent) == _OUTERMOST:
                yield f"\n## {title}\n"
            continue
        text = _source(path, made)
        line = f"- [{title or _title(text, path)}]({_address(path)}): {_about(text)}"
        if depth is None:
            yield line
        else:
            optional.append(line)
    yield "\n## Optional\n"
    yield from optional


def _full() -> Iterator[str]:
    for page in ["README.md", *pages()]:
        text = (sources.ROOT / "spec" / page).read_text(encoding="utf-8")
        yield f"<!-- spec/{page} -->"
        yield from blocks(text)


def _source(path: str, made: Mapping[str, str]) -> str:
    """Return the text of a page, which may be written elsewhere."""
    text = made.get(f"docs/{path}") or (sources.ROOT / "docs" / path).read_text(encoding="utf-8")
    snippet = _SNIPPET.search(text)
    return (
        (sources.ROOT / snippet[1].partition(":")[0]).read_text(encoding="utf-8")
        if snippet and not _heading(text)
        else text
    )


def _heading(text: str) -> str | None:
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    return found[1] if found else None


def _title(text: str, path: str) -> str:
    return (_heading(text) or path).replace("`", "")


def _about(text: str) -> str:
    """Return the first sentence of a page."""
    body = f"\n{text}".partition("\n# ")[2].partition("\n")[2]
    first = next((block for block in blocks(body) if _PROSE.match(block)), "")
    plain = _MARKUP.sub(lambda match: match[1] or "", " ".join(first.split()))
    sentence = re.match(r".*?\.(?= |$)", plain)
    return sentence[0] if sentence else plain


def _address(path: str) -> str:
    """Return where the site has the page."""
    folder, _, name = path.rpartition("/")
    parts = [folder] if folder else []
    if name not in ("index.md", "README.md"):
        parts.append(name.removesuffix(".md"))
    return "/".join([*parts, ""]) or "./"
