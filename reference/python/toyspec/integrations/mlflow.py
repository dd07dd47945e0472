"""A stand-in for the calls of ``mlflow`` that most scripts use: ``import toyspec.integrations.mlflow as mlflow``.

It has ``start_run``, ``log_param(s)``, ``log_metric(s)``, ``set_tag(s)``, ``log_text``, ``end_run``, ``set_experiment``
and ``MlflowClient`` with the calls that log. Nothing leaves the machine. Every other public name of mlflow takes what
it is given, which is left out, reported once, and counted in the log. What must return data of a server, such as
``search_runs``, raises Error with what to do instead.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from toyspec.core.system_calls import say
from toyspec.core.writing.plain_values import plain_number
from toyspec.core.writing.run_ids import run_id_from
from toyspec.integrations.left_out import part_of, say_left_out, substitute
from toyspec.integrations.standing_in import ROOT, VERSIONS
from toyspec.integrations.training_run import Logs, RunOptions, Start, TrainingRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from toyspec.core.writing.events import Reason

__version__ = VERSIONS["mlflow"]
_active: list[ActiveRun] = []
"""The run that was started last, after those that it is nested in."""
_runs: dict[str, ActiveRun] = {}
"""Those of this process, by id, for ``MlflowClient``."""
_settings: dict[str, Any] = {"root": "runs", "experiment": None}
_STATUSES: dict[str, Reason] = {"FINISHED": "completed", "FAILED": "errored", "KILLED": "interrupted"}


class ActiveRun(Logs):
    """One run, as ``start_run`` returns it."""

    def __init__(self, training: TrainingRun) -> None:
        self.training = training
        """What is written, and where."""
        self._metrics: dict[str, Any] = {}
        writer = training.begin()
        self.info = SimpleNamespace(
            run_id=training.run_id,
            run_uuid=training.run_id,
            run_name=training.options.name,
            experiment_id=_experiment().experiment_id,
            artifact_uri=writer.directory,
            status="RUNNING",
        )
        """Id, name and directory of the run."""
        _runs[str(training.run_id)] = self

    def __getattr__(self, name: str) -> Any:
        """Return what takes calls and is left out, for a name that the run of mlflow has."""
        return substitute("mlflow", name, _count, of="run")

    @property
    def data(self) -> Any:
        """Settings, tags, and the last value of each metric that this process has written."""
        settings = {name: str(value) for name, value in self.training.begin().config.items()}
        tags = {name.removeprefix("tag."): value for name, value in settings.items() if name.startswith("tag.")}
        params = {name: value for name, value in settings.items() if not name.startswith("tag.")}
        return SimpleNamespace(params=params, tags=tags, metrics=dict(self._metrics))

    def log(self, values: Mapping[str, Any], step: int | None = None) -> None:
        """Write numbers."""
        # No tensor is kept with its graph.
        self._metrics |= {name: plain_number(value) for name, value in values.items()}
        self.training.log(values, step=step)

    def close(self) -> None:
        """End the run: as errored or interrupted within the handling of an exception."""
        self.end()

    def end(self, status: str | None = None) -> None:
        """End the run, as *status* says; the one that it is nested in goes on."""
        if self in _active:
            _active.remove(self)
        reason = None if status is None else _STATUSES.get(status, "errored")
        self.info.status = status or "FINISHED"
        self.training.end(reason=reason)


def set_tracking_uri(uri: Any) -> None:
    """Log below this directory; of a server, say that nothing is sent there."""
    place = str(uri).removeprefix("file://")
    if "://" in place:
        say(f"{place} gets nothing: toyspec has the place of mlflow, and logs into {_root()}")
    else:
        _settings["root"] = place


def get_tracking_uri() -> str:
    """Return the directory of all runs."""
    return str(_root())


def set_experiment(experiment_name: str | None = None, experiment_id: str | None = None, **_: Any) -> Any:
    """Make this the group of the runs that start from now on, and return it."""
    _settings["experiment"] = experiment_name or experiment_id
    return _experiment()


def create_experiment(name: str, *_: Any, **__: Any) -> str:
    """Return the id of an experiment of this name, which needs none."""
    return name


def get_experiment_by_name(name: str) -> Any:
    """Return an experiment of this name: there is every one."""
    return SimpleNamespace(experiment_id=name, name=name, artifact_location=str(_root()), lifecycle_stage="active")


get_experiment = get_experiment_by_name


def start_run(  # noqa: PLR0913, PLR0917 - the call of mlflow
    run_id: str | None = None,
    experiment_id: str | None = None,
    run_name: str | None = None,
    nested: bool = False,
    parent_run_id: str | None = None,
    tags: Mapping[str, Any] | None = None,
    description: str | None = None,
    **_: Any,
) -> ActiveRun:
    """Start a run and return it; with a *run_id*, the run of this name goes on at the first step that is logged."""
    if _active and not nested:
        raise RuntimeError("a run is active: call end_run() first, or start_run(nested=True)")
    parent = parent_run_id or (_active[-1].info.run_id if _active else None)
    known = {**(tags or {}), **({} if parent is None else {"mlflow.parentRunId": parent})}
    options = RunOptions(
        root=_root(),
        run_id=None if run_id is None else run_id_from(run_id),
        name=run_name,
        group=experiment_id or _settings["experiment"] or os.environ.get("MLFLOW_EXPERIMENT_NAME"),
        tags=[f"{name}={value}" for name, value in known.items()],
        notes=description,
    )
    open_run = _runs.get(str(run_id))
    is_open = open_run is not None and open_run.info.status == "RUNNING"
    _active.append(open_run if open_run is not None and is_open else ActiveRun(TrainingRun(options, Start())))
    return _active[-1]


def active_run() -> ActiveRun | None:
    """Return the run that has been started; None without one."""
    return _active[-1] if _active else None


def last_active_run() -> ActiveRun | None:
    """Return the active run, else the last one of this process; None without one."""
    return active_run() or next(reversed(_runs.values()), None)


def end_run(status: str = "FINISHED") -> None:
    """End the active run; do nothing without one."""
    if _active:
        _active[-1].end(status)


def log_param(key: str, value: Any, **_: Any) -> Any:
    """Write a setting of the run, and return it."""
    _started().training.begin({key: value})
    return value


def log_params(params: Mapping[str, Any], **options: Any) -> None:
    """Write settings of the run."""
    _of(options).training.begin(params)


def log_metric(key: str, value: Any, step: int | None = None, *_: Any, **options: Any) -> None:
    """Write a number; its time is now."""
    _of(options).log({key: value}, step)


def log_metrics(metrics: Mapping[str, Any], step: int | None = None, *_: Any, **options: Any) -> None:
    """Write numbers; their time is now."""
    _of(options).log(metrics, step)


def set_tag(key: str, value: Any, **_: Any) -> None:
    """Write a tag as a setting: a run's own tags are fixed at its start."""
    _started().training.begin({f"tag.{key}": str(value)})


