"""A stand-in for the calls of ``mlflow`` that most scripts use: ``import toyspec.integrations.mlflow as mlflow``.

It has ``start_run``, ``log_param(s)``, ``log_metric(s)``, ``set_tag(s)``, ``log_text``, ``end_run`` and
``set_experiment``. Nothing leaves the machine. Other calls raise AttributeError with the list of those that there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toyspec.core.writing.run_ids import run_id_from
from toyspec.integrations.training_run import Logs, RunOptions, Start, TrainingRun

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toyspec.core.writing.events import Reason

_active: ActiveRun | None = None
_settings: dict[str, Any] = {"root": "runs", "experiment": None}
_STATUSES: dict[str, Reason] = {"FINISHED": "completed", "FAILED": "errored", "KILLED": "interrupted"}


class ActiveRun(Logs):
    """One run, as ``start_run`` returns it."""

    def __init__(self, training: TrainingRun) -> None:
        self.training = training
        """What is written, and where."""
        training.begin()

    def close(self) -> None:
        """End the run: as errored or interrupted within the handling of an exception."""
        _forget(self)
        self.training.end()


def set_tracking_uri(uri: str) -> None:
    """Log below this directory; an address of a server raises ValueError."""
    if "://" in uri and not uri.startswith("file://"):
        raise ValueError(f"{uri} is the address of a server; toyspec logs into a directory: pass its path")
    _settings["root"] = uri.removeprefix("file://")


def set_experiment(experiment_name: str) -> None:
    """Make this the group of the runs that start from now on."""
    _settings["experiment"] = experiment_name


def start_run(
    run_id: str | None = None,
    *,
    run_name: str | None = None,
    nested: bool = False,
    tags: Mapping[str, Any] | None = None,
    description: str | None = None,
) -> ActiveRun:
    """Start a run and return it; with a *run_id*, the run of this name goes on at the first step that is logged."""
    global _active  # noqa: PLW0603 - mlflow has one active run, in its module
    if _active is not None and not nested:
        raise RuntimeError("a run is active: call end_run() first, or start_run(nested=True)")
    options = RunOptions(
        root=_settings["root"],
        run_id=None if run_id is None else run_id_from(run_id),
        name=run_name,
        group=_settings["experiment"],
        tags=[f"{name}={value}" for name, value in (tags or {}).items()],
        notes=description,
    )
    _active = ActiveRun(TrainingRun(options, Start()))
    return _active


def active_run() -> ActiveRun | None:
    """Return the run that has been started; None without one."""
    return _active


def end_run(status: str = "FINISHED") -> None:
    """End the active run; do nothing without one."""
    if _active is not None:
        ended = _active
        _forget(ended)
        ended.training.end(reason=_STATUSES.get(status, "errored"))


def log_param(key: str, value: Any) -> Any:
    """Write a setting of the run, and return it."""
    _started().begin({key: value})
    return value


def log_params(params: Mapping[str, Any]) -> None:
    """Write settings of the run."""
    _started().begin(params)


def log_metric(key: str, value: Any, step: int | None = None, timestamp: int | None = None) -> None:
    """Write a number; its time is now."""
    del timestamp
    _started().log({key: value}, step=step)


def log_metrics(metrics: Mapping[str, Any], step: int | None = None, timestamp: int | None = None) -> None:
    """Write numbers; their time is now."""
    del timestamp
    _started().log(metrics, step=step)


def set_tag(key: str, value: Any) -> None:
    """Write a tag as a setting: a run's own tags are fixed at its start."""
    _started().begin({f"tag.{key}": str(value)})


def set_tags(tags: Mapping[str, Any]) -> None:
    """Write tags as settings."""
    _started().begin({f"tag.{key}": str(value) for key, value in tags.items()})


def log_text(text: str, artifact_file: str) -> None:
    """Write a text as a note."""
    _started().begin().note(f"{artifact_file}: {text}")


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"toyspec's mlflow has no {name!r}; it has start_run, log_param, log_params, log_metric, log_metrics, set_tag, "
        "set_tags, log_text, set_experiment, set_tracking_uri, active_run and end_run"
    )


def _forget(ended: ActiveRun) -> None:
    global _active  # noqa: PLW0603 - mlflow has one active run, in its module
    if _active is ended:
        _active = None


def _started() -> TrainingRun:
    return (_active or start_run()).training
