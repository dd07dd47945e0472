"""The stream of a toy/v1 run, open for writing: allows records in order, adds times, and handles errors."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec import UNSET

from toyspec.errors import StreamRefusedError
from toyspec.format.canonical import Event, InvalidEventError, RecordRefusedError, encode, members_of
from toyspec.system_calls import cause_of, named, say
from toyspec.writing.append_file import AppendFile, Options
from toyspec.writing.appending import open_to_append
from toyspec.writing.changed_values import ChangedValues
from toyspec.writing.clocks import Stopwatch, utc_text
from toyspec.writing.directories import make_directories, remove_directories
from toyspec.writing.dropped_records import DroppedRecords
from toyspec.writing.event_checks import check_line, check_record
from toyspec.writing.placed_records import PlacedRecord, ready_step
from toyspec.writing.run_progress import RunProgress
from toyspec.writing.stream_scan import StreamScan

if TYPE_CHECKING:
    from collections.abc import Callable

    from toyspec.generated.toy_v1 import Step
    from toyspec.writing.settings import Settings

Numbering = Literal["given", "counted"]
"""Whether the caller gives the number of a step."""

_SYNCED_KINDS: Final = frozenset(["run_start", "run_end"])
# Without these, no later record would be valid, so they are written late rather than dropped.
_INDISPENSABLE_KINDS: Final = frozenset(["run_start", "run_resume"])


class RunStream:
    """The file of one run.

    A record that its schema or its place in the stream forbids is not written: InvalidEventError is raised, or one line
    on standard error reports it once the run has started; see ``settings.OnError``. The file is closed after run_end.
    Threads may share a stream; what a signal handler writes while it interrupts a call follows right after it.
    """

    def __init__(self, path: str, *, settings: Settings) -> None:
        """Create the directory of *path* and open the stream.

        Raise FileExistsError with ``exist="fail"``, StreamRefusedError for a run that has ended with ``"resume"``, and
        OSError if the settings ask for it. Nothing is changed on the disk then.
        """
        self.path = path
        self.settings = settings
        self._progress = RunProgress()
        self._dropped = DroppedRecords(path)
        self._changed = ChangedValues(path)
        self._file: AppendFile | None = None
        self._state: Literal["open", "ended", "closed", "lost"] = "open"
        self._is_busy = False
        self._deferred: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._pending: PlacedRecord | None = None
        self._appended = 0
        self._owed: PlacedRecord | None = None
        self._withheld: Step | None = None
        self._made: list[str] = []
        try:
            self._made = make_directories(os.path.dirname(path))
            self._file = self._opened()
            if settings.seal == "at-end":
                from toyspec.writing.sealing import keep_digest

                keep_digest(self._file)
        except OSError as error:
            remove_directories(self._made)
            is_misuse = isinstance(error, StreamRefusedError) and error.reason == "complete"
            if is_misuse or (settings.exist == "fail" and isinstance(error, FileExistsError)):
                raise
            if not self._survives(error, None):
                raise
            self._progress = RunProgress()
        self._watch = Stopwatch(settings.clock, last=self._progress.time)

    @property
    def progress(self) -> RunProgress:
        """The progress of the stream."""
        file = self._file
        if self._pending is not None and file is not None and not file.is_foreign:
            with file.lock:
                if not self._is_busy:
                    self._settle(file)
        return self._progress

    @property
    def dropped(self) -> int:
        """Number of records that were to be written and are not in the stream."""
        return self._dropped.count + (self._owed is not None)

    @property
    def can_end(self) -> bool:
        """True when a run_end is allowed next."""
        progress = self.progress
        return progress.can_end or (progress.must_resume and self.settings.resuming == "by-itself")

    @property
    def is_open(self) -> bool:
        """True while records can be written."""
        file = self._file
        return file is not None and file.closed_because is None and not file.is_foreign

    def write(self, event: Event, *, encoder: Callable[[dict[str, Any]], bytes] = encode) -> None:
        """Write *event*; its ``t`` is the time now unless it has one. *encoder* gives its text."""
        self._perform(self._write, event, encoder)

    def write_raw(self, raw: bytes) -> None:
        """Write the line *raw*, without LF, unchanged."""
        self._perform(self._write_raw, raw)

    def write_step(self, event: Step, numbering: Numbering) -> None:
        """Write a step; its ``t`` is the time now, and counted its number one more than the last of its phase."""
        self._perform(self._write_step, event, numbering)

    def refuse(self, error: InvalidEventError) -> None:
        """Treat a record that cannot be made as invalid."""
        self._perform(_raise, error)

    def end(self, make_event: Callable[[RunProgress], Event]) -> None:
        """Write the run_end that *make_event* makes from the progress of the stream."""
        self._perform(self._end, make_event)

    def close(self) -> None:
        """Close the file; do nothing when it is closed, or belongs to a parent process.

        If the stream has no record, opening it is undone.
        """
        if self._file is None:
            if self._state == "lost":
                self._state = "closed"
                self._dropped.conclude()
        elif not self._file.is_foreign:
            self._perform(self._close)

    def _opened(self) -> AppendFile:
        settings = self.settings
        options = Options(durability=settings.durability, sync_seconds=settings.sync_seconds, calls=settings.calls)
        if settings.exist == "replace":
            return AppendFile.replace(self.path, options=options)
        if settings.exist == "fail":
            return AppendFile.create(self.path, options=options)
        return open_to_append(self.path, self._learn, options=options)

    def _learn(self, file: AppendFile) -> int:
        """Learn the progress of an existing stream; return the end of its last record."""
        scan = StreamScan(file, profile="toy/v1")
        for record in scan:
            self._progress.take(record.kind, record.value)
        if self._progress.ended:
            hint = "give a new run another run id, or replace this log, which is kept as events.jsonl.prev"
            raise StreamRefusedError(self.path, "complete", f"the run has ended and cannot be resumed; {hint}")
        self._progress.await_resume()
        return scan.committed

    def _perform(self, action: Callable[..., None], *arguments: Any) -> None:
        """Call *action* alone: after other threads, and after what this call interrupts from a signal handler."""
        file = self._file
        if file is None:
            self._pass_over()
            return
        with file.lock:
            if self._is_busy and not file.is_foreign:
                self._deferred.append((action, arguments))
                return
            self._is_busy = True
            try:
                if self._pending is not None:
                    self._settle(file)
                action(*arguments)
                if self._progress.ended:
                    self._close()
            except (InvalidEventError, RecordRefusedError) as error:
                if self.settings.on_error == "raise" or not self._progress.is_running:
                    raise
                self._dropped.leave_out(str(error), key=getattr(error, "rule", ""))
            finally:
                self._is_busy = False
            while self._deferred:
                action, arguments = self._deferred.popleft()
                self._perform(action, *arguments)

    def _pass_over(self) -> None:
        """Drop or refuse a record after the file was closed."""
        if self._state == "lost":
            self._dropped.count += 1
        elif self._state == "ended":
            fact = "the run has ended; nothing can follow run_end, so start a new run"
            if self.settings.on_error == "raise":
                raise InvalidEventError(fact)
            self._dropped.leave_out(fact)

    def _go_on(self, step: object = UNSET) -> None:
        """Write the run_resume that comes before the first record of a resumed stream, *step* if it is one."""
        if self.settings.resuming == "by-call" or not self._progress.must_resume:
            return
        from_step = step - 1 if type(step) is int and step > 0 else self._progress.resume_step or 0
        now = utc_text(self.settings.clock.wall())
        self._write({"kind": "run_resume", "from_step": from_step, "resumed_at": now})

    def _end(self, make_event: Callable[[RunProgress], Event]) -> None:
        self._go_on()
        withheld, self._withheld = self._withheld, None
        if withheld is not None:
            # It was dropped before; now it is due.
            phase = self._progress.phase if withheld.phase is UNSET else withheld.phase
            self._progress.pass_step(withheld.step - 1, phase)
            withheld.t = self._watch.seconds()
            self._write_ready_step(withheld)
        if self._file is not None and self._dropped.outage and self._owed is None:
            self._write_note(self._file)
        self._write(make_event(self._progress))

    def _close(self) -> None:
        file, self._file = self._file, None
        self._state = "ended" if self._progress.ended else "closed"
        if file is None:
            return
        if self._owed is not None:
            self._owed = None
            self._dropped.count += 1
        try:
            self._seal_and_discard(file)
            remove_directories(self._made)
        except OSError as error:
            if not self._survives(error, file):
                raise
        self._dropped.conclude()

    def _seal_and_discard(self, file: AppendFile) -> None:
        try:
            if self._state == "ended" and self.settings.seal == "at-end":
                # Imported here, since few runs are sealed.
                from toyspec.writing.sealing import seal_ended

                seal_ended(file, self.settings.on_error)
        finally:
            file.discard()

    def _write(self, event: Event, encoder: Callable[[dict[str, Any]], bytes] = encode) -> None:
        given = {key: value for key, value in members_of(event).items() if value is not UNSET}
        kind = given.get("kind")
        if not isinstance(kind, str):
            raise InvalidEventError('the event has no kind; add the member kind, for example "note"')
        if kind != "run_resume":
            self._go_on(given.get("step") if kind == "step" else UNSET)
        self._progress.admit_kind(kind)
        given.setdefault("t", self._watch.seconds())
        line = encoder(given)
        check_record(line, kind)
        value = msgspec.json.decode(line)
        self._progress.admit(kind, value)
        self._changed.look(kind, given, value)
        self._append(self._record(line, kind, value))

    def _record(self, line: bytes, kind: str, value: dict[str, Any]) -> PlacedRecord:
        progress = self._progress
        if kind != "step":
            return PlacedRecord(line, kind, progress.take, (kind, value))
        facts = (value["t"], value["step"], value.get("phase") or progress.phase, value.get("loss", UNSET))
        return PlacedRecord(line, kind, progress.take_step, facts)

    def _write_raw(self, raw: bytes) -> None:
        kind, value = check_line(raw, first=self._progress.records == 0)
        self._progress.admit(kind, value)
        self._append(self._record(raw, kind, value))

    def _write_step(self, event: Step, numbering: Numbering) -> None:
        progress = self._progress
        if not progress.is_running:
            self._go_on(event.step if numbering == "given" and event.phase in {UNSET, "train"} else UNSET)
            progress.admit_kind("step")
        phase: str = progress.phase if event.phase is UNSET else event.phase
        if type(phase) is not str:
            self._write(event)  # which reports that it must be a string
            return
        if numbering == "counted":
            event.step = progress.next_step(phase)
        event.t = self._watch.seconds()
        if self.settings.subsample > 1 and type(event.step) is int and self._withholds(event, phase):
            return
        self._write_ready_step(event)

    def _withholds(self, event: Step, phase: str) -> bool:
        """Return whether *event* is not written now, because too few steps have passed since the last one."""
        progress = self._progress
        progress.admit_step(event.step, phase)
        is_due = progress.is_due(event.step, phase, self.settings.subsample)
        self._withheld = None if is_due else event
        if not is_due:
            progress.pass_step(event.step, phase)
        return not is_due

    def _write_ready_step(self, event: Step) -> None:
        line = ready_step(event)
        if line is None:
            self._write(event)
            return
        progress = self._progress
        phase: str = progress.phase if event.phase is UNSET else event.phase
        progress.admit_step(event.step, phase)
        if b":null" in line and not self._changed.knows_null:
            self._changed.look("step", members_of(event), msgspec.json.decode(line))
        self._append(PlacedRecord(line, "step", progress.take_step, (event.t, event.step, phase, event.loss)))

    def _append(self, record: PlacedRecord) -> None:
        """Write a record that is allowed next, and learn from it once it is in the stream."""
        file = self._file
        if file is None:
            return
        try:
            if self._owed is not None:
                self._put(file, self._owed)
                self._owed = None
                self._dropped.cause = ""
            self._put(file, record)
        except OSError as error:
            self._after_error(file, error, record)
            return
        self._watch.last = max(self._watch.last, self._progress.time)
        if self._dropped.outage and not self._progress.ended:
            self._write_note(file)

    def _put(self, file: AppendFile, record: PlacedRecord) -> None:
        self._pending, self._appended = record, file.appended
        file.commit(record.line + b"\n", "now" if record.kind in _SYNCED_KINDS else "as-opened")
        record.take(*record.facts)
        self._pending = None
        if record.kind == "run_start" and file.moves:
            kept = ", ".join(f"{old} is now {new}" for old, new in reversed(file.moves))
            say(f"an earlier log was kept: {kept}")

    def _write_note(self, file: AppendFile) -> None:
        """Write a note with the number of dropped records; if that fails, try after the next record."""
        note = {"kind": "note", "t": max(self._watch.seconds(), self._progress.time), "text": self._dropped.fact}
        try:
            file.commit(encode(note) + b"\n")
        except OSError:
            return
        self._progress.take("note", note)
        self._dropped.end_outage()

    def _after_error(self, file: AppendFile, error: OSError, record: PlacedRecord) -> None:
        """Raise *error* if the caller wants it; else drop the record, or stop logging if the error is final."""
        self._settle(file)
        if self.settings.on_error == "raise" or file.closed_because is not None:
            self._dropped.tell_caller(cause_of(error))
            if not self._survives(error, file):
                raise error
            return
        if record.kind not in _INDISPENSABLE_KINDS:
            self._dropped.add(cause_of(error))
            if record.kind == "step":
                self._progress.pass_step(*record.facts[1:3])
        elif self._owed is None:
            self._dropped.begin(cause_of(error))
            self._owed = record
            record.take(*record.facts)

    def _settle(self, file: AppendFile) -> None:
        """Learn from the last written record if an exception prevented it, and if it is in the file.

        Learning twice does no harm.
        """
        record = self._pending
        if record is None:
            return
        file.settle()
        if file.appended > self._appended:
            record.take(*record.facts)
            self._owed = None if self._owed is record else self._owed
        self._pending = None

    def _survives(self, error: OSError, file: AppendFile | None) -> bool:
        """Stop logging and report it, unless the caller wants the error: then return False."""
        if self.settings.on_error == "raise":
            named(error, self.path)
            return False
        self._file = None
        self._state = "ended" if self._progress.ended else "lost"
        if file is None or not file.has_said_why:
            say(f"{self.path}: {cause_of(error)}; logging stops; the program continues")
        if file is not None and not file.is_foreign:
            with contextlib.suppress(OSError):
                file.discard()
            remove_directories(self._made)
        return True


def _raise(error: InvalidEventError) -> None:
    raise error
