"""Decides how a run ends, and ends the runs of this process with it, or when one is started again.

A run that ``start_run`` began is kept here until it ends. Handlers of signals only remember the signal and call the
handler that the program has. Where it has none, the runs are ended before the signal ends the process.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType

    from toyspec.core.writing.run_stream import RunStream

_SIGNALS: Final = ("SIGTERM", "SIGINT", "SIGHUP")
_SIGNALS_OF_SLURM: Final = ("SIGUSR1", "SIGUSR2")
"""What a job may ask for before its time is up; elsewhere they have other meanings."""
_EXIT_OF_SIGNAL: Final = 128
_LONGEST_ERROR_CHARS: Final = 4096


class OpenRun(NamedTuple):
    """A run that is written by this process."""

    stream: RunStream
    end: Callable[[dict[str, Any]], None]
    """Ends the run with these members of run_end if nothing has, closes its file, and raises nothing."""
    start_again: Callable[[], None]
    """Ends the run as interrupted: a later start writes it from now on."""


def ending(error: BaseException | None, events_path: str) -> dict[str, Any]:
    """Return the reason of a run that nothing has ended, its error and its exit code; empty if nothing went wrong.

    A signal that came while the run was kept is asked first, though the program may have gone on, then *error*, which
    ends the run or the program. A thread that failed is an error only of a run that ends with the program. The exit
    code is that of a SystemExit: a program that caught a signal exits as it decides.
    """
    found = {} if error is None else _ending_of(error)
    number = _program.signals.get(_key(events_path))
    if number is None:
        return found
    fact = f"signal {signal.Signals(number).name}"
    if error is not None and not isinstance(error, SystemExit | KeyboardInterrupt):
        fact = f"{fact}, then {found['error']}"
    return found | {"reason": "interrupted", "error": fact}


def _ending_of(error: BaseException) -> dict[str, Any]:
    if isinstance(error, SystemExit):
        return _exit_ending(error.code)
    # What is not an Exception comes from outside: Ctrl-C, a task that is cancelled, a generator that is closed.
    reason = "errored" if isinstance(error, Exception) else "interrupted"
    where = f"in thread {_program.thread}: " if error is _program.thread_error and _program.thread is not None else ""
    name = type(error).__name__
    try:
        fact = str(error)
    except Exception:  # noqa: BLE001 - an error without a text still ends the run
        fact = ""
    return {"reason": reason, "error": f"{where}{name}{': ' if fact else ''}{fact}"[:_LONGEST_ERROR_CHARS]}


def _exit_ending(code: object) -> dict[str, Any]:
    if code is None or code == 0:
        return {"reason": "completed", "exit_code": 0}
    if isinstance(code, int):
        return {"reason": "aborted", "error": f"exit status {code}", "exit_code": code & 0xFF}
    return {"reason": "aborted", "error": str(code)[:_LONGEST_ERROR_CHARS], "exit_code": 1}


class _Program:
    """What this process has met so far, and the hooks that tell it."""

    def __init__(self) -> None:
        self.runs: dict[str, OpenRun] = {}
        self.error: BaseException | None = None
        self.thread_error: BaseException | None = None
        self.thread: str | None = None
        self.exit_code: object = None
        self.signals: dict[str, int] = {}
        """The last signal that came while a run was kept, by the path of its stream."""
        self.is_watched = False
        self.handlers: dict[int, Any] = {}
        """What the program has set for each signal that is watched."""
        self.first_handlers: dict[int, Any] = {}

    def forget(self) -> None:
        """Start again in a forked child, which writes no run of its parent.

        Signals act there as if no run were kept. A handler in Python would only run once the interpreter does: a
        signal that comes just before the child waits for a lock of another process would not end it, and a pool of
        processes would wait for it forever.
        """
        self.runs.clear()
        self.signals.clear()
        self.error = self.thread_error = self.thread = self.exit_code = None
        handlers, self.handlers = self.handlers, {}
        for number, before in handlers.items():
            if signal.getsignal(number) is _on_signal:
                signal.signal(number, before)


_program = _Program()


def keep(run: OpenRun) -> None:
    """End *run* at the latest when the program ends."""
    _watch()
    key = _key(run.stream.path)
    _program.signals.pop(key, None)
    _program.runs[key] = run


def forget(run: OpenRun) -> None:
    """Take that *run* has ended or was closed by its owner."""
    if _program.runs.get(_key(run.stream.path)) is run:
        del _program.runs[_key(run.stream.path)]


def start_again(events_path: str) -> None:
    """End the run of this process that writes the stream *events_path*, if there is one: it is started again."""
    run = _program.runs.pop(_key(events_path), None)
    if run is not None and run.stream.is_active:
        run.start_again()


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
        setattr(signal, "signal", partial(_note_handler, signal.signal))  # noqa: B010 - likewise, of another type
    # Only the main thread of the main interpreter may set them.
    with contextlib.suppress(ValueError):
        for number in _watched():
            _handle(number)


def _watched() -> list[int]:
    names = _SIGNALS + (_SIGNALS_OF_SLURM if "SLURM_JOB_ID" in os.environ else ())
    return [getattr(signal, name) for name in names if hasattr(signal, name)]


def _handle(number: int) -> None:
    before = signal.getsignal(number)
    # None is a handler that was not set by Python and cannot be called; one that is ignored stays ignored.
    if number in _program.handlers or before is None or before is signal.SIG_IGN:
        return
    if before is signal.SIG_DFL and signal.Signals(number).name in _SIGNALS_OF_SLURM:
        return  # a module in C, such as faulthandler, may handle it
    _program.first_handlers[number] = _program.handlers[number] = before
    signal.signal(number, _on_signal)


def _note_handler(set_handler: Callable[..., Any], number: int, handler: Any, /) -> Any:
    """Do what ``signal.signal`` does; a signal that is watched stays so, and the new handler is called for it."""
    is_ours = handler is _on_signal or signal.getsignal(number) is _on_signal
    if not is_ours or number not in _program.handlers:
        before = set_handler(number, handler)
        if _program.runs and number in _watched():
            _handle(number)
        return before
    set_handler(number, _on_signal)  # raises for what cannot be set here
    before = _program.handlers[number]
    _program.handlers[number] = _program.first_handlers[number] if handler is _on_signal else handler
    return before


def _on_signal(number: int, frame: FrameType | None) -> None:
    # A handler of the program may hand the signal on to the one that it found before, which is this one.
    is_handed_on = frame is not sys._getframe(1)  # noqa: SLF001 - only a signal gives the frame that it interrupts
    handlers = _program.first_handlers if is_handed_on else _program.handlers
    before = handlers.get(number, signal.SIG_DFL)
    _program.signals.update(dict.fromkeys(_program.runs, number))
    if callable(before):
        before(number, frame)
        return
    if before is signal.SIG_IGN:
        return
    waiting = [run for run in list(_program.runs.values()) if run.stream.is_active]
    _end_by_signal(number, waiting)


def _end_by_signal(number: int, waiting: list[OpenRun]) -> None:
    """End the runs one after the other, each when no record is being written; then let the signal end the process."""
    while waiting:
        run = waiting.pop()
        found = ending(None, run.stream.path) | {"exit_code": _EXIT_OF_SIGNAL + number}
        if not run.stream.after_writing(partial(run.end, found)):
            run.stream.after_writing(partial(_end_by_signal, number, waiting))
            return
    _program.handlers.pop(number, None)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _note_exception(
    before: Callable[..., Any], kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    _program.error = error
    before(kind, error, traceback)


def _note_thread_exception(before: Callable[..., Any], arguments: threading.ExceptHookArgs) -> None:
    if _program.thread_error is None and arguments.exc_type is not SystemExit:
        _program.thread_error = arguments.exc_value
        _program.thread = None if arguments.thread is None else arguments.thread.name
    before(arguments)


def _note_exit(before: Callable[..., Any], code: object = None, /) -> None:
    _program.exit_code = code
    before(code)


def _end_all() -> None:
    code = _program.exit_code
    exited = None if code is None else SystemExit(code)
    error = _program.error or _last_exception() or _program.thread_error or exited
    for run in list(_program.runs.values()):
        run.end(ending(error, run.stream.path))
    _program.runs.clear()


def _last_exception() -> BaseException | None:
    """Return the exception that ends this program, where no hook has met it."""
    # The interpreter keeps it; in a session it may be an old one.
    return None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)
