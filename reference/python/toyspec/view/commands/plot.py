"""``toyspec plot``: curves of runs as a picture."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentTypeError
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple, cast

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.arguments import add_dialect, dialect_choice, names_in, run_filter
from toyspec.core.command_line.figures import shown
from toyspec.core.command_line.parsers import Parser, UsageError, did_you_mean
from toyspec.core.command_line.tables import some_of
from toyspec.core.command_line.terminal import tell
from toyspec.core.directories import write_output
from toyspec.core.escaping import shortened
from toyspec.core.places.addresses import public
from toyspec.core.runs.columns import unknown_field, value_of
from toyspec.core.runs.groups import groups_of
from toyspec.core.runs.names import cut_shared, names_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from toyspec.core.reading.log_detection import DialectChoice
    from toyspec.core.runs.groups import Group
    from toyspec.core.runs.summary import RunSummary
    from toyspec.view.charts import DrawnCurve
    from toyspec.view.curve_frames import Axis
    from toyspec.view.curve_store import Curves
    from toyspec.view.pictures import PictureFormat, PicturePanel

_FORMATS = ("svg", "png", "pdf")
_NAME_COLUMNS = 40
_NAME_CHARS = 60
_MOST_LISTED = 30
_BUCKETS = 1000
_AXES = ("step", "time", "epoch", "tokens")


class _PlottedRun(NamedTuple):
    """A run that may be drawn."""

    curves: Curves
    summary: RunSummary


USAGE = "toyspec plot [OPTION…] RUN… -o FILE"
DESCRIPTION = (
    "Draw curves of runs as SVG, PNG or PDF, for a paper or a pull request: a panel\n"
    "for each metric, a curve for each run. Where a point stands for many, a band\n"
    "shows their extremes, so that no spike is lost. Crosses are values that are not\n"
    "finite, dashed lines unreadable lines, dotted lines resumptions, and faint\n"
    "dashes what a later attempt did again. A mean is dashed, with `3 of 5` at it,\n"
    "where some of its runs have no value. Equal runs give equal files.\n"
    "\n"
    "Runs that `toyspec annotate` hides are left out, unless a filter asks for them.\n"
    "What is not drawn is reported.\n"
    "\n"
    "Needs matplotlib: python -m pip install 'toyspec[plot]'."
)
EPILOG = (
    "examples:\n"
    "  toyspec plot runs/llama-001 -o loss.svg\n"
    "  toyspec plot runs/ --metric loss --metric val/acc --log -o sweep.png\n"
    "  toyspec plot runs/ --where 'lr < .1' --mean-by group --smooth .9 -o mean.svg\n"
    "  toyspec plot runs/ --mean-over seed --band se -o seeds.pdf\n"
    "  toyspec plot runs/a runs/b --x time -o curves.pdf"
)


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    parser.value("runs", "RUN", "runs, streams, or directories with runs, also s3://…", nargs="+", type=public)
    parser.value("-o --output", "FILE", "write to FILE: .svg, .png or .pdf", required=True)
    _add_choice(parser)
    parser.add_argument("--x", choices=_AXES, default="step", help="the x axis; default: step")
    parser.flag("--log", "log scale; values ≤ 0 have no place on it")
    parser.value(
        "--smooth",
        "W",
        "draw the moving average with weight W, such as 0.9, over the values, which are faint then",
        type=_weight,
        default=0.0,
    )
    add_dialect(parser)


def _add_choice(parser: Parser) -> None:
    parser.value("--metric", "METRIC", "a panel; may be repeated; default: the loss", action="append", default=[])
    parser.value(
        "--where",
        "FILTER",
        "draw only runs that meet it, as `toyspec ls --where` does; may be repeated",
        type=run_filter,
        action="append",
        default=[],
    )
    groups = parser.add_mutually_exclusive_group()
    groups.add_argument(
        "--mean-by",
        metavar="COLUMN[,COLUMN…]",
        type=names_in,
        default=[],
        help="a curve for each value of COLUMN, such as group or config.lr: the mean of its runs",
    )
    groups.add_argument(
        "--mean-over",
        metavar="SETTING",
        help="the mean of the runs that differ in SETTING alone, such as seed",
    )
    parser.add_argument(
        "--band",
        choices=("sd", "se", "range", "quartiles"),
        default="sd",
        help="around a mean: one sd (by n - 1), one standard error, min to max, or quartiles; default: sd",
    )


def run(options: Namespace) -> int:
    """Draw the runs and return an exit code."""
    form = os.path.splitext(options.output)[1].removeprefix(".").lower()
    if form not in _FORMATS:
        raise UsageError(f"{options.output}: the name must end in {', '.join(f'.{each}' for each in _FORMATS)}")
    notes: list[str] = []
    try:
        runs = _chosen(_read(options, dialect_choice(options)), options, notes)
        metrics = list(dict.fromkeys(options.metric)) or [_loss_of([each.summary for each in runs])]
        _require(metrics, runs)
        panels = [_panel(metric, runs, options.x, notes) for metric in metrics]
        names = list(map(shown, names_of([each.summary.facts for each in runs])))
        if options.mean_by or options.mean_over is not None:
            keys = _keys(runs, options)
            groups = groups_of([[value_of(each.summary.facts, key) for key in keys] for each in runs])
            panels, names = _means(panels, groups, keys, options)
            options.smooth = 0.0
        for panel in panels:
            _require_points(panel, options.log, notes)
        data = _picture(panels, cut_shared(names, _NAME_COLUMNS), options, form)
    except ImportError as error:
        tell("plot", str(error))
        return exit_codes.USAGE
    for note in dict.fromkeys(notes):
        tell("plot", note)
    write_output(options.output, data)
    sys.stderr.write(f"wrote {shown(options.output)}\n")
    return exit_codes.OK


def _picture(panels: Sequence[PicturePanel], names: Sequence[str], options: Namespace, form: str) -> bytes:
    from toyspec.view.pictures import picture

    return picture(
        panels, names, cast("PictureFormat", form), scale="log" if options.log else "linear", smoothing=options.smooth
    )


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
    from toyspec.core.runs.columns import asks_for_hidden, meets, requiring
    from toyspec.core.runs.run import Run

    fields = [name for each in options.where for name in each.fields]
    every = (Run.of(each.summary).known(fields) for each in runs)
    known = list(requiring(every, options.mean_by, options.where))
    met = [each for each, facts in zip(runs, known, strict=True) if meets(facts, options.where)]
    found = met if asks_for_hidden(*options.where) else [each for each in met if not each.summary.facts.hidden]
    if hidden := len(met) - len(found):
        notes.append(f"{_runs(hidden)} hidden by annotation; --where 'hidden = true' draws them")
    if not found:
        why = f"{notes[-1]}" if met else f"none of {len(runs)} runs meets the conditions"
        raise UsageError(f"nothing to draw: {why}")
    return found


def _runs(number: int) -> str:
    return "1 run is" if number == 1 else f"{number} runs are"


def _panel(metric: str, runs: Sequence[_PlottedRun], axis: Axis, notes: list[str]) -> PicturePanel:
    """Return the curves of *metric*, None for a run without a point that has a place on *axis*."""
    from toyspec.view.charts import drawn_curve
    from toyspec.view.pictures import PicturePanel

    name = shortened(metric, _NAME_CHARS)
    found = [drawn_curve(each.curves, metric, axis, _BUCKETS) for each in runs]
    curves = [curve if curve.latest is not None and curve.latest.place else None for curve in found]
    if missing := curves.count(None):
        notes.append(
            f"{_runs(missing)} without {name}{'' if axis == 'step' else f' over {axis}'}, and not in its panel"
        )
    if any(_lacks_places(each, metric, curve) for each, curve in zip(runs, found, strict=True)):
        notes.append(f"values of {name} without a place on {axis} are not drawn")
    return PicturePanel(metric, curves, axis)


def _lacks_places(run: _PlottedRun, metric: str, curve: DrawnCurve) -> bool:
    whole = run.curves.latest(metric, _BUCKETS)
    return whole is not None and curve.latest is not None and whole.number > len(curve.latest.place) > 0


def _means(
    panels: Sequence[PicturePanel], groups: Sequence[Group], keys: Sequence[str], options: Namespace
) -> tuple[list[PicturePanel], list[str]]:
    """Return *panels* with the mean of each of *groups*, and the names of these."""
    from toyspec.core.runs.groups import BANDS, are_ordered, group_name
    from toyspec.view.charts import mean_curve

    is_ordered = are_ordered(groups)
    found = []
    for panel in panels:
        parts = [[curve for at in group.members if (curve := panel.curves[at])] for group in groups]
        curves = [
            mean_curve(part, len(group.members), options.band, options.smooth) if part else None
            for part, group in zip(parts, groups, strict=True)
        ]
        found.append(panel._replace(curves=curves, note=f"mean ({BANDS[options.band]})", is_ordered=is_ordered))
    return found, [shown(group_name(keys, group)) for group in groups]


def _keys(runs: Sequence[_PlottedRun], options: Namespace) -> list[str]:
    """Return the fields whose values a group of runs shares."""
    from toyspec.core.runs.groups import is_named, keys_without

    if options.mean_over is None:
        return list(options.mean_by)
    settings = [each.summary.facts.settings or {} for each in runs]
    if not any(is_named(name, options.mean_over) for each in settings for name in each):
        raise unknown_field(options.mean_over, {name for each in settings for name in each})
    return keys_without(settings, options.mean_over)


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
    found = next((run.loss_name for run in runs if run.loss_name is not None), None)
    if found is None:
        raise UsageError("no run has a loss; name a metric by --metric")
    return found


def _require(metrics: Sequence[str], runs: Sequence[_PlottedRun]) -> None:
    known = {name for each in runs for name in each.summary.series}
    for name in metrics:
        if name not in known:
            listed = some_of([shortened(each, _NAME_CHARS) for each in sorted(known)], _MOST_LISTED)
            near = did_you_mean(name, known)
            raise UsageError(f"the run has no metric {shortened(name, _NAME_CHARS)!r}{near}; it has: {listed}")


def _weight(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise ArgumentTypeError(f"{text!r} must be at least 0 and less than 1, for example 0.9")
    return value
