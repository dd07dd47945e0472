"""Writes SVG for embedding in a page: it uses the colours of the page, and has a title and a description."""

from __future__ import annotations

from html import escape
from typing import Literal, NamedTuple

WIDTH = 360
"""Width in units; one unit is about a pixel on a phone."""
MONO_WIDTH = 6.3
"""Units that a character of class ``mono`` takes."""

SMALL_WIDTH = 6.0
"""Units that a character of class ``small`` takes in a wide font."""

Anchor = Literal["start", "middle", "end"]

# Inside a page the variables are those of its theme; a file of its own falls back to dark on white.
_STYLE = """\
#{name} {{ width: 100%; height: auto; }}
#{name} text {{ fill: var(--md-default-fg-color, #222); font: 12px system-ui, sans-serif; }}
#{name} .mono {{ font: 10.5px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }}
#{name} .small {{ font-size: 11px; }}
#{name} .halo {{ stroke: var(--md-default-bg-color, #fff); stroke-width: 5px; paint-order: stroke; }}
#{name} .strong {{ font-weight: 600; }}
#{name} .faint {{ fill: var(--md-default-fg-color--light, #555); }}
#{name} .box {{ fill: none; stroke: var(--md-default-fg-color--light, #555); stroke-width: 1.2; }}
#{name} .edge {{ fill: none; stroke: var(--md-default-fg-color--light, #555); stroke-width: 1.2; }}
#{name} .curve {{ fill: none; stroke: var(--md-typeset-a-color, #4051b5); stroke-width: 1.6; stroke-linejoin: round; }}
#{name} .head {{ fill: var(--md-default-fg-color--light, #555); stroke: none; }}
#{name} .good {{ fill: #2e9e4f; fill-opacity: .3; stroke: #2e9e4f; }}
#{name} .open {{ fill: #d08700; fill-opacity: .3; stroke: #d08700; stroke-dasharray: 4 2; }}
#{name} .bad {{ fill: #d13438; fill-opacity: .35; stroke: #d13438; stroke-width: 2; }}
#{name} .none {{ fill: none; stroke: var(--md-default-fg-color--lighter, #aaa); stroke-dasharray: 1 3; }}"""


class Box(NamedTuple):
    """A rectangle; *x*, *y* is its upper left corner."""

    x: float
    y: float
    width: float
    height: float

    @property
    def bottom(self) -> float:
        """The coordinate of its end."""
        return self.y + self.height


class Drawing:
    """Parts of one picture, in the order in which they are painted."""

    def __init__(self, name: str, title: str, description: str) -> None:
        self.name = name
        """Name of the file; everything with an id in the picture begins with it."""
        self._title = title
        self._description = description
        self._parts: list[str] = []
        self.height = 0.0
        """Units from top to bottom; grows with what is drawn."""

    def text(self, x: float, y: float, text: str, *, style: str = "", anchor: Anchor = "start") -> None:
        """Write *text* with its baseline at *y*."""
        kind = f' class="{style}"' if style else ""
        place = f' text-anchor="{anchor}"' if anchor != "start" else ""
        self._parts.append(f'<text x="{_number(x)}" y="{_number(y)}"{kind}{place}>{escape(text, quote=False)}</text>')
        self._reaches(y + 4)

    def box(self, box: Box, *, style: str, radius: float = 3) -> None:
        """Draw *box*, with round corners."""
        size = f'width="{_number(box.width)}" height="{_number(box.height)}" rx="{_number(radius)}"'
        self._parts.append(f'<rect x="{_number(box.x)}" y="{_number(box.y)}" {size} class="{style}"/>')
        self._reaches(box.bottom + 1)

    def arrow(self, path: str) -> None:
        """Draw *path* with an arrowhead at its end."""
        self._parts.append(f'<path d="{path}" class="edge" marker-end="url(#{self.name}-head)"/>')

    def line(self, points: str) -> None:
        """Draw a curve through *points*, pairs of coordinates as SVG writes them."""
        self._parts.append(f'<polyline points="{points}" class="curve"/>')

    def svg(self) -> str:
        """Return the picture."""
        name, height = self.name, _number(self.height + 4)
        head = '<path d="M0 0 8 4 0 8z" class="head"/>'
        marker = 'markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto" markerUnits="userSpaceOnUse"'
        labels = f'role="img" aria-labelledby="{name}-title" aria-describedby="{name}-description"'
        return "\n".join(
            [
                "<!-- Made by `make generate`. -->",
                f'<svg xmlns="http://www.w3.org/2000/svg" id="{name}" viewBox="0 0 {WIDTH} {height}" {labels}>',
                f'<title id="{name}-title">{escape(self._title)}</title>',
                f'<desc id="{name}-description">{escape(self._description)}</desc>',
                f"<style>\n{_STYLE.format(name=name)}\n</style>",
                f'<defs><marker id="{name}-head" {marker}>{head}</marker></defs>',
                *self._parts,
                "</svg>\n",
            ]
        )

    def _reaches(self, y: float) -> None:
        self.height = max(self.height, y)


def cut(text: str, characters: int) -> str:
    """Return *text*, or as much of its beginning as fits, with an ellipsis."""
    return text if len(text) <= characters else text[: characters - 1] + "…"


def _number(value: float) -> str:
    return f"{round(value, 1):g}"
