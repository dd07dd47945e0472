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
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, SupportsIndex, get_args

from msgspec import UNSET

from toyspec.errors import ToyspecError
from toyspec.escaping import shortened
from toyspec.format.canonical import InvalidEventError, members_of
from toyspec.format.profiles import EVENTS_FILE
from toyspec.generated.fields import FIELDS
from toyspec.generated.toy_v1 import Step
from toyspec.system_calls import SYSTEM_CALLS, cause_of, say
from toyspec.writing import open_runs
from toyspec.writing.clocks import SYSTEM_CLOCK, utc_text
from toyspec.writing.companions import begin_all
from toyspec.writing.environment import this_host
from toyspec.writing.event_arguments import Reason, ending_of, part
from toyspec.writing.event_checks import given_members
from toyspec.writing.event_methods import EventMethods
from toyspec.writing.run_ids import check_run_id
from toyspec.writing.run_stream import RunStream
from toyspec.writing.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

    from toyspec.format.canonical import Event
    from toyspec.generated.toy_v1 import Backend, Cost, Dataset, Git, Host, Model, Parent, QualityGate, Stats
    from toyspec.system_calls import SystemCalls
    from toyspec.writing.append_file import Durability
    from toyspec.writing.clocks import Clock
    from toyspec.writing.companions import Companion
    from toyspec.writing.event_arguments import (
        Count,
        Measure,
        Measures,
        Phase,
        Value,
    )
    from toyspec.writing.evidence import Evidence
    from toyspec.writing.run_health import RunHealth
    from toyspec.writing.run_progress import RunProgress
    from toyspec.writing.settings import Exist, OnError, Resuming, Sealing

_NEARLY = 0.75
_UNCHECKED_STEP: Callable[..., Step] = Step


