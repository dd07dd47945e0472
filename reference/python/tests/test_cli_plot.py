"""Pictures of curves: what `toyspec plot` writes."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from command_line import command, environment
from toyspec.cli import exit_codes
from toyspec.cli.main import main
from toyspec.view import pictures
from toyspec.view.drawn_curves import drawn_curve, read_curves
from view_client import END, START, step, write_run

pytest.importorskip("matplotlib")

RESUME = b'{"kind":"run_resume","t":900.0,"from_step":80}\n'
VAL = b'{"kind":"eval","t":99.5,"step":99,"name":"val","loss":2.0}\n'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a directory with a run that has everything that is marked, and one with a hostile name."""
    lines = [*(step(number, None if 30 <= number < 40 else 5.0 - number / 50) for number in range(100)), VAL, b"x\n"]
    write_run(tmp_path / "runs" / "all", START, *lines, RESUME, *(step(number, 2.0) for number in range(81, 120)), END)
    write_run(tmp_path / "runs" / "_$x^{$<script>", START, *(step(number, 1.0) for number in range(50)), VAL, END)
    return tmp_path


@pytest.mark.parametrize("form", ["svg", "png", "pdf"])
def test_equal_runs_give_equal_pictures(form: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes write the same bytes in every format, with panels, on log scale, over time."""
    monkeypatch.chdir(root)
    panels = ["--metric", "loss", "--metric", "val/loss", "--log", "--x", "time"]
    main(["plot", "runs", *panels, "-o", f"here.{form}"])
    there = command("plot", "runs", *panels, "-o", f"there.{form}")
    subprocess.run(there, env=environment(), check=True, capture_output=True)
    assert (root / f"here.{form}").read_bytes() == (root / f"there.{form}").read_bytes()


def test_svg_has_no_date_and_no_markup_of_a_log(root: Path) -> None:
    """Names are drawn as text, whatever they hold, and every mark has its own element."""
    path = root / "curve.svg"
    assert exit_codes.OK == main(["plot", str(root / "runs"), "--title", "a $b", "-o", str(path)])
    text = path.read_text(encoding="utf-8")
    assert "dc:date" not in text
    assert "<script" not in text
    assert "http://www.w3.org/2000/svg" in ET.fromstring(text).tag
    dashes = text.count("stroke-dasharray")
    assert exit_codes.OK == main(["plot", str(root / "runs" / "_$x^{$<script>"), "-o", str(path)])
    assert dashes > path.read_text(encoding="utf-8").count("stroke-dasharray")


def test_spike_of_one_step_is_in_the_picture(tmp_path: Path) -> None:
    """Of twenty thousand points in a thousand buckets one is high: the band reaches it, and the line its mean."""
    from matplotlib.figure import Figure

    lines = (step(number, 500.0 if number == 7777 else 1.0) for number in range(20_000))
    path = write_run(tmp_path / "a", START, *lines, END)
    axes: Any = Figure().add_subplot()
    curve = drawn_curve(read_curves(str(path))[0], "loss", "step", 1000)
    pictures._draw_panel(axes, "loss", [curve], pictures.Layout())
    (band,) = axes.collections
    assert 500.0 == max(y for path in band.get_paths() for _, y in path.vertices)
    assert 1.0 < max(axes.lines[0].get_ydata()) < 500.0
    assert axes.get_ylim()[1] > 500.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "a.gif"], "must end in .svg, .png, .pdf"),
        (["-o", "a.svg", "--metric", "los"], "did you mean 'loss'?"),
        (["-o", "a.svg", "--name", "one"], "--name was given 1 times for 2 runs"),
    ],
    ids=["format", "metric", "name"],
)
def test_wrong_use_is_refused(
    arguments: list[str], message: str, root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says what was expected, and nothing is written."""
    monkeypatch.chdir(root)
    assert exit_codes.USAGE == main(["plot", "runs", *arguments])
    assert message in capsys.readouterr().err
    assert not list(root.glob("a.*"))


def test_many_runs_have_no_legend(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """More runs than a legend can name are drawn all the same, and this is said."""
    for number in range(21):
        write_run(tmp_path / "runs" / f"r{number}", START, step(1, float(number)), step(2, 1.0), END)
    assert exit_codes.OK == main(["plot", str(tmp_path / "runs"), "-o", str(tmp_path / "a.svg")])
    assert "21 runs are too many for a legend" in capsys.readouterr().err


def test_missing_matplotlib_names_the_extra(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message has the command that installs what is missing."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert exit_codes.USAGE == main(["plot", str(root / "runs"), "-o", str(root / "a.svg")])
    assert "python -m pip install 'toyspec[plot]'" in capsys.readouterr().err


def test_other_commands_do_not_import_what_draws(root: Path) -> None:
    """The import of matplotlib or Textual would cost every command its time."""
    commands = (
        ["ls", "runs"],
        ["show", "--metric", "loss", "runs/all"],
        ["compare", "runs/all", "runs/all"],
        ["tail", "--once", "runs/all"],
        ["plot", "--help"],
        ["watch", "--help"],
    )
    heavy = "sorted({'matplotlib', 'textual', 'rich'} & set(sys.modules))"
    program = (
        "import sys; from toyspec.cli.main import main\n"
        f"for each in {commands!r}: main(each); print('after', each[0], {heavy})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, env=environment(), check=True, capture_output=True, text=True
    )
    after = [line for line in done.stdout.splitlines() if line.startswith("after ")]
    assert [f"after {words[0]} []" for words in commands] == after
