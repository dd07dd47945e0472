"""A stand-in for the calls of ``wandb`` that most scripts use: ``import toyspec.integrations.wandb as wandb``.

It has ``init``, ``log``, ``config``, ``define_metric``, ``alert`` and ``finish``, the run that ``init`` returns, and
``Image``, ``Audio``, ``Video``, ``Histogram`` and ``Table`` with the arguments that they have there. Nothing leaves the
machine. Boxes, masks and classes of a picture are left out, which is reported once, and counted in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, Literal

from toyspec.core.format.canonical import members_of
from toyspec.core.system_calls import SystemCalls, say
from toyspec.core.writing import media
from toyspec.core.writing.environment import TrainingProcess
from toyspec.core.writing.run_ids import run_id_from
from toyspec.integrations.training_run import Logs, RunOptions, Start, TrainingRun

run: Run | None = None
"""The run that ``init`` has started; None before it, and after ``finish``."""

_OF_RUN = frozenset(["config", "summary", "define_metric", "alert", "watch", "save", "log_artifact"])
_GOALS: dict[str, Literal["min", "max"]] = {"minimize": "min", "maximize": "max", "min": "min", "max": "max"}


class Written(MutableMapping[str, Any]):
    """What a script sets about a run, by key or by attribute: values are written as they are set."""

    def __init__(self, write: Callable[[Mapping[str, Any]], object], members: Mapping[str, Any]) -> None:
        super().__init__()
        object.__setattr__(self, "_write", write)
        object.__setattr__(self, "_members", dict(members))

    def __getitem__(self, name: str) -> Any:
        return self._members[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def __delitem__(self, name: str) -> None:
        raise TypeError(f"{name!r} cannot be deleted: it may be in the log already")

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._members[name]
        except KeyError:
            raise AttributeError(f"the run has no {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def update(self, settings: Any = (), /, *, allow_val_change: bool = True, **more: Any) -> None:
        """Set every one of *settings*, a mapping or a namespace."""
        del allow_val_change
        found = {str(name): value for name, value in {**members_of(settings or {}), **more}.items()}
        self._members.update(found)
        self._write(found)


def _left_out(what: str) -> Callable[..., None]:
    """Return the call *what* of a run, which counts in the log that what it is given is left out."""
    fact = f"toyspec's wandb does not log what {what} is given; log it as numbers or texts"
    return lambda run, *_, **__: run.training.begin().leave_out(what, fact)


class Run(Logs):
    """One run, as ``init`` returns it."""

    def __init__(self, training: TrainingRun, config: Mapping[str, Any]) -> None:
        self.training = training
        """What is written, and where."""
        self._writer = training.begin(config)
        self.config = Written(training.begin, config)
        """Settings; those that are set after ``init`` have a record of their own."""
        self.summary = Written(
            lambda values: training.log({f"summary/{name}": value for name, value in values.items()}), {}
        )
        """Values that the script sets as results, written by ``summary/<name>``."""
        self._step = 0

    @property
    def id(self) -> str | None:
        """Id of the run."""
        return self.training.run_id

    @property
    def name(self) -> str | None:
        """Name of the run for people."""
        return self.training.options.name

    @property
    def dir(self) -> str:
        """Directory of the run."""
        return self._writer.directory

    def log(self, data: Mapping[str, Any], step: int | None = None, commit: bool | None = None) -> None:
        """Write *data* at *step*, else at the step of the call before, or after it if that one has ended its step.

        A call ends its step, unless a *step* is given, or *commit* is False.
        """
        if step is not None:
            self._step = int(step)
        self.training.log(data, step=self._step)
        if commit or (commit is None and step is None):
            self._step += 1

    def define_metric(  # noqa: PLR0913, PLR0917 - the call of wandb
        self,
        name: str,
        step_metric: Any = None,
        step_sync: bool | None = None,
        hidden: bool | None = None,
        summary: str | None = None,
        goal: str | None = None,
        overwrite: bool | None = None,
    ) -> None:
        """Write which direction of a metric is better, and what it is drawn over."""
        del step_sync, hidden, overwrite
        words = summary.split(",") if summary else []
        found = _GOALS.get(goal or "") or next((_GOALS[word] for word in words if word in _GOALS), None)
        self._writer.define(name, goal=found, step_name=None if step_metric is None else str(step_metric))

    def alert(self, title: str, text: str = "", **options: Any) -> None:
        """Write the alert as a note, and to standard error."""
        del options
        say(f"{title}: {text}" if text else title)
        self._writer.note(f"alert: {title}: {text}" if text else f"alert: {title}")

    watch = _left_out("watch")
    save = _left_out("save")
    log_artifact = _left_out("log_artifact")

    def finish(self, exit_code: int | None = None, quiet: bool | None = None) -> None:
        """End the run, as aborted with this *exit_code* if it is not 0."""
        global run  # noqa: PLW0603 - wandb has one run at a time, in its module
        del quiet
        self.training.begin().close(SystemExit(exit_code) if exit_code else None)
        if run is self:
            run = None

    def close(self) -> None:
        """End the run: as errored or interrupted within the handling of an exception."""
        self.finish()


def init(  # noqa: PLR0913 - the call of wandb
    project: str | None = None,
    *,
    name: str | None = None,
    id: str | None = None,  # noqa: A002 - the name in wandb
    config: Any = None,
    group: str | None = None,
    tags: Any = (),
    notes: str | None = None,
    dir: str | None = None,  # noqa: A002 - likewise
    mode: str | None = None,
    resume: Any = None,
    **others: Any,
) -> Run:
    """Start a run below *dir*, ``runs`` unless given, and return it; it is also ``run`` of this module.

    With ``mode="disabled"`` nothing is written. *resume* needs an *id*: the run that is there goes on at the first step
    that is logged.
    """
    global run  # noqa: PLW0603 - wandb has one run at a time, in its module
    del others
    if run is not None:
        run.finish()
    resumes = resume not in {None, False, "never"}
    options = RunOptions(
        root=dir or "runs",
        run_id=run_id_from(id) if id and resumes else None,
        name=name or id or project,
        group=group or project,
        tags=[str(tag) for tag in tags or ()],
        notes=notes,
    )
    process = TrainingProcess(1, 2, "mode='disabled'") if mode == "disabled" else None
    settings = {str(key): value for key, value in members_of(config or {}).items()}
    run = Run(TrainingRun(options, Start(process=process)), settings)
    return run


def log(data: Mapping[str, Any], step: int | None = None, commit: bool | None = None) -> None:
    """Write numbers into the run that ``init`` has started."""
    _started().log(data, step=step, commit=commit)


def finish(exit_code: int | None = None, quiet: bool | None = None) -> None:
    """End the run that ``init`` has started; do nothing without one."""
    if run is not None:
        run.finish(exit_code, quiet)


def login(*arguments: Any, **options: Any) -> bool:
    """Return True: there is nothing to log in to."""
    del arguments, options
    return True


def __getattr__(name: str) -> Any:
    if name in _OF_RUN:
        return getattr(_started(), name)
    raise AttributeError(f"toyspec's wandb has no {name!r}; it has init, log, config, define_metric, alert and finish")


def _started() -> Run:
    if run is None:
        raise RuntimeError("no run has been started: call wandb.init() first")
    return run


def Image(  # noqa: N802 - the name that it has in wandb
    data_or_path: Any, mode: str | None = None, caption: str | None = None, **others: Any
) -> media.Image:
    """Return a picture for ``log``; *mode* is that of Pillow, which an array shows by its shape."""
    del mode
    return _noted(media.Image(data_or_path, caption=caption), others)


def Audio(  # noqa: N802 - the name that it has in wandb
    data_or_path: Any, sample_rate: int | None = None, caption: str | None = None
) -> media.Audio:
    """Return a sound for ``log``."""
    return media.Audio(data_or_path, sample_rate, caption=caption)


def Video(  # noqa: N802 - the name that it has in wandb
    data_or_path: Any,
    caption: str | None = None,
    fps: float | None = None,
    format: str | None = None,  # noqa: A002
) -> media.Video:
    """Return a film for ``log``: a file; an array of frames is left out, which the log reports."""
    del fps, format
    return media.Video(data_or_path, caption=caption)


def Histogram(  # noqa: N802 - the name that it has in wandb
    sequence: Any = None, np_histogram: Any = None, num_bins: int = 64
) -> media.Histogram:
    """Return a histogram for ``log``: of values, or of the counts and edges that ``numpy.histogram`` returns."""
    if np_histogram is not None:
        counts, edges = np_histogram
        return media.Histogram(edges=edges, counts=counts)
    return media.Histogram(sequence, num_bins)


def Table(  # noqa: N802 - the name that it has in wandb
    columns: Any = None, data: Any = None, rows: Any = None, dataframe: Any = None
) -> GrowingTable:
    """Return a table for ``log``, to which rows can be added until then."""
    return GrowingTable(columns, data if data is not None else rows, dataframe)


class GrowingTable(media.Table):
    """A table whose rows are those that it has when it is logged."""

    def __init__(self, columns: Any, data: Any, frame: Any) -> None:
        super().__init__()
        self.columns = list(columns) if columns is not None else ["Input", "Output", "Expected"]
        self.data: list[list[Any]] = [] if data is None else [list(row) for row in data]
        self._frame = frame

    def add_data(self, *cells: Any) -> None:
        """Add a row."""
        self.data.append(list(cells))

    def placed(self, directory: str, calls: SystemCalls) -> dict[str, Any]:
        """See Media."""
        if self._frame is not None:
            return media.Table(self._frame).placed(directory, calls)
        return media.Table(self.data, self.columns).placed(directory, calls)


def _noted(picture: media.Image, others: Mapping[str, Any]) -> media.Image:
    """Return *picture*; count in the log what else was given with it."""
    for name in ("boxes", "masks", "classes"):
        if others.get(name) and run is not None:
            run.training.begin().leave_out(
                f"Image.{name}", "toyspec's wandb writes the picture alone; log this as a Table"
            )
    return picture
