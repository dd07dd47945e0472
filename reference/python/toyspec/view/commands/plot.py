"""``toyspec plot``: curves of runs as a picture."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentTypeError
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.arguments import add_dialect, dialect_choice, run_filter
from toyspec.core.command_line.figures import counted, shown
from toyspec.core.command_line.objects import inert_json
from toyspec.core.command_line.parsers import Parser, UsageError, did_you_mean
from toyspec.core.command_line.tables import cut_apart
from toyspec.core.command_line.terminal import tell
from toyspec.core.errors import ExpressionError, StreamError
from toyspec.core.escaping import encodable, shortened
from toyspec.core.places.addresses import public
from toyspec.core.runs.rows import titles_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from toyspec.core.reading.log_detection import DialectChoice
    from toyspec.core.runs.summary import RunSummary
    from toyspec.view.charts import DrawnCurve, Stretch
    from toyspec.view.curve_frames import Axis
    from toyspec.view.curve_store import Curves
    from toyspec.view.pictures import PictureFormat, PicturePanel

_FORMATS = ("svg", "png", "pdf")
_NAME_COLUMNS = 40
_NAME_CHARS = 60
_BUCKETS = 1000
_MOST_INCHES = 100.0
_AXES = ("step", "time", "epoch", "tokens")


class _PlottedRun(NamedTuple):
    """A run that may be drawn."""

    curves: Curves
    summary: RunSummary


def configure(parser: Parser) -> None:
    """Add description, arguments and an example to *parser*."""
    parser.usage = "toyspec plot [OPTION…] RUN… -o FILE\n       toyspec plot [OPTION…] RUN… --json"
    parser.description = (
        "Draw curves of runs as SVG, PNG or PDF, for a paper or a pull request: a panel\n"
        "for each metric, a curve for each run. Where a point stands for many, a band\n"
        "shows their extremes, so that no spike is lost. Crosses are values that are not\n"
        "finite, dashed lines unreadable lines, dotted lines resumptions, and faint\n"
        "dashes what a later attempt did again; over a metric, none of these three is\n"
        "marked. Equal runs give equal files.\n"
        "\n"
        "Runs that `toyspec annotate` hides are left out, unless --hidden or a filter\n"
        "asks for them. What is not drawn is reported.\n"
        "\n"
        "Needs matplotlib: python -m pip install 'toyspec[plot]'. --json prints the\n"
        "points that would be drawn, which --log, --smooth and --size do not change."
    )
    parser.epilog = (
        "examples:\n"
        "  toyspec plot runs/llama-001 -o loss.svg\n"
        "  toyspec plot runs/ --metric loss --metric val/acc --log -o sweep.png\n"
        "  toyspec plot runs/ --where 'lr < .1' --mean-by group --smooth .9 -o mean.svg\n"
        "  toyspec plot runs/a runs/b --x time --size 6.5x4 -o curves.pdf\n"
        "  toyspec plot runs/llama-001 --json | jq '.panels[0].curves[0].latest.last'"
    )
    parser.add_argument(
        "runs", metavar="RUN", nargs="+", type=public, help="runs, streams, or directories with runs, also s3://…"
    )
    forms = parser.add_mutually_exclusive_group(required=True)
    forms.add_argument("-o", "--output", metavar="FILE", help="write to FILE: .svg, .png or .pdf")
    forms.add_argument("--json", action="store_true", help="print an object with the points that are drawn")
    _add_choice(parser)
    _add_looks(parser)
    add_dialect(parser)


def _add_choice(parser: Parser) -> None:
    parser.add_argument(
        "--metric", metavar="METRIC", action="append", default=[], help="a panel; may be repeated; default: the loss"
    )
    parser.add_argument(
        "--where",
        metavar="FILTER",
        type=run_filter,
        action="append",
        default=[],
        help="draw only runs that meet it, as `toyspec ls --where` does; may be repeated",
    )
    parser.add_argument("--hidden", action="store_true", help="draw runs too that `toyspec annotate --hide` hides")
    parser.add_argument(
        "--mean-by",
        metavar="COLUMN",
        help="a curve for each value of COLUMN, such as group or config.lr: the mean of its runs in a band of extremes",
    )
    parser.add_argument(
        "--x",
        metavar="AXIS",
        help="the x axis: step, time, epoch, tokens or any metric; default: what the runs define for the metric, "
        "else step",
    )


def _add_looks(parser: Parser) -> None:
    parser.add_argument("--log", action="store_true", help="log scale; values ≤ 0 have no place on it")
    parser.add_argument(
        "--smooth",
        metavar="W",
        type=_weight,
        default=0.0,
        help="draw the moving average with weight W, such as 0.9, over the values, which are faint then",
    )
    parser.add_argument("--size", metavar="WxH", type=_size, help="width and height in inches: 6.5x4")


def run(options: Namespace) -> int:
    """Draw the runs and return an exit code."""
    form = "" if options.json else os.path.splitext(options.output)[1].removeprefix(".").lower()
    if not options.json and form not in _FORMATS:
        raise UsageError(f"{options.output}: the name must end in {', '.join(f'.{each}' for each in _FORMATS)}")
    notes: list[str] = []
    try:
        choice = dialect_choice(options)
        runs = _chosen(_read(options, choice), options, notes)
        metrics = list(dict.fromkeys(options.metric)) or [_loss_of([each.summary for each in runs])]
        _require(metrics, runs)
        panels = [_panel(metric, runs, options.x, choice, notes) for metric in metrics]
        names = list(map(shown, titles_of([each.summary.facts for each in runs])))
        members = [[at] for at in range(len(runs))]
        if options.mean_by:
            panels, names, members = _means(panels, runs, options)
        for panel in panels:
            _require_points(panel, options.log, notes)
        data = b"" if options.json else _picture(panels, cut_apart(names, _NAME_COLUMNS), options, form)
    except ExpressionError as error:
        raise UsageError(str(error)) from None
    except (StreamError, ImportError) as error:
        tell("plot", str(error))
        return exit_codes.USAGE
    for note in dict.fromkeys(notes):
        tell("plot", note)
    if options.json:
        paths = [[encodable(runs[at].summary.facts.path) for at in each] for each in members]
        found = [_panel_object(each, names, paths) for each in panels]
        sys.stdout.write(inert_json({"panels": found, "notes": list(dict.fromkeys(notes))}) + "\n")
        return exit_codes.OK
    with open(options.output, "wb") as file:
        file.write(data)
    sys.stderr.write(f"wrote {shown(options.output)}\n")
    return exit_codes.OK


def _picture(panels: Sequence[PicturePanel], names: Sequence[str], options: Namespace, form: str) -> bytes:
    from toyspec.view.pictures import PictureStyle, picture

    look = PictureStyle("log" if options.log else "linear", options.smooth, options.size)
    return picture(panels, names, look, cast("PictureFormat", form))


def _panel_object(panel: PicturePanel, names: Sequence[str], paths: Sequence[list[str]]) -> dict[str, Any]:
    """Return *panel* with its points; *names* and *paths* are those of all curves, also of those that it lacks."""
    curves = [
        {
            "name": name,
            "paths": members,
            "latest": None if curve.latest is None else _points(curve.latest),
            "abandoned": list(map(_points, curve.abandoned)),
            "gaps": curve.gaps,
            "resumes": curve.resumes,
        }
        for name, members, curve in zip(names, paths, panel.curves, strict=True)
        if curve is not None
    ]
    return {"metric": panel.metric, "axis": panel.axis, "curves": curves}


def _points(curve: Stretch) -> dict[str, Any]:
    """Return the points of *curve*, column by column; null is a bucket without a finite value."""
    columns = {"place": curve.place, "low": curve.low, "high": curve.high, "last": curve.last, "mean": curve.mean}
    finite = {name: [value if isfinite(value) else None for value in column] for name, column in columns.items()}
    counts = {"not_finite": [int(count) for count in curve.not_finite], "points_per_bucket": curve.level}
    return {**finite, **counts}


def _read(options: Namespace, choice: DialectChoice) -> list[_PlottedRun]:
    """Return the curves and the summary of each run at and below the paths; raise StreamError."""
    from toyspec.core.generated.runs import TOKEN_COUNTS
    from toyspec.core.runs.run import named_streams
    from toyspec.view.charts import read_curves

    wanted = {*options.metric, *TOKEN_COUNTS}
    found = []
    for stream in named_streams(options.runs, choice):
        curves, summary = read_curves(
            stream.path, wanted=(lambda name: name in wanted) if options.metric else None, dialect=choice
        )
        if summary.profile is not None or summary.dialect is not None:
            found.append(_PlottedRun(curves, summary))
    return found


def _chosen(runs: Sequence[_PlottedRun], options: Namespace, notes: list[str]) -> list[_PlottedRun]:
    """Return the runs that are to be drawn; raise UsageError if there is none, and ExpressionError."""
    from toyspec.core.runs.columns import asks_for_hidden, meets, require_fields
    from toyspec.core.runs.run import Run

    fields = [name for each in options.where for name in each.fields]
    known = [Run.of(each.summary).known(fields) for each in runs]
    require_fields([options.mean_by] if options.mean_by else [], known, options.where)
    met = [each for each, facts in zip(runs, known, strict=True) if meets(facts, options.where)]
    shows_hidden = options.hidden or asks_for_hidden(*options.where)
    found = met if shows_hidden else [each for each in met if not each.summary.facts.hidden]
    if hidden := len(met) - len(found):
        notes.append(f"{_runs(hidden)} hidden by annotation; --hidden draws them too")
    if not found:
        why = f"{notes[-1]}" if met else f"none of {len(runs)} runs meets the conditions"
        raise UsageError(f"nothing to draw: {why}")
    return found


def _runs(number: int) -> str:
    return "1 run is" if number == 1 else f"{number} runs are"


def _panel(
    metric: str, runs: Sequence[_PlottedRun], x: str | None, choice: DialectChoice, notes: list[str]
) -> PicturePanel:
    """Return the curves of *metric* over *x*, or over what the runs define; raise UsageError."""
    from toyspec.view.pictures import PicturePanel

    having = [each for each in runs if metric in each.summary.series]
    axis = x or _axis_of(metric, [each.summary for each in having])
    if axis not in _AXES and not any(axis in each.summary.series for each in having):
        known = dict.fromkeys(name for each in having for name in each.summary.series)
        near = did_you_mean(axis, [*_AXES, *known])
        raise UsageError(f"--x {shortened(axis, _NAME_CHARS)!r} is neither an axis nor a metric of these runs{near}")
    curves = [_curve(each, metric, axis, choice) if each in having else None for each in runs]
    if missing := sum(each is None for each in curves):
        over = "" if axis == "step" else f" over {shortened(axis, _NAME_CHARS)}"
        notes.append(f"{_runs(missing)} without {shortened(metric, _NAME_CHARS)}{over}, and not in its panel")
    for each, curve in zip(runs, curves, strict=True):
        if curve is not None and _lacks_places(each, metric, axis, curve):
            notes.append(f"values of {shortened(metric, _NAME_CHARS)} without a place on {axis} are not drawn")
    return PicturePanel(metric, curves, axis)


def _axis_of(metric: str, runs: Sequence[RunSummary]) -> str:
    """Return the axis that all *runs* define for *metric*; ``step`` where they do not agree."""
    defined = {run.axis_of(metric) for run in runs}
    axis = defined.pop() if len(defined) == 1 else None
    return axis if axis is not None and any(axis in run.series for run in runs) else "step"


def _curve(run: _PlottedRun, metric: str, axis: str, choice: DialectChoice) -> DrawnCurve | None:
    """Return the curve over *axis*; None where the run has no value with a place on it."""
    from toyspec.view.charts import curve_over, drawn_curve

    found = drawn_curve(run.curves, metric, cast("Axis", axis), _BUCKETS) if axis in _AXES else None
    if (found is None or found.latest is None or not found.latest.place) and axis in run.summary.series:
        # Many programs log the epoch as a value.
        found = curve_over(run.summary.path, metric, axis, dialect=choice, most=_BUCKETS)
    return found if found is not None and found.latest is not None and found.latest.place else None


def _lacks_places(run: _PlottedRun, metric: str, axis: str, curve: DrawnCurve) -> bool:
    if axis == "step" or axis not in _AXES or curve.latest is None:
        return False
    whole = run.curves.latest(metric, _BUCKETS)
    return whole is not None and whole.level == curve.latest.level and whole.number > len(curve.latest.place)


def _means(
    panels: Sequence[PicturePanel], runs: Sequence[_PlottedRun], options: Namespace
) -> tuple[list[PicturePanel], list[str], list[list[int]]]:
    """Return *panels* with one curve for each value of the column, their names and their runs; raise UsageError."""
    from toyspec.core.runs.columns import value_of
    from toyspec.view.charts import mean_curve

    groups: dict[str, list[int]] = {}
    for at, each in enumerate(runs):
        value = value_of(each.summary.facts, options.mean_by)
        groups.setdefault("none" if value is None else str(value), []).append(at)
    short = options.mean_by.removeprefix("config.")
    names = [f"{short} {value}, {counted(len(members), 'run')}" for value, members in groups.items()]
    found = []
    for panel in panels:
        parts = [[panel.curves[at] for at in members] for members in groups.values()]
        means = [mean_curve([each for each in part if each is not None]) for part in parts]
        found.append(panel._replace(curves=[each if each.latest is not None else None for each in means]))
    return found, list(map(shown, names)), list(groups.values())


def _require_points(panel: PicturePanel, is_log: bool, notes: list[str]) -> None:
    """Raise UsageError if *panel* would be empty; note what has no place in it."""
    name = shortened(panel.metric, _NAME_CHARS)
    latest = [each.latest for each in panel.curves if each is not None and each.latest is not None]
    if not latest:
        raise UsageError(f"nothing to draw of {name}: no value has a place on the x axis {panel.axis}")
    values = [value for each in latest for value in (*each.low, *each.high) if isfinite(value)]
    if is_log and values and max(values) <= 0:
        raise UsageError(f"nothing to draw of {name}: no value is above 0, as --log needs")
    if is_log and values and min(values) <= 0:
        notes.append(f"values of {name} that are not above 0 have no place on a log scale, and are not drawn")


def _loss_of(runs: Sequence[RunSummary]) -> str:
    """Return the name of the loss of the first run that has one; raise UsageError if none has."""
    for run in runs:
        if run.loss_name is not None:
            return run.loss_name
    raise UsageError("no run has a loss; name a metric by --metric")


def _require(metrics: Sequence[str], runs: Sequence[_PlottedRun]) -> None:
    from toyspec.view.charts import require_metrics

    require_metrics(metrics, list(dict.fromkeys(name for each in runs for name in each.summary.series)))


def _weight(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise ArgumentTypeError(f"{text!r} must be at least 0 and less than 1, for example 0.9")
    return value


def _size(text: str) -> tuple[float, float]:
    width, _, height = text.lower().partition("x")
    try:
        found = float(width), float(height)
    except ValueError:
        found = 0.0, 0.0
    if not all(0.5 <= each <= _MOST_INCHES for each in found):
        raise ArgumentTypeError(f"{text!r} must be width x height in inches, each from 0.5 to 100, for example 6.5x4")
    return found
