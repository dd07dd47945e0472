"""Writes training logs of toy/v1, in one file to copy into a project.

    run = Run("runs/demo")
    run.start(config={"lr": 3e-4})
    for step in range(1, 101):
        run.step(step, loss=2.5)
    run.end()

A call returns True when its record is in the file, whatever happens to the process afterwards. It never raises into
the training: it returns False, ``run.error`` says why, and the first failure is printed on standard error. No call
waits for a lock or a thread. Needs Python 3.9 and nothing else; on Windows it takes no lock.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
import struct
import sys
import time
from datetime import datetime, timezone
from typing import Any, Callable

if os.name == "posix":
    import fcntl

_MAX_LINE_BYTES = 16_777_216
_STEP_KEYS = ("loss", "ppl", "lr", "grad_norm", "tokens", "compute_us", "wall_us", "token_id", "logprob", "mtp_loss")
_MAX_DEPTH = 64
_TEMPORARY = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EINTR, errno.EAGAIN)
_LOCK_HELD = (errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK)
_FLAGS = os.O_RDWR | os.O_APPEND | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class RefusedError(Exception):
    """Why a record or a stream is refused; never leaves this module."""


class Run:
    """One run: the stream ``events.jsonl`` in *directory*.

    *exist* says what happens to a stream that is there: ``replace`` keeps it as ``events.jsonl.prev``, ``fail`` refuses
    it, and ``resume`` goes on with it. *run_id* is the name of the directory by default.
    """

    def __init__(self, directory: str, *, exist: str = "replace", run_id: str | None = None) -> None:
        self.directory = os.path.abspath(directory)
        self.path = os.path.join(self.directory, "events.jsonl")
        self.run_id = run_id or os.path.basename(self.directory)
        self.error: str | None = None
        """Why the last call that failed did."""
        self.dropped = 0
        """Number of records that are not in the file, since it could not be written."""
        self.last_step = 0
        """The last step in the file."""
        self._exist, self._pid, self._file, self._fragment = exist, os.getpid(), -1, b""
        self._is_open = self._is_begun = self._was_reported = False
        self._origin, self._last_t, self._looked, self._unsaid = time.monotonic(), 0.0, 0.0, 0
        self._do(self._open)

    def start(self, **metadata: Any) -> bool:
        """Write ``run_start`` with *metadata*, such as ``config`` and ``model``; call it before computing."""
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        head = {"kind": "run_start", "schema": "toy/v1", "t": self._t(), "run_id": self.run_id, "started_at": now}
        return self._do(lambda: self._begin({**head, **metadata}))

    def resume(self, from_step: int | None = None) -> bool:
        """Go on after *from_step*, by default the last step in the file; without a record to resume, start the run."""
        if self._is_open and self._file < 0:
            return self.start()
        step = self.last_step if from_step is None else from_step
        return self._do(lambda: self._begin({"kind": "run_resume", "t": self._t(), "from_step": step}))

    def step(self, step: int, **values: Any) -> bool:
        """Write one step of the training, such as ``run.step(5, loss=2.5, lr=3e-4)``; other names go into ``extra``."""
        kept, nonfinite = _finite(values)
        record = {"kind": "step", "phase": "train", "t": self._t(), "step": step}
        record |= {name: kept[name] for name in kept if name in _STEP_KEYS}
        extra = {name: kept[name] for name in kept if name not in _STEP_KEYS}
        if extra:
            record["extra"] = extra
        if nonfinite:
            record["nonfinite"] = {n if n in _STEP_KEYS else f"extra/{n}": what for n, what in nonfinite.items()}
        return self._record(record)

    def log(self, values: dict[str, float], step: int | None = None) -> bool:
        """Write *values* by name, such as ``run.log({"val/acc": 0.5}, step=5)``."""
        at = {} if step is None else {"step": step}
        kept, nonfinite = _finite(values)
        apart = {"nonfinite": nonfinite} if nonfinite else {}
        return self._record({"kind": "scalars", "t": self._t(), **at, "values": kept, **apart})

    def note(self, text: str, **members: Any) -> bool:
        """Write a note."""
        return self._record({"kind": "note", "t": self._t(), "text": text, **members})

    def write(self, record: dict[str, Any]) -> bool:
        """Write any record of toy/v1; ``t`` is filled in."""
        return self._record({"t": self._t(), **record})

    def end(self, reason: str = "completed", **members: Any) -> bool:
        """Write ``run_end`` and close the stream. *reason* is completed, interrupted, aborted or errored."""
        final = {"final_step": self.last_step} if self.last_step else {}
        done = self._record({"kind": "run_end", "t": self._t(), "reason": reason, **final, **members}, sync=True)
        self.close()
        return done

    def close(self) -> None:
        """Close the stream and release its locks, without a record."""
        if self._file >= 0 and self._pid == os.getpid():
            # A child that was forked has the file open, too, and would keep the locks.
            _lock(self._file, gives_up=True)
            os.close(self._file)
        self._file, self._is_open = -1, False

    def _do(self, action: Callable[[], None]) -> bool:
        """Return whether *action* succeeded; what it raises becomes ``error``."""
        try:
            action()
        except (RefusedError, OSError, ValueError, TypeError, RecursionError) as error:
            cause = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self.error = f"{self.path}: {cause}"
            if not self._was_reported:
                _report(f"{self.error}; this call wrote nothing")
                self._was_reported = True
            return False
        return True

    def _t(self) -> float:
        self._last_t = max(self._last_t, round(time.monotonic() - self._origin, 6))
        return self._last_t

    def _open(self) -> None:
        """Lock the stream that is there, and read what a resumption needs; change nothing."""
        os.makedirs(self.directory, exist_ok=True)
        if os.path.lexists(self.path):
            if self._exist == "fail":
                raise RefusedError("there is a stream already; pass exist='resume' or 'replace', or another directory")
            self._file = _locked(self.path, _FLAGS)
            try:
                if self._exist == "resume":
                    self._scan()
            except BaseException:
                self.close()
                raise
        self._is_open = True

    def _scan(self) -> None:
        """Take in the last step and time of the stream; raise RefusedError unless it is toy/v1 and not damaged."""
        *lines, self._fragment = _content(self._file).split(b"\n")
        records = [_parsed(line) for line in lines if line.strip()]
        if not records:
            return
        if records[0].get("kind") != "run_start" or records[0].get("schema", "toy/v1") != "toy/v1":
            raise RefusedError("the stream is not of toy/v1")
        for record in records:
            step, t = record.get("step"), record.get("t")
            if record.get("kind") == "step" and isinstance(step, (int, float)):
                self.last_step = int(step)
            if isinstance(t, (int, float)):
                self._last_t = max(self._last_t, float(t))
        self._origin = time.monotonic() - self._last_t

    def _begin(self, first: dict[str, Any]) -> None:
        """Write the first record of this process; if that fails, every file is as it was."""
        if not self._is_open or self._is_begun:
            raise RefusedError("the stream is not open" if not self._is_open else "the run has begun")
        self._check_process()
        line = _line(first)
        undo: list[Callable[[], object]] = []
        is_new = first["kind"] == "run_start"
        try:
            if is_new and self._file >= 0 and os.fstat(self._file).st_size and self._exist == "replace":
                old, self._file = self._file, -1
                undo.append(lambda: setattr(self, "_file", old))
                _keep(self.path, undo)
            if self._file < 0:
                os.makedirs(self.directory, exist_ok=True)
                self._file = _locked(self.path, _FLAGS | os.O_CREAT | os.O_EXCL)
                undo.append(self._unmake)
            if self._fragment:
                self._move_fragment(undo)
            self._append(line, sync=True)
        except BaseException:
            for step in reversed(undo):
                step()
            raise
        self._is_begun, self._fragment = True, b""
        if is_new and "old" in locals():
            os.close(old)
            self._move_ranks()

    def _move_ranks(self) -> None:
        """Keep the streams of other ranks of the run that was replaced; one that a writer holds is of the new run."""
        for name in filter(re.compile(r"events\.rank-[1-9][0-9]{0,8}\.jsonl").fullmatch, os.listdir(self.directory)):
            path = os.path.join(self.directory, name)
            try:
                file = _locked(path, _FLAGS)
                try:
                    if os.fstat(file).st_size:
                        _keep(path, [])
                finally:
                    os.close(file)
            except (RefusedError, OSError):
                pass

    def _unmake(self) -> None:
        """Remove the stream that this start has made."""
        os.unlink(self.path)
        os.close(self._file)
        self._file = -1

    def _move_fragment(self, undo: list[Callable[[], object]]) -> None:
        """Copy the bytes after the last LF to a side file, then cut them off."""
        offset = os.fstat(self._file).st_size - len(self._fragment)
        side = _free(f"{self.path}.torn-{offset}", first=2)
        copy = os.open(side, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        undo.append(lambda: os.unlink(side))
        try:
            _write_all(copy, self._fragment)
            os.fsync(copy)
        finally:
            os.close(copy)
        _sync_directory(self.directory)
        os.ftruncate(self._file, offset)
        # From here on the fragment is in its side file, which stays.
        undo.pop()

    def _record(self, record: dict[str, Any], *, sync: bool = False) -> bool:
        return self._do(lambda: self._write(record, sync=sync))

    def _write(self, record: dict[str, Any], *, sync: bool) -> None:
        self._check_process()
        if not self._is_begun or self._file < 0:
            raise RefusedError("the run is not open; call start() or resume() first")
        line = _line(record)
        self._follow_path()
        try:
            self._append(line, sync=sync)
        except OSError:
            self.dropped += 1
            self._unsaid += 1
            raise
        if record.get("kind") == "step":
            self.last_step = record["step"]
        if self._unsaid:
            text = f"{self._unsaid} records were dropped: they could not be written"
            counted = {"topic": "left-out", "dropped": {"record": self._unsaid}}
            note = {"kind": "note", "t": self._t(), "text": text, **counted}
            try:
                self._append(_line(note), sync=False)
                self._unsaid = 0
            except OSError:
                pass  # the next record that fits tries again

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise RefusedError("this process was forked from the one that opened the run, which alone writes to it")

    def _append(self, line: bytes, *, sync: bool) -> None:
        """Write *line* whole, or take back what was written of it; after a failure that may last, close the stream."""
        begin = os.fstat(self._file).st_size
        try:
            _write_all(self._file, line)
        except BaseException as error:
            end = os.fstat(self._file).st_size
            try:
                # Only bytes of this line are removed: another process may have appended to the file, or emptied it.
                if begin < end < begin + len(line):
                    if not line.startswith(os.pread(self._file, end - begin, begin)):
                        raise OSError(errno.EIO, "another process wrote into a line") from error
                    os.ftruncate(self._file, begin)
            except OSError:
                self.close()
                raise
            if isinstance(error, OSError) and error.errno not in _TEMPORARY and self._is_begun:
                self.close()
            raise
        if sync:
            os.fsync(self._file)
            _sync_directory(self.directory)

    def _follow_path(self) -> None:
        """Once a second, start the stream again at its path if another file, or none, is there."""
        now = time.monotonic()
        if now - self._looked < 1.0:
            return
        self._looked = now
        mine = os.fstat(self._file)
        try:
            there = os.stat(self.path)
            if (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino):
                return
        except OSError:
            pass
        _report(f"{self.path} was moved away; it is started again with its records")
        content = _content(self._file)
        os.makedirs(self.directory, exist_ok=True)
        if os.path.lexists(self.path):
            _keep(self.path, [])
        again = _locked(self.path, _FLAGS | os.O_CREAT | os.O_EXCL)
        _write_all(again, content[: content.rfind(b"\n") + 1])
        os.close(self._file)
        self._file = again


def _report(fact: str) -> None:
    """Print *fact* on standard error, which may be full or closed."""
    try:
        print(f"toyspec: {fact}", file=sys.stderr)
    except (OSError, ValueError, AttributeError):
        pass


def _finite(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return *values* as they are written, null for what is not finite, and the words for those by name."""
    kept: dict[str, Any] = {}
    named: dict[str, str] = {}
    for name, value in values.items():
        plain = value.item() if hasattr(value, "item") else value
        if isinstance(plain, float) and not math.isfinite(plain):
            named[name] = "nan" if math.isnan(plain) else "inf" if plain > 0 else "-inf"
            plain = None
        kept[name] = plain
    return kept, named


