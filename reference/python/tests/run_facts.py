"""What a summary knows of a run, as one value that tests compare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toyspec import StreamError
from toyspec.core.format.numbers import finite_number
from toyspec.core.runs.history import history
from toyspec.core.runs.summary import RunSummary, summarize_run


def loss_by_step(run: RunSummary) -> str:
    """Return the loss of *run* by step, as text, since NaN is not equal to itself; empty where the run has none."""
    if run.loss_name is None:
        return ""
    table = history(run.path, [run.loss_name], dialect=run.choice)
    cells = zip(table["step"], table[run.loss_name], strict=True)
    return str([(step, value if isinstance(value, str) else finite_number(value)) for step, value in cells])


def facts(path: Path) -> tuple[Any, ...] | str:
    """Return everything that a summary knows of the run at *path*, or why there is none."""
    try:
        run = summarize_run(str(path))
    except StreamError as error:
        return str(error)
    # As text, since NaN is not equal to itself.
    curves = {name: str((*vars(curve).values(),)) for name, curve in run.series.items()}
    return (
        run.facts,
        run.kinds,
        run.first_step,
        run.evals,
        run.goals,
        run.report,
        run.missing,
        curves,
        loss_by_step(run),
    )
