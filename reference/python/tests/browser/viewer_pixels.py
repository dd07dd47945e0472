"""Reads colours from the canvas of the first chart, and says where values belong on it."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import Page

from browser.viewer_pages import at_rest

_DISTANCE = 60
"""How far red, green and blue together may be from a colour."""

_SCRIPT = """([names, distance, picture]) => {
    const canvas = picture ? window.exportedPicture : document.querySelector(".chart-canvas");
    const copy = Object.assign(document.createElement("canvas"), {width: canvas.width, height: canvas.height});
    const pen = copy.getContext("2d", {willReadFrequently: true});
    const style = getComputedStyle(document.documentElement);
    const probe = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
    const colours = names.map((name) => {
        probe.fillStyle = "#123456";
        probe.fillStyle = style.getPropertyValue(name);
        probe.fillRect(0, 0, 1, 1);
        return [...probe.getImageData(0, 0, 1, 1).data].slice(0, 3);
    });
    pen.fillStyle = style.getPropertyValue("--surface");
    pen.fillRect(0, 0, copy.width, copy.height);
    pen.drawImage(canvas, 0, 0);
    const {data, width, height} = pen.getImageData(0, 0, canvas.width, canvas.height);
    const found = {};
    for (let at = 0; at < width * height; at++) {
        const [x, y, z] = [data[4 * at], data[4 * at + 1], data[4 * at + 2]];
        if (!colours.some(([r, g, b]) => Math.abs(x - r) + Math.abs(y - g) + Math.abs(z - b) < distance)) continue;
        (found[at % width] ??= []).push(Math.floor(at / width));
    }
    const ratio = canvas.width / (canvas.clientWidth || canvas.width);
    return JSON.stringify({columns: found, plot: canvas.dataset.plot, ratio});
}"""


class Painted(NamedTuple):
    """Rows of the pixels of some colours in each column, from the top down, and the plot that they belong to."""

    columns: dict[int, list[int]]
    plot: dict[str, Any]
    ratio: float

    def across(self, place: float) -> float:
        """Return the column of a place on the axis x."""
        box = self.plot["box"]
        return float(self.ratio * (box["left"] + box["width"] * _share(self.plot["x"], place)))

    def down(self, value: float) -> float:
        """Return the row of a value on the axis y."""
        box = self.plot["box"]
        return float(self.ratio * (box["top"] + box["height"] * (1 - _share(self.plot["y"], value))))

    @property
    def bottom(self) -> float:
        """The row where the plot ends."""
        return float(self.ratio * (self.plot["box"]["top"] + self.plot["box"]["height"]))

    def reach(self, column: float, value: float, free: float, base: float) -> float:
        """Return how much of its height the mark of a spike has at most one column from *column*.

        No curve is above *free*, and *base* is what values around the spike are like. A mark ends at the upper edge of
        the plot. As a tick it begins there: 4 pixels and 12 for the whole height.
        """
        edge, top = self.ratio * self.plot["box"]["top"], self.top(column, 1)
        if top is None:
            return 0.0
        if not self.plot["hasTicks"]:
            return float((self.down(free) - top) / (self.down(free) - max(self.down(value), edge)))
        height = self.ratio * self.plot["box"]["height"]
        whole = self.ratio * (4 + 12 * min(1.0, (self.down(base) - self.down(value)) / height))
        rows = {*self._near(column, 1)}
        painted = next(row for row in range(top, top + len(rows) + 1) if row not in rows) - top
        return (painted + self.ratio) / whole if abs(top - edge) <= self.ratio else 0.0

    def _near(self, column: float, beside: int) -> list[int]:
        some = range(math.floor(column) - beside, math.floor(column) + beside + 1)
        return [row for at in some for row in self.columns.get(at, []) if row <= self.bottom + 2]

    def top(self, column: float, beside: int) -> int | None:
        """Return the highest row that is painted at most *beside* columns from *column*."""
        return min(self._near(column, beside), default=None)

    def lowest(self, column: float, beside: int) -> int:
        """Return the lowest row of the plot that is painted there, -1 without one."""
        return max(self._near(column, beside), default=-1)


def _share(axis: dict[str, Any], value: float) -> float:
    low, high = axis["from"], axis["to"]
    if axis["isLog"]:
        low, high, value = math.log10(low), math.log10(high), math.log10(value)
    return float((value - low) / (high - low))


def shown(page: Page, count: int) -> None:
    """Wait until the first chart shows the curves of *count* runs."""
    script = 'count => document.querySelector(".chart-canvas")?.dataset.runs === String(count)'
    page.wait_for_function(script, arg=count)
    at_rest(page)


def painted(page: Page, colours: Sequence[str], distance: int = _DISTANCE) -> Painted:
    """Return where the first chart has one of *colours*, custom properties of the style sheet."""
    return _painted(page, colours, distance, is_picture=False)


def _painted(page: Page, colours: Sequence[str], distance: int, *, is_picture: bool) -> Painted:
    # As one text: the browser takes long to hand over a hundred thousand numbers.
    found = json.loads(page.evaluate(_SCRIPT, [list(colours), distance, is_picture]))
    columns = {int(at): rows for at, rows in found["columns"].items()}
    return Painted(columns, json.loads(found["plot"]), found["ratio"])


_LOAD = """async ([data, plot, width, height]) => {
    const image = new Image();
    image.src = data;
    await image.decode();
    const canvas = Object.assign(document.createElement("canvas"), {width, height});
    canvas.getContext("2d").drawImage(image, 0, 0, width, height);
    canvas.dataset.plot = plot;
    window.exportedPicture = canvas;
}"""


def exported(page: Page, folder: Path, kind: str, colours: str) -> Painted:
    """Return the marks in a picture that the first chart is exported as; *colours* is the choice of the menu."""
    page.get_by_text("Export").click()
    page.locator(".menu-items").get_by_label("Colours").select_option(colours)
    with page.expect_download() as download:
        page.get_by_text(kind).click()
    file = folder / download.value.suggested_filename
    download.value.save_as(file)
    plot = page.locator(".chart").first.get_attribute("data-exported")
    media_type = "image/svg+xml" if file.suffix == ".svg" else "image/png"
    data = f"data:{media_type};base64,{base64.b64encode(file.read_bytes()).decode()}"
    page.evaluate(_LOAD, [data, plot, 1920, 960])
    found = _painted(page, [*(f"--run-{number}" for number in range(7)), "--spike"], _DISTANCE, is_picture=True)
    return found._replace(ratio=2.0)
