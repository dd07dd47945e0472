"""Workers that are tasks of a Ray cluster; Ray is imported when they start."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.core.errors import WorkersError
from toyspec.core.escaping import printable
from toyspec.core.workers.processes import OUT_OF_MEMORY
from toyspec.core.workers.running import WorkLoss, done

if TYPE_CHECKING:
    from concurrent.futures import Future

    from toyspec.core.workers.running import Call

LOCAL = "local"
"""The address of a cluster of this machine alone, which is started and ended."""

_REACH_SECONDS = 10.0
_NEEDS = "spreading work over a cluster needs Ray; install it with `python -m pip install 'toyspec[ray]'`"


class Ray(NamedTuple):
    """The cluster at *address*: ``local``, ``auto`` for the one that runs here, ``host:port``, or ``ray://host:port``.

    Its machines need toyspec, and reach the paths or addresses of the runs and of what is written under the same names.
    """

    address: str = LOCAL

    def start(self, call: Call) -> RayCrew:
        """See Workers."""
        try:
            import ray
        except ImportError as error:
            raise WorkersError(_NEEDS) from error
        is_own = not ray.is_initialized()
        if is_own:
            _connect(ray, self.address)
        return RayCrew(ray, call, is_own=is_own)


def _reach(address: str) -> None:
    """Raise OSError if nothing listens at *address*: Ray itself waits for minutes."""
    host, mark, port = address.removeprefix("ray://").rpartition(":")
    if mark and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=_REACH_SECONDS).close()


def _connect(ray: Any, address: str) -> None:
    own: dict[str, Any] = {"include_dashboard": False} if address == LOCAL else {}
    try:
        _reach(address)
        ray.init(None if address == LOCAL else address, log_to_driver=False, logging_level="ERROR", **own)
    except (OSError, OverflowError, RuntimeError, ValueError) as error:
        fact = str(error).strip().partition("\n")[0]
        raise WorkersError(
            f"no Ray cluster at {printable(address)}: {printable(fact)}; start one with `ray start --head`, "
            "or use --ray local"
        ) from None


class RayCrew:
    """See Crew. What a lost machine had is done again; Ray itself tries nothing twice."""

    def __init__(self, ray: Any, call: Call, *, is_own: bool) -> None:
        self._ray = ray
        self._is_own = is_own
        self._task = ray.remote(max_retries=0)(_work)
        self._call = ray.put((call, os.getcwd()))
        self._given: dict[Future[list[Any]], Any] = {}
        self._count()

    def _count(self) -> None:
        self.size = max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def submit(self, items: list[Any]) -> Future[list[Any]]:
        """See Crew."""
        task = self._task.remote(self._call, items)
        future: Future[list[Any]] = task.future()
        self._given = {each: its for each, its in self._given.items() if not each.done()} | {future: task}
        return future

    def loss(self, error: BaseException) -> WorkLoss | None:
        """See Crew. Raise the error of the work itself, which Ray has wrapped."""
        errors = self._ray.exceptions
        if isinstance(error, errors.RayTaskError):
            if isinstance(error.cause, MemoryError):
                return WorkLoss(OUT_OF_MEMORY)
            if isinstance(error.cause, Exception):
                raise error.cause
        if not isinstance(error, errors.RayError):
            return None
        self._count()
        known = {
            # Only what is not an Exception, such as a cancellation, comes here.
            errors.RayTaskError: "its task failed",
            errors.OutOfMemoryError: "it took more memory than its machine has",
            errors.WorkerCrashedError: "its worker process ended",
        }
        reason = next((text for kind, text in known.items() if isinstance(error, kind)), None)
        # Else it is the machine, or with it a result that was made.
        lost = f"its machine was lost ({type(error).__name__})"
        return WorkLoss(reason or lost, is_blameless=reason is None)

    def close(self) -> None:
        """See Crew."""
        for task in self._given.values():
            with contextlib.suppress(self._ray.exceptions.RayError, ValueError):
                self._ray.cancel(task, force=True)
        if self._is_own:
            self._ray.shutdown()


def _work(task: tuple[Call, str], items: list[Any]) -> list[Any]:
    call, directory = task
    # A path that the user gave may be relative.
    with contextlib.suppress(OSError):
        os.chdir(directory)
    return done(call, items)
