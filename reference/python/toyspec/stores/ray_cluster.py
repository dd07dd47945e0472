"""Workers that are tasks of a Ray cluster; Ray is imported when they start."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.core.errors import WorkersError
from toyspec.core.escaping import printable
from toyspec.core.workers.processes import OUT_OF_MEMORY
from toyspec.core.workers.running import Finished, passable

if TYPE_CHECKING:
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
        self._given: dict[Any, int] = {}
        self._count()

    def _count(self) -> None:
        self.size = max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def submit(self, key: int, items: list[Any]) -> None:
        """See Crew."""
        self._given[self._task.remote(self._call, items)] = key

    def finished(self) -> list[Finished]:
        """See Crew."""
        ready, _ = self._ray.wait(list(self._given), num_returns=1)
        return [self._result(each, self._given.pop(each)) for each in ready]

    def _result(self, future: Any, key: int) -> Finished:
        errors = self._ray.exceptions
        known = {
            # Only what is not an Exception, such as a cancellation, comes here.
            errors.RayTaskError: "its task failed",
            errors.OutOfMemoryError: "it took more memory than its machine has",
            errors.WorkerCrashedError: "its worker process ended",
        }
        try:
            found = self._ray.get(future)
        except errors.RayError as error:
            self._count()
            reason = next((text for kind, text in known.items() if isinstance(error, kind)), None)
            # Else it is the machine, or with it a result that was made.
            lost = f"its machine was lost ({type(error).__name__})"
            return Finished(key, [], reason or lost, is_blameless=reason is None)
        if isinstance(found, MemoryError):
            return Finished(key, [], OUT_OF_MEMORY)
        if isinstance(found, Exception):
            raise found
        return Finished(key, found)

    def close(self) -> None:
        """See Crew."""
        for future in self._given:
            with contextlib.suppress(self._ray.exceptions.RayError, ValueError):
                self._ray.cancel(future, force=True)
        self._given.clear()
        if self._is_own:
            self._ray.shutdown()


def _work(task: tuple[Call, str], items: list[Any]) -> list[Any] | Exception:
    """Return the results, or the exception, which Ray would replace by one of its own."""
    call, directory = task
    try:
        # A path that the user gave may be relative.
        with contextlib.suppress(OSError):
            os.chdir(directory)
        return call(items)
    except Exception as error:  # noqa: BLE001 - the process that gave the work raises it
        return passable(error)
