"""Curves as a picture for a paper or a pull request, by matplotlib."""

from __future__ import annotations

import io
import warnings
from array import array
from math import nan
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from toyspec.core.escaping import shortened
from toyspec.view.charts import smoothed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.view.charts import DrawnCurve, Scale, Stretch
    from toyspec.view.curve_frames import Axis

PictureFormat = Literal["svg", "png", "pdf"]

MOST_NAMED = 20
"""More curves than these are shades of one scale, from the first to the last, without a legend."""

# Those of the viewer on paper.
_COLORS = ("#0f58a3", "#d97500", "#008a60", "#4a1263", "#a9438f", "#2f9fd8", "#6b6f00")
_DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)))
# The first so many differ in luminance: without hues they need no dashes.
_SOLID = 4
# A shorter part of a mean, as a share of its width, has no room for a label.
_LEAST_LABELLED = 0.04
_NAME_CHARS = 60
_BESIDE_NAME = 0.6
_LEGEND_SIZE = 8.0
_PANEL = (3.6, 2.5)
_ALONE = (6.0, 3.4)
_DOTS_PER_INCH = 200
_HOURS = 3 * 3600.0
_STYLE = {
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.labelsize": 9.0,
    "axes.edgecolor": "#666666",
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "lines.linewidth": 1.2,
    "legend.frameon": False,
    "legend.fontsize": _LEGEND_SIZE,
    "figure.constrained_layout.use": True,
    # What would differ from one drawing to the next.
    "svg.hashsalt": "toyspec",
}


class PicturePanel(NamedTuple):
    """One metric of all runs."""

    metric: str
    curves: Sequence[DrawnCurve | None]
    axis: Axis
    """What the x axis is."""
    note: str = ""
    """What the curves are, where they are not those of runs."""
    is_ordered: bool = False
    """Whether the curves are those of a number that grows from one to the next."""


