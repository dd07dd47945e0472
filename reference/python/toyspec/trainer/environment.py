"""The environment of a run: the machine, the backend, the source revision, and the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from toyspec.core.generated.toy_v1 import Backend, Git, Host
from toyspec.core.writing.clocks import Clock, SystemClock
from toyspec.core.writing.environment import git_revision, this_host

if TYPE_CHECKING:
    from collections.abc import Callable

_FIXED_START = 1780219800.0
"""2026-05-31T09:30:00Z"""
_FIXED_STEP_SECONDS = 0.01


class RunClock(Clock, Protocol):
    """A clock that is notified of each finished step."""

    def step_is_done(self) -> None:
        """Do what the end of a step does to this clock."""


class RealClock(SystemClock):
    """The clocks of the system; the end of a step does not change them."""

    def step_is_done(self) -> None:
        """Do nothing."""


class FixedClock:
    """Time that passes 10 ms a step, from a fixed start, so that two equal runs write equal bytes."""

    def __init__(self) -> None:
        self._passed = 0.0

    def monotonic(self) -> float:
        """Return the seconds that have passed."""
        return self._passed

    def wall(self) -> float:
        """Return the fixed start and the seconds that have passed since."""
        return _FIXED_START + self._passed

    def step_is_done(self) -> None:
        """Let 10 ms pass."""
        self._passed += _FIXED_STEP_SECONDS


class Environment(NamedTuple):
    """The members of run_start other than model and settings."""

    host: Host
    backend: Backend
    git: Git | None
    """None outside a working tree."""
    clock: RunClock


def real_environment() -> Environment:
    """Return the environment of this process."""
    host = this_host()
    backend = Backend(kind="cpu", device=host.arch, compute=f"numpy {np.__version__}")
    return Environment(host, backend, git_revision(), RealClock())


def fixed_environment() -> Environment:
    """Return a constant environment, the same everywhere and at any time."""
    return Environment(
        Host(name="host", os="linux", arch="x86_64"),
        Backend(kind="cpu", device="x86_64", compute="numpy"),
        Git(sha="0" * 40, branch="main", dirty=False),
        FixedClock(),
    )


ENVIRONMENTS: dict[str, Callable[[], Environment]] = {"real": real_environment, "fixed": fixed_environment}
"""By the value of ``--clock``; the first is the default."""
