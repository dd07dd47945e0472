"""Makes the end of the page on the formats of other tools, which lists the dialects; the rest is written by hand."""

from __future__ import annotations

from codegen import sources
from codegen.dialects_page import dialects_section

PAGE = "docs/reference/formats.md"

_MARK = "<!-- From here on: made by `make generate` from schemas/dialects/; do not edit. -->\n\n"


def formats_page() -> str:
    """Return the page with the section on dialects as it is now."""
    written = (sources.ROOT / PAGE).read_text(encoding="utf-8").partition(_MARK)[0]
    return written + _MARK + dialects_section()
