"""Seals bundles: writes SHA256SUMS, the digests of all files of a run. See spec/bundle.md."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING, Literal

import msgspec

from toyspec.core.directories import Directory
from toyspec.core.errors import StreamMissingError, StreamRefusedError, check_choice
from toyspec.core.format.profiles import SEAL_FILE
from toyspec.core.generated.limits import MAX_LINE_BYTES
from toyspec.core.reading.reader import read
from toyspec.core.reading.run_files import rank_streams
from toyspec.core.reading.sealed_files import TEMPORARY_FILE, covered_files, digest_in, seal_line
from toyspec.core.reading.stream_files import STREAM_NAMES, locate_stream
from toyspec.core.system_calls import (
    SYSTEM_CALLS,
    SystemCalls,
    is_locked,
)
from toyspec.core.writing import opening
from toyspec.core.writing.append_file import AppendFile, Options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toyspec.core.watching import Watch


class Seal(msgspec.Struct, frozen=True, kw_only=True):
    """A seal that was written."""

    path: str
    files: int
    """Number of files that it covers."""
    bytes: int
    """Their size."""
    earlier_path: str | None
    """Path of the seal that was there before; None without one."""


def seal(
    path: str | os.PathLike[str],
    *,
    existing: Literal["refuse", "keep"] = "refuse",
    on_progress: Watch | None = None,
    calls: SystemCalls = SYSTEM_CALLS,
) -> Seal:
    """Write the seal of the run directory *path*, or of the one that the stream *path* is in; return what it covers.

    *existing* ``"keep"`` moves a seal that is there to ``SHA256SUMS.prev``; ``"refuse"`` raises FileExistsError.
    *on_progress* gets the bytes done and the bytes known. Raises StreamMissingError without a stream,
    StreamRefusedError for a stream that is not complete, has no profile, or is held by a writer, and OSError if the
    system fails; no file is changed then.
    """
    check_choice("existing", existing, ("refuse", "keep"))
    stream = locate_stream(os.fspath(path))
    if not os.path.lexists(stream):
        raise StreamMissingError(stream, "No such file or directory")
    if os.path.basename(stream) not in STREAM_NAMES:
        names = " or ".join(STREAM_NAMES[:2])
        raise StreamRefusedError(stream, "foreign", f"not in a run directory: a stream there is named {names}")
    directory = os.path.dirname(stream) or "."
    if existing == "refuse" and os.path.lexists(os.path.join(directory, SEAL_FILE)):
        raise FileExistsError(errno.EEXIST, "the run is sealed already", os.path.join(directory, SEAL_FILE))
    with contextlib.ExitStack() as held:
        held.enter_context(_held(stream, calls))
        _demand_complete(stream)
        others = (path for path in rank_streams(directory).values() if not os.path.samefile(path, stream))
        for rank in others:
            held.enter_context(_held(rank, calls))
            _demand_complete(rank)
        return _written(directory, on_progress, calls)


def _written(directory: str, on_progress: Watch | None, calls: SystemCalls) -> Seal:
    """Write the seal of *directory*, whose stream the caller holds; an earlier seal moves to ``SHA256SUMS.prev``.

    Raises OSError, and then leaves no new file.
    """
    files = covered_files(directory)
    total = sum(size for _, size in files)
    done = 0

    def progress(count: int) -> None:
        nonlocal done
        done += count
        if on_progress is not None:
            on_progress(done, total)

    lines = [seal_line(_digest(directory, name, progress), name) for name, _ in files]
    text = b"".join(lines)
    seal_path = os.path.join(directory, SEAL_FILE)
    if len(text) > MAX_LINE_BYTES:
        raise OSError(errno.EFBIG, f"the seal of {len(files)} files is longer than {MAX_LINE_BYTES} bytes", seal_path)
    moves: list[tuple[str, str]] = []
    with Directory(directory, calls=calls) as place:
        try:
            with place.replaced(SEAL_FILE, beside=TEMPORARY_FILE):
                place.write(TEMPORARY_FILE, [text])
                moves = opening.keep(seal_path, calls) if os.path.lexists(seal_path) else []
            place.sync()
        except OSError:
            if not os.path.lexists(seal_path):
                with contextlib.suppress(OSError):
                    opening.restore(moves)
            raise
    return Seal(path=seal_path, files=len(files), bytes=total, earlier_path=moves[-1][1] if moves else None)


def _digest(directory: str, name: bytes, progress: Callable[[int], None]) -> str:
    found = digest_in(directory, name.split(b"/"), on_bytes=progress)
    if found.problem is not None:
        cause = {"unreadable": found.cause}.get(found.problem, "it changed while the run was sealed")
        raise OSError(errno.EIO, cause, os.path.join(directory, os.fsdecode(name)))
    return found.digest


@contextlib.contextmanager
def _held(stream: str, calls: SystemCalls) -> Iterator[None]:
    """Hold the lock of *stream*; without the right to write to it, make sure that no writer has it."""
    try:
        file = AppendFile.reopen(stream, missing="fail", options=Options(calls=calls))
    except FileNotFoundError:
        raise StreamMissingError(stream, "No such file or directory") from None
    except OSError as error:
        if error.errno not in {errno.EACCES, errno.EPERM, errno.EROFS}:
            raise
        if is_locked(stream):
            raise StreamRefusedError(stream, "locked", "another writer has it open") from None
        yield
        return
    try:
        yield
    finally:
        file.close()


def _demand_complete(stream: str) -> None:
    report = read(stream, mode="salvage").report
    if report.profile is None:
        raise StreamRefusedError(stream, "foreign", "not a training log of a known profile")
    if report.state == "damaged":
        fact = "it is damaged: a seal would confirm the damage; `toyspec check` lists it"
        raise StreamRefusedError(stream, "damaged", fact)
    if report.state == "torn":
        fact = "the run is not complete: it has no run_end, or bytes follow its last line"
        raise StreamRefusedError(stream, "incomplete", fact)
