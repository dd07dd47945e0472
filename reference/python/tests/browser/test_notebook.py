"""Runs in a notebook: what its cells put out, in a real browser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from browser.watching import Watch
from toyspec.core.runs.run import list_runs
from toyspec.view import report as report_module
from view_client import END, step, write_run

HOSTILE = "</iframe><script>document.title='hit'</script>\"&quot;"
LISTED = "import toyspec\nruns = toyspec.list_runs('runs', read='whole')\nruns"
CELLS = [f"{LISTED}.to_pandas()", "toyspec.report(runs, height=500)"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a directory with a run whose name and settings are hostile, and a plain one."""
    start = {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "r", "name": HOSTILE, "config": {HOSTILE: 1}}
    first = json.dumps(start).encode() + b"\n"
    write_run(tmp_path / "runs" / "hostile", first, *(step(number, 1.0 / (number + 1)) for number in range(50)), END)
    write_run(tmp_path / "runs" / "plain", first.replace(b"name", b"notes"), step(1, 2.5), step(2, None), END)
    return tmp_path


def executed(root: Path) -> list[str]:
    """Return the HTML that each cell of a notebook puts out, run by a kernel of its own."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    nbclient.NotebookClient(made, timeout=300, resources={"metadata": {"path": str(root)}}).execute()
    return [cell.outputs[-1]["data"]["text/html"] for cell in made.cells]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.posix
def test_cells_of_a_notebook_show_runs(root: Path) -> None:
    """A table of runs, and the report in a sandboxed frame come out of the cells."""
    pytest.importorskip("pandas")
    table, frame = executed(root)
    assert "<th>final_loss</th>" in table
    assert frame.startswith('<iframe title="toyspec report" sandbox="allow-scripts allow-downloads"')


def test_report_is_shown_in_its_frame(browser: Browser, root: Path) -> None:
    """The frame has the runs and their curves without the network; what a log says cannot leave it."""
    runs = list_runs(root / "runs", read="whole")
    shown = report_module.report(runs, height=500)._repr_html_()
    watch = Watch(browser, "about:blank")
    try:
        page = watch.new_page()
        page.context.set_offline(True)
        page.set_content("<title>notebook</title>" + shown)
        frame = page.frame_locator("iframe")
        expect(frame.get_by_text("plain").first).to_be_visible()
        expect(frame.locator("canvas, svg").first).to_be_attached()
        assert ("notebook", 1) == (page.title(), page.locator("iframe").count())
    finally:
        watch.close()
    assert [] == watch.troubles


def test_report_that_is_too_large_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the size, the limit, and what to do."""
    monkeypatch.setattr(report_module, "MOST_NOTEBOOK_BYTES", 1000)
    with pytest.raises(ValueError, match=r"the report of 2 runs has 0\.\d MB.*buckets=250, or use `toyspec view`"):
        report_module.report([root / "runs"])
