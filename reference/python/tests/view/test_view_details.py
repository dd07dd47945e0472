"""What the page of one run shows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from toyspec import check
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.view.details import detail_of, safe
from view_client import END, START, served, step, write_run

if TYPE_CHECKING:
    from pathlib import Path


def test_findings_and_notes_have_a_place_on_every_axis(tmp_path: Path) -> None:
    """Epoch and tokens are those that the stream has given last."""
    scalars = b'{"kind":"scalars","t":3.0,"step":2,"epoch":0.5,"values":{"tokens_seen":4096}}\n'
    note = b'{"kind":"note","t":3.5,"text":"lower the rate"}\n'
    write_run(tmp_path / "runs" / "run", START, step(1), step(2), scalars, note, b"lost\n", step(3), END)
    with served(tmp_path / "runs") as client:
        run = client.json("/api/run", run="run")
    (finding,) = [each for each in run["findings"] if each["rule"] == "invalid-json"]
    assert (2, 3.5, 0.5, 4096) == tuple(finding[name] for name in ("step", "t", "epoch", "tokens"))
    (shown,) = run["notes"]
    assert (2, 3.5, 0.5, 4096) == tuple(shown[name] for name in ("step", "t", "epoch", "tokens"))


def test_findings_are_where_the_tokens_of_all_steps_put_them(tmp_path: Path) -> None:
    """``tokens`` of a step are those of the step alone; steps that were abandoned count no longer."""
    steps = [b'{"kind":"step","t":%d.0,"step":%d,"loss":1.0,"tokens":512}\n' % (at, at) for at in (1, 2, 3)]
    resume = b'{"kind":"run_resume","t":4.0,"from_step":2}\n'
    notes = [b'{"kind":"note","t":%d.5,"text":"here"}\n' % at for at in (2, 3, 4)]
    write_run(tmp_path / "runs" / "run", START, *steps[:2], notes[0], steps[2], notes[1], resume, notes[2], END)
    with served(tmp_path / "runs") as client:
        shown = client.json("/api/run", run="run")["notes"]
    assert [1024, 1024, 1024] == [note["tokens"] for note in shown]


def test_finding_of_a_table_is_at_the_step_that_its_dialect_names(tmp_path: Path) -> None:
    """Without a step, no chart could show its flag."""
    run = tmp_path / "runs" / "run"
    run.mkdir(parents=True)
    (run / "metrics.csv").write_text("global_step,loss\n10,1.0\n20,1.0\nlost\n30,1.0\n")
    with served(tmp_path / "runs") as client:
        (identifier,) = client.rows()
        found = client.json("/api/run", run=identifier)
    (finding,) = [each for each in found["findings"] if each["line"] == 4]
    assert (20, finding["severity"]) == (finding["step"], "error")


def test_findings_of_other_programs_have_time_epoch_and_tokens_of_their_curves(tmp_path: Path) -> None:
    """A time of day is that since the first one, as the curves have it."""
    row = '{"global_step":%d,"epoch":%s,"_timestamp":%s,"num_tokens":%d,"loss":1.0}'
    rows = [row % (1, 0.25, 1.8e9, 512), row % (2, 0.5, 1.8e9 + 60, 1024), "lost", row % (3, 0.75, 1.8e9 + 90, 2048)]
    run = tmp_path / "runs" / "run"
    run.mkdir(parents=True)
    (run / "metrics.jsonl").write_text("\n".join([*rows, ""]))
    with served(tmp_path / "runs") as client:
        found = client.json("/api/run", run="run")
        times = client.curves("loss", "run", x="time")
    (finding,) = found["findings"]
    assert (2, 60.0, 0.5, 1024) == tuple(finding[name] for name in ("step", "t", "epoch", "tokens"))
    assert [0.0, 60.0, 90.0] == list(times[0][1]["time"])


def _detail(folder: Path, *lines: bytes, imported: str | None = None) -> dict[str, Any]:
    """Return what the page of a run with *lines* shows, checked; *imported* is the report of an import beside them."""
    path = folder / "runs" / "run" / "events.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    if imported is not None:
        (path.parent / "import.json").write_text(imported, "utf-8")
    path.write_bytes(b"".join([START, *lines]))
    row = {"id": "run", "profile": "toy/v1", "metrics": {"loss": {}, "val/acc": {}, "val/top5": {}}}
    return detail_of(str(path), row, DialectChoice(), check(path).files[0])


def _line(kind: str, t: float, **members: Any) -> bytes:
    return json.dumps({"kind": kind, "t": t, **members}).encode() + b"\n"


def _many(name: str) -> list[bytes]:
    """Return lines that fill the list *name* with 7 items."""
    numbers = range(1, 8)
    made: dict[str, list[bytes]] = {
        "alerts": [_line("alert", at, rule="r", level="info", text="t") for at in numbers],
        "samples": [_line("sample", at, step=at, prompt="p", text="t") for at in numbers],
        "notes": [_line("note", at, text=f"{at}") for at in numbers],
        "evaluations": [_line("eval", at, name="val", step=at, loss=1.0) for at in numbers],
        "references": [_line("reference", at, uri=f"s3://b/{at}") for at in numbers],
        "histograms": [_line("histogram", 1.0, name=f"h{at}", edges=[0, 1], counts=[1]) for at in numbers],
        "regions": [_line("region_enter", at, region="r") for at in numbers],
        "definitions": [_line("define", 1.0, name=f"m{at}") for at in numbers],
        "gaps": [line for at in numbers for line in (b"{\n", _line("step", 1.0, step=at, loss=1.0))],
        "files": [],
    }
    return made[name]


@pytest.mark.parametrize(
    "name",
    [
        "alerts",
        "samples",
        "notes",
        "evaluations",
        "references",
        "histograms",
        "regions",
        "definitions",
        "gaps",
        "files",
    ],
)
@pytest.mark.parametrize("most", [6, 7, 100])
def test_what_a_list_lacks_is_counted(name: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 7 items, a list has as many as it may, the first ones, and `left_out` the number of the others."""
    monkeypatch.setattr("toyspec.view.details.MOST_ITEMS", most)
    lines = _many(name)
    if name == "files":
        (tmp_path / "runs/run").mkdir(parents=True)
        for at in range(6):
            (tmp_path / f"runs/run/{at}.txt").write_text("x")
    found = _detail(tmp_path, *lines)
    left_out = found["left_out"].get(name, 0)
    assert max(0, 7 - most) == left_out
    if name != "definitions":
        assert 7 == len(found[name]) + left_out


