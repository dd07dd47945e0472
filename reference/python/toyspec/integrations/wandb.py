"""A stand-in for the calls of ``wandb`` that most scripts use: ``import toyspec.integrations.wandb as wandb``.

It has ``init``, ``log``, ``config``, ``define_metric``, ``alert`` and ``finish``, the run that ``init`` returns, and
``Image``, ``Audio``, ``Video``, ``Histogram`` and ``Table`` with the arguments that they have there. Nothing leaves the
machine. Every other public name of wandb takes what it is given, which is left out, reported once, and counted in the
log. What must return data of a server, such as ``Api``, raises Error with what to do instead. The variables
``WANDB_MODE``, ``WANDB_DISABLED``, ``WANDB_DIR``, ``WANDB_PROJECT``, ``WANDB_NAME``, ``WANDB_RUN_ID``,
``WANDB_RUN_GROUP``, ``WANDB_NOTES``, ``WANDB_TAGS`` and ``WANDB_RESUME`` are obeyed.
"""

from __future__ import annotations

import os
import secrets
import string
import time
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal

from toyspec.core.format.canonical import members_of
from toyspec.core.format.scalars import attempt
from toyspec.core.system_calls import SystemCalls, say
from toyspec.core.writing import media
from toyspec.core.writing.environment import TrainingProcess
from toyspec.core.writing.lenience import Completions
from toyspec.core.writing.plain_values import plain_number
from toyspec.core.writing.run_ids import run_id_from
from toyspec.core.writing.written import Written
from toyspec.integrations.left_out import Error, Unlogged, part_of, say_left_out, substitute
from toyspec.integrations.standing_in import ROOT, VERSIONS
from toyspec.integrations.training_run import Logs, RunOptions, Start, TrainingRun

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__version__ = VERSIONS["wandb"]
run: Run | None = None
"""The run that ``init`` has started; None before it, and after ``finish``."""

_OF_RUN = frozenset(["config", "summary", "define_metric", "alert"])
_GOALS: dict[str, Literal["min", "max"]] = {"minimize": "min", "maximize": "max", "min": "min", "max": "max"}


