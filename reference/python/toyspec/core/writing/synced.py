"""Where a run is kept in step with while it is written."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

import msgspec

from toyspec.core.places.addresses import is_address, is_nearly_address, parts_of, public
from toyspec.core.writing.companions import CompanionOrder, CompanionProcess

if TYPE_CHECKING:
    from toyspec.core.writing.run_writer import RunWriter


class SyncOrder(msgspec.Struct, frozen=True):
    """What the process of a ``Sync`` is to do."""

    directory: str
    """The run."""
    sync: Sync


class Sync(msgspec.Struct, frozen=True):
    """A place that gets each run while it is written, and what may be waited for. See ``start_run``."""

    to: str
    """The place of the directory that the run is in, for example ``s3://bucket/runs``; or a directory."""
    every: float = 10.0
    """Seconds between two polls for new records."""
    wait: float = 30.0
    """Most seconds that the end of a run waits until the place has all of it; then a process goes on by itself."""
    patience: float = 300.0
    """Seconds for which an ended run is tried again while the place does not answer."""
    files: Literal["logs", "all"] = "logs"
    """Whether weights, artifacts and all other files of the run are sent too."""
    max_delay: float | None = None
    """Most seconds for which new lines wait where a stream is sent whole; None where only its bytes decide.

    Shorter ones cost more: see ``toyspec sync --help``.
    """

    def __post_init__(self) -> None:
        for name, least in (("every", 0.01), ("wait", 0.0), ("patience", 0.0), ("max_delay", 0.01)):
            value = getattr(self, name)
            if name == "max_delay" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < float("inf"):
                raise ValueError(f"{name} is {value!r}; it must be a number of seconds ≥ {least:g}")
        if self.files not in ("logs", "all"):
            raise ValueError(f"files is {self.files!r}; it must be 'logs' or 'all'")
        if is_address(self.to) and "@" in parts_of(self.to).host:
            raise ValueError("credentials in an address are not used; give them in the environment")
        if is_nearly_address(self.to):
            raise ValueError(f"to is {self.to!r}; an address has two slashes, and ./ before it is a path")
        to = public(self.to) if is_address(self.to) else os.path.abspath(self.to)
        msgspec.structs.force_setattr(self, "to", to)

    def started(self, run: RunWriter) -> CompanionProcess:
        """Return the process that sends *run* while it is written."""
        return CompanionProcess(self.order(run.events_path), run)

    def order(self, stream: str | os.PathLike[str]) -> CompanionOrder:
        """Return the process that keeps the run of the file *stream* in step."""
        return CompanionOrder(
            "toyspec.stores.companion",
            msgspec.json.encode(SyncOrder(os.path.dirname(os.path.abspath(stream)), self)),
            wait_seconds=self.wait,
            late=f"{self.to}: the rest of the run is still being sent",
        )


def synced(sync: Sync | str) -> Sync:
    """Return *sync*, or the place that it names."""
    return Sync(sync) if isinstance(sync, str) else sync