def picture(
    panels: Sequence[PicturePanel],
    names: Sequence[str],
    form: PictureFormat,
    *,
    scale: Scale = "linear",
    smoothing: float = 0.0,
) -> bytes:
    """Return a picture with a panel for each metric, in which each of *names* has a curve or None.

    Where a point stands for several, a band reaches from the least to the greatest of them, so that no spike is lost.
    Crosses are values that are not finite, dashed lines unreadable lines, dotted lines resumptions, and faint dashes
    what a later attempt did again. With *smoothing*, the weight of an exponential moving average from 0 to 1, the raw
    values stay, faintly. Equal curves give equal bytes. Raises ImportError without matplotlib.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("pictures need matplotlib: python -m pip install 'toyspec[plot]'") from error
    with mpl.rc_context(), warnings.catch_warnings():
        # A character that the font lacks is shown as a box, which says enough.
        warnings.simplefilter("ignore")
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        figure = Figure()
        axes = _axes(figure, len(panels))
        for panel, each in zip(panels, axes, strict=True):
            each.set_yscale(scale, **({"nonpositive": "mask"} if scale == "log" else {}))
            _draw_panel(each, panel, smoothing)
        _add_legend(figure, axes, names, is_ordered=any(each.is_ordered for each in panels))
        written = io.BytesIO()
        no_date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[form]
        figure.savefig(written, format=form, dpi=_DOTS_PER_INCH, metadata=no_date)
    return written.getvalue()


def _axes(figure: Any, number: int) -> list[Any]:
    columns = 1 if number == 1 else 2 if number <= 4 else 3
    rows = -(-number // columns)
    figure.set_size_inches(*(_ALONE if number == 1 else (columns * _PANEL[0], rows * _PANEL[1])))
    return [figure.add_subplot(rows, columns, index + 1) for index in range(number)]


def _draw_panel(axes: Any, panel: PicturePanel, smoothing: float) -> None:
    title = shortened(panel.metric, _NAME_CHARS)
    axes.set_title(f"{title}, {panel.note}" if panel.note else title, loc="left", parse_math=False)
    unit, label = _unit(panel.curves, panel.axis)
    axes.set_xlabel(label)
    for index, curve in enumerate(panel.curves):
        if curve is not None:
            _draw_curve(axes, curve, _line(index, len(panel.curves), panel.is_ordered), unit, smoothing)
    axes.margins(x=0.01)


def _unit(curves: Sequence[DrawnCurve | None], axis: Axis) -> tuple[float, str]:
    """Return what to divide places by, and the label of the axis."""
    if axis != "time":
        return 1.0, axis
    longest = max((max(each.latest.place, default=0.0) for each in curves if each and each.latest), default=0.0)
    return (3600.0, "time, h") if longest > _HOURS else (1.0, "time, s")


def _line(index: int, number: int, is_ordered: bool) -> dict[str, Any]:
    """Return colour and dashes, these from the fifth on; many curves, and those of a number, are shades of a scale."""
    if number > MOST_NAMED or is_ordered:
        import matplotlib as mpl

        return {"color": mpl.colormaps["viridis"](index / max(number - 1, 1) * 0.85), "linestyle": "-"}
    dash = 0 if index < _SOLID else 1 + (index - _SOLID) // len(_COLORS)
    return {"color": _COLORS[index % len(_COLORS)], "linestyle": _DASHES[dash % len(_DASHES)]}


def _draw_curve(axes: Any, curve: DrawnCurve, look: dict[str, Any], unit: float, smoothing: float) -> None:
    color = look["color"]
    for place in curve.gaps:
        axes.axvline(place / unit, color=color, linewidth=0.8, linestyle=(0, (4, 3)), alpha=0.7, zorder=1)
    for place in curve.resumes:
        axes.axvline(place / unit, color=color, linewidth=1.0, linestyle=(0, (1, 2)), alpha=0.9, zorder=1)
    for stretch in curve.abandoned:
        _draw_stretch(axes, stretch, {"color": color, "linestyle": (0, (3, 2)), "alpha": 0.4, "linewidth": 0.9}, unit)
    if curve.latest is not None:
        latest = _draw_incomplete(axes, curve, color, unit) if curve.incomplete else curve.latest
        _draw_stretch(axes, latest, look | ({"alpha": 0.3, "linewidth": 0.8} if smoothing else {}), unit)
        if smoothing:
            axes.plot([place / unit for place in curve.latest.place], smoothed(curve.latest, smoothing), **look)
        _mark_not_finite(axes, curve.latest, color, unit)


def _draw_stretch(axes: Any, stretch: Stretch, look: dict[str, Any], unit: float) -> None:
    places = [place / unit for place in stretch.place]
    if any(low < high for low, high in zip(stretch.low, stretch.high, strict=True)):
        # The outline keeps a spike visible that is narrower than a dot.
        share = look.get("alpha", 1.0)
        band = {"facecolor": (look["color"], 0.25 * share), "edgecolor": (look["color"], 0.8 * share)}
        axes.fill_between(places, stretch.low, stretch.high, linewidth=0.4, zorder=1.5, **band)
    values = stretch.mean if stretch.level > 1 else stretch.last
    (line,) = axes.plot(places, values, solid_joinstyle="round", **look)
    alone = _alone(values)
    if alone:
        # A line has no length between two values that are not finite.
        line.set(marker=".", markersize=3.5, markevery=alone)


def _draw_incomplete(axes: Any, curve: DrawnCurve, color: Any, unit: float) -> Stretch:
    """Draw a mean in fine dashes where members are missing, with how many are left; return the rest of it."""
    latest = curve.latest
    assert latest is not None
    mean = array("d", latest.mean)
    for begin, end, number in curve.incomplete:
        places = [place / unit for place in latest.place[begin:end]]
        look = {
            "color": color,
            "linewidth": 1.3,
            "linestyle": (0, (2.5, 1.5)),
            "marker": "." if end - begin == 1 else "",
        }
        axes.plot(places, latest.mean[begin:end], markersize=2, **look)
        mean[begin:end] = array("d", [nan]) * (end - begin)
        if latest.place[end - 1] - latest.place[begin] >= _LEAST_LABELLED * (latest.place[-1] - latest.place[0]):
            at, text = (places[0], latest.mean[begin]), f"{number} of {curve.members}"
            axes.annotate(text, at, (2, 5), textcoords="offset points", color=color, fontsize=7)
    return latest._replace(mean=mean, last=mean)


def _alone(values: Sequence[float]) -> list[int]:
    is_known = [value == value for value in values]  # noqa: PLR0124 - NaN alone differs from itself
    last = len(is_known) - 1
    return [
        at
        for at, known in enumerate(is_known)
        if known and not (at and is_known[at - 1]) and not (at < last and is_known[at + 1])
    ]


def _mark_not_finite(axes: Any, stretch: Stretch, color: Any, unit: float) -> None:
    # Each point has its own, however near they are: crosses over each other are a row of ticks.
    places = [place / unit for place, number in zip(stretch.place, stretch.not_finite, strict=True) if number]
    if places:
        axes.plot(
            places, [0.02] * len(places), "x", color=color, markersize=4, markeredgewidth=0.9, clip_on=False, zorder=3,
            transform=axes.get_xaxis_transform(),
        )  # fmt: skip


def _add_legend(figure: Any, axes: Sequence[Any], names: Sequence[str], *, is_ordered: bool) -> None:
    from matplotlib.font_manager import FontProperties
    from matplotlib.lines import Line2D
    from matplotlib.textpath import text_to_path

    if len(names) > MOST_NAMED:
        return
    handles = [Line2D([], [], **_line(index, len(names), is_ordered)) for index in range(len(names))]
    inside = len(axes) == 1 and len(names) <= 4
    place: dict[str, Any] = {"loc": "best"} if inside else {"loc": "outside lower center"}
    # In inches: the text, as it is drawn, its line and the gap after it.
    font = FontProperties(size=_LEGEND_SIZE)
    widths = [text_to_path.get_text_width_height_descent(name, font, ismath=False)[0] for name in names]
    longest = max(widths) / 72 + _BESIDE_NAME
    figure.set_figwidth(max(figure.get_figwidth(), longest + 0.2))
    columns = 1 if inside else max(1, min(len(names), int(figure.get_figwidth() / longest)))
    # The names are put in afterwards: matplotlib leaves out those that begin with an underscore.
    legend = (axes[0] if inside else figure).legend(handles, ["name"] * len(names), ncols=columns, **place)
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_parse_math(False)
        text.set_text(name)
