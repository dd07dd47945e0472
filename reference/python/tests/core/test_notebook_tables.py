"""What a notebook and a Python prompt show of a run and of its history."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import toyspec
from toyspec.core.runs.history import History, table_library
from toyspec.core.runs.run import open_run

if TYPE_CHECKING:
    from pathlib import Path

LONG = "n" * 90
CUT = "n" * 79 + "…"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the path of a run with markup in its texts, and with one setting and one metric more than are shown."""
    start: dict[str, Any] = {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "a"}
    start |= {"group": LONG, "notes": "1 & 2", "started_at": "2026-05-31T09:30:00Z"}
    start |= {"model": {"layers": 2, "name": "<i>"}, "config": {f"c{at:02}": at / 3 for at in range(21)}}
    losses = [4.0, 1.25, None, 2.123456789]
    steps: list[dict[str, Any]] = [
        {"kind": "step", "t": 1.0 + at, "step": at, "loss": loss, "lr": 0.5} for at, loss in enumerate(losses, 1)
    ]
    steps[2]["nonfinite"] = {"loss": "nan"}
    names = [LONG, *(f"m{at:02}" for at in range(17)), "never"]
    scalars = {"kind": "scalars", "t": 6.0, "step": 5, "values": {**dict.fromkeys(names[:-1], 0.25), "never": None}}
    end = {"kind": "run_end", "t": 7.0, "reason": "completed"}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "<b>").mkdir()
    path = tmp_path / "<b>" / "events.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in [start, *steps, scalars, end]), encoding="utf-8")
    return "<b>/events.jsonl"


def test_notebook_shows_state_settings_and_curves(run: str) -> None:
    """Texts of the log are text, long ones are cut, and what is left out of a table is counted."""
    thirds = (f"{at}{part}" for at in range(7) for part in ("", ".33333", ".66667"))
    shown_thirds = [*("0", "0.333333", "0.666667"), *list(thirds)[3:-1]]
    named = ", ".join(f"c{at:02} {value}" for at, value in enumerate(shown_thirds))
    flat = "".join(
        f"<tr><td>{name}</td><td>0.25</td><td></td><td><code></code></td></tr>"
        for name in [CUT, *(f"m{at:02}" for at in range(17))]
    )
    shown = open_run(run)._repr_html_()
    assert shown == (
        "<div><strong>&lt;b&gt;</strong> complete<table><tbody>"
        f"<tr><th>path</th><td>&lt;b&gt;</td></tr><tr><th>group</th><td>{CUT}</td></tr>"
        "<tr><th>notes</th><td>1 &amp; 2</td></tr>"
        "<tr><th>started</th><td>2026-05-31T09:30:00Z</td></tr><tr><th>steps</th><td>4</td></tr>"
        "<tr><th>end</th><td>completed</td></tr>"
        "<tr><th>model</th><td>layers 2, name &lt;i&gt;</td></tr>"
        f"<tr><th>config</th><td>{named}, and 1 more</td></tr></tbody></table>"
        "<table><thead><tr><th>metric</th><th>last</th><th>best</th><th></th></tr></thead><tbody>"
        "<tr><td>loss</td><td>2.12346</td><td>1.25 at 2</td><td><code>█▁\xd7▃</code></td></tr>"
        "<tr><td>lr</td><td>0.5</td><td></td><td><code></code></td></tr>"
        f"{flat}<tr><td>and 1 more</td></tr></tbody></table></div>"
    )


def test_run_without_metrics_has_no_table_of_them(tmp_path: Path) -> None:
    """A metric without a finite value is shown as not finite; a run that only began has its facts alone."""
    start = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"a"}\n'
    path = tmp_path / "events.jsonl"
    path.write_bytes(start)
    assert "<thead>" not in open_run(path)._repr_html_()
    path.write_bytes(start + b'{"kind":"scalars","t":1.0,"step":1,"values":{"a":null}}\n')
    cells = "<tr><td>a</td><td>not finite</td><td></td><td><code></code></td></tr></tbody>"
    assert cells in open_run(path)._repr_html_()


def test_history_names_its_columns_and_what_it_lacks() -> None:
    """Names of the log are inert, and what is in no cell is counted."""
    columns: dict[str, list[Any]] = {"step": [1, 2], "loss": [1 / 3, None], "a\n\x1b": ["b", None]}
    assert repr(History(columns)) == "2 rows of step, loss, a\\x0a\\x1b"
    missing = {"left_out": Counter(a=2), "dropped": Counter(step=3)}
    assert repr(History({"step": []}, 7, missing)) == (
        "0 rows of step; 7 bytes of the log cannot be read; 2 values were left out of the log; "
        "3 records were not written"
    )


def test_table_of_a_library_that_is_missing_says_how_to_install_it() -> None:
    """A table of a library is that of its module, and needs it."""
    assert table_library("json") is json
    with pytest.raises(ImportError, match=r"this table needs no_such_library: python -m pip install no_such_library$"):
        table_library("no_such_library")


def test_step_that_no_array_has_is_in_the_history(tmp_path: Path) -> None:
    """Steps of other programs may be fractions, and those before them stay."""
    path = tmp_path / "log.csv"
    path.write_text("step,loss\n1,0.5\n2,0.25\n2.5,0.125\n3,1.5\n", encoding="utf-8")
    table = toyspec.history(path)
    assert ([1, 2, 2.5, 3], [0.5, 0.25, 0.125, 1.5]) == (list(table["step"]), list(table["loss"]))
