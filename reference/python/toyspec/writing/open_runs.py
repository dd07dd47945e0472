"""The runs that this process writes: ends them when the program ends, however that is, and when one is started again.

``start_run`` keeps each run here until it ends. At exit a run is completed, or interrupted by the signal that came, or
errored by the exception that ended the program, in whatever thread. Handlers of signals only remember the signal and
call the handler that was there. Where there was none, the runs are ended before the signal ends the process.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from toyspec.writing.event_arguments import ending_exception, ending_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType

_SIGNALS: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name))
_EXIT_OF_SIGNAL: Final = 128


class OpenRun(Protocol):
    """A run that is written by this process."""

    @property
    def events_path(self) -> str:
        """Path of the stream."""

    @property
    def active(self) -> bool:
        """True while calls write records."""

    def end_with(self, ending: dict[str, Any]) -> None:
        """Write run_end with these members, if none is there, and close the file."""

    def start_again(self) -> None:
        """End the run as interrupted: a later start writes it from now on."""

    def after_writing(self, call: Callable[[], None]) -> bool:
        """Call *call* as soon as no record is being written; return whether that was at once."""


class _Program:
    """What this process has met so far, and the hooks that tell it."""

    def __init__(self) -> None:
        self.runs: dict[str, OpenRun] = {}
        self.error: BaseException | None = None
        self.thread: str | None = None
        self.exit_code: object = None
        self.signal: int | None = None
        self.is_watched = False
        self.handlers: dict[int, Any] = {}

    def forget(self) -> None:
        """Start again in a forked child, which writes no run of its parent.

        Signals act there as if no run were kept. A handler in Python would only run once the interpreter does: a
        signal that comes just before the child waits for a lock of another process would not end it, and a pool of
        processes would wait for it forever.
        """
        self.runs.clear()
        self.error = self.thread = self.exit_code = self.signal = None
        handlers, self.handlers = self.handlers, {}
        for number, before in handlers.items():
            if signal.getsignal(number) is _on_signal:
                signal.signal(number, before)


_program = _Program()


def keep(run: OpenRun) -> None:
    """End *run* at the latest when the program ends."""
    _watch()
    _program.runs[_key(run.events_path)] = run


def forget(run: OpenRun) -> None:
    """Take that *run* has ended or was closed by its owner."""
    if _program.runs.get(_key(run.events_path)) is run:
        del _program.runs[_key(run.events_path)]


def start_again(events_path: str) -> None:
    """End the run of this process that writes the stream *events_path*, if there is one: it is started again."""
    run = _program.runs.pop(_key(events_path), None)
    if run is not None and run.active:
        run.start_again()


def received_signal() -> dict[str, Any] | None:
    """Return how a run ends that a signal has interrupted, though the program may have gone on; None without one."""
    return None if _program.signal is None else _ending_of_signal(_program.signal)


def _key(path: str) -> str:
    return os.path.realpath(path)


def _watch() -> None:
    """Set the hooks of this process, once; the handlers of signals where that is possible now."""
    if not _program.is_watched:
        _program.is_watched = True
        atexit.register(_end_all)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_program.forget)
        sys.excepthook = partial(_note_exception, sys.excepthook)
        threading.excepthook = partial(_note_thread_exception, threading.excepthook)
        setattr(sys, "exit", partial(_note_exit, sys.exit))  # noqa: B010 - its type says that it never returns
    # Only the main thread of the main interpreter may set them.
    with contextlib.suppress(ValueError):
        for number in _SIGNALS:
            _handle(number)


def _handle(number: int) -> None:
    before = signal.getsignal(number)
    # None is a handler that was not set by Python and cannot be called; one that is ignored stays ignored.
    if number in _program.handlers or before is None or before is signal.SIG_IGN:
        return
    _program.handlers[number] = before
    signal.signal(number, _on_signal)


def _on_signal(number: int, frame: FrameType | None) -> None:
    before = _program.handlers.get(number, signal.SIG_DFL)
    if _program.runs:
        _program.signal = number
    if callable(before):
        before(number, frame)
        return
    if before is signal.SIG_IGN:
        return
    waiting = [run for run in list(_program.runs.values()) if run.active]
    _end_by_signal(number, waiting)


def _end_by_signal(number: int, waiting: list[OpenRun]) -> None:
    """End the runs one after the other, each when no record is being written; then let the signal end the process."""
    while waiting:
        run = waiting.pop()
        if not run.after_writing(partial(run.end_with, _ending_of_signal(number))):
            run.after_writing(partial(_end_by_signal, number, waiting))
            return
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _ending_of_signal(number: int) -> dict[str, Any]:
    return {
        "reason": "interrupted",
        "error": f"signal {signal.Signals(number).name}",
        "exit_code": _EXIT_OF_SIGNAL + number,
    }


def _note_exception(
    before: Callable[..., Any], kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    _program.error = error
    before(kind, error, traceback)


def _note_thread_exception(before: Callable[..., Any], arguments: threading.ExceptHookArgs) -> None:
    if _program.error is None and arguments.exc_value is not None and arguments.exc_type is not SystemExit:
        _program.error = arguments.exc_value
        _program.thread = None if arguments.thread is None else arguments.thread.name
    before(arguments)


def _note_exit(before: Callable[..., Any], code: object = None, /) -> None:
    _program.exit_code = code
    before(code)


def _end_all() -> None:
    for run in list(_program.runs.values()):
        run.end_with(_ending())
    _program.runs.clear()


def _ending() -> dict[str, Any]:
    error = _program.error or ending_exception()
    if error is not None and not isinstance(error, KeyboardInterrupt):
        ending = ending_of(error)
        if _program.thread is not None and "error" in ending:
            ending["error"] = f"in thread {_program.thread}: {ending['error']}"
        return ending
    if _program.signal is not None:
        return _ending_of_signal(_program.signal)
    if error is not None:
        return ending_of(error)
    if _program.exit_code:
        return ending_of(SystemExit(_program.exit_code))
    return {}
