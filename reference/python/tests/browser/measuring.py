"""What the browser is asked about a page that it shows: what is too wide, and what is too faint to be read."""

from __future__ import annotations

from typing import NamedTuple

from playwright.sync_api import Page

WIDER_THAN_THE_PAGE = """
() => {
  const width = document.documentElement.clientWidth;
  const scrolls = (element) => {
    for (let box = element.parentElement; box && box !== document.body; box = box.parentElement) {
      if (box.matches("pre, pre *") && ["auto", "scroll"].includes(getComputedStyle(box).overflowX)) return true;
    }
    return false;
  };
  const found = [...document.querySelectorAll(".md-content *")].filter((element) => {
    const box = element.getBoundingClientRect();
    return box.width > 0 && box.right > width + 1 && !scrolls(element) && !element.closest(".stacked thead");
  });
  const shown = found.slice(0, 3).map((element) => element.outerHTML.slice(0, 120));
  if (document.documentElement.scrollWidth > width) shown.push(`${document.documentElement.scrollWidth} px`);
  return shown;
}
"""

TEXTS = """
() => {
  const parts = (colour) => {
    const found = colour.match(/^(rgba?\\(|color\\(srgb )([\\d.]+),? ([\\d.]+),? ([\\d.]+)(?:,| \\/)? ?([\\d.]+)?\\)$/);
    if (!found) throw new Error(`a colour of another kind: ${colour}`);
    const scale = found[1].startsWith("color") ? 255 : 1;
    return [...found.slice(2, 5).map((part) => Number(part) * scale), found[5] === undefined ? 1 : Number(found[5])];
  };
  const over = (above, below) => [0, 1, 2].map((i) => above[i] * above[3] + below[i] * (1 - above[3]));
  const behind = (element) => {
    const layers = [];
    for (let box = element; box; box = box.parentElement) {
      const colour = parts(getComputedStyle(box).backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((below, above) => over(above, below), [255, 255, 255]);
  };
  const opacity = (element) => {
    let product = 1;
    for (let box = element; box; box = box.parentElement) product *= Number(getComputedStyle(box).opacity);
    return product;
  };
  const found = new Map();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || element.closest("svg, script, style, noscript")) continue;
    if (!element.checkVisibility({visibilityProperty: true})) continue;
    const box = element.getBoundingClientRect();
    const style = getComputedStyle(element);
    const shown = opacity(element);
    if (box.width < 2 || box.height < 2 || shown === 0) continue;
    const ground = behind(element);
    const colour = parts(style.color);
    colour[3] *= shown;
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const text = {
      text: walker.currentNode.data.trim().slice(0, 40),
      element: `${element.parentElement.className} > ${element.tagName.toLowerCase()}.${element.className}`,
      colour: over(colour, ground), ground, isLarge,
    };
    const key = JSON.stringify([text.colour, ground, isLarge]);
    if (!found.has(key)) found.set(key, text);
  }
  return [...found.values()];
}
"""

Colour = tuple[float, float, float]


class Faint(NamedTuple):
    """A text with too little contrast to its background."""

    ratio: float
    text: str
    element: str
    colour: Colour
    ground: Colour


def luminance(colour: Colour) -> float:
    """Return the relative luminance of *colour*, red, green and blue from 0 to 255, as WCAG 2 defines it."""
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in scaled(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def scaled(colour: Colour) -> Colour:
    """Return *colour* with parts from 0 to 1."""
    red, green, blue = colour
    return red / 255, green / 255, blue / 255


def contrast(one: Colour, other: Colour) -> float:
    """Return the contrast ratio of two colours, from 1 to 21."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def faint_texts(page: Page) -> list[Faint]:
    """Return what *page* shows with less contrast than level AA of WCAG 2 asks for, one of each pair of colours."""
    found = []
    for text in page.evaluate(TEXTS):
        ratio = contrast(tuple(text["colour"]), tuple(text["ground"]))
        if ratio < (3.0 if text["isLarge"] else 4.5):
            found.append(Faint(round(ratio, 2), text["text"], text["element"], text["colour"], text["ground"]))
    return sorted(found)


def too_wide(page: Page) -> list[str]:
    """Return the beginning of each element that makes *page* wider than its window; code may scroll by itself."""
    found: list[str] = page.evaluate(WIDER_THAN_THE_PAGE)
    return found
