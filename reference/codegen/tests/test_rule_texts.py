from __future__ import annotations

import pytest

from codegen.rule_texts import sections


@pytest.mark.parametrize(
    ("page", "lines"),
    [
        ("text of\na paragraph\n", ["text of a paragraph"]),
        ("<!-- generated:rule -->\nfact\n<!-- /generated -->\n", ["fact"]),
        ("see [this](a.md#b) **now**", ["see this now"]),
        ("**[a/b]** A reader MUST wait.", ["A reader MUST wait."]),
        ("```jsonl\n{}\n\n# no title\n```\nafter", ["    {}", "", "    # no title", "", "after"]),
        ("| a | b |\n|---|---|\n| ccc | d |\n", ["a    b", "ccc  d"]),
        (f"| a | b |\n|---|---|\n| {'c' * 80} | d |\n", [f"a: {'c' * 80}", "b: d"]),
        ("- one\n  more\n- two\n1. three\n", ["- one more", "", "- two", "", "1. three"]),
    ],
    ids=["paragraph", "comment", "marks", "requirement", "code", "table", "wide table", "list"],
)
def test_markdown(page: str, lines: list[str]) -> None:
    """Each construct of a page becomes plain text."""
    assert {"rule": [], "Why": lines} == sections(f"# rule\n\n## Why\n\n{page}")
