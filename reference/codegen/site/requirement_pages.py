"""Makes a page for each statement of the specification, and the index of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from codegen.site.case_text import example, expected, is_shown_as_it_is
from codegen.site.evidence import evidence, implementations
from codegen.site.statements import moved, statements
from conformance.asking.question import ROLES
from conformance.escaping import markdown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codegen.site.evidence import Evidence
    from codegen.site.statements import Passage, Statement
    from conformance.cases import Case

INDEX = "docs/requirements.md"
FOLDER = "docs/requirements"
_SUFFIX = ".md"
_ID = re.compile(r"\[((?:[a-z0-9_]+/)+[a-z0-9_-]+)\](?![(:])")
_TITLES = (
    ("To be accepted", "An implementation that is too strict about it fails here."),
    ("To be refused or reported", "An implementation that is too lax about it fails here."),
)
_TITLES_OF_TRACES = (("As where it is kept", ""), ("As where it is broken", ""))
_MOST_ROWS = 10
"""Longer tables of cases are folded."""

_NOT_SEARCHED = " { data-search-exclude }"
"""Behind a heading: the index of the search, which each page loads, has the statement alone, not what shows it."""

_INDEX = """\
---
hide:
  - toc
---
# Requirements

<!-- Made by `make docs` from spec/ and conformance/. -->

Every normative statement of the [specification](spec/README.md), in its order, each with a page of its own: what
is said about it, the cases of the [corpus](conformance/README.md) that show whether it is kept, and which
implementations keep it. The list is data as well: [`requirements.json`](spec/requirements.json).

Of {count} statements, {observable} are *observable*: a case can show whether one is kept. For the other {excluded},
the page says why none can. *Cases* counts those that have to be accepted and those that have to be refused; *told*
counts deliberately wrong implementations that break the statement and are found out.

| statement | keyword | binds | cases | told |
|---|---|---|---|---|
{rows}
"""


def requirement_pages() -> dict[str, str]:
    """Return the text of every page by its path from the root."""
    shown = evidence()
    found = statements()
    made = {INDEX: _index(found, shown)}
    for place, statement in enumerate(found):
        neighbours = [found[place - 1] if place else None, found[place + 1] if place + 1 < len(found) else None]
        made[_path(statement)] = "\n".join(_page(statement, shown[statement.id], neighbours))
    return made


def _path(statement: Statement) -> str:
    return f"{FOLDER}/{statement.id}.md"


def _index(found: Sequence[Statement], shown: Mapping[str, Evidence]) -> str:
    observable = sum("observable" in statement.entry for statement in found)
    rows = "\n".join(_row(statement, shown[statement.id]) for statement in found)
    return _INDEX.format(count=len(found), observable=observable, excluded=len(found) - observable, rows=rows)


def _row(statement: Statement, shown: Evidence) -> str:
    text = _moved(statement.text, statement.page, INDEX).replace("\n", " ").replace("|", "\\|")
    counts = f"{len(shown.accepts)} + {len(shown.rejects)}" if shown.accepts or shown.rejects else ""
    binds = ", ".join(statement.entry["applies"])
    link = f"[{statement.id}](requirements/{statement.id}.md)"
    return f"| {link}<br>{text} | {statement.entry['keyword']} | {binds} | {counts} | {len(shown.impostors) or ''} |"


def _page(statement: Statement, shown: Evidence, neighbours: Sequence[Statement | None]) -> Iterator[str]:
    here = _path(statement)
    yield f"---\ntitle: {statement.id}\n---"
    yield f"# {statement.id}\n"
    yield "<!-- Made by `make docs` from spec/ and conformance/. -->\n"
    text = _moved(statement.text, statement.page, here).replace("\n", "\n> ")
    yield f"> {text}\n"
    yield from _facts(statement, here)
    if statement.explanation:
        yield f"## Why{_NOT_SEARCHED}\n"
        yield from (f"{_passage(passage, here)}\n" for passage in statement.explanation)
    else:
        yield f"## Around it{_NOT_SEARCHED}\n"
        yield f"{_passage(statement.part, here)}\n"
    yield from _cases(statement, shown)
    yield from _tests(shown)
    yield from _impostors(shown, here)
    yield from _who(statement, shown, here)
    yield from _around(neighbours, here)


def _facts(statement: Statement, here: str) -> Iterator[str]:
    place = _moved(
        f"[{statement.page.removesuffix(_SUFFIX)}: {statement.heading}]({statement.page}#{statement.anchor})",
        "README.md",
        here,
    )
    rule = statement.entry.get("rule")
    rows = [
        ("Said in", place),
        ("Keyword", statement.entry["keyword"]),
        ("Binds", ", ".join(statement.entry["applies"])),
    ]
    if rule:
        rows.append(("A breach is reported as", _moved(f"[{rule}](rules/{rule}.md)", "README.md", here)))
    if "observable" in statement.entry:
        rows.append(("A case looks at", markdown(statement.entry["observable"])))
    else:
        rows.append(("No case can show it", markdown(statement.entry["excluded"])))
    yield from (f"- {name}: {value}" for name, value in rows)
    yield ""


def _passage(passage: Passage, here: str) -> str:
    return _moved(passage.text, passage.page, here)


def _cases(statement: Statement, shown: Evidence) -> Iterator[str]:
    if not (shown.accepts or shown.rejects):
        return
    yield f"## Cases{_NOT_SEARCHED}\n"
    is_observable = "observable" in statement.entry
    if not is_observable:
        yield "No case can show who keeps it. These have in their bytes what is left where it is kept, or broken.\n"
    titles = _TITLES if is_observable else _TITLES_OF_TRACES
    for (title, meaning), by_folder in zip(titles, (shown.accepts, shown.rejects), strict=True):
        if by_folder:
            yield f"### {title}{_NOT_SEARCHED}\n"
            if meaning:
                yield f"{meaning}\n"
            yield from _case_list(by_folder)


def _case_list(by_folder: Mapping[str, Sequence[Case]]) -> Iterator[str]:
    alone = [cases[0] for cases in by_folder.values() if len(cases) == 1 and example(cases[0])]
    first = min(alone, key=lambda case: (not is_shown_as_it_is(case), len(case.data)), default=None)
    if first:
        yield f"`{first.name}`: {_cell(first.why)}\n"
        yield example(first)
        yield f"Expected: {expected(first)}.\n"
    rest = {name: cases for name, cases in by_folder.items() if cases[0] is not first}
    if not rest:
        return
    indent = "    " if len(rest) > _MOST_ROWS else ""
    if indent:
        yield f'??? note "{len(rest)} more"\n'
    yield f"{indent}| case | expected |\n{indent}|---|---|"
    for name, cases in rest.items():
        members = f", {len(cases)} members" if len(cases) > 1 else ""
        yield f"{indent}| `{name}`{members}<br>{_cell(cases[0].why)} | {expected(cases[0]) if not members else ''} |"
    yield ""


def _cell(text: str) -> str:
    """Return prose for a cell; code in it stays code."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def _tests(shown: Evidence) -> Iterator[str]:
    if shown.tests:
        yield f"## Tests{_NOT_SEARCHED}\n\nIn the source tree, the Python reference is tested for it by\n"
        yield from (f"- `{name}` in `{path}`" for path, name in shown.tests)
        yield ""