class Run(Logs):
    """One run, as ``init`` returns it."""

    def __init__(self, training: TrainingRun, config: Mapping[str, Any], project: str | None = None) -> None:
        self.training = training
        """What is written, and where."""
        self._writer = training.begin(config)
        self.config = Written(training.begin, config)
        """Settings; those that are set after ``init`` have a record of their own."""
        self.summary = Written(
            lambda values: training.log({f"summary/{name}": value for name, value in values.items()}), {}
        )
        """The last value of each metric; what the script sets is written by ``summary/<name>``."""
        self.project = project
        last = self._writer.last_step
        self.resumed = last is not None
        """Whether the log of an earlier program goes on."""
        self.starting_step = self._step = 0 if last is None else last + 1
        self.start_time = time.time()
        """Seconds since 1970."""
        self._over: dict[str, str] = {}
        """By the name or pattern of a metric, the metric that counts its steps."""
        self._completions = Completions()

    entity = url = job_type = sweep_id = None
    disabled, offline = False, True

    @property
    def id(self) -> str | None:
        """Id of the run."""
        return self.training.run_id

    @property
    def path(self) -> str:
        """Project and id of the run."""
        return "/".join(filter(None, (self.project, self.id)))

    @property
    def group(self) -> str | None:
        """Group of the run."""
        return self.training.options.group

    @property
    def name(self) -> str | None:
        """Name of the run for people."""
        name: str | None = self._writer.name
        return self.training.options.name if name is None else name

    @name.setter
    def name(self, name: str) -> None:
        self._writer.name = name

    @property
    def notes(self) -> str | None:
        """Notes on the run."""
        return self.training.options.notes

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags of the run."""
        tags: Sequence[str] | None = self._writer.tags
        return tuple(self.training.options.tags if tags is None else tags)

    @tags.setter
    def tags(self, tags: Any) -> None:
        self._writer.tags = tags

    @property
    def dir(self) -> str:
        """Directory of the run."""
        return self._writer.directory

    @property
    def step(self) -> int:
        """Step of the next call of ``log``."""
        return self._step

    def __getattr__(self, name: str) -> Any:
        """Return what takes calls and is left out, for a name that the run of wandb has."""
        return substitute("wandb", name, _count, of="run")

    def log(
        self, data: Mapping[str, Any], step: int | None = None, commit: bool | None = None, sync: bool | None = None
    ) -> None:
        """Write *data* at *step*, else at the step of the call before, or after it if that one has ended its step.

        A call ends its step, unless a *step* is given, or *commit* is False. A metric that ``define_metric`` has put
        over another one is written at the value of that.
        """
        del sync
        if step is not None:
            self._step = int(step)
        # Converted once, and no tensor is kept with its graph.
        numbers = {
            name: value if isinstance(value, str | bool) else plain_number(value) for name, value in data.items()
        }
        known = {name: value for name, value in numbers.items() if value is not None}
        self.summary.know(known)
        records: dict[int, dict[str, Any]] = {}
        for name, value in data.items():
            records.setdefault(self._step_of(str(name)), {})[name] = known.get(name, value)
        for at, values in records.items():
            others = {name: value for name, value in values.items() if not self._has_samples(name, value, at)}
            self.training.log(others, step=at)
        if commit or (commit is None and step is None):
            self._step += 1

    def _has_samples(self, name: str, table: object, step: int) -> bool:
        """Return whether *table* is one of completions; its new rows are written as samples."""
        rows = attempt(Table.rows, table, []) if isinstance(table, Table) else []
        samples = self._completions.new_in(name, rows, step)
        for sample in samples or ():
            self._writer.sample(**sample)
        return samples is not None

    def _step_of(self, name: str) -> int:
        """Return the step of the metric *name* now."""
        over = self._over.get(name) or next((x for each, x in self._over.items() if fnmatchcase(name, each)), None)
        value = self.summary.get(over) if over else None
        try:
            step = -1 if value is None else int(value)
        except (TypeError, ValueError, OverflowError):
            step = -1
        return step if step >= 0 and step == value else self._step

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
        over = None if step_metric is None else str(step_metric)
        if over is not None:
            self._over[name] = over
        self._writer.define(name, goal=found, step_name=over)

    def alert(self, title: str, text: str = "", **options: Any) -> None:
        """Write the alert as a note, and to standard error."""
        del options
        say(f"{title}: {text}" if text else title)
        self._writer.note(f"alert: {title}: {text}" if text else f"alert: {title}")

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


def _count(what: str) -> None:
    """Count in the log that what *what* was given is left out; say it where there is no run."""
    if run is None:
        say_left_out(f"wandb.{what}")
    else:
        why = f"toyspec's wandb does not log what {what} is given; log it as numbers or texts"
        run.training.begin().leave_out(what, why)


def init(  # noqa: PLR0913 - the call of wandb
    project: str | None = None,
    *,
    name: str | None = None,
    id: str | None = None,  # noqa: A002 - the name in wandb
    config: Any = None,
    config_exclude_keys: Any = (),
    group: str | None = None,
    tags: Any = None,
    notes: str | None = None,
    dir: Any = None,  # noqa: A002 - likewise
    mode: str | None = None,
    reinit: Any = None,
    resume: Any = None,
    **others: Any,
) -> Run:
    """Start a run below *dir*, ``runs`` unless given, and return it; it is also ``run`` of this module.

    A run that is there is returned, unless *reinit* asks for another one. With ``mode="disabled"`` nothing is written.
    *resume* needs an *id*: the run that is there goes on.
    """
    global run  # noqa: PLW0603 - wandb has one run at a time, in its module
    if run is not None:
        if reinit not in {True, "finish_previous", "create_new"}:
            return run
        run.finish()
    given = os.environ.get
    project, id = project or given("WANDB_PROJECT"), id or given("WANDB_RUN_ID")  # noqa: A001 - likewise
    resumes = (given("WANDB_RESUME") if resume is None else resume) not in {None, False, "never"}
    options = RunOptions(
        root=given(ROOT) or dir or given("WANDB_DIR") or "runs",
        run_id=run_id_from(id) if id and resumes else None,
        name=name or given("WANDB_NAME") or id or project,
        group=group or given("WANDB_RUN_GROUP") or project,
        tags=[str(tag) for tag in (tags or filter(None, given("WANDB_TAGS", "").split(",")))],
        notes=notes or given("WANDB_NOTES"),
    )
    is_disabled = (mode or given("WANDB_MODE")) == "disabled" or given("WANDB_DISABLED", "").lower() in {"true", "1"}
    process = TrainingProcess(1, 2, "") if is_disabled else None
    members = {} if isinstance(config, str) else members_of(config or {})
    settings = {str(key): value for key, value in members.items() if key not in config_exclude_keys}
    run = Run(TrainingRun(options, Start(process=process)), settings, project)
    for option in ("sync_tensorboard", "monitor_gym", "fork_from", "resume_from"):
        if others.get(option):
            _count(f"init({option}=…)")
    if isinstance(config, str):
        _count("init(config=FILE)")
    return run


def log(data: Mapping[str, Any], step: int | None = None, commit: bool | None = None, sync: bool | None = None) -> None:
    """Write numbers into the run that ``init`` has started."""
    _started().log(data, step=step, commit=commit, sync=sync)


def finish(exit_code: int | None = None, quiet: bool | None = None) -> None:
    """End the run that ``init`` has started; do nothing without one."""
    if run is not None:
        run.finish(exit_code, quiet)


def login(*arguments: Any, **options: Any) -> bool:
    """Return True: there is nothing to log in to."""
    del arguments, options
    return True


def termlog(string: str = "", *_: Any, **__: Any) -> None:
    """Write to standard error."""
    say(string)


termwarn = termerror = termlog


def generate_id(length: int = 8) -> str:
    """Return a new id of *length* letters and digits."""
    return "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(length))


class _Util(Unlogged):
    generate_id = staticmethod(generate_id)


util = _Util()


class NotStartedError(Error, AttributeError):
    """There is no run that could be asked."""


def __getattr__(name: str) -> Any:
    if name in _OF_RUN:
        return getattr(_started(), name)
    return substitute("wandb", name, _count)


def part(path: str) -> Any:
    """Return what stands for the module *path* in the package wandb."""
    return part_of("", path, _count)


def _started() -> Run:
    if run is None:
        raise NotStartedError("no run has been started: call wandb.init() first")
    return run


class _Value:
    """A value of wandb: what else it has there takes calls, and is counted where it has data."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return part_of(type(self).__name__, name, _count)


