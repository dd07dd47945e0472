"""What exports and mirrors need of a tool: open a run, put rows into it, close it; and every tool that there is."""

from __future__ import annotations

import math
import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self, cast

from toyspec.convert.formats import converters
from toyspec.convert.reports import MILLISECONDS, NO_PLACE, NULL, PART_DROPPED, ROUNDED, WITHOUT_STEP, Cause
from toyspec.convert.run_items import flat_settings
from toyspec.core.errors import ToyspecError
from toyspec.core.format.date_times import unix_seconds
from toyspec.core.writing.run_ids import run_id_from

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from toyspec.convert.reports import Ledger
    from toyspec.convert.run_items import Item, ItemRow
    from toyspec.core.reading.records import Record

DEFAULT_PROJECT: Final = "toyspec"
BATCH: Final = 500
"""Most rows in one call of ``put``."""
MAX_INT64: Final = (1 << 63) - 1
_FRAMING: Final = frozenset(["kind", "t", "phase", "step", "name", "sha256", "size_bytes", "media_type"])


class ServiceRefusedError(ToyspecError):
    """The service does not take the run, however often it is tried."""


class RunHead(NamedTuple):
    """What a destination gets before the first row of a run."""

    run_id: str
    start: dict[str, Any]
    """The members of run_start, with what annotations say in place of them."""
    started: float | None
    """Start of the run in seconds since the Unix epoch; None where it is not known."""
    project: str = DEFAULT_PROJECT
    identity: str = ""
    """A text that no other run has; empty where the run id is such a text, as in an export."""

    @classmethod
    def of(cls, stream: str, start: dict[str, Any], *, project: str | None = None, identity: str = "") -> Self:
        """Return the head of the run in the file *stream* that begins with *start*; its group is the project."""
        folder = os.path.dirname(os.path.abspath(stream))
        name, group = (text if isinstance(text := start.get(key), str) else "" for key in ("run_id", "group"))
        return cls(
            run_id=run_id_from(name or os.path.basename(folder)),
            start=start,
            started=unix_seconds(start.get("started_at")),
            project=project or group or DEFAULT_PROJECT,
            identity=identity,
        )

    @property
    def key(self) -> str:
        """The run id, and the identity if there is one."""
        return f"{self.run_id}-{self.identity}" if self.identity else self.run_id

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
        return dict(flat_settings(self.config))

    def wall(self, t: float) -> float:
        """Return *t* in seconds since the Unix epoch; since the start of the run where that is not known."""
        return (self.started or 0.0) + t

    def wall_ms(self, t: float) -> int:
        """Return what ``wall`` does, in whole milliseconds."""
        return round(self.wall(t) * 1000)


class Ending(NamedTuple):
    """How a run ended."""

    reason: str
    t: float
    offset: int
    """Where its record begins in the stream."""

    @classmethod
    def after(cls, record: Record, before: Self | None) -> Self | None:
        """Return how a run has ended once it has *record*, None if it goes on; *before* is its end before that."""
        if record.end is not None:
            return cls(str(record.get("reason") or "completed"), float(record.time or 0.0), record.offset)
        return None if record.goes_on else before


class Lost(NamedTuple):
    """What a destination has changed or dropped of an item."""

    cause: Cause
    item: Item
    value: object = None
    """The value, or the part of it, that is changed; None for that of the item."""
    became: object = None


class Destination:
    """A place for the runs of one tool, several one after the other; a subclass is the tool.

    A call may raise anything when the service does not answer; then ``close(None)`` is called, and ``open`` before the
    next.
    """

    carried: ClassVar[Mapping[str, Container[str] | None]] = {}
    """Names of what is carried when a run is opened or closed, by kind of items; None for all of a kind."""
    place: Any = None
    """Where the next row goes, as a JSON value, for a tool that does not know what it has."""

    def __init__(self, into: str | None = None) -> None:
        """Send runs *into* a place as the tool understands it; None means the one that the tool is configured for.

        Raise ImportError without the package of the tool, ServiceRefusedError for a place that cannot be.
        """
        self.into = into
        self.run: RunHead
        self.notes: list[str] = []
        """Facts about the run as a whole, for the report of an export."""

    @classmethod
    def exporting(cls, directory: str, target: str) -> Self:  # noqa: ARG003 - for files that name where they lie
        """Return the destination that writes files into *directory*, from where they are moved to *target*."""
        return cls(directory)

    def open(self, run: RunHead, place: Any = None) -> int | None:
        """Start *run* there, or go on with it; return the number of rows that it has, None if that is not known.

        What is in run_start is carried here; its row is put after each ``open``. *place* is that after the last row
        that was put; None where there is none.
        """
        raise NotImplementedError

    def missing(self, rows: Sequence[ItemRow]) -> Sequence[ItemRow]:
        """Return those of *rows* that the run does not have there: they were put, and not acknowledged."""
        return rows

    def put(self, rows: Sequence[ItemRow]) -> list[Lost]:
        """Carry *rows*, which are acknowledged on return; return what of their items is changed or dropped."""
        items = ((item, self.carried.get(item.kind, ())) for row in rows for item in row.items)
        left = (item for item, names in items if names is not None and item.name not in names)
        return [lost for item in left for lost in self.carry(item)]

    def carry(self, item: Item) -> Iterable[Lost]:
        """Carry one item; yield what is changed, or that it is dropped."""
        return [Lost(NO_PLACE, item)]

    def close(self, end: Ending | None) -> None:
        """End the run, or, with None, leave it as one that may be opened again, and hold nothing."""

    def complete(self) -> None:
        """Complete the files of an export before they are moved."""


