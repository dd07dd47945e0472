"""Writes a toy/v1 run: every call is one record in the file, and none of them stops the training.

::

    with RunWriter("runs/llama-001") as run:
        run.run_start(model={"arch": "llama"}, config={"lr": 3e-4})
        for loss in losses:
            run.step(loss=loss)

Numbers may be Python's or scalars of any array library. Values that are not finite are written as null.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, Self, SupportsIndex, Unpack, get_args

import msgspec
from msgspec import UNSET

from toyspec.core.errors import StreamError
from toyspec.core.escaping import printable, shortened
from toyspec.core.format.canonical import InvalidEventError
from toyspec.core.format.foreign_values import mapping_of
from toyspec.core.format.profiles import EVENTS_FILE
from toyspec.core.generated.event_methods import EventMethods
from toyspec.core.generated.toy_v1 import Step
from toyspec.core.system_calls import SYSTEM_CALLS, cause_of, say
from toyspec.core.writing import open_runs
from toyspec.core.writing.clocks import SYSTEM_CLOCK, utc_text
from toyspec.core.writing.companions import Companions
from toyspec.core.writing.environment import this_host
from toyspec.core.writing.events import Reason, StartMembers, check_start_members, given_members
from toyspec.core.writing.logged_values import not_by_name
from toyspec.core.writing.run_ids import check_run_id
from toyspec.core.writing.run_progress import COUNTED
from toyspec.core.writing.run_stream import RunStream
from toyspec.core.writing.settings import Settings
from toyspec.core.writing.written import Written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import EllipsisType

    from toyspec.core.format.canonical import Event
    from toyspec.core.generated.toy_v1 import QualityGate, Stats
    from toyspec.core.system_calls import SystemCalls
    from toyspec.core.writing.append_file import Durability
    from toyspec.core.writing.clocks import Clock
    from toyspec.core.writing.companions import Companion
    from toyspec.core.writing.events import Count, Measure, Measures, Phase, Value
    from toyspec.core.writing.run_progress import RunProgress
    from toyspec.core.writing.settings import Exist, OnError, Resuming

_PARTS: Final = {"model": "arch", "backend": "kind", "host": "name", "git": "sha", "parent": "run_id"}
"""Objects of run_start that may be given as a text, by the member that it is then."""
_REMARKS: Final = ("group", "name", "notes", "tags")
"""What people say of a run, which may be set as an attribute."""
_OWN: Final = frozenset(["config", "directory", "run_id"])
_UNCHECKED_STEP: Callable[..., Step] = Step


def _remark(name: str) -> Any:
    def said(run: RunWriter) -> Any:
        start: dict[str, Any] = msgspec.json.decode(run._stream.run_start or b"{}")  # noqa: SLF001 - same module
        return run._said.get(name, start.get(name))  # noqa: SLF001 - likewise

    return property(said, doc=f"The {name} of the run: what was set, else what its start has, None for nothing.")


class RunWriter(EventMethods):
    """Writes one run into ``<directory>/events.jsonl``.

    A call that would make the stream invalid raises InvalidEventError, a ValueError, and writes nothing. A failing
    system does not stop the program: see *on_error*. Threads may share a writer; in a forked child it is dead.
    """

    def __init__(  # noqa: PLR0913 - each is an option of its own
        self,
        directory: str | os.PathLike[str],
        *,
        run_id: str | None = None,
        exist: Exist = "replace",
        durability: Durability = "process",
        on_error: OnError = "disable",
        unredacted: Sequence[str] = (),
        resuming: Resuming = "by-call",
        companions: Sequence[Companion] = (),
        wait_seconds: float | None = None,
        stream_name: str = EVENTS_FILE,
        silent: bool = False,
        clock: Clock = SYSTEM_CLOCK,
        calls: SystemCalls = SYSTEM_CALLS,
    ) -> None:
        """Open the run for writing; *run_id* is the directory's name unless given.

        *exist* says what becomes of a stream that is there: ``"replace"`` moves it to ``events.jsonl.prev``, and an
        earlier one there to ``.prev-1`` and so on, ``"fail"`` raises FileExistsError, ``"resume"`` goes on in it, first
        with ``run_resume``, also after a run_end. With *resuming* ``"by-itself"`` the first record of a resumed stream
        writes that ``run_resume``, and so does a record after ``run_end`` or ``close``: see ``start_run``.

        Another writer of the stream is waited for *wait_seconds*, after which StreamRefusedError is raised; without
        them it is a failure as any other. *stream_name* is the name of the file; a *silent* writer writes nothing.

        *on_error* ``"disable"`` stops no program: a full disk drops records until there is room, an invalid record is
        left out once the run has started, and a stream that cannot be written is no longer logged to. Each of
        these is reported once on standard error; ``dropped`` counts. ``"raise"`` raises OSError and InvalidEventError.

        A record survives the process once its call returns, with *durability* ``"fsync"`` the machine too.

        Secrets in settings, command line and remarks are written as ``***``, except those settings that *unredacted*
        names.

        The seal of a run that is opened again is renamed ``SHA256SUMS.prev``.

        *companions* go along with the run: see ``start_run``.
        """
        settings = Settings(
            exist=exist,
            on_error=on_error,
            durability=durability,
            resuming=resuming,
            unredacted=unredacted,
            wait_seconds=wait_seconds,
            clock=clock,
            calls=calls,
        )
        self.directory = os.fspath(directory)
        name = run_id if run_id is not None else os.path.basename(os.path.abspath(self.directory))
        self.run_id = check_run_id(name)
        self._clock = clock
        self._said: dict[str, Any] = {}
        path = os.path.join(self.directory, stream_name)
        self._companions = Companions(companions)
        self._stream = RunStream(path, settings=settings, silent=silent)
        self._adopt_run_id(run_id)
        self._kept: open_runs.OpenRun | None = None
        if resuming == "by-itself" and self._stream.is_open:
            self._kept = open_runs.OpenRun(self._stream, self._end_quietly, self._start_again)
            open_runs.keep(self._kept)
        self._stream.on_reopening = self._go_on_again
        if self.has_started:
            self._start_companions()
        self._ended_as: Reason | None = "completed"
        """The reason of the run_end that nothing asks for; None once one was refused: it did not say ``completed``."""

    def _adopt_run_id(self, given: str | None) -> None:
        resumed = self._stream.progress.run_id
        if not resumed or resumed == self.run_id:
            return
        if given is not None:
            self._stream.close()
            raise InvalidEventError(
                f"the stream to resume belongs to run {shortened(resumed)}, not to {given}; "
                "give that run id, or another directory"
            )
        self.run_id = resumed

    def __repr__(self) -> str:
        return f"<RunWriter {self.directory!r} {'active' if self.active else 'inactive'}>"

    @property
    def active(self) -> bool:
        """True while calls write records: the file is open and the run has not ended."""
        return self._stream.is_active

    @property
    def has_started(self) -> bool:
        """True once run_start is in the stream, or the stream is a resumed one."""
        return self._stream.progress.records > 0

    @property
    def resumes(self) -> bool:
        """True until ``run_resume`` is written into a resumed stream."""
        return self._stream.progress.must_resume

    @property
    def lacks_start(self) -> bool:
        """True while no run_start is in the stream: it is new, or another program cut that line away."""
        return self._stream.progress.run_id is None

    @property
    def events_path(self) -> str:
        """Path of the stream."""
        return self._stream.path

    @property
    def is_silent(self) -> bool:
        """True in a process that is not to write, whose calls do nothing."""
        return self._stream.is_silent

    @property
    def dropped(self) -> int:
        """Number of records that were to be written and are not in the stream."""
        return self._stream.dropped

    @property
    def left_out(self) -> dict[str, int]:
        """Number of values that could not be written, and that records were written without, by name."""
        return self._stream.left_out

    @property
    def last_step(self) -> int | None:
        """Number of the last train step in the latest attempt; None before the first."""
        return self._stream.progress.resume_step

    @property
    def should_stop(self) -> bool:
        """True once a health rule with ``on="stop"`` was broken, until the run is resumed; see ``start_run``.

        Nothing is stopped by itself. A run whose loop has seen it ends as aborted by that rule, unless its
        end is given. In a process that does not write, this is False: send the answer of the first one to the others.
        """
        return self._companions.should_stop

    @property
    def config(self) -> Written:
        """The settings as they are in the log; one that is set is written: ``run.config["n_params"] = 7_000_000``."""
        return Written(self.run_config, self._stream.progress.config)

    @config.setter
    def config(self, members: Any) -> None:
        self.config.update(members)

    def _annotate(self, said: Mapping[str, Any]) -> None:
        if self.is_silent:
            return
        # Imported here: start-up time counts.
        from toyspec.core.writing.annotating import annotate

        try:
            annotate(self.events_path, **said, calls=self._stream.settings.calls)
        except (OSError, StreamError, ValueError) as error:
            if self._stream.settings.on_error == "raise":
                raise
            say(f"{self.events_path}: {', '.join(said)} could not be written ({cause_of(error)})")

    # Not by __getattr__, which would make every call of a method slower.
    group, name, notes, tags = (_remark(name) for name in _REMARKS)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a setting or what people say of the run: ``name``, ``group``, ``notes`` and ``tags`` are annotations.

        Anything else raises AttributeError: it would not be in the log.
        """
        if name == "tags":
            wanted, known = list(map(str, value)), self.tags or ()
            self._annotate(
                {
                    "add_tags": [tag for tag in wanted if tag not in known],
                    "remove_tags": [tag for tag in known if tag not in wanted],
                }
            )
            self._said[name] = wanted
        elif name in _REMARKS:
            self._annotate({name: str(value)})
            self._said[name] = str(value)
        elif name[:1] == "_" or name in _OWN:
            object.__setattr__(self, name, value)
        else:
            raise AttributeError(
                f"a run has no {name!r} to be set, and nothing of it would be in the log: "
                f"run.log({name}=…) writes a value, run.config[{name!r}] = … a setting"
            )

    def run_start(self, *, config: Mapping[str, Any] | Any | None = None, **members: Unpack[StartMembers]) -> None:
        """Write the first record: who runs what, where and with which settings; it is on the disk on return.

        *config* has the settings: a mapping, a dataclass or a namespace. Of a run of
        ``start_run`` that has begun, the next run_resume says which of them have changed, and nothing is written now.
        """
        check_start_members("run_start", members)
        if self._kept is not None and not self.lacks_start:
            changed = {} if config is None else self._stream.changed_settings(config)
            known = {"world_size": members.get("world_size"), "config": changed or None}
            self._stream.resumption.members = {name: value for name, value in known.items() if value is not None}
            return
        given: dict[str, Any] = {"host": None, "started_at": None, **members}
        for name, main in _PARTS.items():
            if name in given:
                value = UNSET if given[name] is None or given[name] == "" else given[name]
                given[name] = {main: value} if isinstance(value, str) else value
        given["host"] = this_host() if members.get("host") is None else given["host"]
        given["started_at"] = self._now_unless(given["started_at"])
        self._log("run_start", schema="toy/v1", run_id=self.run_id, config=UNSET if config is None else config, **given)
        if self._stream.progress.records == 1:
            self._start_companions()

    def step(  # noqa: PLR0913 - one for each member of the event
        self,
        step: SupportsIndex | None = None,
        *,
        loss: Measure = None,
        ppl: Measure = None,
        lr: Measure = None,
        grad_norm: Measure = None,
        tokens: Count = None,
        compute_us: Count = None,
        wall_us: Count = None,
        token_id: Count = None,
        logprob: Measure = None,
        mtp_loss: Measure = None,
        train_acc: Measure = None,
        samples: Count = None,
        phase: Phase = None,
        extra: Measures = None,
        **named: Value,
    ) -> None:
        """Write one optimizer step, or one decoded token; without *step* its number is one more than the last.

        Values by other names are members of *extra*: ``run.step(5, loss=2.5, acc=0.5)``. A *step* that is not an
        integer ≥ 0 is left out, and counted: the record is the next step, and ``extra`` has it as ``given_step``.
        """
        if named:
            extra = named if extra is None else self._with_named("extra", extra, named)
        event = _UNCHECKED_STEP(
            phase=phase,
            t=0.0,
            step=0 if step is None else step,
            loss=loss,
            ppl=ppl,
            lr=lr,
            grad_norm=grad_norm,
            tokens=tokens,
            compute_us=compute_us,
            wall_us=wall_us,
            token_id=token_id,
            logprob=logprob,
            mtp_loss=mtp_loss,
            train_acc=train_acc,
            samples=samples,
            extra=extra,
        )
        self._stream.write_step(event, "counted" if step is None else "given")

    def log(
        self,
        values: Mapping[str, Value | Mapping[str, Any]] | None = None,
        /,
        step: Count | EllipsisType = ...,
        *,
        epoch: Measure = None,
        phase: Phase = None,
        **named: Value | Mapping[str, Any],
    ) -> None:
        """Write any values by name, at any time: ``run.log({"train/acc": 0.75}, step=3)``, or ``run.log(loss=2.5)``.

        A number is a value, True is 1.0 and False 0.0, and a string is a text. ``/`` in a name groups values; the
        members of a nested mapping follow its name and a slash: ``run.log({"train": {"acc": 0.75}})`` is the same. A
        value that is none of these is left out alone, which standard error reports once for its name and a note in the
        log counts.

        Without *step*, the values belong to the last ``run.step``, and in a program that never calls that, to one step
        more than the call before. With ``step=None`` they belong to no step. A *step* that is not an integer ≥ 0
        is left out, and counted: the values are where they are without one, with ``given_step``, what was passed.
        """
        given = named if values is None else self._with_named("values", values, named) if named else values
        at = COUNTED if step is ... else step
        self._stream.write_values({"kind": "scalars", "values": given, "step": at, "epoch": epoch, "phase": phase})

    def _with_named(self, argument: str, values: Any, named: Mapping[str, Any]) -> dict[Any, Any]:
        """Return *values* and those that are *named*; without the first if they have no names, which is counted."""
        found = values if isinstance(values, Mapping) else mapping_of(values)
        if found is None:
            self.leave_out(argument, not_by_name(argument, values))
        return {**(found or {}), **named}

    def artifact(  # noqa: PLR0913 - one for each member of the event
        self,
        path: str | os.PathLike[str],
        *,
        copy: bool = False,
        role: str | None = None,
        size_bytes: Count = None,
        sha256: str | None = None,
        media_type: str | None = None,
        step: Count = None,
        phase: Phase = None,
    ) -> None:
        """Write that the file *path*, in the bundle or the working directory, belongs to the run, with size and digest.

        A file outside of the bundle is copied into its folder ``artifacts`` with *copy*; else a ``reference`` names it.
        Files above 256 MiB are not hashed.
        """
        if self._stream.is_silent:
            return
        # Imported here: start-up time counts.
        from toyspec.core.writing.media import placed_file

        try:
            kind, members = placed_file(self._stream.directory, path, copy=copy)
        except OSError as error:
            say(f"{self.events_path}: {printable(os.fspath(path))} could not be copied ({cause_of(error)})")
            kind, members = placed_file(self._stream.directory, path, copy=False)
        known = {"role": role, "size_bytes": size_bytes, "sha256": sha256, "step": step, "phase": phase}
        if kind == "artifact":
            known["media_type"] = media_type
        self._log(kind, **{**members, **{key: value for key, value in known.items() if value is not None}})

    @contextlib.contextmanager
    def region(self, region: str, *, step: Count = None, phase: Phase = None) -> Iterator[None]:
        """Write that the computation enters *region*, and at the end of the block that it leaves it."""
        self.region_enter(region, step=step, phase=phase)
        try:
            yield
        finally:
            if self.active:
                self.region_exit(region, step=step, phase=phase)

    def run_resume(
        self,
        from_step: SupportsIndex,
        *,
        reason: str | None = None,
        config: Mapping[str, Any] | None = None,
        world_size: Count = None,
        resumed_at: str | None = None,
    ) -> None:
        """Write that training resumes from the state after *from_step*; the next train step is one more.

        *config* has the settings that differ from those before, *world_size* the number of processes from now on.
        """
        now = self._now_unless(resumed_at)
        facts = {"reason": reason, "config": config, "world_size": world_size}
        prepared = {key: value for key, value in self._stream.resumption.members.items() if facts.get(key) is None}
        self._log("run_resume", from_step=from_step, resumed_at=now, **{**facts, **prepared})
        self._stream.resumption.members = {}

    def run_end(  # noqa: PLR0913 - one for each member of the event
        self,
        reason: Reason | None = None,
        *,
        final_step: Count | Literal["last"] = "last",
        final_loss: Measure | Literal["last"] = "last",
        exit_code: Count = None,
        error: str | None = None,
        quality_gate: QualityGate | Mapping[str, Any] | None = None,
        final_mtp_loss: Measure = None,
        mtp_sig: Measure = None,
        val_acc: Measure = None,
        achieved_ce: Measure = None,
        checkpoint: str | None = None,
        stats: Stats | Mapping[str, Any] | None = None,
        energy_joules: Measure = None,
        ended_at: str | None = None,
    ) -> None:
        """Write the last record and close the file; the record is on the disk on return.

        The reason is ``completed`` unless given, or ``interrupted`` if a signal has come to a run of ``start_run``.
        *final_step* and *final_loss* are those of the last train step, *ended_at* is now, unless given. In a run
        without ``step`` records, the final step is the largest at which values were logged.
        """

        def with_last(progress: RunProgress) -> dict[str, Any]:
            own = {"final_step": progress.final_step, "final_loss": progress.last_train_loss}
            given = {
                "final_step": final_step,
                "final_loss": final_loss,
                "exit_code": exit_code,
                "error": error,
                "quality_gate": quality_gate,
                "final_mtp_loss": final_mtp_loss,
                "mtp_sig": mtp_sig,
                "val_acc": val_acc,
                "achieved_ce": achieved_ce,
                "checkpoint": checkpoint,
                "stats": stats,
                "energy_joules": energy_joules,
            }
            framing = {"kind": "run_end", "ended_at": self._now_unless(ended_at), "reason": reason}
            return framing | {
                name: own[name] if value == "last" else value for name, value in given.items() if value is not None
            }

        if reason is None:
            found = open_runs.ending(None, self.events_path) or self._companions.verdict
            reason, error = found.get("reason", "completed"), error or found.get("error")
            exit_code = found.get("exit_code") if exit_code is None else exit_code
        was_open = self._stream.is_open
        if was_open:
            self._companions.ending()
        self._stream.end(with_last)
        if was_open:
            # What was refused did not say how the run ended; what the system refused is written again as it was.
            self._ended_as = reason if reason in get_args(Reason) else None
        self._leave_companions()

    def leave_out(self, name: str, why: str) -> None:
        """Count the value *name*, which the caller does not write, as left out, and say in the log *why*.

        A note in the log counts it, and standard error reports each name once. Nothing is raised.
        """
        self._stream.leave_out(name, why)

    def write(self, event: Event) -> None:
        """Write any event, of a kind that this version knows or not; ``t`` is now unless the event has it."""
        self._stream.write(event)

    def close(self, error: BaseException | None = None) -> None:
        """End the run that ``start_run`` began, if nothing has ended it, and close the file.

        The run ends by the signal that came, else by *error* or the exception that is being handled, as in a
        ``finally`` block, else as completed. A stream that ``start_run`` did not open gets no run_end: see ``abandon``.
        """
        if self._stream.settings.resuming == "by-itself":
            self._end_and_close(open_runs.ending(error or sys.exc_info()[1], self.events_path))
        else:
            self.abandon()

    def abandon(self) -> None:
        """Close the file without a run_end: the stream stays torn, as after a crash."""
        if self._stream.is_open:
            self._companions.ending()
        self._stream.close()
        self._leave_companions()

    def __reduce__(self) -> NoReturn:
        """Raise TypeError: a run has one writer."""
        raise TypeError(
            "the writer of a run cannot be sent to another process; return the values to this one and log them here, "
            "or call start_run there, with ranks='all' if the processes train together"
        )

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the same writer: a copy of what has it, such as a trainer, writes the same run."""
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_type: object, error: BaseException | None, traceback: object) -> None:
        """Write run_end if there is none, and close the file; an exception propagates.

        A run that a signal has interrupted is not completed, whatever the program did then.
        """
        if error is None:
            self._end_and_close(open_runs.ending(None, self.events_path))
        else:
            self._end_quietly(open_runs.ending(error, self.events_path))

    def _end_and_close(self, found: dict[str, Any]) -> None:
        try:
            self._end(found)
        finally:
            self.abandon()

    def _end(self, found: dict[str, Any]) -> None:
        """Write run_end, if none is there, with the members *found*; without any as the run ended before it went on.

        It does not end where a run_end of the program was refused: its reason may have been any.
        """
        if not self.active or not self._stream.can_end:
            return
        if found or self._ended_as is not None:
            # A loop that has obeyed a rule ends by it.
            reason = self._ended_as if self._ended_as != "completed" else None
            self.run_end(**(found or {"reason": reason}))

    def _end_quietly(self, found: dict[str, Any]) -> None:
        """End the run with *found* and close the file; report what goes wrong, since no caller could take it."""
        try:
            self._end_and_close(found)
        except Exception as trouble:  # noqa: BLE001 - the program ends
            say(f"{self.events_path}: run_end could not be written: {cause_of(trouble)}")

    def _start_again(self) -> None:
        self._end_quietly({"reason": "interrupted", "error": "started again"})
        self._stream.take_over()

    def _start_companions(self) -> None:
        takes_records = self._companions.start(self)
        self._stream.on_record = self._companions.record if takes_records else None
        if takes_records:
            self._companions.record(self._stream.run_start, "run_start", None)

    def _go_on_again(self) -> None:
        if self._kept is not None:
            open_runs.keep(self._kept)
        self._start_companions()

    def _leave_companions(self) -> None:
        if not self._stream.is_open:
            if self._kept is not None:
                open_runs.forget(self._kept)
            self._companions.ended()

    def _now_unless(self, given: str | None) -> Any:
        """Return the text of a time: that of now unless it is *given*, UNSET if that is empty."""
        return utc_text(self._clock.wall()) if given is None else given or UNSET

    def _log(self, kind: str, **members: Any) -> None:
        self._stream.write({"kind": kind, **given_members(kind, members)})
