"""How far a mirror has come, in a small file that survives any interruption."""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.convert.mirrors.settings import Selecting, Service
from toyspec.core.errors import ToyspecError
from toyspec.core.files import open_file
from toyspec.core.system_calls import NO_LINK, SYSTEM_CALLS, try_lock, write_new_file

if TYPE_CHECKING:
    from toyspec.convert.mirrors.settings import Mirror

DIRECTORY = ".mirrors"


class MirrorBusyError(ToyspecError, BlockingIOError):
    """Another process sends the same run to the same place."""


class Pass(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The rows that one choice of points gives."""

    select: Selecting
    cuts: list[int] = []
    """Lines after which an open window ended early."""
    rows: int | None = None
    """Number of its rows that were sent before another choice was made; None for the last pass."""


class MirrorProgress(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The content of a state file."""

    run: str
    to: Service
    into: str | None = None
    rows: int = 0
    """Number of rows that the service has acknowledged."""
    place: Any = None
    """Where the next row goes, as the destination understands it."""
    ended: bool = False
    """Whether the end of the run was acknowledged too."""
    passes: list[Pass] = []
    losses: dict[str, int] = {}
    """How often each cause has changed or dropped an item."""


class StateFile:
    """The state of one run and one destination; while it is open, no other process has it."""

    def __init__(self, path: str, progress: MirrorProgress) -> None:
        """Open the file at *path*, which gets *progress* where it is new; raise MirrorBusyError, or OSError."""
        self.path = path
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | NO_LINK | getattr(os, "O_CLOEXEC", 0), 0o666)
        try:
            try_lock(SYSTEM_CALLS, self._lock)
        except BlockingIOError:
            os.close(self._lock)
            fact = f"another process mirrors this run to {progress.to}; wait until it has ended"
            raise MirrorBusyError(f"{path}: {fact}") from None
        self.progress = _read(path) or progress

    def save(self) -> None:
        """Write the progress: the file has the old content or the new one, whatever happens meanwhile."""
        new = f"{self.path}.new"
        write_new_file(SYSTEM_CALLS, new, [msgspec.json.encode(self.progress) + b"\n"])
        os.replace(new, self.path)

    def close(self) -> None:
        """Let other processes have it."""
        with contextlib.suppress(OSError):
            os.close(self._lock)


def state_path(stream: str, mirror: Mirror, identity: str) -> str:
    """Return the path of the state file of the run of this *identity* in the file *stream*."""
    bundle = os.path.dirname(os.path.abspath(stream))
    directory = mirror.state or os.path.join(os.path.dirname(bundle), DIRECTORY)
    place = (
        ""
        if mirror.into is None and mirror.project is None
        else f"-{_digest(f'{mirror.project} {mirror.into}'.encode())}"
    )
    return os.path.join(directory, f"{os.path.basename(bundle)}-{identity}.{mirror.to}{place}.json")


def identity_of(first_line: bytes) -> str:
    """Return the identity of the run that begins with *first_line*: another run at the same path has another one."""
    return _digest(first_line)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:8]


def _read(path: str) -> MirrorProgress | None:
    try:
        with open_file(path) as file:
            return msgspec.json.decode(file.read(), type=MirrorProgress)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise ToyspecError(
            f"{path}: not a state file of a mirror ({error}); delete it to send the whole run again"
        ) from None
