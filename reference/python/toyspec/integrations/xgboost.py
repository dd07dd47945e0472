"""A callback for XGBoost: ``xgboost.train(..., callbacks=[ToyspecCallback()])``.

Written against xgboost 3.2. A boosting round is a step, counted from 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xgboost.callback import TrainingCallback

from toyspec.integrations.training_run import run_of

if TYPE_CHECKING:
    from collections.abc import Mapping


class ToyspecCallback(TrainingCallback):
    """Writes the evaluations of each round as ``<data>/<metric>``; the options are those of RunOptions."""

    def __init__(self, root: str = "runs", **options: Any) -> None:
        """Log below *root*; raise TypeError for an unknown option."""
        super().__init__()
        self.run = run_of(root, options)
        self._done = 0

    def before_training(self, model: Any) -> Any:
        """Begin the run; take the rounds that the booster has from an earlier training."""
        rounds = getattr(model, "num_boosted_rounds", None)
        self._done = int(rounds()) if callable(rounds) else 0
        self.run.begin(_booster_settings(model))
        return model

    def after_iteration(self, model: Any, epoch: int, evals_log: Mapping[str, Mapping[str, list[Any]]]) -> bool:
        """Write the newest value of each evaluation; return whether a health rule that is obeyed ends the training."""
        del model
        values = {
            f"{data}/{metric}": history[-1][0] if isinstance(history[-1], tuple) else history[-1]
            for data, metrics in evals_log.items()
            for metric, history in metrics.items()
            if history
        }
        self.run.log(values, step=self._done + epoch + 1)
        return self.run.should_stop

    def after_training(self, model: Any) -> Any:
        """End the run."""
        self.run.end()
        return model


def _booster_settings(model: Any) -> dict[str, Any]:
    import json

    try:
        found = json.loads(model.save_config())["learner"]
        objective = found["objective"]["name"]
        return {"objective": objective, **found["generic_param"], **found["learner_train_param"]}
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}
