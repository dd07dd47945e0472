"""Searches a learning rate with Optuna: each trial is a run, and the study is their group."""

# --8<-- [start:program]
import json

import optuna

from toyspec.integrations.optuna import StudyCallback, trial_run

optuna.logging.set_verbosity(optuna.logging.WARNING)


def objective(trial: optuna.Trial) -> float:
    """Descend on a parabola."""
    learning_rate = trial.suggest_float("lr", 1e-3, 1.0, log=True)
    position = 1.0
    with trial_run(trial, "runs") as run:
        for step in range(1, 11):
            position -= learning_rate * 2 * position
            run.log({"loss": position**2}, step=step)
    return position**2


study = optuna.create_study(study_name="parabola", sampler=optuna.samplers.RandomSampler(seed=7))
study.optimize(objective, n_trials=3)
# Without curves, one callback writes a run for each trial.
study.optimize(lambda trial: trial.suggest_float("x", -1, 1) ** 2, n_trials=2, callbacks=[StudyCallback("runs")])

# --8<-- [end:program]
with open("reported.json", "w", encoding="utf-8") as file:
    json.dump([[None, "value", trial.value] for trial in study.trials[3:]], file)
