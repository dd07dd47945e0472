"""Makes the page on the formats of other tools, from the descriptions in the modules that convert them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.dialects_page import dialects_section
from toyspec.convert.format_modules import HOMES, load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.formats import Format

PAGE = "docs/reference/formats.md"

_HEAD = """\
---
description: "Which files of other tools toyspec reads and converts, to and from each of them, and what is lost."
---
# Formats of other tools

<!-- Made by `make generate` from toyspec/convert/; do not edit. -->

What [`toyspec import`](cli.md#toyspec-import) reads, what [`toyspec export`](cli.md#toyspec-export) writes, and what is
lost. What is read in place can be checked, shown and followed without an import.

| format | in place | import | export | lossless |
|---|---|---|---|---|
"""


def formats_page() -> str:
    """Return the page: one row and one section for each format."""
    modules = [load(name) for name in HOMES]
    rows = "\n".join(_row(module) for module in modules)
    return "\n".join(
        [
            _HEAD + rows,
            "",
            _REPORT,
            *(section for module in modules for section in _section(module)),
            dialects_section(),
        ]
    )


_REPORT = """\
Both commands report every item: it is carried unchanged, changed, or dropped, with the cause and examples. `--json`
prints the report as [`conversion.json`](../schemas/conversion/v1/conversion.json) describes it, and each imported run
keeps its own part as `import.json`.
"""


def _row(module: object) -> str:
    known: Format = module.FORMAT  # type: ignore[attr-defined]
    reads = _support(hasattr(module, "find_runs"), known.import_needs)
    writes = _support(hasattr(module, "export"), known.export_needs)
    return f"| [{known.title}](#{known.name}) | {known.in_place} | {reads} | {writes} | {known.lossless} |"


def _support(is_there: bool, extra: str | None) -> str:
    if not is_there:
        return "no"
    return f"with `toyspec[{extra}]`" if extra else "yes"


def _section(module: object) -> Iterator[str]:
    known: Format = module.FORMAT  # type: ignore[attr-defined]
    yield f"## {known.title} {{#{known.name}}}\n"
    yield f"`{known.name}`: {known.files}. Tested with {known.version}.\n"
    yield "| there | in toy/v1 |\n|---|---|"
    yield "\n".join(f"| {row.theirs} | {row.ours} |" for row in known.mapping) + "\n"
    for direction, causes in (("import", known.import_causes), ("export", known.export_causes)):
        if causes:
            yield f"What an {direction} may change or drop:\n\n| cause | effect | meaning |\n|---|---|---|"
            yield "\n".join(f"| `{cause.name}` | {cause.effect} | {cause.meaning} |" for cause in causes) + "\n"
    for note in known.notes:
        yield f"- {note}"
    yield ""
