"""Names runs, so that an id is always a safe directory name, and makes and claims the directories of logs."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time

from toyspec.core.escaping import printable, shortened
from toyspec.core.generated.limits import MAX_SAFE_RUN_ID_CHARS
from toyspec.core.places.addresses import is_address, without_secrets


def refuse_address(path: str) -> None:
    """Raise ValueError if *path* is an address: an object cannot be appended to, so none is a log."""
    if is_address(path):
        shown = printable(without_secrets(path))
        raise ValueError(f"{shown} is an address; write the run into a folder, and copy that there")


def make_directories(path: str) -> list[str]:
    """Make the directory *path* and those above it; return those that were missing, the outermost first."""
    refuse_address(path)
    missing: list[str] = []
    place = os.path.abspath(path)
    while not os.path.isdir(place) and place != os.path.dirname(place):
        missing.insert(0, place)
        place = os.path.dirname(place)
    made: list[str] = []
    try:
        for place in missing:
            with contextlib.suppress(FileExistsError):
                os.mkdir(place)
                made.append(place)
            if not os.path.isdir(place):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    except OSError:
        remove_directories(made)
        raise
    return made


def remove_directories(made: list[str]) -> None:
    """Remove the directories that ``make_directories`` made, if they are empty."""
    for place in reversed(made):
        with contextlib.suppress(OSError):
            os.rmdir(place)


DEFAULT_NAME = "run"
"""What a run is called whose name has no letter or digit."""

_LONGEST_NAME = 100
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_RUN_ID = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAX_SAFE_RUN_ID_CHARS - 1}}}")
# Names that Windows reserves for devices, with any extension.
_DEVICES = frozenset(["con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))])


def check_run_id(run_id: str) -> str:
    """Return *run_id*; raise ValueError if it is not a safe directory name on every system."""
    if not isinstance(run_id, str) or not _RUN_ID.fullmatch(run_id):
        fact = f"is not allowed: use 1 to {MAX_SAFE_RUN_ID_CHARS} letters, digits, '.', '_', '-'"
        fact = f"{fact}, starting with a letter or digit"
    elif run_id.endswith("."):
        fact = "is not allowed: it ends with '.', which Windows drops"
    elif run_id.partition(".")[0].lower() in _DEVICES:
        fact = "is not allowed: it is the name of a device on Windows"
    else:
        return run_id
    raise ValueError(f"run id {shortened(repr(run_id))} {fact}")


def run_id_from(name: str) -> str:
    """Return *name* if it can be a run id; else with ``-`` for what is not allowed, and ``run-`` before it."""
    safe = _UNSAFE.sub("-", name)[:_LONGEST_NAME].strip("-._")
    for candidate in (name, safe, f"{DEFAULT_NAME}-{safe}".rstrip("-")):
        with contextlib.suppress(ValueError):
            if len(candidate) <= _LONGEST_NAME:
                return check_run_id(candidate)
    return DEFAULT_NAME


def claim_directory(root: str, name: str, wall: float) -> str:
    """Create a directory under *root* for a new run and return its path: ``<name>-<date>-<number>``, which is its id.

    The date is that of *wall*, seconds since the Unix epoch, in UTC. The number is one more than the largest existing
    one, in three digits or more. Two processes never get the same directory. Raise ValueError for an unsafe *name*.
    """
    refuse_address(root)
    os.makedirs(root, exist_ok=True)
    before = dated(name, wall)
    check_run_id(before)
    numbered = re.compile(re.escape(before) + r"([0-9]{3,18})")
    found = (numbered.fullmatch(entry) for entry in os.listdir(root))
    number = max((int(match.group(1)) for match in found if match), default=0)
    while True:
        number += 1
        path = os.path.join(root, f"{before}{number:03d}")
        with contextlib.suppress(FileExistsError):
            os.mkdir(path)
            return path


def dated(name: str, wall: float) -> str:
    """Return what the ids of runs begin with that have this *name* and start on the day of *wall*."""
    return f"{name}-{time.strftime('%Y%m%d', time.gmtime(wall))}-"
