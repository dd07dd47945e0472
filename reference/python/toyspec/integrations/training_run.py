"""The run that a framework logs through its own callback or logger: what all integrations have in common."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from toyspec.convert.mirrors.settings import Mirror
from toyspec.core.errors import StreamRefusedError, ToyspecError
from toyspec.core.format.canonical import members_of
from toyspec.core.reading.reader import read
from toyspec.core.system_calls import cause_of, say
from toyspec.core.writing.environment import TrainingProcess, this_backend, this_process
from toyspec.core.writing.evidence import System
from toyspec.core.writing.logged_values import event_members
from toyspec.core.writing.run_ids import run_id_from
from toyspec.core.writing.run_starting import Ranks, start_run
from toyspec.core.writing.settings import OnError

if TYPE_CHECKING:
    from collections.abc import Callable

    from toyspec.core.writing.events import Phase, Reason
    from toyspec.core.writing.run_writer import RunWriter


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of every integration."""

    root: str | os.PathLike[str] = "runs"
    """Directory in which the run gets a directory of its own."""
    run_id: str | None = None
    """Name of that directory; without it a new name each time, so that only a named run can be resumed."""
    name: str | None = None
    """Name of the run for people."""
    group: str | None = None
    """The sweep or experiment that the run belongs to."""
    tags: tuple[str, ...] | list[str] = ()
    notes: str | None = None
    config: Any = None
    """Further settings: a mapping, a dataclass or a namespace. Secrets in them are replaced by ``***``."""
    unredacted: tuple[str, ...] | list[str] = ()
    """Settings that are written unchanged, though their names sound like secrets."""
    ranks: Ranks = "first"
    """Of several processes that train together, the first writes; with ``"all"`` each writes a stream of its own."""
    wait_seconds: float = 30.0
    """How long another process that writes the run is waited for; then StreamRefusedError is raised."""
    system_seconds: float = 10.0
    """Least seconds between two ``system`` events; 0 for none."""
    on_error: OnError = "disable"
    """What a failing disk does: ``"disable"`` never stops the training, ``"raise"`` raises OSError."""
    mirrors: tuple[Mirror, ...] | list[Mirror] = ()
    """Other trackers that get the run as well, for example ``[toyspec.Mirror(to="wandb")]``."""
    health: bool | str | tuple[dict[str, Any], ...] | list[dict[str, Any]] = False
    """Health rules that the run is compared with, as ``toyspec.start_run`` takes them, for example ``"default"``."""
    obey_health: bool = False
    """Whether the training stops where a rule with ``on="stop"`` is broken; only that of a single process does."""


class Start(msgspec.Struct, kw_only=True):
    """What a framework knows of a training that begins."""

    framework: str
    """Name of the framework, which names runs without a name."""
    model: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Members of ``run_start.model``."""
    config: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Settings of the training."""
    resumed_step: int | None = None
    """Step of the checkpoint from which the training goes on; None for a new training."""
    run_id: str | None = None
    """Id that an earlier attempt had, from the checkpoint."""
    subsample: int | None = None
    """Every how many steps the framework logs; None where steps are not logged as such."""
    process: TrainingProcess | None = None
    """Which of the processes this is that train together, where the framework tells; else a launcher does."""