class Image(_Value, media.Image):
    """A picture for ``log``; *mode* is that of Pillow, which an array shows by its shape."""

    def __init__(self, data_or_path: Any, mode: str | None = None, caption: str | None = None, **others: Any) -> None:
        del mode
        super().__init__(data_or_path, caption=caption)
        for name in ("boxes", "masks", "classes"):
            if others.get(name):
                _count(f"Image.{name}")


class Audio(_Value, media.Audio):
    """A sound for ``log``."""

    def __init__(self, data_or_path: Any, sample_rate: int | None = None, caption: str | None = None) -> None:
        super().__init__(data_or_path, sample_rate, caption=caption)


class Video(_Value, media.Video):
    """A film for ``log``: a file; an array of frames is left out, which the log reports."""

    def __init__(self, data_or_path: Any, caption: str | None = None, *_: Any, **__: Any) -> None:
        super().__init__(data_or_path, caption=caption)


class Histogram(_Value, media.Histogram):
    """A histogram for ``log``: of values, or of the counts and edges that ``numpy.histogram`` returns."""

    def __init__(self, sequence: Any = None, np_histogram: Any = None, num_bins: int = 64) -> None:
        counts, edges = np_histogram if np_histogram is not None else (None, None)
        super().__init__(sequence, num_bins, edges=edges, counts=counts)


class Table(_Value, media.Table):
    """A table for ``log``, whose rows are those that it has when it is logged."""

    def __init__(
        self, columns: Any = None, data: Any = None, rows: Any = None, dataframe: Any = None, **_: Any
    ) -> None:
        super().__init__()
        data = data if data is not None else rows
        if hasattr(data, "columns") or dataframe is not None:
            frame = data if dataframe is None else dataframe
            columns, data = frame.columns, frame.rows() if hasattr(frame, "rows") else frame.to_dict("split")["data"]
        self.columns = list(columns) if columns is not None else ["Input", "Output", "Expected"]
        self.data: list[list[Any]] = [] if data is None else [list(row) for row in data]

    def add_data(self, *cells: Any) -> None:
        """Add a row."""
        self.data.append(list(cells))

    add_row = add_data

    def add_column(self, name: str, data: Any, optional: bool = False) -> None:
        """Add a column: a cell to each row that there is."""
        del optional
        cells = list(data)
        rows = self.data if self.columns else []
        # Rows of unequal widths are left out where the table is logged.
        rows.extend([] for _ in cells[len(rows) :])
        for row, cell in zip(rows, cells, strict=False):
            row.append(cell)
        self.columns, self.data = [*self.columns, name], rows

    def get_column(self, name: str, convert_to: Any = None) -> list[Any]:
        """Return the cells of a column."""
        del convert_to
        return [row[self.columns.index(name)] for row in self.data]

    def iterrows(self) -> Iterator[tuple[int, list[Any]]]:
        """Yield each row with its number, from 0."""
        return iter(enumerate(self.data))

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows, each by the names of its columns."""
        return [dict(zip(self.columns, row, strict=False)) for row in self.data]

    def placed(self, directory: str, calls: SystemCalls) -> dict[str, Any]:
        """See Media."""
        return media.Table(self.data, self.columns).placed(directory, calls)
