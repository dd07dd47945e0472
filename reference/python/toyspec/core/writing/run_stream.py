"""The stream of a toy/v1 run, open for writing: encodes records, keeps their order, adds times, and handles errors."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable, Mapping
from operator import attrgetter
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec import UNSET

from toyspec.core.errors import StreamClosedError, StreamRefusedError, let_through
from toyspec.core.escaping import shortened
from toyspec.core.format.canonical import (
    Event,
    InvalidEventError,
    RecordRefusedError,
    encode,
    encode_record,
    members_of,
)
from toyspec.core.format.profiles import EVENTS_FILE
from toyspec.core.format.redaction import Redaction
from toyspec.core.generated.fields import FIELDS
from toyspec.core.generated.limits import MAX_LINE_BYTES
from toyspec.core.generated.toy_v1 import Scalars, Step
from toyspec.core.reading.run_files import leaves_bundle, ranks_beside
from toyspec.core.system_calls import cause_of, named, say
from toyspec.core.writing import opening
from toyspec.core.writing.append_file import OF_THE_PARENT, AppendFile
from toyspec.core.writing.appending import move_fragment, open_to_append, remaining_lines, scanned
from toyspec.core.writing.clocks import Stopwatch, utc_text
from toyspec.core.writing.dropped_records import DroppedRecords, ForkedRecords
from toyspec.core.writing.events import check_record, given_members, is_phase
from toyspec.core.writing.lenience import make_values, number_step, place
from toyspec.core.writing.logged_values import LeftOut, is_step, prepared, writable
from toyspec.core.writing.plain_values import plain_number, plain_values
from toyspec.core.writing.run_ids import make_directories, remove_directories
from toyspec.core.writing.run_progress import COUNTED, LoggedNames, Resumption, RunProgress

if TYPE_CHECKING:
    from toyspec.core.reading.records import Record
    from toyspec.core.writing.media import Media
    from toyspec.core.writing.settings import Settings

Numbering = Literal["given", "counted"]
"""Whether the caller gives the number of a step."""
_SYNCED_KINDS: Final = frozenset(["run_start", "run_end"])
_FRAMING_KINDS: Final = _SYNCED_KINDS | {"run_resume", "run_config"}
# The others have measurements, and what a model writes.
_REDACTED_KINDS: Final = _FRAMING_KINDS | {"note"}
_MOST_NAMED: Final = 5
_OF_RECORD: Final = (InvalidEventError, RecordRefusedError)
# Without these, no later record would be valid, so they are written late rather than dropped.
_INDISPENSABLE_KINDS: Final = frozenset(["run_start", "run_resume"])
# What follows in a message is the value that was found.
_FOUND_VALUE: Final = re.compile(r", (?:got|which is) | is (?=['\"])|(?<=\Astep) \d+ after step ")
_encode = msgspec.json.Encoder().encode
_OF_STEP: Final = FIELDS["toy/v1"]["step"]
_MEASURES: Final = tuple(name for name, declared in _OF_STEP.items() if declared == "number" and name != "t")
_measures_of: Final = attrgetter(*_MEASURES)
_counts_of: Final = attrgetter(*(name for name, declared in _OF_STEP.items() if declared == "integer"))
_FLOATS: Final = frozenset([float, NoneType])
_BEYOND_COUNTS: Final = 1 << 63


class PlacedRecord(msgspec.Struct):
    """A line that is allowed next, and the call to make once it is written."""

    line: bytes
    kind: str
    take: Callable[..., None]
    facts: tuple[Any, ...]


def ready_step(event: Step) -> tuple[bytes, dict[str, str]] | None:
    """Return the text of a step whose values are plain, in canonical form, and its texts; None for all others.

    Its numbers are converted to those of Python, and its texts are taken from it.
    """
    if event.phase is not None and not is_phase(event.phase):
        return None
    texts: dict[str, str] = {}
    measures = _measures_of(event)
    if not _FLOATS.issuperset(map(type, measures)):
        for name, value in zip(_MEASURES, measures, strict=True):
            number = value if value is None else plain_number(value)
            if number is None and value is not None:
                return None
            setattr(event, name, number)
    for value in _counts_of(event):
        if value is not None and (type(value) is not int or not 0 <= value < _BEYOND_COUNTS):
            return None
    if event.extra is not None:
        found = plain_values(event.extra) if type(event.extra) is dict else None
        if found is None:
            return None
        numbers, texts = found
        given, event.extra = event.extra, numbers if numbers or not texts else None
        line = _ready(event)
        event.extra = given if line is None else event.extra
    else:
        line = _ready(event)
    return None if line is None else (line, texts)


def _ready(event: Step | Scalars) -> bytes | None:
    """Return the text of a record of plain values; None where one is not finite, or the text not allowed."""
    try:
        line = _encode(event)
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        let_through(error)
        return None
    return line if b":null" not in line and len(line) < MAX_LINE_BYTES else None


class RunStream:
    """The file of one run.

    A record that its schema or its place in the stream forbids is not written: InvalidEventError is raised, or one line
    on standard error reports it once the run has started; see ``settings.OnError``. An optional value that cannot be
    written is left out alone. Notes in the stream count what it lacks. The file is closed after run_end.
    Threads may share a stream; what a signal handler writes while it interrupts a call follows right after it.
    """

    def __init__(self, path: str, *, settings: Settings, silent: bool = False) -> None:
        """Create the directory of *path* and open the stream; a *silent* one opens nothing and takes every call.

        Raise FileExistsError with ``exist="fail"``, StreamRefusedError where another writer has it longer than the
        settings wait, and OSError if they ask for it. Nothing is changed on the disk then.
        """
        self.path = path
        self.directory = os.path.dirname(os.path.abspath(path))
        """Of the bundle, absolute: the program may change its own."""
        self.settings = settings
        self._resumes_by_itself = settings.resuming == "by-itself"
        self._is_lenient = settings.is_lenient
        self._takes_steps_back = self._resumes_by_itself and self._is_lenient
        self._progress = RunProgress()
        self.run_start = b""
        """The first record; empty while there is none."""
        self._dropped = DroppedRecords(path)
        self._forked = ForkedRecords()
        self._file: AppendFile | None = None
        self._state: Literal["open", "ended", "closed", "lost", "silent", "taken over"] = "open"
        self.resumption = Resumption()
        """Where a resumed run goes on."""
        self._afterwards: list[Callable[[], None]] = []
        self._is_afterwards = False
        self.on_reopening: Callable[[], None] | None = None
        """Called after a run that had ended or was closed has been opened again for a record."""
        self.on_record: Callable[[bytes, str, Step | None], None] | None = None
        """Called with the line and the kind of each record that is in the stream, and the event of a step."""
        self._reopening = threading.RLock()
        self._pending: PlacedRecord | None = None
        self._appended = 0
        self._owed: PlacedRecord | None = None
        self._made: list[str] = []
        if silent:
            self._state = "silent"
            self._watch = Stopwatch(settings.clock)
            return
        self._open()
        self._watch = Stopwatch(settings.clock, last=self._progress.time)

    def _open(self) -> None:
        try:
            self._made = make_directories(os.path.dirname(self.path))
            self._file = opening.in_time(self._opened, self.settings.wait_seconds or 0.0)
        except OSError as error:
            remove_directories(self._made)
            is_held = isinstance(error, StreamRefusedError) and error.reason == "locked"
            if (is_held and self.settings.wait_seconds is not None) or (
                self.settings.exist == "fail" and isinstance(error, FileExistsError)
            ):
                raise
            if not self._survives(error, None):
                raise
            self._progress = RunProgress()

    @property
    def progress(self) -> RunProgress:
        """The progress of the stream."""
        file = self._file
        if self._pending is not None and file is not None:
            with file.lock:
                if not file.is_busy:
                    self._settle(file)
        return self._progress

    @property
    def dropped(self) -> int:
        """Number of records that were to be written and are not in the stream."""
        return self._dropped.count + (self._owed is not None)

    @property
    def left_out(self) -> dict[str, int]:
        """Number of values that records were written without, by name."""
        return dict(self._dropped.values)

    @property
    def is_silent(self) -> bool:
        """True for a stream that opens nothing."""
        return self._state == "silent"

    @property
    def can_end(self) -> bool:
        """True when a run_end is allowed next."""
        progress = self.progress
        return progress.can_end or (progress.must_resume and self._resumes_by_itself)

    @property
    def is_open(self) -> bool:
        """True while records can be written."""
        file = self._file
        return file is not None and file.closed_because is None

    @property
    def is_active(self) -> bool:
        """True while calls write records: the file is open and the run has not ended."""
        return self.is_open and not self.progress.ended

    def write(self, event: Event) -> None:
        """Write *event*; its ``t`` is the time now unless it has one."""
        self._perform(self._write, event)

    def write_step(self, event: Step, numbering: Numbering) -> None:
        """Write a step; its ``t`` is the time now, and counted its number one more than the last of its phase."""
        self._perform(self._write_step, event, numbering)

    def write_values(self, members: dict[str, Any]) -> None:
        """Write a ``scalars`` record with *members*, its kind among them; its ``t`` is the time now."""
        self._perform(self._write_values, members)

    def leave_out(self, name: str, why: str) -> None:
        """Count the value *name*, of which no record is written, and say in the log that it is left out."""
        self._perform(self._leave_out, name, why)

    def end(self, make_event: Callable[[RunProgress], Event]) -> None:
        """Write the run_end that *make_event* makes from the progress of the stream."""
        self._perform(self._end, make_event)

    def changed_settings(self, config: Any) -> dict[str, Any]:
        """Return the settings of *config*, as they would be written, that differ from those of the run so far."""
        record = {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "r", "config": config}
        self._hide_secrets(record)
        line, _ = self._line_of("run_start", record, [])
        return self._progress.changed(msgspec.json.decode(line).get("config") or {})

    def close(self) -> None:
        """Close the file; do nothing when it is closed, or belongs to a parent process.

        If the stream has no record, opening it is undone.
        """
        if self._file is None:
            if self._state == "lost":
                self._state = "closed"
                self._dropped.conclude()
        elif not self._forked.is_child:
            self._perform(self._close)

    def _opened(self) -> AppendFile:
        settings = self.settings
        if settings.exist == "resume":
            packed = f"{self.path}.gz"
            if os.path.lexists(packed) and not os.path.lexists(self.path):
                fact = "the earlier log is compressed, so it is not continued: the run begins again"
                say(f"{packed}: {fact} in {os.path.basename(self.path)}; unpack it with gunzip before the start")
            file = open_to_append(self.path, self._learn, options=settings)
        else:
            opener = AppendFile.create if settings.exist == "fail" else AppendFile.replace
            file = opener(self.path, options=settings)
        file.on_truncation = self._go_on_after_truncation
        return file

    def _learn(self, file: AppendFile) -> int:
        """Learn the progress of an existing stream; return the end of its last record."""
        self.resumption.names = LoggedNames()

        def take(record: Record) -> None:
            self.run_start = self.run_start or record.raw
            self._progress.take(record.kind, record.value)
            self.resumption.names.take(record.kind, record.value, self._progress.phase)

        _, committed = scanned(file, "toy/v1", take)
        self._progress.await_resume()
        return committed

    def _perform(self, action: Callable[..., None], *arguments: Any) -> None:
        """Call *action* in a turn of the file, which is opened again where the run goes on."""
        file = self._file
        if file is None or file.closed_because is OF_THE_PARENT:
            file = self._file_again(file, action, arguments)
            if file is None:
                return
        file.in_turn(self._act, file, action, arguments)
        # One after the other: what is called here may write, and the next must not begin within it.
        if self._afterwards and not self._is_afterwards:
            self._is_afterwards = True
            try:
                while self._afterwards and not file.is_busy:
                    self._afterwards.pop(0)()
            finally:
                self._is_afterwards = False

    def _file_again(
        self, dead: AppendFile | None, action: Callable[..., None], arguments: tuple[Any, ...]
    ) -> AppendFile | None:
        """Return the file of a run that goes on for *action*, opened again; else drop or refuse its record: None.

        In a forked child, which has a *dead* file of its parent or none, nothing is written: the run counts it.
        """
        state = self._state
        if self._forked.is_child:
            kind = _kind_of(arguments)
            if action not in {self._end, self._leave_out, self._close}:
                self._forked.add(kind)
            if dead is not None:
                error = StreamClosedError(self.path, f"cannot write: {OF_THE_PARENT}")
                self._dropped.tell_caller(cause_of(error), kind=kind)
                if not self._survives(error, dead):
                    raise error
                return None
        elif self._resumes_by_itself and (state == "closed" or (state == "ended" and action != self._end)):
            return self._reopened()
        if state == "taken over":
            raise InvalidEventError("the run was started again; log into the run that the later start_run returned")
        if state == "lost" and action != self._leave_out:
            self._dropped.count += 1
        elif state == "ended" and action not in {self._leave_out, self._end if self._resumes_by_itself else None}:
            fact = "the run has ended; resume it with exist='resume', or start a new run"
            if self.settings.on_error == "raise":
                raise InvalidEventError(fact)
            self._dropped.leave_out(fact)
        return None

    def _act(self, file: AppendFile, action: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        if file is not self._file:  # it was closed while this waited for its turn
            self._perform(action, *arguments)
            return
        try:
            if self._pending is not None:
                self._settle(file)
            action(*arguments)
            if self._progress.ended:
                self._close()
        except _OF_RECORD as error:
            if self.settings.on_error == "raise" or not self._progress.is_running:
                raise
            kind = "run_end" if action == self._end else _kind_of(arguments)
            self._dropped.leave_out(str(error), key=_what_is_wrong(error), kind=kind)
            self._note_news(file)

    def _reopened(self) -> AppendFile | None:
        """Open the file again, whose run goes on; None where that fails, which is reported."""
        with self._reopening:
            if self._file is not None:
                return self._file
            self.settings = msgspec.structs.replace(self.settings, exist="resume")
            self._progress = RunProgress()
            self.resumption.settle(is_decided=True)
            self._state = "open"
            try:
                self._file = opening.in_time(self._opened, self.settings.wait_seconds or 0.0)
            except OSError as error:
                if not self._survives(error, None):
                    raise
                return None
            self._watch.last = max(self._watch.last, self._progress.time)
            self._forked.is_open = True
        if self.on_reopening is not None:
            self.on_reopening()
        return self._file

    def _go_on(self, step: object = UNSET, kind: str = "note") -> None:
        """Write the run_resume that comes before the first record of a resumed stream, and correct it once.

        *step* is that of a record of *kind* ``step`` or ``scalars`` in phase train: the first of these says where the
        run goes on. What is before it goes on from the last step.
        """
        if not self._resumes_by_itself:
            return
        progress, resumption = self._progress, self.resumption
        if kind == "run_resume":
            if not self._is_early:
                resumption.forget()
            return
        first = step if type(step) is int and step > 0 else None
        is_due = progress.must_resume
        if not is_due and not resumption.is_decided_by(first, kind, progress):
            return
        from_step = resumption.from_step(first, progress)
        if is_due:
            now = utc_text(self.settings.clock.wall())
            self._write({"kind": "run_resume", "from_step": from_step, "resumed_at": now, **resumption.members})
            resumption.members = {}
        elif from_step is not None:
            self._write({"kind": "run_resume", "from_step": from_step})
        resumption.settle(is_decided=first is not None)

    @property
    def _is_early(self) -> bool:
        """True between a resumption and the first train step after it, which may go back further."""
        return self._resumes_by_itself and self.resumption.is_early(self._progress)

    def _leave_out(self, name: str, why: str) -> None:
        self._go_on()
        self._dropped.leave_out_values([LeftOut(name, why)], "")
        if self._file is not None:
            self._note_news(self._file)

    def _end(self, make_event: Callable[[RunProgress], Event]) -> None:
        self._take_forked()
        if self._progress.had_ended and self._progress.must_resume and self._resumes_by_itself:
            # Nothing was added to a run that had ended.
            self._close()
            return
        self._go_on()
        if self._file is not None and self._dropped.has_unnoted and self._owed is None:
            self._write_note(self._file)
        self._write(make_event(self._progress))

    def take_over(self) -> None:
        """Close the file for a later start of the same run; calls raise InvalidEventError from now on."""
        self.close()
        self._file = None
        self._state = "taken over"

    def after_writing(self, call: Callable[[], None]) -> bool:
        """Call *call* as soon as no record is being written; return whether that was at once."""
        file = self._file
        if file is None or not file.is_busy:
            call()
            return True
        self._afterwards.append(call)
        return False

    def _take_forked(self) -> None:
        """Count what children of this process were asked to write; the run goes on for that where it was resumed."""
        records = self._forked.taken()
        if records:
            if self._progress.must_resume:
                self._go_on()
            self._dropped.count_forked(records)

    def _close(self) -> None:
        self._take_forked()
        self._forked.close()
        file = self._file
        self._state = "ended" if self._progress.ended else "closed"
        if file is None:
            return
        can_write = file.closed_because is None and self._owed is None
        if self._dropped.has_unnoted and self._progress.is_running and can_write:
            self._write_note(file)
        if self._owed is not None:
            self._owed = None
            self._dropped.count += 1
        try:
            try:
                if not file.appended and self.settings.exist == "resume":
                    # Nothing was added, so a seal holds.
                    opening.restore(file.moves)
            finally:
                file.discard()
            remove_directories(self._made)
        except OSError as error:
            if not self._survives(error, file):
                raise
        finally:
            self._file = None
        self._dropped.conclude()

    def _write(self, event: Event) -> None:
        given = members_of(event)
        kind = given.get("kind")
        if not isinstance(kind, str):
            raise InvalidEventError('the event has no kind; add the member kind, for example "note"')
        is_counted = given.get("step") is COUNTED
        kind, first_step, left_out = place(kind, given, self._progress, self.resumption, is_lenient=self._is_lenient)
        if kind == "artifact":
            _check_path(given.get("path"))
        self._go_on(first_step, kind)
        self._progress.admit_kind(kind)
        hidden = self._hide_secrets(given) if kind in _REDACTED_KINDS else []
        given, texts, unwritten, media = prepared(kind, given, is_lenient=self._is_lenient)
        left_out += unwritten
        given.setdefault("t", self._watch.seconds())
        line, given = self._line_of(kind, given, left_out)
        is_needed = not left_out and not media
        if kind != "scalars" or is_needed or any(given.get(key) for key in ("values", "texts")):
            value = msgspec.json.decode(line)
            self._progress.admit(kind, value)
            self._dropped.leave_out_values(left_out, kind)
            if type(value.get("step")) is int and kind not in _FRAMING_KINDS and self._is_early:
                self.resumption.keep(value, is_counted=is_counted)
            last = self._progress.resume_step
            self._append(PlacedRecord(line, kind, self._progress.take, (kind, value)))
            self._watch.last = max(self._watch.last, self._progress.time)
            self._say_hidden(hidden)
            if kind == "run_resume":
                self._say_superseded(last, value["from_step"])
                superseded, lost = self.resumption.superseded(value["from_step"])
                self._dropped.leave_out_values(lost, "")
                for members in superseded:
                    self._write(members)
        elif self._file is not None:
            self._dropped.leave_out_values(left_out, kind)
            self._note_news(self._file)
        if texts or media:
            where: dict[str, Any] = {key: given[key] for key in ("step", "phase") if key in given}
            if texts:
                self._write({"kind": "scalars", **where, "values": {}, "texts": texts})
            self._write_media(where, media)

    def _hide_secrets(self, given: dict[str, Any]) -> list[str]:
        """Replace the secrets in the members *given* of a record about the run; return their names."""
        redaction = Redaction(self.settings.unredacted)
        redaction.record(given)
        return list(dict.fromkeys(redaction.replaced))

    def _say_hidden(self, names: list[str]) -> None:
        if names:
            shown = ", ".join(shortened(name) for name in names[:_MOST_NAMED])
            say(f"{self.path}: written as ***: {shown}; to write a setting unchanged, name it in unredacted")

    def _say_superseded(self, last: int | None, from_step: int) -> None:
        """Say how many steps up to *last* no longer count since the run goes on after *from_step*."""
        # Imported here: only resumed runs need it.
        from toyspec.core.reading.attempts import superseded_steps

        count = superseded_steps(last, from_step)
        if count:
            fact = f"the run goes on after step {from_step} and supersedes {count} of {last} steps"
            self._dropped.say_once("superseded", f"{fact}; for another run, start it with a run_id of its own")

    def _write_media(self, members: Mapping[str, Any], media: Mapping[str, list[Media]]) -> None:
        if not media:
            return
        # Imported here: most runs log no media.
        from toyspec.core.writing.media import records_of

        for name, found in records_of(media, self.directory, self.settings.calls):
            if not isinstance(found, str):
                self._write({**found, **members})
            elif self.settings.on_error == "raise":
                raise InvalidEventError(f"{name} cannot be written: {found}")
            else:
                self._leave_out(name, found)

    def _line_of(self, kind: str, given: dict[str, Any], left_out: list[LeftOut]) -> tuple[bytes, dict[str, Any]]:
        """Return the text of a record, and its members: all that can be written. Add what cannot to *left_out*.

        If the caller wants errors, raise for a value that cannot be written.
        """

        def size(members: Mapping[str, Any]) -> int:
            return len(line_of(dict(members)))

        def line_of(members: dict[str, Any]) -> bytes:
            text = encode_record(members)
            check_record(text, kind)
            return text

        try:
            line = line_of(given)
        except (InvalidEventError, RecordRefusedError):
            if not self._is_lenient:
                raise
            given, more = writable(kind, given, size)
            if not more:
                raise
            left_out.extend(more)
            line = line_of(given)
        if left_out and self.settings.on_error == "raise":
            name, why = left_out[0]
            raise InvalidEventError(f"{name} of {kind} cannot be written: {why}")
        return line, given

    def _write_step(self, event: Step, numbering: Numbering) -> None:
        progress = self._progress
        phase: str = progress.phase if event.phase is None else event.phase
        if numbering == "given" and not is_step(event.step) and self._is_lenient:
            left_out = number_step(event)
            if left_out is not None:
                numbering = "counted"
                self._dropped.leave_out_values([left_out], "step")
        if not progress.is_running or self.resumption.awaits_first_step or progress.is_resumed_before_steps:
            self._go_on(event.step if numbering == "given" and phase == "train" else UNSET, "step")
            progress.admit_kind("step")
        if type(phase) is not str:
            if numbering == "counted":
                event.step = progress.next_step(str(phase))
            event.t = self._watch.seconds()
            self._write(event)  # which makes it a phase, or reports that it must be a string
            return
        if numbering == "counted":
            event.step = progress.next_step(phase)
        elif self._takes_steps_back and is_step(event.step) and event.step <= progress.last_of(phase):
            fact = "it is written as plain values; to repeat steps, call run_resume(from_step) first"
            self._dropped.say_once("goes back", f"step {event.step} is not after the last one: {fact} (reported once)")
            members = members_of(event)
            make_values(members)
            self._write(members)
            return
        event.t = self._watch.seconds()
        self._write_ready_step(event)

    def _write_values(self, members: dict[str, Any]) -> None:
        progress, values, step = self._progress, members["values"], members["step"]
        found = None
        if members["phase"] is None and members["epoch"] is None and type(values) is dict and progress.is_running:
            found = None if self._is_early else plain_values(values)
        at = progress.log_step(progress.phase) if step is COUNTED else step
        at = None if at is UNSET else at
        if found is not None and values and (at is None or (type(at) is int and 0 <= at < _BEYOND_COUNTS)):
            event = Scalars(t=self._watch.seconds(), step=at, values=found[0], texts=found[1] or None)
            line = _ready(event)
            if line is not None:
                self._append(
                    PlacedRecord(
                        line, "scalars", progress.take_values, (event.t, at if progress.phase == "train" else None)
                    )
                )
                return
        self._write(given_members("scalars", members))

    def _write_ready_step(self, event: Step) -> None:
        ready = ready_step(event)
        if ready is None:
            self._write(event)
            return
        line, texts = ready
        progress = self._progress
        phase: str = progress.phase if event.phase is None else event.phase
        progress.admit_step(event.step, phase)
        loss = UNSET if event.loss is None else event.loss
        if phase != "train" and self._is_early:
            self.resumption.keep(msgspec.json.decode(line), is_counted=False)
        self._append(PlacedRecord(line, "step", progress.take_step, (event.t, event.step, phase, loss)), event)
        if texts:
            # A note may have come after the step.
            now = max(self._watch.seconds(), progress.time)
            values = Scalars(phase=event.phase, t=now, step=event.step, values={}, texts=texts)
            found = None if self._is_early else _ready(values)
            if found is None:
                self._write(values)
            else:
                facts = (now, event.step if phase == "train" else None)
                self._append(PlacedRecord(found, "scalars", progress.take_values, facts))

    def _append(self, record: PlacedRecord, step: Step | None = None) -> None:
        """Write a record that is allowed next, and learn from it once it is in the stream."""
        file = self._file
        if file is None:
            return
        try:
            if self._owed is not None:
                self._put(file, self._owed)
                self._owed = None
                if not self._dropped.outage:
                    self._dropped.cause = ""
            self._put(file, record)
        except OSError as error:
            let_through(error)
            self._after_error(file, error, record)
            return
        if self._dropped.outage and not self._progress.ended:
            self._write_note(file)
        elif self._dropped.has_news:
            self._note_news(file)
        if self.on_record is not None:
            self.on_record(record.line, record.kind, step)

    def _note_news(self, file: AppendFile) -> None:
        """Write a note about what was left out for the first time, where one is allowed now."""
        if self._dropped.has_news and self._progress.is_running and self._owed is None:
            self._write_note(file)

    def _put(self, file: AppendFile, record: PlacedRecord) -> None:
        self._pending, self._appended = record, file.appended
        file.commit(record.line + b"\n", "now" if record.kind in _SYNCED_KINDS else "as-opened")
        record.take(*record.facts)
        self._pending = None
        if record.kind == "run_start":
            self.run_start = record.line
            if file.moves:
                kept = ", ".join(f"{old} is now {new}" for old, new in reversed(file.moves))
                say(f"an earlier log was kept: {kept}")
            if os.path.basename(self.path) == EVENTS_FILE and self.path in dict(file.moves):
                self._move_ranks()

    def _move_ranks(self) -> None:
        """Move the streams of the other ranks of the run that this one has replaced: ranks/replaced-together.

        One that a writer holds is of a process of the new run, which began before this one. Where rank 0 has replaced
        none, so are those that have ended.
        """
        for path in ranks_beside(self.path).values():
            with contextlib.suppress(OSError):
                opening.move(path, self.settings.calls)

    def _go_on_after_truncation(self, lost_bytes: int) -> None:
        """Make the stream readable again after another program has cut it: run_start first, and no joined lines.

        A note counts the records that are gone.
        """
        file = self._file
        assert file is not None
        kept, end, after = remaining_lines(file, self.run_start)
        file.torn_path = move_fragment(file, end) or file.torn_path
        left = after if kept else [self.run_start, *after]
        lost = self._progress.records - kept - len(left)
        fact = f"another program cut the stream short: {lost_bytes} bytes and {lost} records are lost"
        now, wall = self._progress.time, utc_text(self.settings.clock.wall())
        note = {"kind": "note", "t": now, "text": fact, "topic": "left-out", "dropped": {"record": lost}}
        resume = {"kind": "run_resume", "t": now, "from_step": self._progress.resume_step or 0, "resumed_at": wall}
        lines = [*left, encode(note), encode(resume)]
        for line in lines:
            file.commit(line + b"\n", "now")
        self._dropped.count += lost
        self._progress.records = kept + len(lines)
        self._appended = file.appended

    def _write_note(self, file: AppendFile) -> None:
        """Write notes that count what is missing; if that fails, try after the next record."""
        while self._dropped.has_unnoted:
            note = {**self._dropped.note(), "t": max(self._watch.seconds(), self._progress.time)}
            try:
                file.commit(encode(note) + b"\n")
            except OSError:
                return
            self._progress.take("note", note)
            self._dropped.end_note(note)
            if self._dropped.outage:
                self._dropped.end_outage()

    def _after_error(self, file: AppendFile, error: OSError, record: PlacedRecord) -> None:
        """Raise *error* if the caller wants it; else drop the record, or stop logging if the error is final."""
        self._settle(file)
        if self.settings.on_error == "raise" or file.closed_because is not None:
            self._dropped.tell_caller(cause_of(error), kind=record.kind)
            if not self._survives(error, file):
                raise error
            return
        if record.kind not in _INDISPENSABLE_KINDS:
            self._dropped.add(cause_of(error), kind=record.kind)
            if record.kind == "step":
                lost = msgspec.json.decode(record.line)
                self._progress.pass_step(lost["step"], lost.get("phase") or self._progress.phase)
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
        if file is not None:
            with contextlib.suppress(OSError):
                file.discard()
            remove_directories(self._made)
        return True


def _check_path(path: object) -> None:
    if isinstance(path, str) and leaves_bundle(path):
        fact = f"the path {shortened(path)} of the artifact leaves the bundle"
        raise InvalidEventError(f"{fact}: use run.artifact, which copies the file or writes a reference")


def _what_is_wrong(error: Exception) -> str:
    """Return what errors that differ only in the value that was found have in common."""
    found = _FOUND_VALUE.split(str(error), 1)[0]
    return error.rule if isinstance(error, RecordRefusedError) else found


def _kind_of(arguments: tuple[Any, ...]) -> str:
    """Return the kind of the record that an action was to write."""
    given = arguments[0] if arguments else None
    if isinstance(given, msgspec.Struct):
        return str(given.__struct_config__.tag or "record")
    return str(given.get("kind", "record")) if isinstance(given, Mapping) else "record"
