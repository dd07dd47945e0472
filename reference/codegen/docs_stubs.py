"""Brings pages from outside docs/ into the site: a stub for each, and its entry in the navigation.

The stubs mirror ``spec/`` below ``docs/spec/``, so that links between pages hold in both places. `make docs` writes
them; the navigation in mkdocs.yml is committed.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from codegen import sources
from codegen.site.addresses import address_of

if TYPE_CHECKING:
    from pathlib import Path

RULES_INDEX = "spec/rules/index.md"
"""The page that lists the rules; only the site has it."""

_INDEX_NAMES = ("README.md", "index.md")
_LAYER_TITLES = {"bytes": "Bytes", "json": "JSON", "record": "Record", "stream": "Stream", "bundle": "Bundle"}
_NAVIGATION = re.compile(r"( +)# generated:(\w+)\n.*?# /generated:\2\n", re.DOTALL)
_STATEMENT = re.compile(r"^\*\*\[([^\]\n]+)\]\*\* ", re.MULTILINE)
_PICTURES = {"spec/stream.md": tuple(f"automaton-{profile.partition('/')[0]}" for profile in sources.PROFILES)}
"""Diagrams at the end of a page, for chapters that end with what the diagram shows."""
_FIGURE = """\

<figure class="diagram">
--8<-- "docs/diagrams/{name}.svg"
</figure>
"""
_DESCRIPTIONS = {
    "changelog.md": "What is new in each version, and what you must change.",
    "governance.md": "Who maintains the project, how decisions are made, and how the specification changes.",
    "security.md": "How to report a vulnerability, what is done against hostile logs, and the limits of each tool.",
    "conformance/README.md": "The test cases of the format: exact bytes and expected results, for your own program.",
    "conformance/PROTOCOL.md": "How a small program connects your implementation to the test cases.",
    "spec/README.md": "The format in full: chapters, kinds of lines, and rules.",
    "spec/annotations.md": "The file that holds the name, tags, notes and star that a run gets after it has ended.",
    "spec/bundle.md": "The folder of a run: the files in it, their names, run ids, pictures and the seal.",
    "spec/checking.md": "What a checker reports, in which order, and how it ends.",
    "spec/conformance.md": "Which statements an implementation has to keep, by its role.",
    "spec/encoding.md": "The bytes of a log: lines and their greatest length, JSON, numbers, NaN, strings and dates.",
    "spec/following.md": "How a program reads a log while it is written.",
    "spec/model.md": "The terms of the specification, and how a program finds out which format a log has.",
    "spec/ranks.md": "The logs of the processes of one training, and runs that start from the checkpoint of another.",
    "spec/reading.md": "What a reader returns from any file, complete, torn or damaged.",
    "spec/stream.md": "The rules that relate the lines of a log: order, phases, resumption, metrics.",
    "spec/versioning.md": "Whether the format can change, and what old and new programs do with each other's logs.",
    "spec/views.md": "How the final loss, the curve, the duration and other facts of a run are computed.",
    "spec/writing.md": "How a writer appends lines so that none is lost: when it writes, one writer at a time, repair.",
}
"""What the pages that are written elsewhere are for; rules and kinds say it in `schemas/`."""
_OF_THE_ROOT = {"changelog.md": "CHANGELOG.md", "governance.md": "GOVERNANCE.md:page", "security.md": "SECURITY.md"}
"""The pages of the root; after a colon, the part that the site shows."""
_LINKS = {"governance.md": {"registry": "reference/registry.md", "versions": "spec/versioning.md"}}
"""Where links of a page lead on the site, if not to the same place as in the tree."""
_EARLIER = re.compile(r"^\[(\S+) in ([\d.]+)\]: \S+/earlier/\2\.zip$", re.MULTILINE)
"""Links to a page of an earlier revision, which only the site has: in the tree they lead to its archive."""
_LINK = re.compile(r"\]\(([\w-]+\.md)[)#]")


def stubs(root: Path) -> dict[str, str]:
    """Return the stub of every page that is written elsewhere, by its path from *root*."""
    return {f"docs/{page}": _stub(root, page, source) for page, source in _sources(root).items()}


def navigation(root: Path) -> dict[str, str]:
    """Return mkdocs.yml with every page that is written elsewhere in its navigation."""
    configuration = (root / "mkdocs.yml").read_text(encoding="utf-8")
    by_hand = _NAVIGATION.sub("", configuration)
    parts = {
        "nav": _navigation(root / "spec"),
        "implementations": _implementations(root, by_hand),
    }

    def filled(match: re.Match[str]) -> str:
        lines = [f"# generated:{match[2]}", *parts[match[2]], f"# /generated:{match[2]}"]
        return "".join(f"{match[1]}{line}\n" for line in lines)

    return {"mkdocs.yml": _NAVIGATION.sub(filled, configuration)}


_NO_IMPLEMENTATIONS = {"engine", "vscode"}
"""Rust's implementation as a module of Python, and TypeScript's in an editor, are not others."""


def _sources(root: Path) -> dict[str, str]:
    """Return where each page of the site is written, by its path below ``docs/``."""
    specification = {f"spec/{page}": f"spec/{page}" for page in _pages(root / "spec")}
    corpus = {
        f"conformance/{path.name}": f"conformance/{path.name}" for path in sorted((root / "conformance").glob("*.md"))
    }
    languages = {f"implementations/{name}.md": f"reference/{name}/README.md" for name in _languages(root)}
    return _OF_THE_ROOT | specification | corpus | languages


def _languages(root: Path) -> list[str]:
    return sorted(
        path.parent.name
        for path in (root / "reference").glob("*/README.md")
        if path.parent.name not in _NO_IMPLEMENTATIONS
    )


def _implementations(root: Path, by_hand: str) -> list[str]:
    """Return the pages on the corpus and on each implementation as lines of YAML, except those placed *by_hand*."""
    pages = [page for page in _sources(root) if f"- {page}\n" not in by_hand]
    corpus = sorted((page for page in pages if page.startswith("conformance/")), key=lambda page: "README" not in page)
    languages = [page for page in pages if page.startswith("implementations/")]
    sections = {"Corpus": corpus, "Implementations": languages}
    return [
        line
        for title, held in sections.items()
        if held
        for line in (f"- {title}:", *(f"    - {page}" for page in held))
    ]


def _pages(spec: Path) -> list[str]:
    return sorted(path.relative_to(spec).as_posix() for path in spec.rglob("*.md"))


def _stub(root: Path, page: str, source: str) -> str:
    """Return the page *source* with what only the site has: diagrams, and where the ids of its statements lead."""
    # The heading must be the first element, because it is the title of the page.
    included = f'--8<-- "{source}"\n\n<!-- Made by `make docs`; the page is {source}. -->\n'
    text = (root / source).read_text(encoding="utf-8") if page.startswith("spec/") else ""
    up = "../" * page.count("/")
    leads = {name: up + address_of(name) for name in _STATEMENT.findall(text)} | _LINKS.get(page, {})
    leads |= {f"{name} in {revision}": f"{revision}/{name}.md" for name, revision in _EARLIER.findall(text)}
    links = "".join(f"[{name}]: {address}\n" for name, address in leads.items())
    pictures = "".join(_FIGURE.format(name=name) for name in _PICTURES.get(page, ()))
    description = _description(page)
    front = f"---\ndescription: {json.dumps(description, ensure_ascii=False)}\n---\n" if description else ""
    return front + included + pictures + (f"\n{links}" if links else "")


def _description(page: str) -> str:
    """Return what the page of a rule, a kind or a chapter is for, in one line; empty for others."""
    folder, _, name = page.removesuffix(".md").rpartition("/")
    if folder == "spec/rules":
        return next((f"{rule['summary']}: {rule['help']}" for rule in sources.rules() if rule["id"] == name), "")
    profile = folder.removeprefix("spec/")
    if profile in sources.PROFILES:
        return str(sources.kinds(profile)[name].get("description", "")) if name in sources.kinds(profile) else ""
    return _DESCRIPTIONS.get(page, "")


def _navigation(spec: Path) -> list[str]:
    """Return every page of *spec* as lines of YAML: chapters, a section for each profile, and the section Rules."""
    lines = _entries(_chapters(spec))
    for profile in sources.PROFILES:
        lines += _section(profile, _entries(_ordered(spec, profile, list(sources.kinds(profile)))))
    rules: list[str] = []
    for layer, title in _LAYER_TITLES.items():
        names = [f"rules/{rule['id']}.md" for rule in sources.rules() if rule["layer"] == layer]
        rules += _section(title, _entries([name for name in names if (spec / name).exists()]))
    return lines + (_section("Rules", [f"- {RULES_INDEX}", *rules]) if rules else [])


def _section(title: str, entries: list[str]) -> list[str]:
    return [f"- {title}:", *(f"    {entry}" for entry in entries)] if entries else []


def _entries(pages: list[str]) -> list[str]:
    return [f"- spec/{page}" for page in pages]


def _chapters(spec: Path) -> list[str]:
    """Return the chapters, the index first, the others as its part "Chapters" links to them, and then by name."""
    present = [path.name for path in sorted(spec.glob("*.md"))]
    index = [name for name in _INDEX_NAMES if name in present]
    texts = [(spec / page).read_text(encoding="utf-8") for page in index]
    linked = [name for text in texts for name in _LINK.findall(text.partition("\n## Chapters\n")[2])]
    return list(dict.fromkeys([*index, *(name for name in linked if name in present), *present]))


def _ordered(spec: Path, folder: str, names: list[str]) -> list[str]:
    """Return the pages of *folder*: its index, those called *names*, and then the rest by name."""
    present = [path.name for path in sorted((spec / folder).glob("*.md"))]
    wanted = [*_INDEX_NAMES, *(f"{name}.md" for name in names)]
    return [f"{folder}/{name}" for name in dict.fromkeys([*(n for n in wanted if n in present), *present])]