@pytest.mark.parametrize("most", [1, 2, 5, 2000])
def test_findings_that_are_not_listed_are_counted(most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Listed and counted ones together are as many as the check reports, those that it only counts among them."""
    monkeypatch.setattr("toyspec.view.details.MOST_ITEMS", most)
    found = _detail(tmp_path, *[b"x\n"] * 1200)
    report = check(tmp_path / "runs" / "run").files[0]
    every = len(report.findings) + sum(report.suppressed.values())
    assert report.suppressed
    assert every == len(found["findings"]) + found["left_out"]["findings"]
    assert most >= len(found["findings"])


@pytest.mark.parametrize("records", [499, 500, 501])
def test_records_of_a_histogram_that_are_not_listed_are_counted(records: int, tmp_path: Path) -> None:
    """A series of a histogram has 500 records."""
    lines = [_line("histogram", 1.0, name="h", step=at, edges=[0, 1], counts=[at]) for at in range(records)]
    found = _detail(tmp_path, *lines)
    (series,) = found["histograms"]
    assert [*range(min(records, 500))] == [each["step"] for each in series["records"]]
    assert [2, 3] == [each["line"] for each in series["records"][:2]]
    assert max(0, records - 500) == found["left_out"].get("histograms", 0)


def test_bytes_of_a_page_are_bounded_and_what_is_beyond_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that would make a page larger than its limit is counted in the list that lacks it."""
    lines = [_line("note", 1.0, text="x" * 60), _line("sample", 2.0, step=1, text="y"), _line("note", 3.0, text="z")]
    monkeypatch.setattr("toyspec.view.details._MOST_BYTES", len(lines[0]) + len(lines[1]))
    found = _detail(tmp_path, *lines)
    assert (["x" * 60], ["y"]) == (
        [each["text"] for each in found["notes"]],
        [each["text"] for each in found["samples"]],
    )
    assert {"notes": 1} == found["left_out"]


def test_what_was_not_logged_and_not_imported_is_sent(tmp_path: Path) -> None:
    """Counts of all notes are added up by name; of the report of an import, what each cause did."""
    notes = [
        _line("note", 1.0, text="a", left_out={"acc": 2}, dropped={"step": 1}),
        _line("note", 2.0, text="b", left_out={"acc": 3, "__proto__": 1}, dropped="no"),
    ]
    losses = [{"cause": "damaged", "effect": "dropped", "meaning": "cannot be read", "count": 4, "examples": []}]
    report = {"format": "csv", "source": "a", "target": "b", "run_id": "r", "item": "cells", "items": 9}
    found = _detail(tmp_path, *notes, END, imported=json.dumps(report | {"losses": losses}))
    assert {"left_out": {"acc": 5, "__proto__": 1}, "dropped": {"step": 1}} == found["missing"]
    loss = {"effect": "dropped", "meaning": "cannot be read", "count": 4}
    assert {"format": "csv", "item": "cells", "items": 9, "losses": [loss]} == found["imported"]


@pytest.mark.parametrize("text", ["", "[]", '{"format":1}', '{"format":"csv","source":"a","target":"b"}', "\0"])
def test_file_of_another_program_is_not_the_report_of_an_import(tmp_path: Path, text: str) -> None:
    """``import.json`` that is not a report, and a run without one, say nothing about an import."""
    assert _detail(tmp_path, END, imported=text)["imported"] is None


def test_regions_nest_like_brackets(tmp_path: Path) -> None:
    """Each end is that of the innermost region of its name that is open; depth is how many are open around it."""
    marks = ["+a", "+b", "+a", "-a", "-b", "+c", "-nothing", "-c", "-a", "+d"]
    kinds = {"+": "region_enter", "-": "region_exit"}
    found = _detail(tmp_path, *(_line(kinds[mark[0]], at, region=mark[1:]) for at, mark in enumerate(marks)))
    expected = [("a", 0, 8, 0), ("b", 1, 4, 1), ("a", 2, 3, 2), ("c", 5, 7, 1), ("d", 9, None, 0)]
    assert expected == [(each["region"], each["from"], each["to"], each["depth"]) for each in found["regions"]]


@pytest.mark.parametrize(
    ("kind", "members", "name"),
    [
        ("tap", {"region": "mlp", "layer": 3, "head": 1}, "mlp.3.1"),
        ("tap", {"region": "mlp"}, "mlp"),
        ("tap", {"layer": 0, "region": "mlp"}, "mlp.0"),
        ("grad", {"param": "w.weight", "norm": 1.0}, "w.weight"),
        ("histogram", {"name": "h", "edges": [0, 1], "counts": [1]}, "h"),
    ],
)
def test_series_have_the_name_of_what_they_measure(
    kind: str, members: dict[str, Any], name: str, tmp_path: Path
) -> None:
    """Gradients have that of the parameter, taps that of their place, which no record repeats."""
    (series,) = _detail(tmp_path, _line(kind, 1.0, step=1, **members))["histograms"]
    assert (kind, name) == (series["kind"], series["name"])
    (record,) = series["records"]
    assert 2 == record["line"]
    assert not {"kind", "param", "name"} & record.keys()


def test_meaning_of_a_metric_is_that_of_the_longest_pattern(tmp_path: Path) -> None:
    """A definition by name counts before any pattern, and a longer pattern before a shorter one."""
    define = {"*": "all", "val/*": "validation", "val/acc": "own"}
    found = _detail(tmp_path, *(_line("define", 1.0, name=name, unit=unit) for name, unit in define.items()))
    units = {name: facts["unit"] for name, facts in found["metrics"].items()}
    assert {"loss": "all", "val/acc": "own", "val/top5": "validation"} == units
    again = _line("define", 2.0, name="val/acc", unit="new", description=7)
    found = _detail(tmp_path / "b", _line("define", 1.0, name="val/acc", unit="old"), again)
    assert {"unit": "new", "description": None} == found["metrics"]["val/acc"]
    assert {"unit": None, "description": None} == found["metrics"]["loss"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (float("nan"), None),
        (float("-inf"), None),
        (0.5, 0.5),
        ([1, float("inf"), {"a": float("nan")}], [1, None, {"a": None}]),
        ("x" * 65536, "x" * 65536),
        ("x" * 65537, "x" * 65536 + "…"),
        (True, True),
        (None, None),
    ],
)
def test_values_are_those_that_json_has(value: Any, expected: Any) -> None:
    """What JSON has no number for is null, and a text has 65,536 characters at most, however deep."""
    assert expected == safe(value)


def test_blocks_of_steps_have_the_alerts_and_places_of_their_records(tmp_path: Path) -> None:
    """What is found within a block that the engine reads has its line, and the place of that line or of the last."""
    lines = [step(at, 9.0 if at == 60 else 1.0 + at % 3 / 10) for at in range(1, 101) if at != 71]
    found = _detail(tmp_path, *lines, END)
    assert (61, 60, 60.5) in [(each["line"], each["step"], each["t"]) for each in found["alerts"]]
    assert (72, 72, 72.5) in [(each["line"], each["step"], each["t"]) for each in found["findings"]]
