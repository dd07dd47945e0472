"""``toyspec plot``: curves of runs as a picture."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, cast

from toyspec.cli import exit_codes
from toyspec.cli.columns import cut_apart
from toyspec.cli.dialect_options import add_dialect, dialect_choice
from toyspec.cli.parsers import Parser, UsageError
from toyspec.cli.paths import shown
from toyspec.errors import StreamError
from toyspec.escaping import printable
from toyspec.places.addresses import public

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from toyspec.reading.log_detection import DialectChoice
    from toyspec.runs.summary import RunSummary
    from toyspec.view.live_curves import LiveCurves
    from toyspec.view.pictures import PictureFormat

_FORMATS = ("svg", "png", "pdf")
_NAME_COLUMNS = 40
_BUCKETS = 1000


def configure(parser: Parser) -> None:
    """Add description, arguments and an example to *parser*."""
    parser.usage = "toyspec plot [OPTION…] RUN… -o FILE"
    parser.description = (
        "Draw curves of runs as SVG, PNG or PDF, for a paper or a pull request: a panel\n"
        "for each metric, a curve for each run. Where a point stands for many, a band\n"
        "shows their extremes, so that no spike is lost. Crosses are values that are not\n"
        "finite, dashed lines unreadable lines, dotted lines resumptions, and faint\n"
        "dashes what a later attempt did again. Equal runs give equal files.\n"
        "\n"
        "Needs matplotlib: python -m pip install 'toyspec[plot]'."
    )
    parser.epilog = (
        "examples:\n"
        "  toyspec plot runs/llama-001 -o loss.svg\n"
        "  toyspec plot runs/ --metric loss --metric val/acc --log -o sweep.png\n"
        "  toyspec plot runs/a runs/b --name small --name large --x time -o curves.pdf"
    )
    parser.add_argument(
        "runs", metavar="RUN", nargs="+", type=public, help="runs, streams, or directories with runs, also s3://…"
    )
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="write to FILE: .svg, .png or .pdf")
    parser.add_argument(
        "--metric", metavar="METRIC", action="append", default=[], help="a panel; may be repeated; default: the loss"
    )
    parser.add_argument(
        "--x", choices=("step", "time", "epoch", "tokens"), default="step", help="the x axis; default: step"
    )
    parser.add_argument("--log", action="store_true", help="log scale; values ≤ 0 have no place on it")
    parser.add_argument("--log-x", action="store_true", help="log scale of the x axis")
    parser.add_argument(
        "--name", metavar="TEXT", action="append", default=[], help="what to call a run, once for each run in order"
    )
    parser.add_argument("--title", metavar="TEXT", help="a title above all panels")
    add_dialect(parser)


def run(options: Namespace) -> int:
    """Draw the runs and return an exit code."""
    from toyspec.view.drawn_curves import drawn_curve
    from toyspec.view.pictures import MOST_NAMED, Layout, picture

    form = os.path.splitext(options.output)[1].removeprefix(".").lower()
    if form not in _FORMATS:
        raise UsageError(f"{options.output}: the name must end in {', '.join(f'.{each}' for each in _FORMATS)}")
    try:
        runs = _read(options.runs, frozenset(options.metric), dialect_choice(options))
        metrics = list(dict.fromkeys(options.metric)) or [_loss_of([summary for _, summary in runs])]
        _require(metrics, runs)
        panels = [(name, [drawn_curve(curves, name, options.x, _BUCKETS) for curves, _ in runs]) for name in metrics]
        layout = Layout(
            options.x, "log" if options.log_x else "linear", "log" if options.log else "linear", options.title
        )
        names = _names([summary for _, summary in runs], options.name)
        data = picture(panels, names, layout, cast("PictureFormat", form))
    except (StreamError, ImportError) as error:
        sys.stderr.write(f"toyspec plot: {printable(str(error))}\n")
        return exit_codes.USAGE
    with open(options.output, "wb") as file:
        file.write(data)
    note = f"; {len(names)} runs are too many for a legend" if len(names) > MOST_NAMED else ""
    sys.stderr.write(f"wrote {shown(options.output)}{note}\n")
    return exit_codes.OK


def _read(roots: Sequence[str], metrics: frozenset[str], choice: DialectChoice) -> list[tuple[LiveCurves, RunSummary]]:
    """Return the curves and the summary of each run at and below *roots*; raise StreamError."""
    from toyspec.errors import UnknownFormatError
    from toyspec.generated.runs import TOKEN_COUNTS
    from toyspec.reading.log_detection import usual_names
    from toyspec.runs.listing import streams_below
    from toyspec.view.drawn_curves import read_curves

    errors, streams = streams_below(roots, usual_names(choice))
    for error in errors:
        raise StreamError(error.path, error.message)
    if not streams:
        raise UnknownFormatError(", ".join(roots), "no run here")
    wanted = {*metrics, *TOKEN_COUNTS}
    found = []
    for stream in streams:
        curves, summary = read_curves(
            stream.path, wanted=(lambda name: name in wanted) if metrics else None, dialect=choice
        )
        if summary.profile is not None or summary.dialect is not None:
            found.append((curves, summary))
    return found


def _loss_of(runs: Sequence[RunSummary]) -> str:
    """Return the name of the loss of the first run that has one; raise UsageError if none has."""
    for run in runs:
        for name, curve in run.series.items():
            if curve is run.loss:
                return name
    raise UsageError("no run has a loss; name a metric by --metric")


def _require(metrics: Sequence[str], runs: Sequence[tuple[LiveCurves, RunSummary]]) -> None:
    from toyspec.cli.metric_charts import require_metrics

    require_metrics(metrics, list(dict.fromkeys(name for _, summary in runs for name in summary.series)))


def _names(runs: Sequence[RunSummary], given: Sequence[str]) -> list[str]:
    """Return what to call the runs: distinct, and inert."""
    if given and len(given) != len(runs):
        raise UsageError(f"--name was given {len(given)} times for {len(runs)} runs; give it once for each")
    names = list(given) or [run.name for run in runs]
    if len(set(names)) < len(names) and not given:
        names = [run.directory for run in runs]
    return cut_apart([shown(name) for name in names], _NAME_COLUMNS)
