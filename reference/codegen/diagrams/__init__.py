"""Draws diagrams from data: automata of streams, states of files, reading modes, a saved curve, costs of a step."""

from __future__ import annotations

from codegen.diagrams import saved_curve, step_costs
from codegen.diagrams.automaton import automata
from codegen.diagrams.readings import reading_pictures

FOLDER = "docs/diagrams"


def diagrams() -> dict[str, str]:
    """Return every diagram as SVG by its path from the root."""
    return {
        f"{FOLDER}/{name}.svg": text
        for name, text in {**automata(), **reading_pictures(), **saved_curve.picture(), **step_costs.picture()}.items()
    }
