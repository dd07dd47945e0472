"""Makes the part of the page of formats that lists the dialects, from schemas/dialects/."""

from __future__ import annotations

from typing import Any, Literal

from codegen import sources
from toyspec.convert.formats import exportable, importable, load

_HEAD = """\
## Logs that are read in place {#dialects}

`toyspec check`, `show`, `ls`, `compare` and `tail`, and `toyspec.read`, read these logs of other programs where they
are. Each is a *dialect*, a file in `schemas/dialects/`. `toyspec import` makes toy/v1 runs of them. How a file is
recognized and what can be chosen is described in [Read any training log](../how-to/read-any-log.md).

| dialect | form | step | follow | import | export | what cannot be known |
|---|---|---|---|---|---|---|
"""
_FORMS = {
    "lines": "JSON Lines",
    "prefixed": "JSON after a prefix",
    "document": "a JSON document",
    "csv": "CSV",
    "pattern": "text that matches a pattern",
}
_RANKS = {"program": 0, "shape": 1, "guess": 2}


def dialects_section() -> str:
    """Return the section: one row for each dialect, those of one program first."""
    found = sorted(sources.dialects(), key=lambda dialect: (_RANKS[dialect["rank"]], dialect["title"].lower()))
    return _HEAD + "\n".join(map(_row, found)) + "\n"


def _row(dialect: dict[str, Any]) -> str:
    form = dialect["form"]
    name = "TSV" if form.get("delimiter") == "\t" else _FORMS[form["type"]]
    source = dialect.get("source")
    writer = f", {source['program']} {source.get('version', '')}".rstrip() if source else ""
    steps = ", ".join(f"`{key}`" for key in dialect["step"][:3]) + (", …" if len(dialect["step"]) > 3 else "")
    follow = "when it is rewritten" if form["type"] == "document" else "yes"
    title = f"`{dialect['name']}`: {dialect['title']}{writer}"
    converts = [support(dialect["name"], direction) for direction in ("import", "export")]
    return f"| {' | '.join([title, name, steps, follow, *converts, dialect['loses']])} |"


def support(name: str, direction: Literal["import", "export"]) -> str:
    """Return whether the format *name* is converted in a direction, and with which extra."""
    if name not in (importable() if direction == "import" else exportable()):
        return "no"
    # A dialect that is read in place needs nothing, whatever the other files of its program need.
    known = load(name).FORMAT if name in exportable() else None
    needs = known.export_needs if known is not None and direction == "export" else None
    return f"with `toyspec[{needs}]`" if needs else "yes"
