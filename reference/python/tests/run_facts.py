"""What a summary knows of a run, as one value that tests compare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toyspec import StreamError
from toyspec.core.runs.history import points_of
from toyspec.core.runs.summary import summarize_run


def facts(path: Path) -> tuple[Any, ...] | str:
    """Return everything that a summary knows of the run at *path*, or why there is none."""
    try:
        run = summarize_run(str(path))
    except StreamError as error:
        return str(error)
    # As text, since NaN is not equal to itself.
    curves = {name: str((*vars(curve).values(),)) for name, curve in run.series.items()}
    measured = points_of(run, "loss")
    return (
        run.facts,
        run.kinds,
        run.first_step,
        run.evals,
        run.goals,
        run.report,
        curves,
        measured,
    )