def _impostors(shown: Evidence, here: str) -> Iterator[str]:
    if shown.impostors:
        link = _moved("[Wrong implementations](reference/conformance.md#kill-score)", "", here, root="docs")
        yield f"## Told apart{_NOT_SEARCHED}\n\n{link} that break it, and that the corpus has to tell:\n"
        yield "| impostor | what is wrong |\n|---|---|"
        yield from (f"| `{impostor.name}` | {markdown(impostor.about)} |" for impostor in shown.impostors)
        yield ""


def _who(statement: Statement, shown: Evidence, here: str) -> Iterator[str]:
    asked = [role for role in ROLES if role in shown.roles & set(statement.entry["applies"])]
    if not asked or "excluded" in statement.entry:
        return
    link = _moved("[all implementations](reference/conformance.md)", "", here, root="docs")
    yield f"## Who keeps it{_NOT_SEARCHED}\n\nAs it was proven when {link} were last asked.\n"
    yield f"| implementation | language | {' | '.join(asked)} |\n|---|---|{'---|' * len(asked)}"
    for entry in implementations():
        limits = entry["except"].get(statement.id, {})
        cells = (limits.get(role, "kept") if role in entry["roles"] else "-" for role in asked)
        yield f"| {markdown(entry['name'])} | {markdown(entry['language'])} | {' | '.join(cells)} |"
    yield ""


def _around(neighbours: Sequence[Statement | None], here: str) -> Iterator[str]:
    before, after = (
        statement and _moved(f"[{statement.id}]({_path(statement)})", "", here, root=".") for statement in neighbours
    )
    index = _moved("[all requirements](requirements.md)", "", here, root="docs")
    parts = [f"before: {before}" if before else "", f"after: {after}" if after else "", index]
    yield "---\n\n" + " · ".join(filter(None, parts))


def _moved(text: str, page: str, here: str, *, root: str = "docs/spec") -> str:
    """Return *text* of *page*, a path below *root*, with links that hold at *here*; ids of statements become links."""
    up = "../" * (page.count("/") + 1)
    linked = (
        _ID.sub(lambda match: f"[{match[1]}]({up}requirements/{match[1]}.md)", text) if root == "docs/spec" else text
    )
    return moved(linked, f"{root}/{page}", here)