class TrainingRun:
    """A run whose values come by name, at steps that may repeat or go back.

    It starts with ``start``, or, where *expected* is given, with its first value: until then settings may be added. No
    failure of the log stops the training. The run ends with ``end``, at the latest with the program; what is logged
    after that opens it again.
    """

    def __init__(self, options: RunOptions, expected: Start | None = None) -> None:
        self.options = options
        self._expected = expected
        self._waiting: list[Callable[[RunWriter], None]] = []
        # What the log cannot take before its first record, which has the settings.
        self.writer: RunWriter | None = None
        """The writer; None before the start, and in processes that do not write."""
        self._settings = ""
        self._is_alone = True

    @property
    def is_logging(self) -> bool:
        """True between start and end, in a process that writes."""
        return self.writer is not None and self.writer.active

    @property
    def run_id(self) -> str | None:
        """Id of the run; None before the start."""
        return None if self.writer is None else self.writer.run_id

    @property
    def should_stop(self) -> bool:
        """True where the training is to obey its health rules, and one of them asks it to stop.

        Processes that train together must stop together, of which the first alone knows: there it stays False.
        """
        if not self.options.obey_health or self.writer is None or not self.is_logging:
            return False
        if not self._is_alone:
            _say_once("obey_health stops a training of one process only; ask run.should_stop and send it to the others")
            return False
        return self.writer.should_stop

    def start(self, start: Start) -> None:
        """Start the run, or go on with it from the step of the checkpoint; where none is written, do nothing.

        A run that is open goes on: training again repeats its steps. Raise StreamRefusedError where another process
        writes it.
        """
        self._expected = None
        self._begin(start)
        waiting, self._waiting = self._waiting, []
        for write in waiting:
            self._write(write)

    def expect(self, start: Start) -> None:
        """Start the run with its first value, if it has not started by then."""
        if self.writer is None:
            self._expected = start

    def _begin(self, start: Start) -> None:
        config = self._config(start)
        before, self._settings = self._settings, repr(config)
        if self.is_logging and self.writer is not None:
            if self._settings != before or start.resumed_step or self.writer.last_step is not None:
                self.writer.run_start(config=config)
                self.writer.run_resume(start.resumed_step or 0)
            return
        _end_lasting(self)
        try:
            self.writer = self._opened(start, config)
        except (OSError, ValueError) as error:
            is_held = isinstance(error, StreamRefusedError) and error.reason == "locked"
            if self.options.on_error == "raise" or is_held:
                raise
            say(f"{os.fspath(self.options.root)}: {cause_of(error)}; no run is logged, the program continues")

    def add_config(self, settings: Mapping[str, Any]) -> None:
        """Add *settings* to those of the run; once it has started, they are a record of their own."""
        if self._expected is not None:
            self._expected.config = {**self._expected.config, **settings}
        elif self.writer is not None and settings:
            self.writer.run_config(settings)

    def log(
        self,
        values: Mapping[str, Any],
        *,
        step: int | None = None,
        epoch: float | None = None,
        phase: Phase = None,
    ) -> None:
        """Write *values* by name, at any step: numbers, booleans and texts; nested ones with ``/`` in their names."""
        self._start_expected(step)
        if values:
            self._write(lambda writer: writer.log(values, step=step, epoch=epoch, phase=phase))

    def log_step(self, step: int, values: Mapping[str, Any]) -> None:
        """Write one optimizer step; one that is not after the last is written as plain values."""
        self._start_expected(step)
        if values:
            self._write(lambda writer: writer.step(step, **event_members("step", values)))

    def evaluate(self, name: str, values: Mapping[str, Any], *, step: int | None = None) -> None:
        """Write the result of the evaluation *name*; ``loss`` and ``ppl`` have fields of their own."""
        self._start_expected(step)
        self._write(lambda writer: writer.eval(name, step=step, **event_members("eval", values)))

    def define(self, name: str, *, goal: Literal["min", "max"] | None = None, step_name: str | None = None) -> None:
        """Write what the metric *name* means; before the start this waits for it."""
        self._write(lambda writer: writer.define(name, goal=goal, step_name=step_name))

    def leave_out(self, name: str, why: str) -> None:
        """Count a value that is not written, and say in the log *why*; before the start this waits for it."""
        self._write(lambda writer: writer.leave_out(name, why))

    def note(self, text: str, *, step: int | None = None) -> None:
        """Write a remark for people."""
        self._start_expected(step)
        self._write(lambda writer: writer.note(text, step=step))

    def _write(self, write: Callable[[RunWriter], None]) -> None:
        if self._expected is not None:
            self._waiting.append(write)
        elif self.writer is not None:
            write(self.writer)

    def end(
        self,
        error: BaseException | None = None,
        *,
        reason: Reason | None = None,
        cause: str = "the framework reported a failure",
    ) -> None:
        """Write run_end: completed, or what *error* or *reason* says; *cause* is the text of an errored one.

        The first call counts.
        """
        self._start_expected(None)
        if self.writer is None:
            return
        if reason is not None and self.is_logging:
            self.writer.run_end(reason, error=cause if reason == "errored" else None)
        self.writer.close(error)

    def end_training(self) -> None:
        """Take that a training has ended: the run stays open until the program ends, or another run begins."""
        global _lasting  # noqa: PLW0603 - the last training of the process
        _lasting = self

    def close(self) -> None:
        """End the run, unless it has ended, and close the stream; a later start can resume it."""
        if self.writer is not None:
            self.writer.close()

    def _start_expected(self, step: int | None) -> None:
        expected, self._expected = self._expected, None
        if expected is None:
            return
        if expected.resumed_step is None and step is not None and self._continues(expected, step):
            expected.resumed_step = step - 1
        self.start(expected)

    def _continues(self, start: Start, step: int) -> bool:
        """Return whether training at *step* continues the log that is there, which began earlier."""
        run_id = self.options.run_id or start.run_id
        if run_id is None:
            return False
        first: int | None = None
        try:
            for record in read(os.path.join(self.options.root, run_id_from(run_id)), mode="salvage"):
                if first is None and isinstance(record.value.get("step"), int):
                    first = record.value["step"]
        except (OSError, ToyspecError):
            return False
        return first is not None and first < step

    def _opened(self, start: Start, config: dict[str, Any]) -> RunWriter:
        options = self.options
        self._is_alone = (start.process or this_process()).size <= 1
        run_id = self._run_id(start)
        resumes = start.resumed_step is not None and run_id is not None
        seconds = options.system_seconds
        system = [System(seconds, first="after-seconds")] if seconds > 0 else []
        return start_run(
            options.root,
            run_id=run_id,
            template=f"{run_id_from(options.name or start.model.get('arch') or start.framework)}-{{date}}-{{seq}}",
            model={key: value for key, value in start.model.items() if value is not None} or None,
            config=config,
            unredacted=options.unredacted,
            backend=this_backend(),
            name=options.name,
            group=options.group,
            tags=list(options.tags) or None,
            notes=options.notes,
            exist="resume" if resumes else "replace",
            from_step=start.resumed_step if resumes else None,
            wait_seconds=options.wait_seconds,
            ranks=options.ranks,
            on_error=options.on_error,
            companions=[*options.mirrors, *system],
            process=start.process,
            health=options.health or options.obey_health,
        )

    def _run_id(self, start: Start) -> str | None:
        run_id = self.options.run_id or start.run_id
        return None if run_id is None else run_id_from(run_id)

    def _config(self, start: Start) -> dict[str, Any]:
        given = self.options.config
        config = {**start.config, **(members_of(given) if given is not None else {})}
        if start.subsample is not None and start.subsample > 1:
            config = {"subsample": start.subsample, **config}
        return config


_lasting: TrainingRun | None = None
_said: set[str] = set()


def _say_once(text: str) -> None:
    """Write a line to standard error, once in a process."""
    if text not in _said:
        _said.add(text)
        say(text)


def _end_lasting(other: TrainingRun) -> None:
    """End the run whose training has ended, since *other* begins."""
    if _lasting is not None and _lasting is not other and _lasting.is_logging:
        _lasting.end()


def run_of(
    framework: str, root: str, options: Mapping[str, Any], *, process: TrainingProcess | None = None
) -> TrainingRun:
    """Return the run of a *framework* below *root*, which starts with its first value.

    *options* are those of RunOptions; an unknown one raises TypeError. *process* says which of several this is, where
    the framework tells.
    """
    return TrainingRun(RunOptions(root=root, **options), Start(framework=framework, process=process))
