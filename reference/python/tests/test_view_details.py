"""What the page of one run shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

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


def test_findings_are_where_the_tokens_of_all_steps_put_them(tmp_path: Path) -> None:
    """``tokens`` of a step are those of the step alone; after steps that were abandoned, how many is not known."""
    steps = [b'{"kind":"step","t":%d.0,"step":%d,"loss":1.0,"tokens":512}\n' % (at, at) for at in (1, 2, 3)]
    resume = b'{"kind":"run_resume","t":4.0,"from_step":2}\n'
    notes = [b'{"kind":"note","t":%d.5,"text":"here"}\n' % at for at in (2, 3, 4)]
    write_run(tmp_path / "runs" / "run", START, *steps[:2], notes[0], steps[2], notes[1], resume, notes[2], END)
    with served(tmp_path / "runs", tmp_path / "cache") as client:
        shown = client.json("/api/run", run="run")["notes"]
    assert [1024, 1536, None] == [note["tokens"] for note in shown]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("metrics.jsonl", ['{"iter":%d,"loss":1.0}']),
        ("metrics.jsonl", ['{"global_step":%d,"loss":1.0}']),
        ("metrics.jsonl", ['{"_step":%d,"loss":1.0}']),
        ("metrics.csv", ["global_step,loss", "%d,1.0"]),
    ],
)
def test_findings_of_other_programs_are_at_the_step_that_their_dialect_names(
    tmp_path: Path, name: str, lines: list[str]
) -> None:
    """Without a step, no chart could show their flag."""
    *head, line = lines
    rows = [line % 10, line % 20, "lost", line % 30]
    run = tmp_path / "runs" / "run"
    run.mkdir(parents=True)
    (run / name).write_text("\n".join([*head, *rows, ""]))
    with served(tmp_path / "runs", tmp_path / "cache") as client:
        (identifier,) = client.rows()
        found = client.json("/api/run", run=identifier)
    (finding,) = [each for each in found["findings"] if each["line"] == len(head) + 3]
    assert (20, finding["severity"]) == (finding["step"], "error")


def test_findings_of_other_programs_have_time_epoch_and_tokens_of_their_curves(tmp_path: Path) -> None:
    """A time of day is that since the first one, as the curves have it."""
    row = '{"global_step":%d,"epoch":%s,"_timestamp":%s,"num_tokens":%d,"loss":1.0}'
    rows = [row % (1, 0.25, 1.8e9, 512), row % (2, 0.5, 1.8e9 + 60, 1024), "lost", row % (3, 0.75, 1.8e9 + 90, 2048)]
    run = tmp_path / "runs" / "run"
    run.mkdir(parents=True)
    (run / "metrics.jsonl").write_text("\n".join([*rows, ""]))
    with served(tmp_path / "runs", tmp_path / "cache") as client:
        found = client.json("/api/run", run="run")
        times = client.curves("loss", "run", x="time")
    (finding,) = found["findings"]
    assert (2, 60.0, 0.5, 1024) == tuple(finding[name] for name in ("step", "t", "epoch", "tokens"))
    assert [0.0, 60.0, 90.0] == list(times[0][1]["time"])


def test_media_references_and_histograms_are_sent(tmp_path: Path) -> None:
    """The page of a run has them from the server, as it has them from a folder."""
    media = b'{"kind":"media","t":1.0,"step":1,"name":"p","media_type":"image/png","sha256":"%s"}\n' % (b"0" * 64)
    reference = b'{"kind":"reference","t":1.0,"uri":"s3://b/w","role":"checkpoint"}\n'
    bins = b'{"kind":"histogram","t":1.0,"step":1,"name":"h","edges":[0,1],"counts":[2]}\n'
    write_run(tmp_path / "runs" / "run", START, step(1), media, reference, bins, END)
    with served(tmp_path / "runs", tmp_path / "cache") as client:
        run = client.json("/api/run", run="run")
    assert [("p", "0" * 64)] == [(each["name"], each["sha256"]) for each in run["media"]]
    assert ["s3://b/w"] == [each["uri"] for each in run["references"]]
    (series,) = run["histograms"]
    assert ("histogram", "h", [[0, 1]]) == (
        series["kind"],
        series["name"],
        [each["edges"] for each in series["records"]],
    )
