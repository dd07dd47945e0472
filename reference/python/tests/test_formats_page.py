"""The page on formats of other tools has a section for each, and says which can be imported and exported."""

from __future__ import annotations

from pathlib import Path

import pytest

from toyspec.convert.destinations.destination import TOOLS
from toyspec.convert.finding import FORMATS, importer

_PAGE = Path(__file__).resolve().parents[3] / "docs/reference/formats.md"


@pytest.mark.parametrize("name", list(FORMATS))
def test_format_has_a_row_and_a_section(name: str, tmp_path: Path) -> None:
    """The row has what an import and an export need; a folder without any of its files is of no format."""
    page = _PAGE.read_text(encoding="utf-8")
    known = FORMATS[name]
    assert f"## {known.title} {{#{name}}}\n\n`{name}`: " in page
    _, imports, exports, _ = page.partition(f"| [{known.title}](#{name}) | ")[2].partition("\n")[0].split(" | ")
    assert imports == _support(known.needs)
    assert exports == (_support(TOOLS[name].extra) if name in TOOLS else "no")
    assert [] == list(importer(name).find_runs(str(tmp_path)))


def _support(extra: str | None) -> str:
    return f"with `toyspec[{extra}]`" if extra else "yes"