def _line(record: dict[str, Any]) -> bytes:
    """Return *record* as a line; raise RefusedError for what cannot be written unchanged."""
    step, kind = record.get("step", 0), record.get("kind")
    if not isinstance(kind, str):
        raise RefusedError("a record needs a kind")
    if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step < 2**63:
        raise RefusedError(f"step must be an integer from 0 to 2^63 - 1, not {str(step)[:40]}")
    _check(record, _MAX_DEPTH)
    line = json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    if len(line) > _MAX_LINE_BYTES:
        raise RefusedError(f"a line has {len(line)} bytes; at most {_MAX_LINE_BYTES} can be read")
    return line


def _check(value: Any, depth: int) -> None:
    """Raise RefusedError for keys that are not text, integers that no reader keeps, and deep nesting."""
    if depth == 0:
        raise RefusedError(f"a record is nested more than {_MAX_DEPTH} levels deep")
    if isinstance(value, dict):
        for key, member in value.items():
            if not isinstance(key, str):
                raise RefusedError(f"the key {key!r} must be text")
            _check(member, depth - 1)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _check(item, depth - 1)
    elif isinstance(value, int) and abs(value) >= 1 << 1023:
        raise RefusedError("an integer is beyond the range of binary64")


def _parsed(line: bytes) -> dict[str, Any]:
    """Return the record in *line*; raise RefusedError for a line that has none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise RefusedError("a line is damaged; `toyspec check` says where")
    return value


def _content(file: int) -> bytes:
    size, parts, at = os.fstat(file).st_size, [], 0
    while at < size and (part := os.pread(file, min(1 << 20, size - at), at)):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def _write_all(file: int, data: bytes) -> None:
    """Write *data* with one call, or with further ones where that was cut short; raise OSError."""
    at = empty = 0
    while at < len(data):
        count = os.write(file, data[at:] if at else data)
        empty = 0 if count else empty + 1
        if empty > 3:
            raise OSError(errno.ENOSPC, "writes take no byte")
        at += count


def _locked(path: str, flags: int) -> int:
    """Return a descriptor of the regular file at *path* with both locks; raise RefusedError where one is taken."""
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        raise RefusedError("this is not a regular file")
    while True:
        file = os.open(path, flags, 0o666)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise RefusedError("this is not a regular file")
            _lock(file)
            mine, there = os.fstat(file), os.stat(path)
            # Between opening and locking, another writer may have moved the file.
            if (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino):
                return file
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _lock(file: int, *, gives_up: bool = False) -> None:
    """Take both kinds of locks that are available, or give them up; raise RefusedError where one is taken."""
    if os.name != "posix":
        return
    record = getattr(fcntl, "F_OFD_SETLK", None) if sys.platform == "linux" else None
    kind, whole = (fcntl.LOCK_UN, fcntl.F_UNLCK) if gives_up else (fcntl.LOCK_EX | fcntl.LOCK_NB, fcntl.F_WRLCK)
    calls: list[Callable[[], object]] = [lambda: fcntl.flock(file, kind)]
    calls += [] if record is None else [lambda: fcntl.fcntl(file, record, struct.pack("hhqqi0q", whole, 0, 0, 0, 0))]
    for call in calls:
        try:
            call()
        except OSError as error:
            # Any other error means that this kind of lock is not available here.
            if error.errno in _LOCK_HELD and not gives_up:
                raise RefusedError("another writer holds this stream (it is locked)") from None


def _keep(path: str, undo: list[Callable[[], object]]) -> None:
    """Rename the file at *path* to ``.prev``, and an earlier one of that name to the first free ``.prev-N``."""
    previous = f"{path}.prev"
    if os.path.lexists(previous):
        older = _free(f"{previous}-1", first=1)
        os.rename(previous, older)
        undo.append(lambda: os.rename(older, previous))
    os.rename(path, previous)
    undo.append(lambda: os.rename(previous, path))


def _free(path: str, *, first: int) -> str:
    """Return *path*, or the first of its numbered siblings that is not there."""
    stem = path.rpartition("-")[0] if first == 1 else path
    number = first
    while os.path.lexists(path):
        path = f"{stem}-{number}"
        number += 1
    return path


def _sync_directory(directory: str) -> None:
    if os.name != "posix":
        return
    file = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems cannot sync a directory
            raise
    finally:
        os.close(file)
