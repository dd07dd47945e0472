"""Reports as notebooks show them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import toyspec

if TYPE_CHECKING:
    from pathlib import Path

START = '{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"<b>r</b>"}\n'
BAD = '{"kind":"<script>alert(1)</script>","t":1.0,"\\u202e<i>":NaN}\n'


def test_reports_are_tables_without_markup_of_the_log(tmp_path: Path) -> None:
    """Every finding and gap has a row, those beyond a limit are counted, and log text is text."""
    run = tmp_path / "<img src=x>"
    run.mkdir()
    (run / "events.jsonl").write_text(START + BAD * 300, "utf-8")
    checked = toyspec.check(tmp_path)._repr_html_()
    reading = toyspec.read(run / "events.jsonl", mode="salvage").report._repr_html_()
    for shown in (checked, reading):
        assert {"table", "thead", "tbody", "tr", "th", "td", "p"} == set(re.findall(r"<(\w+)", shown))
        assert "non-finite-number" in shown
        assert re.search(r"<p>[12]\d\d more</p>", shown)
    assert "&lt;img src=x&gt;/events.jsonl:2</td><td>error</td>" in checked
    assert "<td>damaged</td><td>toy/v1</td><td>1</td>" in reading