class RunWriter(EventMethods):
    """Writes one run into ``<directory>/events.jsonl``.

    A call that would make the stream invalid raises InvalidEventError, a ValueError, and writes nothing. A failing
    system does not stop the program: see *on_error*. Threads may share a writer; in a forked child it is dead.
    """

    # Of the class until there is one: a run stays small.
    _named: frozenset[str] = frozenset()

    def __init__(  # noqa: PLR0913 - each is an option of its own
        self,
        directory: str | os.PathLike[str],
        *,
        run_id: str | None = None,
        exist: Exist = "replace",
        durability: Durability = "process",
        sync_seconds: float = 0.0,
        on_error: OnError = "disable",
        subsample: int | None = None,
        unredacted: Sequence[str] = (),
        resuming: Resuming = "by-call",
        seal: Sealing = "never",
        mirrors: Sequence[Companion] = (),
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

        A record survives the process once its call returns, with *durability* ``"fsync"`` the machine too, at most
        *sync_seconds* after the sync before. *subsample* N writes every N-th step and the last.

        Secrets in settings, command line and remarks are written as ``***``, except those settings that *unredacted*
        names.

        *seal* ``"at-end"`` seals the run after run_end: it writes ``SHA256SUMS``, the digests of all files in the
        directory. Write other files before ``run_end``. Any writer that opens the stream again renames the seal
        ``SHA256SUMS.prev``.

        *mirrors* send the records on to other trackers while they are written, from processes of their own: see
        ``Mirror``.
        """
        settings = Settings(
            exist=exist,
            on_error=on_error,
            durability=durability,
            sync_seconds=sync_seconds,
            resuming=resuming,
            seal=seal,
            subsample=1 if subsample is None else subsample,
            unredacted=unredacted,
            wait_seconds=wait_seconds,
            clock=clock,
            calls=calls,
        )
        self._subsample = subsample
        self.directory = os.fspath(directory)
        name = run_id if run_id is not None else os.path.basename(os.path.abspath(self.directory))
        self.run_id = check_run_id(name)
        self._clock = clock
        path = os.path.join(self.directory, stream_name)
        self._stream = RunStream(path, settings=settings, silent=silent)
        self._mirrors = mirrors
        self._adopt_run_id(run_id)
        self._companions = begin_all(mirrors, path, self._note_end_of_mirror) if self._stream.is_open else []
        self._evidence: Evidence | None = None
        self._health: RunHealth | None = None
        self._is_kept = False
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
        return self._stream.is_open and not self._stream.progress.ended

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
    def has_replaced(self) -> bool:
        """True if an earlier log moved away for the stream."""
        return self._stream.has_replaced

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
        return self._health is not None and self._health.should_stop

    def run_start(  # noqa: PLR0913 - one for each part of the event
        self,
        *,
        model: Model | Mapping[str, Any] | str | None = None,
        config: Mapping[str, Any] | Any | None = None,
        backend: Backend | Mapping[str, Any] | str | None = None,
        host: Host | Mapping[str, Any] | str | None = None,
        git: Git | Mapping[str, Any] | str | None = None,
        phase: Phase = None,
        compare_to: str | None = None,
        name: str | None = None,
        group: str | None = None,
        tags: Sequence[str] | None = None,
        notes: str | None = None,
        argv: Sequence[str] | None = None,
        packages: Mapping[str, str] | None = None,
        rank: Count = None,
        world_size: Count = None,
        parent: Parent | Mapping[str, Any] | str | None = None,
        data: Sequence[Dataset | Mapping[str, Any]] | None = None,
        cost: Cost | Mapping[str, Any] | None = None,
        franken: Mapping[str, Any] | None = None,
        franken_moe: Mapping[str, Any] | None = None,
        started_at: str | None = None,
    ) -> None:
        """Write the first record: who runs what, where and with which settings; it is on the disk on return.

        A *model* that is a string is its ``arch``, a *backend* its ``kind``, a *git* its ``sha``. *host* is this
        machine and *started_at* is now, unless given; ``""`` leaves them out. *name*, *group*, *tags* and *notes* are
        for people, *argv* is the command line, *packages* are names and versions. *rank* is the number of this process
        of *world_size*, *parent* the run, or its id, from whose checkpoint this one starts, *data* names data sets.
        """
        self._log(
            "run_start",
            schema="toy/v1",
            started_at=self._now_unless(started_at),
            run_id=self.run_id,
            phase=phase,
            host=this_host() if host is None else part(host or None, "name"),
            backend=part(backend, "kind"),
            git=part(git, "sha"),
            model=part(model, "arch"),
            config=self._config(config),
            compare_to=compare_to,
            name=name,
            group=group,
            tags=tags,
            notes=notes,
            argv=argv,
            packages=packages,
            rank=rank,
            world_size=world_size,
            parent=part(parent, "run_id"),
            data=data,
            cost=cost,
            franken=franken,
            franken_moe=franken_moe,
        )

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
        phase: Phase = None,
        extra: Measures = None,
        **named: Value,
    ) -> None:
        """Write one optimizer step, or one decoded token; without *step* its number is one more than the last.

        Values by other names are members of *extra*: ``run.step(5, loss=2.5, acc=0.5)``. A *step* that is not an
        integer ≥ 0 is left out, and counted: the record is the next step, and ``extra`` has it as ``given_step``.
        """
        if named:
            self._look_at_names(named)
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
            extra=extra,
        )
        self._stream.write_step(event, "counted" if step is None else "given")

    def _look_at_names(self, named: Mapping[str, Any]) -> None:
        """Report once each name that is nearly that of a member of a step."""
        for name in named.keys() - self._named:
            self._named |= {name}
            meant = get_close_matches(name, FIELDS["toy/v1"]["step"], 1, _NEARLY)
            if meant:
                fact = f"step has no member {shortened(name)!r}, so it is written in extra; did you mean {meant[0]!r}?"
                say(f"{self.events_path}: {fact}")

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
        prepared = {key: value for key, value in self._stream.resumption.items() if facts.get(key) is None}
        self._log("run_resume", from_step=from_step, resumed_at=now, **{**facts, **prepared})
        self._stream.resumption = {}

    def run_end(  # noqa: PLR0913 - one for each member of the event
        self,
        reason: Reason = "completed",
        *,
        final_step: Count | Literal["last"] = "last",
        final_loss: Measure | Literal["last"] = "last",
        exit_code: Count = None,
        error: str | None = None,
        quality_gate: QualityGate | Mapping[str, Any] | None = None,
        final_mtp_loss: Measure = None,
        mtp_sig: Measure = None,
        stats: Stats | Mapping[str, Any] | None = None,
        energy_joules: Measure = None,
        ended_at: str | None = None,
    ) -> None:
        """Write the last record and close the file; the record is on the disk on return.

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
                "stats": stats,
                "energy_joules": energy_joules,
            }
            framing = {"kind": "run_end", "ended_at": self._now_unless(ended_at), "reason": reason}
            return framing | {
                name: own[name] if value == "last" else value for name, value in given.items() if value is not None
            }

        stopped = self._health.ending if self._health is not None and reason == "completed" else None
        if stopped is not None:
            reason, error = stopped["reason"], stopped["error"] if error is None else error
        self._finish_evidence()
        was_open = self._stream.is_open
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

    def forward(self, line: bytes | str) -> None:
        """Write a record of another writer byte for byte; *line* may end in its LF. A string is its UTF-8.

        Raise InvalidEventError for what is not one readable record, or not valid at this place of the stream.
        """
        data = line.encode("utf-8", "surrogatepass") if isinstance(line, str) else bytes(line)
        self._stream.write_raw(data.removesuffix(b"\n"))

    def close(self) -> None:
        """End the run that ``start_run`` began, if nothing has ended it, and close the file.

        The run is completed, or ends by the signal that came, or by the exception that is being handled, as in a
        ``finally`` block. A stream that ``start_run`` did not open gets no run_end: see ``abandon``.
        """
        try:
            if self._is_kept and self.active and self._stream.can_end:
                error = sys.exc_info()[1]
                self._end_unasked(ending_of(error) if error is not None else open_runs.received_signal())
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the file without a run_end: the stream stays torn, as after a crash."""
        self._finish_evidence()
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

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Write run_end if there is none, and close the file; an exception propagates.

        A run that a signal has interrupted is not completed, whatever the program did then.
        """
        try:
            if self.active and self._stream.can_end:
                signalled = open_runs.received_signal() if self._is_kept and error is None else None
                self._end_unasked(ending_of(error) if error is not None else signalled)
        except Exception as trouble:
            if error is None:
                raise
            say(f"{self.events_path}: run_end could not be written: {cause_of(trouble)}")
        finally:
            self.abandon()

    def prepare_resumption(self, config: Any | None, *, world_size: Count = None) -> bool:
        """Let the next run_resume say which settings of *config* have changed, if one is given; return if any has."""
        members = {} if world_size is None else {"world_size": world_size}
        changed = {} if config is None else self._stream.changed_settings(self._config(config))
        self._stream.resumption = {**members, "config": changed} if changed else members
        return bool(changed)

    def watch(self, health: RunHealth) -> None:
        """Let *health* look at each record from now on."""
        self._health = health
        self._stream.on_record = health.take
        self._stream.on_reopening.append(health.begin)

    def collect(self, evidence: Evidence) -> None:
        """Finish *evidence* before the run ends."""
        self._evidence = evidence

    def _finish_evidence(self) -> None:
        evidence, self._evidence = self._evidence, None
        if evidence is not None and self._stream.is_open:
            evidence.finish()
        if self._health is not None:
            self._health.finish()

    def keep_until_exit(self) -> None:
        """End the run when the program ends, if it has not ended by then; see ``open_runs``."""
        self._is_kept = True
        open_runs.keep(self)
        self._stream.on_reopening.append(self._go_on_again)

    def end_with(self, ending: dict[str, Any]) -> None:
        """Write run_end with *ending*, if none is there, and close the file; report what goes wrong.

        Without a reason the run is completed, or ends as it did before it went on. It does not end where a run_end of
        the program was refused: its reason may have been any.
        """
        try:
            if self.active and self._stream.can_end:
                self._end_unasked(ending)
        except Exception as trouble:  # noqa: BLE001 - the program ends, and no caller could take the error
            say(f"{self.events_path}: run_end could not be written: {cause_of(trouble)}")
        with contextlib.suppress(OSError):
            self.abandon()

    def _end_unasked(self, ending: dict[str, Any] | None) -> None:
        """Write run_end with *ending*; without one, as ``_ended_as`` says."""
        if ending or self._ended_as is not None:
            self.run_end(**(ending or {"reason": self._ended_as}))

    def start_again(self) -> None:
        """End the run as interrupted: a later ``start_run`` of this process writes it from now on."""
        self.end_with({"reason": "interrupted", "error": "started again"})
        self._stream.take_over()

    def after_writing(self, call: Callable[[], None]) -> bool:
        """Call *call* as soon as no record is being written; return whether that was at once."""
        return self._stream.after_writing(call)

    def _go_on_again(self) -> None:
        open_runs.keep(self)
        self._companions = begin_all(self._mirrors, self._stream.path, self._note_end_of_mirror)

    def _note_end_of_mirror(self, reason: str) -> None:
        # The run may end meanwhile; the companion has reported it on standard error, too.
        with contextlib.suppress(ToyspecError):
            if self.active and self.has_started:
                self.note(reason, topic="mirror")

    def _leave_companions(self) -> None:
        if not self._stream.is_open:
            open_runs.forget(self)
        if self._companions and not self._stream.is_open:
            companions, self._companions = self._companions, []
            for companion in companions:
                companion.finish()

    def _now_unless(self, given: str | None) -> Any:
        """Return the text of a time: that of now unless it is *given*, UNSET if that is empty."""
        return utc_text(self._clock.wall()) if given is None else given or UNSET

    def _config(self, config: Any) -> Any:
        if self._subsample is None:
            return UNSET if config is None else config
        return {"subsample": self._subsample} | dict(members_of(config or {}))

    def _log(self, kind: str, **members: Any) -> None:
        unknown = sorted(members.keys() - FIELDS["toy/v1"][kind].keys())
        if unknown:
            self._stream.refuse(InvalidEventError(f"{kind} has no member {', '.join(unknown)}"), kind)
        else:
            self._stream.write({"kind": kind, **given_members(kind, members)})

    def _log_with_file(self, kind: str, content: bytes | str | os.PathLike[str], members: dict[str, Any]) -> None:
        self._stream.write_with_file({"kind": kind, **given_members(kind, members)}, content)