def settle(ledger: Ledger, rows: Sequence[ItemRow], losses: Sequence[Lost]) -> None:
    """Count the items of *rows* in *ledger*: each is carried, but for the *losses* that a destination has returned."""
    found: dict[int, list[Lost]] = {}
    for lost in losses:
        found.setdefault(id(lost.item), []).append(lost)
    for row in rows:
        for item in row.items:
            ledger.items, ledger.kind = ledger.items + 1, item.of
            dropped = None
            for lost in found.get(id(item), ()):
                value = item.shown if lost.value is None else lost.value
                if lost.cause.effect == "dropped":
                    dropped = dropped or (lost.cause, item.place, value)
                else:
                    ledger.changed(lost.cause, item.place, value, lost.became)
            if dropped is None:
                ledger.done()
            else:
                ledger.drop(*dropped)


def without_step(item: Item) -> Iterator[Lost]:
    """Yield that *item* is written at step 0, if it has no step."""
    if item.step is None:
        yield Lost(WITHOUT_STEP, item, "no step", 0)


def null_as_nan(item: Item) -> Iterator[Lost]:
    """Yield that *item* is written as NaN, if it is null."""
    if item.value is None:
        yield Lost(NULL, item, "null", "nan")


def in_milliseconds(item: Item, run: RunHead) -> Iterator[Lost]:
    """Yield that the time of *item* is rounded, if it is."""
    wall, stamp = run.wall(item.t), run.wall_ms(item.t)
    if stamp / 1000 != wall:
        yield Lost(MILLISECONDS, item, wall, stamp / 1000)


def parts_left(item: Item, *kept: str) -> Iterator[Lost]:
    """Yield the members of the record *item* that have no place: all but *kept* and those that every record has."""
    left = sorted(item.value.keys() - _FRAMING - set(kept))
    if left:
        yield Lost(PART_DROPPED, item, ", ".join(left))


def number_of(item: Item) -> float:
    """Return the number of a measure, integers unchanged; NaN for null."""
    return math.nan if item.value is None else item.value


def binary64_of(item: Item) -> float:
    """Return the binary64 that is nearest to the number of a measure; NaN for null."""
    try:
        return float(number_of(item))
    except OverflowError:
        return math.inf if item.value > 0 else -math.inf


def in_binary64(item: Item) -> Iterator[Lost]:
    """Yield that the number of a measure is rounded to binary64, if it is."""
    rounded = binary64_of(item)
    if rounded != number_of(item) and not math.isnan(rounded):
        yield Lost(ROUNDED, item, item.value, rounded)


class Tool(NamedTuple):
    """Where the destination of a tool is."""

    module: str
    destination: str
    extra: str | None = None
    """The extra to install."""


TOOLS: Final = {
    "tensorboard": Tool("tensorboard_events", "TensorboardEvents"),
    "wandb": Tool("wandb_runs", "WandbRuns", "wandb"),
    "mlflow": Tool("mlflow_runs", "MlflowRuns", "mlflow"),
}


def destination_of(name: str) -> type[Destination]:
    """Return the destination of the tool *name*; one of another package if none of ours has the name."""
    if name not in TOOLS:
        brought = converters()[name].destination
        assert brought is not None, "no name that `exportable` returns"
        return brought
    tool = TOOLS[name]
    found = getattr(import_module(f"toyspec.convert.destinations.{tool.module}"), tool.destination)
    return cast("type[Destination]", found)


def exportable() -> list[str]:
    """Return the names of the formats that can be exported to, those of other packages last."""
    others = [name for name, each in converters().items() if each.destination is not None and name not in TOOLS]
    return [*TOOLS, *others]
