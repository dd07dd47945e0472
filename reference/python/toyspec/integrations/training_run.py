"""The run that a framework logs through its own callback or logger: what all integrations have in common."""

from __future__ import annotations

import atexit
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from toyspec.errors import StreamRefusedError, ToyspecError
from toyspec.format.canonical import members_of
from toyspec.format.scalars import scalar
from toyspec.integrations.provenance import command_line, package_versions
from toyspec.integrations.redaction import without_secrets
from toyspec.integrations.system_metrics import SystemMetrics
from toyspec.mirrors.settings import Mirror
from toyspec.reading.reader import read
from toyspec.system_calls import cause_of, say
from toyspec.writing.clocks import SYSTEM_CLOCK
from toyspec.writing.devices import this_backend
from toyspec.writing.environment import git_revision
from toyspec.writing.event_arguments import ending_exception, ending_of
from toyspec.writing.field_mapping import event_members
from toyspec.writing.named_values import NamedValues
from toyspec.writing.run_ids import claim_directory, format_run_id, run_id_from
from toyspec.writing.run_writer import RunWriter
from toyspec.writing.settings import OnError

if TYPE_CHECKING:
    from toyspec.writing.event_arguments import Phase, Reason
    from toyspec.writing.settings import Exist


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
    ranks: Literal["first", "all"] = "first"
    """Of several processes that train together, the first writes; with ``"all"`` each writes a bundle of its own."""
    system_seconds: float = 10.0
    """Least seconds between two ``system`` events; 0 for none."""
    on_error: OnError = "disable"
    """What a failing disk does: ``"disable"`` never stops the training, ``"raise"`` raises OSError."""
    mirrors: tuple[Mirror, ...] | list[Mirror] = ()
    """Other trackers that get the run as well, for example ``[toyspec.Mirror(to="wandb")]``."""


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
    rank: int = 0
    """Number of this process, from 0."""


