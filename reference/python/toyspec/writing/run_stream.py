"""The stream of a toy/v1 run, open for writing: what may come next, when it was, and what to do in trouble."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import msgspec
from msgspec import UNSET

from toyspec.format.canonical import Event, InvalidEventError, RecordRefusedError, encode, members_of
from toyspec.format.line_validation import holds_long_number, vet
from toyspec.generated.limits import MAX_LINE_BYTES
from toyspec.generated.toy_v1 import Step
from toyspec.system_calls import SYSTEM_CALLS, SystemCalls, cause_of, say
from toyspec.writing.append_file import AppendFile, Durability, Options, StreamRefusedError
from toyspec.writing.clocks import SYSTEM_CLOCK, Clock, Stopwatch
from toyspec.writing.event_checks import check_record
from toyspec.writing.fragments import set_aside
from toyspec.writing.run_progress import RunProgress
from toyspec.writing.stream_scan import StreamScan

if TYPE_CHECKING:
    from collections.abc import Callable

    from toyspec.writing.event_arguments import StepValues

_encode = msgspec.json.Encoder().encode
_STEP_DECODER = msgspec.json.Decoder(Step)

Exist = Literal["replace", "fail", "resume"]
"""What happens to a stream that is there: it moves to ``events.jsonl.prev``, or FileExistsError, or it goes on."""

Numbering = Literal["given", "counted"]
"""Whether a step comes with its number."""

OnError = Literal["disable", "raise"]
"""What a failing system does: one line on standard error and no more logging, or an OSError at the caller."""

# A line that is shorter has no integer that overflows binary64.
_LONG_NUMBER = 300
_MINUS = ord("-")
_SYNCED_KINDS: Final = frozenset(["run_start", "run_end"])


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a run is written."""

    exist: Exist = "replace"
    on_error: OnError = "disable"
    durability: Durability = "process"
    sync_seconds: float = 0.0
    """See ``append_file.Options``."""
    clock: Clock = SYSTEM_CLOCK
    calls: SystemCalls = SYSTEM_CALLS

    def __post_init__(self) -> None:
        for name, allowed in (("exist", Exist), ("on_error", OnError), ("durability", Durability)):
            if getattr(self, name) not in get_args(allowed):
                choices = ", ".join(map(repr, get_args(allowed)))
                raise ValueError(f"{name} is {getattr(self, name)!r}, it must be one of {choices}")
        if not self.sync_seconds >= 0:
            raise ValueError(f"sync_seconds is {self.sync_seconds}, it must not be negative")


