"""Draws diagrams from data: automata of streams, states of files, reading modes, a saved curve, published costs."""

from __future__ import annotations

from codegen.diagrams import saved_curve, step_costs
from codegen.diagrams.automaton import automata
from codegen.diagrams.readings import reading_pictures

FOLDER = "docs/diagrams"


def diagrams() -> dict[str, str]:
    """Return every diagram as SVG by its path from the root."""
    figures = {**saved_curve.picture(), **step_costs.picture()}
    pictures = {**automata(), **reading_pictures(), **figures}
    return {f"{FOLDER}/{name}.svg": text for name, text in pictures.items()}
