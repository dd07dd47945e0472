"""The package stays as light as the page on its design says."""

from __future__ import annotations

import io
import re
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "reference/python/toyspec"
PAGE = ROOT / "docs/explanation/design.md"
WEIGHTLESS = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip
LINE_ENDS = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
TOLERANCE = 1.1


def tokens(source: bytes) -> int:
    """Return the number of tokens of *source* that are code: comments, docstrings and line breaks weigh nothing."""
    count, is_at_start = 0, True
    for token in tokenize.tokenize(io.BytesIO(source).readline):
        if token.type in WEIGHTLESS:
            is_at_start = is_at_start or token.type in LINE_ENDS
        elif not (token.type == tokenize.STRING and is_at_start):
            count, is_at_start = count + 1, False
    return count


def test_docstrings_and_line_breaks_weigh_nothing() -> None:
    """Neither a shorter docstring nor a longer line makes code lighter."""
    assert tokens(b"a = f(1)\n") == tokens(b'"""What it is."""\n\n\na = f(\n    1\n)  # so\n') == 6


def test_each_room_keeps_its_weight() -> None:
    """No room is heavier than the page says by more than a tenth, and the page lists every room."""
    found: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).parts[:-1]
        if not {"generated", "data"} & {*parts}:
            found["/".join(parts[:2] if parts[:1] == ("core",) else parts[:1]) or "toyspec"] += tokens(
                path.read_bytes()
            )
    rows = re.findall(r"^\| `([\w/]+)` \|[^|]*\| ([\d.]+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    allowed = {name: 1000 * float(thousands) for name, thousands in rows}
    assert found.keys() == allowed.keys()
    assert {} == {name: weight for name, weight in found.items() if weight > TOLERANCE * allowed[name]}
