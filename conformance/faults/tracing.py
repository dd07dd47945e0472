"""What makes a real system fail: strace, and a small disk."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import cache
from typing import TYPE_CHECKING

from conformance.faults.case import MachineError

if TYPE_CHECKING:
    from collections.abc import Iterator

WRITES = "write,pwrite64,writev"
COPIES = f"{WRITES},copy_file_range,sendfile,splice"
SYNCS = "fsync,fdatasync"
_SECONDS = 30.0
_HELD_MICROSECONDS = 600_000_000


def traced(calls: str, path: str = "", inject: str = "", log: str = os.devnull) -> list[str]:
    """Return the command under which *calls* on *path* are traced into *log*, and fail as *inject* says."""
    if why := _strace_trouble():
        raise MachineError(why)
    # Faster, but signals are not injected then.
    faster = [] if "signal" in inject else ["--seccomp-bpf"]
    words = ["strace", "-f", *faster, "-qq", "-y", "-o", log, "-e", f"trace={calls}"]
    words += ["-P", path] if path else []
    return words + (["-e", f"inject={calls}:{inject}"] if inject else [])


def traced_child(calls: str, path: str, inject: str) -> list[str]:
    """Return a command like :func:`traced` whose process is the program itself, for signals and limits."""
    strace, *words = traced(calls, path, inject)
    return [strace, "-D", *words]


def held(calls: str, path: str, where: str, when: int) -> list[str]:
    """Return a command like :func:`traced_child` under which one call waits until :func:`let_go`.

    The call is number *when* of *calls* on *path*; *where* is ``enter`` or ``exit``, before or after it is done.
    """
    words = traced_child(calls, path, f"delay_{where}={_HELD_MICROSECONDS}:when={when}")
    # A program outlives this strace, and would keep the filter.
    return [word for word in words if word != "--seccomp-bpf"]


def let_go(pid: int) -> None:
    """Let the call that :func:`held` holds in process *pid* go on, and end the trace."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        tracer = int(file.read().partition("TracerPid:")[2].split()[0])
    if tracer:  # none where the program has ended, which its next answer shows
        os.kill(tracer, signal.SIGKILL)


def wait_until_longer(path: str, size: int) -> None:
    """Return when the file at *path* has more than *size* bytes."""
    end = time.monotonic() + _SECONDS
    while os.path.getsize(path) <= size:
        if time.monotonic() > end:
            raise MachineError("the write was not held")
        time.sleep(0.01)


def calls_in(log: str) -> list[str]:
    """Return the calls that strace has written into *log*, without process ids."""
    with open(log, encoding="utf-8", errors="replace") as file:
        return [line.partition(" ")[2].strip() for line in file if "(" in line]


@contextlib.contextmanager
def small_disk(folder: str, size: str) -> Iterator[str]:
    """Yield the path of an empty disk of *size*. It is mounted where only one program, and its path, can see it."""
    if not shutil.which("unshare"):
        raise MachineError("unshare is not installed")
    disk = os.path.join(folder, "disk")
    os.mkdir(disk)
    script = 'mount -t tmpfs -o "size=$2" none "$1" && echo mounted && exec cat'
    rights = "-m" if os.geteuid() == 0 else "-Urm"
    words = ["unshare", rights, "sh", "-c", script, "sh", disk, size]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stderr is not None
        if holder.stdout.readline() != b"mounted\n":
            raise MachineError(f"no disk can be mounted: {holder.stderr.read().decode(errors='replace').strip()[-80:]}")
        yield f"/proc/{holder.pid}/root{disk}"


def fill(disk: str, leave: int) -> str:
    """Fill a disk but for *leave* bytes; return the path of the file that does."""
    path = os.path.join(disk, "ballast")
    with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    with open(path, "r+b") as file:
        file.truncate(os.path.getsize(path) - leave)
    return path


def wait_until_open(path: str) -> None:
    """Return when some process has the file at *path* open."""
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if any(os.readlink(f"/proc/{pid}/fd/{fd}") == path for fd in os.listdir(f"/proc/{pid}/fd")):
                    return
        time.sleep(0.01)
    raise MachineError("no process opened the stream")


@cache
def _strace_trouble() -> str:
    if sys.platform != "linux" or not shutil.which("strace"):
        return "strace is not installed"
    words = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", os.devnull, "-e", "inject=fsync:error=EIO:when=1", "true"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return f"strace does not run: {done.stderr.strip()[-100:]}" if done.returncode else ""
