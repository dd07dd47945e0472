"""The seam between work and what does it: a crew is given batches and gives back results, or that a batch was lost."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

Call = Callable[[list[Any]], list[Any]]
"""Works on a batch: one result for each item, in order. It and the items can be pickled."""


class Finished(NamedTuple):
    """A batch that left a crew."""

    key: int
    results: list[Any]
    lost: str | None = None
    """What happened to the worker; None where there are results."""
    is_blameless: bool = False
    """True if the worker was lost for a reason outside it, such as the loss of its machine."""


class CrewEndedError(Exception):
    """Another thread has ended the workers."""


class Crew(Protocol):
    """Workers that have started."""

    @property
    def size(self) -> int:
        """Number of batches to give them at once."""

    def submit(self, key: int, items: list[Any]) -> None:
        """Let a worker do the batch *items*."""

    def finished(self) -> list[Finished]:
        """Wait for at least one batch and return those that are done; an exception of the work is raised."""

    def close(self) -> None:
        """End the workers, without waiting for batches that nothing waits for."""


class Workers(Protocol):
    """What can do the work."""

    def start(self, call: Call) -> Crew:
        """Return a crew that does *call*. Raise WorkersError."""


def passable(error: Exception) -> Exception:
    """Return *error*, or one with its words if it does not survive being passed."""
    try:
        # A copy is made by the same calls as an exception on the other side of a pipe.
        copy.deepcopy(error)
    except Exception:  # noqa: BLE001 - whatever its class does
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
