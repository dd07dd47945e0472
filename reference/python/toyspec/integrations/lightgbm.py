"""A callback for LightGBM: ``lightgbm.train(..., callbacks=[toyspec_callback()])``.

Written against lightgbm 4.7. A boosting round is a step, counted from 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lightgbm.callback import EarlyStopException

from toyspec.integrations.training_run import run_of

if TYPE_CHECKING:
    from collections.abc import Callable


def toyspec_callback(root: str = "runs", **options: Any) -> Callable[[Any], None]:
    """Return a callback that writes the evaluations of each round as ``<data>/<metric>``, and ends with the last round.

    Raise TypeError for an unknown option. A training that stops early ends the run with the program.
    """
    run = run_of(root, options)

    def log_round(environment: Any) -> None:
        if environment.iteration == environment.begin_iteration:
            run.begin(environment.params or {})
        values = {f"{item[0]}/{item[1]}": item[2] for item in environment.evaluation_result_list or ()}
        run.log(values, step=environment.iteration + 1)
        if environment.iteration + 1 == environment.end_iteration:
            run.end()
        elif run.should_stop:
            run.end()
            raise EarlyStopException(environment.iteration, environment.evaluation_result_list or [])

    # LightGBM sorts callbacks by it: after those that record, before the one that stops.
    vars(log_round)["order"] = 25
    return log_round
