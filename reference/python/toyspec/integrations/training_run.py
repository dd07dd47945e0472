"""The run that a framework logs through its own callback or logger: what all integrations have in common."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Self

import msgspec

from toyspec.convert.mirrors.settings import Mirror
from toyspec.core.format.canonical import members_of
from toyspec.core.system_calls import say
from toyspec.core.writing.environment import TrainingProcess, this_backend, this_process
from toyspec.core.writing.run_ids import run_id_from
from toyspec.core.writing.run_starting import Ranks, start_run
from toyspec.core.writing.settings import Exist, OnError
from toyspec.health.system_metrics import System

if TYPE_CHECKING:
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

    model: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Members of ``run_start.model``."""
    config: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Settings of the training."""
    exist: Exist = "resume"
    """What becomes of an earlier log of a run that has an id; a run without one is always new."""
    from_step: int | None = None
    """Step of the checkpoint from which the training goes on; without it the first step that is logged decides."""
    run_id: str | None = None
    """Id that an earlier attempt had, from the checkpoint."""
    process: TrainingProcess | None = None
    """Which of the processes this is that train together, where the framework tells; else a launcher does."""


class TrainingRun:
    """The run that a framework logs: ``start_run`` with the options of an integration.

    It begins with ``begin`` or with the first call that gives anything. It ends with ``end``, at the latest with the
    program; what is logged after that opens it again.
    """

    def __init__(self, options: RunOptions, start: Start | None = None) -> None:
        self.options = options
        self.start = start
        """What is known of the training until the run begins."""
        self.writer: RunWriter | None = None
        """The writer; None before the start."""

    @property
    def run_id(self) -> str | None:
        """Id of the run; before the start that of the options."""
        return self.options.run_id if self.writer is None else self.writer.run_id

    @property
    def should_stop(self) -> bool:
        """True where the training is to obey its health rules, and one of them asks it to stop.

        Processes that train together must stop together, of which the first alone knows: there it stays False.
        """
        if not self.options.obey_health or self.writer is None or not self.writer.active:
            return False
        if ((self.start and self.start.process) or this_process()).size > 1:
            _say_once("obey_health stops a training of one process only; ask run.should_stop and send it to the others")
            return False
        return self.writer.should_stop

    def begin(self, settings: Mapping[str, Any] | None = None) -> RunWriter:
        """Return the writer of the run, which begins now at the latest, with *settings*; later they are a record.

        Raise StreamRefusedError where another process writes the run, and ValueError for an option that is wrong.
        """
        if self.writer is None:
            assert self.start is not None
            self.writer = self._opened(self.start, settings or {})
        elif settings:
            self.writer.run_config(settings)
        return self.writer

    def train(self, start: Start) -> None:
        """Begin the run with *start*. One that is open goes on from its checkpoint, else from the beginning."""
        before, self.start = self.start or start, start
        if self.writer is None or not self.writer.active:
            self.writer = self._opened(start, {})
        elif start.from_step or self.writer.last_step is not None:
            self.writer.run_start(config=self._config(start, {}))
            self.writer.run_resume(start.from_step or 0)
        else:
            self.begin({name: value for name, value in start.config.items() if before.config.get(name) != value})

    def log(
        self,
        values: Mapping[str, Any],
        *,
        step: int | None = None,
        epoch: float | None = None,
        phase: Phase = None,
    ) -> None:
        """Write *values* by name, at any step: numbers, booleans and texts; nested ones with ``/`` in their names."""
        if values:
            self.begin().log(values, step=step, epoch=epoch, phase=phase)

    def end(self, *, reason: Reason | None = None, cause: str = "the framework reported a failure") -> None:
        """Write run_end: what *reason* says, else completed, or by the exception that is being handled.

        *cause* is the text of an errored one. The first call counts.
        """
        writer = self.begin()
        if reason is not None and writer.active:
            writer.run_end(reason, error=cause if reason == "errored" else None)
        writer.close()

    def end_training(self) -> None:
        """Take that a training has ended: the run stays open until the program ends, or another run begins."""
        global _lasting  # noqa: PLW0603 - the last training of the process
        _lasting = self.writer

    def _opened(self, start: Start, settings: Mapping[str, Any]) -> RunWriter:
        if _lasting is not None:
            _lasting.close()
        options = self.options
        run_id = options.run_id or start.run_id
        seconds = options.system_seconds
        system = [System(seconds)] if seconds > 0 else []
        return start_run(
            options.root,
            run_id=None if run_id is None else run_id_from(run_id),
            model={key: value for key, value in start.model.items() if value is not None} or None,
            config=self._config(start, settings),
            unredacted=options.unredacted,
            backend=this_backend(),
            name=options.name,
            group=options.group,
            tags=list(options.tags) or None,
            notes=options.notes,
            exist="replace" if run_id is None else start.exist,
            from_step=start.from_step,
            wait_seconds=options.wait_seconds,
            ranks=options.ranks,
            on_error=options.on_error,
            companions=[*options.mirrors, *system],
            process=start.process,
            health=options.health or options.obey_health,
        )

    def _config(self, start: Start, settings: Mapping[str, Any]) -> dict[str, Any]:
        return {**start.config, **settings, **members_of(self.options.config or {})}


class Logs:
    """What logs a run: it ends by ``close()``, and at the end of a ``with`` block."""

    run: TrainingRun

    def close(self) -> None:
        """End the run: as errored or interrupted within the handling of an exception."""
        self.run.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_lasting: RunWriter | None = None


@cache
def _say_once(text: str) -> None:
    say(text)


def run_of(root: str, options: Mapping[str, Any], *, process: TrainingProcess | None = None) -> TrainingRun:
    """Return the run of a framework below *root*, which begins with the first call that gives anything.

    *options* are those of RunOptions; an unknown one raises TypeError. *process* says which of several this is, where
    the framework tells.
    """
    return TrainingRun(RunOptions(root=root, **options), Start(process=process))
