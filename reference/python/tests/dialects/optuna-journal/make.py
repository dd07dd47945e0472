"""Writes this sample: ``python make.py`` with optuna 5.0.0, in this directory; workers and dates were changed."""

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend


def objective(trial: optuna.Trial) -> float:
    """Return the square of a number."""
    x = trial.suggest_float("x", -1, 1)
    trial.suggest_categorical("opt", ["sgd", "adam"])
    for step in range(2):
        trial.report(x * x / (step + 1), step)
    if trial.number == 2:
        raise optuna.TrialPruned
    trial.set_user_attr("acc", 0.5)
    return x * x


# The trials as a table are the sample of the dialect optuna-csv.
study = optuna.create_study(
    storage=JournalStorage(JournalFileBackend("journal.log")),
    study_name="toy",
    sampler=optuna.samplers.RandomSampler(1),
)
study.optimize(objective, n_trials=4)
study.trials_dataframe().to_csv("../optuna-csv/trials.csv")
