"""The page on formats of other tools says what the modules that convert them declare."""

from __future__ import annotations

from pathlib import Path

import pytest

from toyspec.convert.format_modules import HOMES, load

_PAGE = Path(__file__).resolve().parents[3] / "docs/reference/formats.md"


def _rows(module: object) -> list[str]:
    """Return what the section of a format has, one item for each line of the page."""
    known = module.FORMAT  # type: ignore[attr-defined]
    causes = (*known.import_causes, *known.export_causes)
    return [
        f"## {known.title} {{#{known.name}}}",
        f"`{known.name}`: {known.files}. Tested with {known.version}.",
        *(f"| {row.theirs} | {row.ours} |" for row in known.mapping),
        *(f"| `{cause.name}` | {cause.effect} | {cause.meaning} |" for cause in causes),
        *(f"- {note}" for note in known.notes),
    ]


@pytest.mark.parametrize("name", list(HOMES))
def test_section_of_a_format_is_what_its_module_declares(name: str, tmp_path: Path) -> None:
    """Mapping, causes and notes are there, in this order and no others, and its row has what it needs.

    A folder without any of its files is of no format.
    """
    page = _PAGE.read_text(encoding="utf-8")
    module = load(name)
    section = "## " + page.partition(f" {{#{name}}}\n")[0].rpartition("\n## ")[2]
    section += f" {{#{name}}}\n" + page.partition(f" {{#{name}}}\n")[2].partition("\n## ")[0]
    skipped = ("|---", "| there |", "| cause |", "What an ")
    assert _rows(module) == [line for line in section.splitlines() if line and not line.startswith(skipped)]
    known = module.FORMAT
    needs = [f"with `toyspec[{extra}]`" if extra else "yes" for extra in (known.import_needs, known.export_needs)]
    can = [hasattr(module, what) for what in ("find_runs", "export")]
    cells = [need if is_there else "no" for need, is_there in zip(needs, can, strict=True)]
    assert f"| [{known.title}](#{name}) | {' | '.join([known.in_place, *cells, known.lossless])} |" in page
    assert not hasattr(module, "recognise") or not module.recognise(str(tmp_path))