def set_tags(tags: Mapping[str, Any], **_: Any) -> None:
    """Write tags as settings."""
    _started().training.begin({f"tag.{key}": str(value) for key, value in tags.items()})


def log_text(text: str, artifact_file: str, **_: Any) -> None:
    """Write a text as a note."""
    _started().training.begin().note(f"{artifact_file}: {text}")


class Metric(SimpleNamespace):
    """A number for ``MlflowClient.log_batch``."""

    def __init__(self, key: str, value: Any, timestamp: int | None = None, step: int | None = None, **_: Any) -> None:
        super().__init__(key=key, value=value, timestamp=timestamp, step=step)


class Param(SimpleNamespace):
    """A setting for ``MlflowClient.log_batch``."""

    def __init__(self, key: str, value: Any) -> None:
        super().__init__(key=key, value=value)


RunTag = Param


class MlflowClient:
    """The calls of mlflow that name a run by its id."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    create_experiment = staticmethod(create_experiment)
    get_experiment = get_experiment_by_name = staticmethod(get_experiment_by_name)

    def __getattr__(self, name: str) -> Any:
        """Return what takes calls and is left out."""
        return part_of("MlflowClient", name, _count)

    def create_run(self, experiment_id: str, *_: Any, tags: Any = None, run_name: str | None = None, **__: Any) -> Any:
        """Start a run."""
        tags = tags if isinstance(tags, dict) else None
        options = RunOptions(root=_root(), name=run_name or (tags or {}).get("mlflow.runName"), group=experiment_id)
        return ActiveRun(TrainingRun(options, Start()))

    def get_run(self, run_id: str) -> ActiveRun:
        """Return a run; one that this process has not started goes on."""
        return _of({"run_id": run_id})

    def log_metric(self, run_id: str, key: str, value: Any, *_: Any, step: int | None = None, **__: Any) -> None:
        """Write a number; its time is now."""
        _of({"run_id": run_id}).log({key: value}, step)

    def log_param(self, run_id: str, key: str, value: Any, **_: Any) -> None:
        """Write a setting."""
        _of({"run_id": run_id}).training.begin({key: value})

    def set_tag(self, run_id: str, key: str, value: Any, **_: Any) -> None:
        """Write a tag as a setting."""
        _of({"run_id": run_id}).training.begin({f"tag.{key}": str(value)})

    def log_batch(
        self, run_id: str, metrics: Iterable[Any] = (), params: Iterable[Any] = (), tags: Iterable[Any] = (), **_: Any
    ) -> None:
        """Write numbers, settings and tags."""
        run = _of({"run_id": run_id})
        for metric in metrics:
            run.log({metric.key: metric.value}, metric.step)
        settings = {each.key: each.value for each in params} | {f"tag.{each.key}": str(each.value) for each in tags}
        if settings:
            run.training.begin(settings)

    def set_terminated(self, run_id: str, status: str | None = None, *_: Any) -> None:
        """End a run."""
        _of({"run_id": run_id}).end(status or "FINISHED")


def __getattr__(name: str) -> Any:
    return substitute("mlflow", name, _count)


def part(path: str) -> Any:
    """Return what stands for the module *path* in the package mlflow."""
    return part_of("", path, _count)


def _experiment() -> Any:
    return get_experiment_by_name(_settings["experiment"] or "0")


def _root() -> str | os.PathLike[str]:
    root: str | os.PathLike[str] = os.environ.get(ROOT) or _settings["root"]
    return root


def _of(options: Mapping[str, Any]) -> ActiveRun:
    """Return the run whose id is in *options*, else the active one, which starts now at the latest."""
    run_id = options.get("run_id")
    if run_id is None:
        return _started()
    found = _runs.get(str(run_id))
    if found is None:
        return ActiveRun(TrainingRun(RunOptions(root=_root(), run_id=run_id_from(str(run_id))), Start()))
    return found


def _started() -> ActiveRun:
    return active_run() or start_run()


def _count(what: str) -> None:
    """Count in the log that what *what* was given is left out; say it where there is no run."""
    if not _active:
        say_left_out(f"mlflow.{what}")
    else:
        why = f"toyspec's mlflow does not log what {what} is given; log it as numbers or texts"
        _active[-1].training.begin().leave_out(what, why)
