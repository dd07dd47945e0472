"""What a mirror needs of a service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from toyspec.errors import ToyspecError
from toyspec.format.date_times import unix_seconds
from toyspec.format.flattening import flattened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.mirrors.rows import SentRow
    from toyspec.mirrors.settings import Mirror
    from toyspec.reading.records import Record

_DEFAULT_PROJECT: Final = "toyspec"


class ServiceRefusedError(ToyspecError):
    """The service does not take the run, however often it is tried."""


class MirroredRun(NamedTuple):
    """What a service gets before the first row of a run."""

    identity: str
    """A text that no other run has."""
    run_id: str
    start: dict[str, Any]
    """The members of run_start."""
    started: float
    """Start of the run in seconds since the Unix epoch; 0 where it is not known."""
    project: str

    @property
    def name(self) -> str:
        """Name of the run for people."""
        name = self.start.get("name")
        return name if isinstance(name, str) and name else self.run_id

    @property
    def group(self) -> str | None:
        """The sweep or experiment that the run belongs to."""
        group = self.start.get("group")
        return group if isinstance(group, str) and group else None

    @property
    def config(self) -> dict[str, Any]:
        """The settings."""
        config = self.start.get("config")
        return config if isinstance(config, dict) else {}

    @property
    def settings(self) -> dict[str, Any]:
        """The settings by name; names of nested objects are joined by ``/``."""
        return dict(flattened(self.config))

    def wall(self, t: float) -> float:
        """Return *t* in seconds since the Unix epoch."""
        return self.started + t


class NumberedRow(NamedTuple):
    """A row, and its place in all that is sent."""

    number: int
    """Counted from 0."""
    row: SentRow


class Destination(Protocol):
    """A run in a service.

    A call may raise anything when the service does not answer; then ``close`` is called, and ``open`` before the next.
    """

    def open(self, run: MirroredRun, place: Any) -> int | None:
        """Start the run there or go on with it; return the number of rows that it has, None if it cannot say.

        *place* is what ``send`` has returned last; None where nothing was sent.
        """

    def missing(self, rows: Sequence[NumberedRow]) -> Sequence[NumberedRow]:
        """Return those of *rows* that the service does not have: they were sent, and not acknowledged."""

    def send(self, rows: Sequence[NumberedRow]) -> Any:
        """Send *rows* and return the place after them, a JSON value; they are acknowledged on return."""

    def finish(self, reason: str, t: float) -> None:
        """End the run there for *reason*, *t* seconds after its start."""

    def close(self) -> None:
        """Leave the run unchanged; it may be opened again."""


def mirrored(record: Record, identity: str, run_id: str, mirror: Mirror) -> MirroredRun:
    """Return the run that begins with *record*; *run_id* is its name where the record has none."""
    value = record.value if record.kind == "run_start" else {}
    name, group = value.get("run_id"), value.get("group")
    return MirroredRun(
        identity=identity,
        run_id=name if isinstance(name, str) and name else run_id,
        start=value,
        started=unix_seconds(value.get("started_at")) or 0.0,
        project=mirror.project or (group if isinstance(group, str) and group else _DEFAULT_PROJECT),
    )