class TrainingRun:
    """A run whose values come by name, at steps that may repeat or go back.

    It starts with ``start``, or, where *expected* is given, with its first value: until then settings may be added. No
    failure of the log stops the training. The run ends with ``end``, at the latest with the program.
    """

    def __init__(self, options: RunOptions, expected: Start | None = None) -> None:
        self.options = options
        self._expected = expected
        self._definitions: list[tuple[str, Literal["min", "max"] | None, str | None]] = []
        self.writer: RunWriter | None = None
        """The writer; None before the start, and in processes that do not write."""
        self._system: SystemMetrics | None = None
        self._last_step: int | None = None
        self._process = os.getpid()
        self._names = NamedValues()

    @property
    def is_logging(self) -> bool:
        """True between start and end, in a process that writes."""
        return self.writer is not None and self.writer.active

    @property
    def run_id(self) -> str | None:
        """Id of the run; None before the start."""
        return None if self.writer is None else self.writer.run_id

    def start(self, start: Start) -> None:
        """Start the run, or resume it from the step of the checkpoint; do nothing in a process that does not write."""
        if self.is_logging or (start.rank and self.options.ranks == "first"):
            return
        try:
            self.writer = self._opened(start)
        except (OSError, ValueError) as error:
            if self.options.on_error == "raise":
                raise
            say(f"{os.fspath(self.options.root)}: {cause_of(error)}; no run is logged, the program continues")
            return
        self._last_step = self.writer.last_step
        if self.options.system_seconds > 0:
            self._system = SystemMetrics(self.writer, self.options.system_seconds)
        atexit.register(self._end_at_exit)

    def add_config(self, settings: Mapping[str, Any]) -> None:
        """Add *settings* to those of the run; once it has started, they are kept in a note."""
        if self._expected is not None:
            self._expected.config = {**self._expected.config, **settings}
        elif self.writer is not None:
            text = msgspec.json.encode(without_secrets(settings), enc_hook=str).decode()
            self.writer.note(f"settings: {text}")

    def log(
        self,
        values: Mapping[str, Any],
        *,
        step: int | None = None,
        epoch: float | None = None,
        phase: Phase = UNSET,
    ) -> None:
        """Write the numbers among *values* by name, at any step; all else is left out."""
        numbers = self.numbers(values)
        self._start_expected(step)
        if numbers and self.writer is not None:
            self._note_step(step)
            self.writer.log(numbers, step=_given(step), epoch=_given(epoch), phase=phase)

    def log_step(self, step: int, values: Mapping[str, Any]) -> None:
        """Write one optimizer step; one that is not after the last is written as plain values."""
        numbers = self.numbers(values)
        self._start_expected(step)
        if self.writer is None or not numbers:
            return
        if self._last_step is not None and step <= self._last_step:
            self.log(numbers, step=step)
            return
        self.writer.step(step, **_members("step", numbers))
        self._note_step(step)

    def evaluate(self, name: str, values: Mapping[str, Any], *, step: int | None = None) -> None:
        """Write the result of the evaluation *name*; ``loss`` and ``ppl`` have fields of their own."""
        numbers = self.numbers(values)
        self._start_expected(step)
        if self.writer is not None:
            self.writer.eval(name, step=_given(step), **_members("eval", numbers))

    def define(self, name: str, *, goal: Literal["min", "max"] | None = None, step_name: str | None = None) -> None:
        """Write what the metric *name* means; before the start this waits for it."""
        if self._expected is not None:
            self._definitions.append((name, goal, step_name))
        elif self.writer is not None:
            self.writer.define(name, goal=_given(goal), step_name=_given(step_name))

    def note(self, text: str, *, step: int | None = None) -> None:
        """Write a remark for people."""
        self._start_expected(step)
        if self.writer is not None:
            self.writer.note(text, step=_given(step))

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
        ending: dict[str, Any] = ending_of(error) if reason is None else {"reason": reason}
        if reason == "errored":
            ending["error"] = cause
        self._end(ending)

    def close(self) -> None:
        """Close the stream without a run_end: it stays torn, and can be resumed."""
        atexit.unregister(self._end_at_exit)
        if self._system is not None:
            self._system.stop()
        if self.writer is not None:
            self.writer.close()

    def numbers(self, values: Mapping[str, Any]) -> dict[str, float]:
        """Return the numbers among *values*, nested ones with ``/`` in their names; all else is left out."""
        place = os.fspath(self.options.root) if self.writer is None else self.writer.events_path
        return _numbers_of(self._names.named(values, place))

    def _start_expected(self, step: int | None) -> None:
        expected, self._expected = self._expected, None
        if expected is None:
            return
        if expected.resumed_step is None and step is not None and self._continues(expected, step):
            expected.resumed_step = step - 1
        self.start(expected)
        for name, goal, step_name in self._definitions:
            self.define(name, goal=goal, step_name=step_name)

    def _continues(self, start: Start, step: int) -> bool:
        """Return whether training at *step* continues the log that is there, which has not ended and began earlier."""
        run_id = self.options.run_id or start.run_id
        if run_id is None:
            return False
        first: int | None = None
        try:
            for record in read(self._directory(start), mode="salvage"):
                if record.kind == "run_end":
                    return False
                if first is None and isinstance(record.value.get("step"), int):
                    first = record.value["step"]
        except (OSError, ToyspecError):
            return False
        return first is not None and first < step

    def _end(self, ending: dict[str, Any]) -> None:
        self._start_expected(None)
        if self.writer is None or os.getpid() != self._process:
            return
        if self._system is not None:
            self._system.stop()
        if self.writer.active and not self.writer.resumes:
            if self.writer.last_step is None and self._last_step is not None:
                ending["final_step"] = self._last_step
            self.writer.run_end(**ending)
        self.close()

    def _end_at_exit(self) -> None:
        self._end(ending_of(ending_exception()))

    def _note_step(self, step: int | None) -> None:
        if step is not None and (self._last_step is None or step > self._last_step):
            self._last_step = step

    def _opened(self, start: Start) -> RunWriter:
        resumes = start.resumed_step is not None
        directory = self._directory(start)
        try:
            writer = self._writer(directory, "resume" if resumes else "replace")
        except StreamRefusedError as error:
            if error.reason != "complete":
                raise
            # Training on after the end of a run is another run.
            directory = claim_directory(
                os.path.dirname(directory), "{arch}-{seq}", arch=os.path.basename(directory), wall=SYSTEM_CLOCK.wall()
            )
            say(f"{error}; the training continues as run {os.path.basename(directory)}")
            writer = self._writer(directory, "replace")
        if writer.resumes:
            assert start.resumed_step is not None, "only a resumed training opens a stream that is there"
            writer.run_resume(start.resumed_step)
        else:
            self._write_start(writer, start)
        return writer

    def _writer(self, directory: str, exist: Exist) -> RunWriter:
        return RunWriter(directory, exist=exist, on_error=self.options.on_error, mirrors=self.options.mirrors)

    def _directory(self, start: Start) -> str:
        root = os.fspath(self.options.root)
        suffix = f"-rank{start.rank}" if self.options.ranks == "all" else ""
        run_id = self.options.run_id or start.run_id
        if run_id is not None:
            base = run_id.removesuffix(suffix) if suffix else run_id
            return os.path.join(root, run_id_from(base) + suffix)
        arch = run_id_from(self.options.name or start.model.get("arch") or start.framework)
        template = "{arch}-{date}-{seq}" + suffix
        try:
            return claim_directory(root, template, arch=arch, wall=SYSTEM_CLOCK.wall())
        except OSError:
            if self.options.on_error == "raise":
                raise
            # The writer fails at the same place, and reports it.
            return os.path.join(root, format_run_id(template, arch=arch, wall=SYSTEM_CLOCK.wall(), seq=1))

    def _write_start(self, writer: RunWriter, start: Start) -> None:
        given = self.options.config
        config = {**start.config, **(members_of(given) if given is not None else {})}
        if start.subsample is not None and start.subsample > 1:
            config = {"subsample": start.subsample, **config}
        group = self.options.group
        if group is None and self.options.ranks == "all":
            group = writer.run_id.rpartition("-rank")[0]
        writer.run_start(
            model={key: value for key, value in start.model.items() if value is not None},
            config=without_secrets(config),
            backend=this_backend(),
            git=git_revision(),
            name=_given(self.options.name),
            group=_given(group),
            tags=list(self.options.tags) or UNSET,
            notes=_given(self.options.notes),
            argv=command_line(),
            packages=package_versions(),
        )


def run_of(framework: str, root: str, options: Mapping[str, Any], *, rank: int = 0) -> TrainingRun:
    """Return the run of a *framework* below *root*, which starts with its first value.

    *options* are those of RunOptions; an unknown one raises TypeError. *rank* is the number of this process.
    """
    return TrainingRun(RunOptions(root=root, **options), Start(framework=framework, rank=rank))


def _numbers_of(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers among *values*; all else is left out."""
    found: dict[str, float] = {}
    for name, value in values.items():
        try:
            number = scalar(value)
        except (TypeError, ValueError, RuntimeError):
            # An array of several elements, or one that is no longer on its device.
            continue
        if isinstance(number, bool):
            number = int(number)
        if isinstance(number, int | float):
            found[str(name)] = number
    return found


def _members(kind: Literal["step", "eval"], numbers: dict[str, float]) -> dict[str, Any]:
    try:
        return event_members(kind, numbers)
    except ValueError:
        # A framework's number has the name of a count and is none.
        return {"extra": numbers}


def _given(value: Any) -> Any | UnsetType:
    return UNSET if value is None else value
