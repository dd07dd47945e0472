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


def test_findings_and_notes_have_a_place_on_every_axis(tmp_path: Path) -> None:
    """Epoch and tokens are those that the stream has given last."""
    scalars = b'{"kind":"scalars","t":3.0,"step":2,"epoch":0.5,"values":{"tokens_seen":4096}}\n'
    note = b'{"kind":"note","t":3.5,"text":"lower the rate"}\n'
    write_run(tmp_path / "runs" / "run", START, step(1), step(2), scalars, note, b"lost\n", step(3), END)
    with served(tmp_path / "runs", tmp_path / "cache") as client:
        run = client.json("/api/run", run="run")
    (finding,) = [each for each in run["findings"] if each["rule"] == "invalid-json"]
    assert (2, 3.5, 0.5, 4096) == tuple(finding[name] for name in ("step", "t", "epoch", "tokens"))
    (shown,) = run["notes"]
    assert (2, 3.5, 0.5, 4096) == tuple(shown[name] for name in ("step", "t", "epoch", "tokens"))
