"""What the page of one run shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from view_client import END, START, served, step, write_run

if TYPE_CHECKING:
    from pathlib import Path


def test_findings_have_the_place_of_their_line(tmp_path: Path) -> None:
    """A finding has step and time of its record, or those of the last record before a line that is none."""
    lines = (START, step(1), step(2), b"lost\n", step(3), step(9), END)
    write_run(tmp_path / "runs" / "run", *lines)
    with served(tmp_path / "runs", tmp_path / "cache") as client:
        found = {each["rule"]: (each["step"], each["t"]) for each in client.json("/api/run", run="run")["findings"]}
    assert (2, 2.5) == found["invalid-json"]
