"""Pictures of curves: what `toyspec plot` writes."""

from __future__ import annotations

import math
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from command_line import command, environment
from files import in_subprocess
from toyspec import annotate, start_run
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.main import main
from toyspec.view import pictures
from toyspec.view.charts import DrawnCurve, Stretch, drawn_curve, mean_curve, read_curves, smoothed
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
    assert exit_codes.OK == main(["plot", str(root / "runs"), "-o", str(path)])
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
    pictures._draw_panel(axes, pictures.PicturePanel("loss", [curve], "step"), 0.0)
    (band,) = axes.collections
    assert 500.0 == max(y for path in band.get_paths() for _, y in path.vertices)
    assert 1.0 < max(axes.lines[0].get_ydata()) < 500.0
    assert 19_900 < max(axes.lines[0].get_xdata()) < 20_000
    assert axes.get_ylim()[1] > 500.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "a.svg", "--x", "tokens"], "nothing to draw of loss: no value has a place on the x axis tokens"),
        (["-o", "a.svg", "--where", "state = torn"], "nothing to draw: none of 2 runs meets the conditions"),
    ],
    ids=["tokens", "where"],
)
def test_wrong_use_is_refused(
    arguments: list[str], message: str, root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says what was expected, and nothing is written."""
    monkeypatch.chdir(root)
    assert exit_codes.USAGE == main(["plot", "runs", *arguments])
    assert message in capsys.readouterr().err
    assert not list(root.glob("a.*"))


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with three runs of two rates; one lacks ``acc``."""
    monkeypatch.chdir(tmp_path)
    for at, lr in enumerate((0.1, 0.1, 0.2)):
        with start_run("runs", run_id=f"r{at}", config={"lr": lr}, git=None) as run:
            for step_number in range(1, 5):
                values = {"val": at + step_number}
                run.log(values | ({"acc": 0.5} if at else {}), step=step_number)
    return tmp_path


class Drawn:
    """What was to be drawn, in place of the picture."""

    def __init__(self) -> None:
        self.panels: Sequence[pictures.PicturePanel] = []
        self.names: Sequence[str] = []
        self.look: dict[str, Any] = {}

    def picture(self, panels: Sequence[pictures.PicturePanel], names: Sequence[str], form: str, **look: Any) -> bytes:
        """Keep everything."""
        self.panels, self.names, self.look = panels, names, look
        return form.encode()

    def points(self, curve: int, panel: int = 0) -> list[tuple[float, float]]:
        """Return the places and the values of one curve."""
        found = self.panels[panel].curves[curve]
        assert found is not None
        assert found.latest is not None
        return list(zip(found.latest.place, found.latest.mean, strict=True))


def drawn(arguments: str, monkeypatch: pytest.MonkeyPatch) -> Drawn:
    """Return what ``plot`` draws of the sweep."""
    found = Drawn()
    monkeypatch.setattr(pictures, "picture", found.picture)
    assert exit_codes.OK == main(["plot", "runs", "-o", "a.svg", *shlex.split(arguments)])
    return found


def test_curves_have_the_annotated_names(sweep: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was renamed afterwards is drawn by that name; those that have the same, by the directories."""
    annotate(sweep / "runs/r1", name="baseline")
    assert ["r0", "baseline", "r2"] == drawn("--metric val", monkeypatch).names
    annotate(sweep / "runs/r2", name="baseline")
    annotate(sweep / "runs/r0", name="first")
    assert ["first", "r1", "r2"] == drawn("--metric val", monkeypatch).names


def test_runs_are_chosen_and_hidden_ones_are_not_drawn(
    sweep: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Filters are those of ``ls``; what is not drawn is reported."""
    assert ["r0", "r1"] == drawn("--metric val --where 'lr < .15'", monkeypatch).names
    annotate("runs/r1", hidden=True)
    assert ["r0", "r2"] == drawn("--metric val", monkeypatch).names
    assert "1 run is hidden by annotation; --where 'hidden = true' draws them" in capsys.readouterr().err
    assert ["r1"] == drawn("--metric val --where 'hidden = true'", monkeypatch).names
    assert [False, True] == [curve is None for curve in reversed(drawn("--metric acc", monkeypatch).panels[0].curves)]
    assert "1 run is without acc, and not in its panel" in capsys.readouterr().err


def test_groups_are_drawn_as_their_means(sweep: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The band is what was asked for, and where a run has no value, how many have one; runs are smoothed before."""
    found = drawn("--metric val --mean-by config.lr --band range --log", monkeypatch)
    assert {"scale": "log", "smoothing": 0.0} == found.look
    over = drawn("--metric acc --mean-over lr --smooth .9", monkeypatch)
    assert (["3 runs"], {"scale": "linear", "smoothing": 0.0}) == (over.names, over.look)
    assert [(0, 4, 2)] == [each for curve in over.panels[0].curves if curve for each in curve.incomplete]
    assert ["lr 0.1, 2 runs", "lr 0.2, 1 run"] == found.names
    assert [(1.0, 1.5), (2.0, 2.5), (3.0, 3.5), (4.0, 4.5)] == found.points(0)
    curve = found.panels[0].curves[0]
    assert curve is not None
    assert curve.latest is not None
    assert ([1.0, 2.0], [2.0, 3.0]) == (list(curve.latest.low[:2]), list(curve.latest.high[:2]))


def test_a_mean_of_long_runs_keeps_their_spikes(tmp_path: Path) -> None:
    """Runs with other steps and a value that is not finite are averaged where they have values."""
    both, none = array("d", [1, 3]), array("d", [0, 0])
    short = Stretch(both, both, both, both, both, none, 1)
    low, high, mean = (array("d", [value, math.nan]) for value in (5, 99, 7))
    spiky = Stretch(array("d", [1, 2]), low, high, low, mean, array("d", [0, 2]), 2)
    curve = mean_curve([DrawnCurve(each, [], [2.0], [], None) for each in (short, spiky)], 2, "range")
    found = curve.latest
    assert found is not None
    assert ([(1, 3, 1)], 2) == (curve.incomplete, curve.members)
    assert ([1.0, 2.0, 3.0], [4.0, 2.0, 3.0]) == (list(found.place), list(found.mean))
    assert (99.0, [0.0, 2.0, 0.0], 2) == (max(found.high), list(found.not_finite), found.level)
    assert [1.0, 2.0, 3.0] == list(found.low)


def test_smoothing_is_that_of_the_values_so_far() -> None:
    """The first values are not pulled to 0, a bucket of several counts as several, and NaN stays."""
    values = array("d", [1.0, 1.0, float("nan"), 4.0])
    one = Stretch(values, values, values, values, values, values, 1)
    first, second, third, fourth = smoothed(one, 0.5)
    assert (1.0, 1.0, True) == (first, second, math.isnan(third))
    assert fourth == pytest.approx((1 * 0.125 + 1 * 0.25 + 4 * 0.5) / 0.875)
    several = one._replace(level=2)
    assert smoothed(several, 0.5) != smoothed(one, 0.5)
    assert list(smoothed(several, 0.5)[3:]) == list(smoothed(one, 0.25)[3:])


@pytest.mark.parametrize("runs", [8, 24])
def test_each_curve_has_a_colour(runs: int, tmp_path: Path) -> None:
    """Eight have seven and the first again, more than a legend names are shades of one scale; long times are hours."""
    sheet = Path(__file__).parents[3].joinpath("viewer/src/app.css").read_text("utf-8")
    assert [*pictures._COLORS] == re.findall(r"--run-\d: (#\w+)", sheet)[:7], "the viewer has the same on paper"
    for number in range(runs):
        write_run(tmp_path / "runs" / f"r{number}", START, step(1, 1.0 + number), step(14400, 2.0 + number))
    assert exit_codes.OK == main(["plot", str(tmp_path / "runs"), "--x", "time", "-o", str(tmp_path / "a.svg")])
    drawn = (tmp_path / "a.svg").read_text(encoding="utf-8").lower()
    assert {"<!-- time, h -->", "<!-- 4.0 -->"} <= set(re.findall("<!-- .*? -->", drawn))
    colours = set(re.findall(r"stroke: (#\w+)", drawn))
    assert (runs == 8) == ('<g id="legend' in drawn)
    assert 7 == len(colours & {each.lower() for each in pictures._COLORS}) if runs == 8 else runs <= len(colours)


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
        ["show", "runs/all"],
        ["compare", "runs/all", "runs/all"],
        ["tail", "--once", "runs/all"],
        ["plot", "--help"],
        ["watch", "--help"],
    )
    heavy = "sorted({'matplotlib', 'textual', 'rich'} & set(sys.modules))"
    program = (
        "import sys; from toyspec.core.command_line.main import main\n"
        f"for each in {commands!r}: main(each); print('after', each[0], {heavy})"
    )
    done = in_subprocess(program, cwd=root, env=environment())
    after = [line for line in done.stdout.splitlines() if line.startswith("after ")]
    assert [f"after {words[0]} []" for words in commands] == after


@pytest.fixture
def undrawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder for runs whose pictures are not drawn, which takes most of the time."""
    monkeypatch.setattr("toyspec.view.commands.plot._picture", lambda *_: b"a picture")
    return tmp_path


@pytest.mark.parametrize("values", [[1.0, 4.0], [-2.0, 4.0], [0.0, 4.0], [-3.0, 0.0]], ids=str)
@pytest.mark.parametrize("options", [[], ["--log"]], ids=" ".join)
def test_what_a_log_scale_cannot_show_is_said_or_refused(
    values: list[float], options: list[str], undrawn: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A scale that shows no point is refused, one that shows some says what it leaves out, and others say nothing."""
    write_run(undrawn / "run", START, *(step(place, value) for place, value in enumerate(values)))
    status = main(["plot", *options, str(undrawn / "run"), "-o", str(undrawn / "a.svg")])
    said = capsys.readouterr().err
    is_refused = bool(options) and max(values) <= 0
    assert (exit_codes.USAGE if is_refused else exit_codes.OK) == status
    assert is_refused == ("no value is above 0" in said)
    assert is_refused != (undrawn / "a.svg").exists()
    is_noted = bool(options) and not is_refused and min(values) <= 0
    assert is_noted == ("that are not above 0 have no place" in said)


def test_every_value_that_is_not_finite_has_a_cross(tmp_path: Path) -> None:
    """Values that are nearer to each other than crosses are wide are marked each: some of them had no mark."""
    lost = {100, 103, 106, 400, 401, 999}
    lines = [step(number, None if number in lost else 1.0 + number / 500) for number in range(1, 1001)]
    write_run(tmp_path / "run", START, *lines, END)
    assert exit_codes.OK == main(["plot", str(tmp_path / "run"), "-o", str(tmp_path / "curve.svg")])
    tree = ET.parse(tmp_path / "curve.svg")
    crosses = {each.get("id") for each in tree.iter() if (each.get("d") or "").split() == _CROSS.split()}
    link = "{http://www.w3.org/1999/xlink}href"
    places = [float(each.get("x", 0)) for each in tree.iter() if (each.get(link) or "").removeprefix("#") in crosses]
    first, last = min(places), max(places)
    # Steps are along the axis as on a scale.
    assert lost == {round(100 + (place - first) / (last - first) * 899) for place in places}


_CROSS = "M -2 2 L 2 -2 M -2 -2 L 2 2"