class RunStream:
    """The file of one run.

    A record that its schema or its place in the stream forbids raises InvalidEventError and is not written. The file
    is closed behind run_end.
    Threads may share a stream; what a signal handler writes while it interrupts a call follows right after it.
    """

    def __init__(self, path: str, *, settings: Settings) -> None:
        """Create the directory of *path* and open the stream; raise FileExistsError only with ``exist="fail"``."""
        self.path = path
        self._progress = RunProgress()
        self.dropped = 0
        """Number of records that could not be written."""
        self.ignores = False
        """True once nothing more is written, and a call for it is no mistake: the file was closed, or given up."""
        self.settings = settings
        self._file: AppendFile | None = None
        self._is_busy = False
        self._deferred: deque[Callable[[], None]] = deque()
        self._untold: tuple[Callable[..., None], tuple[Any, ...]] | None = None
        self._appended = 0
        self._refused: set[str] = set()
        try:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            self._file = self._opened()
        except OSError as error:
            if settings.exist == "fail" and isinstance(error, FileExistsError):
                raise
            if not self._survives(error, None):
                raise
            self._progress = RunProgress()
        self._watch = Stopwatch(settings.clock, told=self._progress.time)

    @property
    def progress(self) -> RunProgress:
        """Where the stream stands."""
        file = self._file
        if self._untold is not None and file is not None and not file.is_foreign:
            with file.lock:
                if not self._is_busy:
                    self._settle(file)
        return self._progress

    @property
    def is_open(self) -> bool:
        """True while records can be written."""
        file = self._file
        return file is not None and file.closed_because is None and not file.is_foreign

    def write(self, event: Event, *, encoder: Callable[[dict[str, Any]], bytes] = encode) -> None:
        """Write *event*; its ``t`` is the time now unless it has one. *encoder* gives its text."""
        self._perform(lambda: self._write(event, encoder))

    def write_raw(self, raw: bytes) -> None:
        """Write the line *raw*, without LF, as it is."""
        self._perform(lambda: self._write_raw(raw))

    def write_step(self, event: Step, numbering: Numbering, values: StepValues) -> None:
        """Write a step; its ``t`` is the time now, and counted its number one more than the last of its phase."""
        file = self._file
        if file is None or self._is_busy or self._deferred or self._untold is not None:
            self._perform(lambda: self._write_step(event, numbering))
            return
        # As in _perform and _write_step, without a call that can be spared: this one is made most often.
        progress = self._progress
        with file.lock:
            self._is_busy = True
            try:
                phase, line = progress.phase, None
                if values == "plain" and progress.is_running:
                    if numbering == "counted":
                        event.step = progress.next_step(phase)
                    event.t = self._watch.seconds()
                    try:
                        line = _encode(event)
                    except (TypeError, ValueError):
                        line = None  # what only equals a plain name has no text
                # A count below zero, or one so long that it may not be finite, is for the type to judge.
                if line is None or (_MINUS in line and b":-" in line) or len(line) >= _LONG_NUMBER:
                    self._write_step(event, numbering)
                else:
                    if numbering == "given":
                        progress.admit_step(event.step, phase)
                    self._append_step(file, line, (event.t, event.step, phase, event.loss))
            finally:
                self._is_busy = False
        if self._deferred:
            self._perform(_nothing)

    def end(self, make_event: Callable[[RunProgress], Event]) -> None:
        """Write the run_end that *make_event* makes of where the stream stands then."""
        self._perform(lambda: self._write(make_event(self._progress)))

    def close(self) -> None:
        """Close the file; do nothing when it is closed, or belongs to a parent process."""
        if self._file is not None and not self._file.is_foreign:
            self._perform(self._close)

    def _opened(self) -> AppendFile:
        settings = self.settings
        options = Options(durability=settings.durability, sync_seconds=settings.sync_seconds, calls=settings.calls)
        if settings.exist == "replace":
            return AppendFile.replace(self.path, options=options)
        if settings.exist == "fail":
            return AppendFile.create(self.path, options=options)
        file = AppendFile.reopen(self.path, options=options)
        try:
            self._take_over(file)
        except BaseException:
            with contextlib.suppress(OSError):
                file.close()
            raise
        return file

    def _take_over(self, file: AppendFile) -> None:
        """Learn where a stream stands that someone else has left, and move its fragment out of the way."""
        scan = StreamScan(file, profile="toy/v1")
        for record in scan:
            self._progress.take(record.kind, record.value)
        if self._progress.ended:
            raise StreamRefusedError(self.path, "complete", "the run has ended; a stream holds one run")
        self._progress.await_resume()
        aside = set_aside(file, scan.committed)
        if aside is not None:
            say(f"{self.path}: the bytes after the last record were moved to {aside}")

    def _perform(self, action: Callable[[], None]) -> None:
        """Call *action* alone: after other threads, and after what this call interrupts from a signal handler."""
        file = self._file
        if file is None:
            if self._progress.ended:
                raise InvalidEventError("the run has ended: nothing is written behind run_end")
            return
        with file.lock:
            if self._is_busy and not file.is_foreign:
                self._deferred.append(action)
                return
            self._is_busy = True
            try:
                self._settle(file)
                action()
                if self._progress.ended:
                    self._close()
            finally:
                self._is_busy = False
            while self._deferred:
                self._perform(self._deferred.popleft())

    def _close(self) -> None:
        file, self._file = self._file, None
        self.ignores = not self._progress.ended
        if file is None:
            return
        try:
            file.close()
        except OSError as error:
            if not self._survives(error, file):
                raise

    def _write(self, event: Event, encoder: Callable[[dict[str, Any]], bytes] = encode) -> None:
        members = {key: value for key, value in members_of(event).items() if value is not UNSET}
        kind = members.get("kind")
        if not isinstance(kind, str):
            raise InvalidEventError("the event has no kind: the member that names what it is about")
        self._progress.admit_kind(kind)
        members.setdefault("t", self._watch.seconds())
        try:
            line = encoder(members)
        except RecordRefusedError as error:
            self._leave_out(kind, error)
            return
        check_record(line, kind)
        self._admit_and_append(line, kind, msgspec.json.decode(line))

    def _write_raw(self, raw: bytes) -> None:
        if len(raw) > MAX_LINE_BYTES:
            fact = f"the record has {len(raw)} bytes, the limit is {MAX_LINE_BYTES}"
            self._leave_out("forwarded", RecordRefusedError("line-too-long", fact))
            return
        verdict = vet(raw, first=self._progress.records == 0)
        if b"\n" in raw or verdict.value is None or verdict.faults:
            fault = verdict.faults[0] if verdict.faults else None
            fact = "it is no single line" if fault is None else f"{fault.rule} at byte {fault.offset}: {fault.message}"
            raise InvalidEventError(f"the line cannot be forwarded: {fact}")
        kind = verdict.value.get("kind")
        if not isinstance(kind, str):
            raise InvalidEventError("the line cannot be forwarded: it has no kind")
        check_record(raw, kind)
        self._admit_and_append(raw, kind, verdict.value)

    def _admit_and_append(self, line: bytes, kind: str, value: dict[str, Any]) -> None:
        progress, file = self._progress, self._file
        progress.admit(kind, value)
        if file is None:
            return
        self._untold, self._appended = (progress.take, (kind, value)), file.appended
        try:
            file.commit(line + b"\n", "now" if kind in _SYNCED_KINDS else "as-opened")
        except OSError as error:
            self._after_error(file, error)
        else:
            self._settle(file)
        self._watch.told = max(self._watch.told, progress.time)

    def _write_step(self, event: Step, numbering: Numbering) -> None:
        file, progress = self._file, self._progress
        if file is None:
            return
        if not progress.is_running:
            progress.admit_kind("step")
        phase: str = progress.phase if event.phase is UNSET else event.phase
        if numbering == "counted":
            event.step = progress.next_step(phase)
        event.t = self._watch.seconds()
        line = _ready_step(event)
        if line is None:
            self._write(event)
            return
        if numbering == "given":
            progress.admit_step(event.step, phase)
        self._append_step(file, line, (event.t, event.step, phase, event.loss))

    def _append_step(self, file: AppendFile, line: bytes, facts: tuple[float, int, str, Any]) -> None:
        take = self._progress.take_step
        self._untold, self._appended = (take, facts), file.appended
        try:
            file.commit(line + b"\n")
        except OSError as error:
            self._after_error(file, error)
            return
        take(*facts)
        self._untold = None

    def _after_error(self, file: AppendFile, error: OSError) -> None:
        """Count the record as dropped, and raise *error* or give up, as the caller wants it."""
        self._settle(file)
        self.dropped += 1
        if not self._survives(error, file):
            raise error

    def _settle(self, file: AppendFile) -> None:
        """Take in the record that was written last, unless that is done: an exception may have come in between.

        Only if it is in the file; to take it in twice does no harm.
        """
        if self._untold is None:
            return
        take, facts = self._untold
        file.settle()
        if file.appended > self._appended:
            take(*facts)
        self._untold = None

    def _survives(self, error: OSError, file: AppendFile | None) -> bool:
        """Give up logging and say so, unless the caller wants the error: then return False."""
        if self.settings.on_error == "raise":
            return False
        self._file = None
        self.ignores = not self._progress.ended
        if file is None or not file.has_said_why:
            say(f"{self.path}: {cause_of(error)}; nothing more is logged, the program goes on")
        if file is not None and not file.is_foreign:
            with contextlib.suppress(OSError):
                file.close()
        return True

    def _leave_out(self, kind: str, error: RecordRefusedError) -> None:
        """Refuse one record that would be beyond a limit; say so once for each limit, unless the caller wants it."""
        self.dropped += 1
        if self.settings.on_error == "raise":
            raise error
        if error.rule not in self._refused:
            self._refused.add(error.rule)
            say(f"{self.path}: a {kind} record is left out, as all later ones like it: {error}")


def _ready_step(event: Step) -> bytes | None:
    """Return the text of a step that its encoder writes in canonical form, and that is valid; None for all others."""
    try:
        line = _encode(event)
        # Reading back finds what the field does not allow; writing again, what is spelled in another way.
        found = _STEP_DECODER.decode(line)
        is_ready = _encode(found) == line and (found.extra is UNSET or list(found.extra) == sorted(found.extra))
        # The type takes an integer of any length.
        is_ready = is_ready and (len(line) < _LONG_NUMBER or not holds_long_number([line]))
    except (TypeError, ValueError, msgspec.MsgspecError):
        return None
    return line if is_ready else None


def _nothing() -> None:
    """Do nothing, so that what was deferred gets its turn."""
