"""Makes one page of requirements for each chapter, and the index of all: the evidence for each statement."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

from codegen.site.addresses import address_of, anchor_of, chapter_of
from codegen.site.case_text import example, expected, is_shown_verbatim
from codegen.site.evidence import evidence, implementations
from codegen.site.statements import moved, statements
from conformance.escaping import markdown
from conformance.probes.question import ROLES
from conformance.revisions import FIRST_LISTED, as_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codegen.site.evidence import Evidence
    from codegen.site.statements import Statement
    from conformance.cases import Case

INDEX = "docs/requirements.md"
FOLDER = "docs/requirements"
_ID = re.compile(r"\[((?:[a-z0-9_]+/)+[a-z0-9_-]+)\](?![(:])")
_TITLES = ("accepted", "rejected")
_TITLES_OF_TRACES = ("kept", "broken")

_INDEX = """\
---
hide:
  - toc
search:
  exclude: true
---
# Requirements

<!-- Made by `make docs` from spec/ and conformance/. -->

Every normative statement of the [specification](spec/README.md), in its order. Each link leads to the cases of the
[corpus](conformance/README.md) that show whether an implementation keeps the statement. The list is data as well:
[`requirements.json`](spec/requirements.json).

Of {count} statements, {observable} are *observable*: a case can show whether one is kept. For the other {excluded},
the page gives the reason why no case can. *Cases* counts those to be accepted and those to be rejected; *mutants*
counts deliberately wrong implementations that break the statement and that the corpus catches. *Since* names the
[revision](spec/versioning.md#revisions) that added the statement, or changed what it demands; without it, the statement
is in revision 1.2 as it is here.

| statement | keyword | applies to | since | cases | mutants |
|---|---|---|---|---|---|
{rows}
"""

_HEAD = """\
---
title: "Requirements: {chapter}"
search:
  exclude: true
---
# Requirements: {chapter}

<!-- Made by `make docs` from spec/ and conformance/. -->

The statements of these parts of the specification, each with the cases that show whether an implementation keeps it:
{parts}.
[All requirements](../requirements.md)
"""


def requirement_pages() -> dict[str, str]:
    """Return the text of every page by its path from the root."""
    shown = evidence()
    found = statements()
    made = {INDEX: _index(found, shown)}
    by_chapter = sorted(found, key=lambda statement: chapter_of(statement.id))
    for chapter, grouped in groupby(by_chapter, key=lambda statement: chapter_of(statement.id)):
        members = list(grouped)
        parts = ", ".join(dict.fromkeys(statement.id.partition("/")[0] for statement in members))
        here = f"{FOLDER}/{chapter}.md"
        sections = (line for statement in members for line in _section(statement, shown[statement.id], here))
        made[here] = "\n".join([_HEAD.format(chapter=chapter, parts=parts), *sections])
    return made


def _index(found: Sequence[Statement], shown: Mapping[str, Evidence]) -> str:
    observable = sum("observable" in statement.entry for statement in found)
    rows = "\n".join(_row(statement, shown[statement.id]) for statement in found)
    return _INDEX.format(count=len(found), observable=observable, excluded=len(found) - observable, rows=rows)


def _row(statement: Statement, shown: Evidence) -> str:
    text = _moved(statement.text, statement.page, INDEX).replace("\n", " ").replace("|", "\\|")
    counts = f"{len(shown.accepts)} + {len(shown.rejects)}" if shown.accepts or shown.rejects else ""
    applies = ", ".join(statement.entry["applies"])
    link = f"[{statement.id}]({address_of(statement.id)})"
    facts = [statement.entry["keyword"], applies, _since(statement), counts, str(len(shown.mutants) or "")]
    return f"| {link}<br>{text} | {' | '.join(facts)} |"


def _since(statement: Statement) -> str:
    """Return the revision that added a statement, or changed it; "" if both was before revision 1.3."""
    entry = statement.entry
    return entry.get("since") or (f"changed in {entry['amended']}" if "amended" in entry else "")


def _section(statement: Statement, shown: Evidence, here: str) -> Iterator[str]:
    yield f"## {statement.id} {{ #{anchor_of(statement.id)} }}\n"
    text = _moved(statement.text, statement.page, here).replace("\n", "\n> ")
    yield f"> {text}\n"
    yield from _facts(statement, shown, here)
    yield from _cases(statement, shown)


def _facts(statement: Statement, shown: Evidence, here: str) -> Iterator[str]:
    page, heading = statement.page, f"{statement.page.removesuffix('.md')}: {statement.heading}"
    rows = [
        ("In", _moved(f"[{heading}]({page}#{statement.anchor})", "README.md", here)),
        ("Applies to", ", ".join(statement.entry["applies"])),
        ("Since revision", _since(statement)),
    ]
    rule = statement.entry.get("rule")
    if rule:
        rows.append(("A breach is reported as", _moved(f"[{rule}](rules/{rule}.md)", "README.md", here)))
    if "observable" in statement.entry:
        rows.append(("A case compares", markdown(statement.entry["observable"])))
        rows.append(("Kept by", _kept_by(statement, shown)))
    else:
        rows.append(("No case can show it", markdown(statement.entry["excluded"])))
    if shown.mutants:
        rows.append(("Mutants that break it, all caught", str(len(shown.mutants))))
    rows += [("Tested by", f"`{name}` in `{path}`") for path, name in shown.tests]
    yield from (f"- {name}: {value}" for name, value in rows if value)
    yield ""


def _kept_by(statement: Statement, shown: Evidence) -> str:
    """Return the implementations that follow *statement* in the tested roles, with the exceptions."""
    asked = [role for role in ROLES if role in shown.roles & set(statement.entry["applies"])]
    last = as_numbers(statement.entry.get("amended") or statement.entry.get("since") or FIRST_LISTED)
    entries = [
        entry
        for entry in implementations()
        if set(entry["roles"]) & set(asked) and last <= as_numbers(entry["revision"])
    ]
    limits = [
        f"{markdown(entry['name'])} as {role}: {limit}"
        for entry in entries
        for role, limit in entry["except"].get(statement.id, {}).items()
        if role in asked
    ]
    return f"{len(entries)} implementations" + (f"; {', '.join(limits)}" if limits else "") if entries else ""


def _cases(statement: Statement, shown: Evidence) -> Iterator[str]:
    titles = _TITLES if "observable" in statement.entry else _TITLES_OF_TRACES
    for title, by_folder in zip(titles, (shown.accepts, shown.rejects), strict=True):
        if by_folder:
            yield f'??? example "{len(by_folder)} {"case" if len(by_folder) == 1 else "cases"}: {title}"\n'
            yield "\n".join(
                f"    {line}" if line else "" for part in _case_list(by_folder) for line in part.split("\n")
            )
            yield ""


def _case_list(by_folder: Mapping[str, Sequence[Case]]) -> Iterator[str]:
    alone = [cases[0] for cases in by_folder.values() if len(cases) == 1 and example(cases[0])]
    first = min(alone, key=lambda case: (not is_shown_verbatim(case), len(case.data)), default=None)
    if first:
        yield f"`{first.name}`: {_cell(first.why)}\n"
        yield example(first)
        yield f"Expected: {expected(first)}.\n"
    rest = {name: cases for name, cases in by_folder.items() if cases[0] is not first}
    if not rest:
        return
    yield "| case | expected |\n|---|---|"
    for name, cases in rest.items():
        members = f", {len(cases)} members" if len(cases) > 1 else ""
        yield f"| `{name}`{members}<br>{_cell(cases[0].why)} | {expected(cases[0]) if not members else ''} |"
    yield ""


def _cell(text: str) -> str:
    """Return prose for a cell; code in it stays code."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def _moved(text: str, page: str, here: str) -> str:
    """Return *text* of *page*, a path below ``spec/``, with links that work on the page *here*; ids become links."""
    up = "../" * (page.count("/") + 1)
    linked = _ID.sub(lambda match: f"[{match[1]}]({up}{address_of(match[1])})", text)
    return moved(linked, f"docs/spec/{page}", here)
