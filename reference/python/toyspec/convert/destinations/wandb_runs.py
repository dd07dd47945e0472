"""Runs of Weights & Biases, through its library: on a server, or in files of its offline mode."""

from __future__ import annotations

import errno
import os
import time
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from toyspec.convert import wandb_files as messages
from toyspec.convert.destinations.destination import (
    Destination,
    Lost,
    ServiceRefusedError,
    null_as_nan,
    number_of,
    parts_left,
)
from toyspec.convert.intake import level_word
from toyspec.convert.reports import NO_PLACE, REPEATED, Cause
from toyspec.convert.sources import needed
from toyspec.convert.wandb_files import read_records
from toyspec.core.directories import Directory
from toyspec.core.files import open_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toyspec.convert.destinations.destination import Ending, RunHead
    from toyspec.convert.run_items import Item, ItemRow

CLOCK = Cause("clock", "changed", "the run has no start, so the value has the time of its sending")

_FRAMING: Final = frozenset(["_step", "_timestamp", "_runtime", messages.STEP_METRIC])
_FINAL_ERRORS: Final = frozenset(["AuthenticationError", "UsageError"])
"""What W&B raises where no key is known, or a name is not allowed."""
_MOST_BINS = 512
_LONGEST_WAIT = 60.0
_POLL = 0.05


class WandbRuns(Destination):
    """Runs of projects.

    The number of a row is its step in W&B. A server keeps the first row of each number, and says which comes next; in
    offline mode, a run that is opened again is written again from its first row.
    """

    carried: ClassVar = {"setting": None, "fact": ("name", "group", "tags", "notes"), "end": ("reason",)}

    def __init__(self, into: str | None = None, mode: str | None = None) -> None:
        """Write files into the directory *into*; *mode* None means that of ``WANDB_MODE``."""
        super().__init__(into)
        self._wandb = needed("wandb", "wandb", "writing to W&B")
        self._mode = mode
        self._made: Any = None
        self._values: dict[str, Any] = {}

    @classmethod
    def exporting(cls, directory: str, target: str) -> Self:  # noqa: ARG003 - its files do not name where they lie
        """Write files, whatever the mode is otherwise."""
        return cls(directory, "offline")

    def open(self, run: RunHead, place: Any = None) -> int | None:
        """Start the run, or resume it, and return the number of its next row."""
        self.run, self.place = run, place
        if self.into is not None:
            os.makedirs(self.into, exist_ok=True)
        try:
            self._made = self._init(run)
        except Exception as error:
            if type(error).__name__ in _FINAL_ERRORS:
                raise ServiceRefusedError(f"W&B: {error}") from error
            raise
        self._made.define_metric(messages.STEP_METRIC)
        self._made.define_metric("*", step_metric=messages.STEP_METRIC)
        received = int(self._made.step)
        # Rows without values, such as that of the end, are not sent: W&B has all rows where it has the last one sent.
        return None if received == place else received

    def _init(self, run: RunHead) -> Any:
        tags, notes = run.start.get("tags"), run.start.get("notes")
        # W&B writes messages and probes the machine by default; neither belongs to the run.
        return self._wandb.init(
            id=run.key[-128:], resume="allow", reinit="create_new", mode=self._mode, dir=self.into,
            project=run.project, name=run.name, group=run.group,
            tags=[str(tag) for tag in tags] if isinstance(tags, list) else None, notes=notes, config=run.config,
            settings=self._wandb.Settings(
                silent=True, console="off", disable_git=True, disable_code=True, save_code=False,
                x_disable_stats=True, x_disable_meta=True,
            ),
        )  # fmt: skip

    def put(self, rows: Sequence[ItemRow]) -> list[Lost]:
        """Hand *rows* to the library, which sends them from a process of its own."""
        lost: list[Lost] = []
        for row in rows:
            self._values = {}
            lost += super().put([row])
            if self._values:
                at = {} if row.step is None else {messages.STEP_METRIC: row.step}
                clock = {} if self.run.started is None else {"_timestamp": self.run.wall(row.t)}
                self._made.log({**self._values, **at, **clock}, step=row.number, commit=True)
                self.place = row.number + 1
        return lost

    def carry(self, item: Item) -> Iterator[Lost]:
        """Take the values of a row; send alerts and definitions."""
        match item.kind:
            case "measure":
                yield from self._value(item, number_of(item))
            case "text":
                yield from self._value(item, item.value)
            case "histogram" if len(item.value.counts) <= _MOST_BINS:
                bins = self._wandb.Histogram(np_histogram=(item.value.counts, item.value.edges))
                yield from self._value(item, bins)
            case "alert":
                level = level_word(item.value.get("level")).upper()
                title, text = str(item.value.get("rule")), str(item.value.get("text"))
                self._made.alert(title=title, text=text, level=level, wait_duration=0)
                yield from parts_left(item, "rule", "level", "text")
            case "definition" if isinstance(item.value.get("name"), str) and item.value["name"]:
                yield from self._define(item)
            case _:
                yield Lost(NO_PLACE, item)

    def _value(self, item: Item, value: Any) -> Iterator[Lost]:
        if item.name in self._values:
            yield Lost(REPEATED, item)
        elif item.name in _FRAMING and not (item.name == messages.STEP_METRIC and value == item.step):
            yield Lost(NO_PLACE, item)
        else:
            self._values[item.name] = value
            yield from null_as_nan(item)
            if self.run.started is None:
                yield Lost(CLOCK, item, item.t, "the time of sending")

    def _define(self, item: Item) -> Iterator[Lost]:
        goal, step = item.value.get("goal"), item.value.get("step_name")
        self._made.define_metric(
            item.value["name"],
            step_metric=step if isinstance(step, str) and step else messages.STEP_METRIC,
            summary=goal if goal in ("min", "max") else None,
        )
        return parts_left(item, "goal", "step_name")

    def close(self, end: Ending | None) -> None:
        """Send the rest, and end the run: as failed unless it was completed."""
        made, self._made = self._made, None
        if made is None:
            return
        if end is None:
            self.notes.append("the run has no end, which W&B has as exit code 1")
        made.finish(exit_code=int(end is None or end.reason != "completed"))

    def complete(self) -> None:
        """Wait for the ends of the runs, and remove links and logs of the writer, which are not part of them."""
        root = os.path.join(str(self.into), "wandb")
        if not os.path.isdir(root):
            return
        with Directory(root) as directory:
            for entry in list(os.scandir(root)):
                if entry.is_symlink() or entry.is_file():
                    directory.delete(entry.name)
                    continue
                _await_end(os.path.join(entry.path, f"run-{entry.name.split('-', 3)[-1]}.wandb"))
                with directory.folder(entry.name) as run:
                    run.delete_tree("logs")
                    run.delete_tree("tmp")


def _await_end(path: str) -> None:
    """Wait until the run file *path* has its exit record: W&B's service may write it after ``finish`` has returned."""
    end = time.monotonic() + _LONGEST_WAIT
    while not any(kind == messages.EXIT for kind, _ in _messages(path)):
        if time.monotonic() > end:
            raise OSError(errno.ETIMEDOUT, f"W&B has not written the end of the run in {_LONGEST_WAIT:g} s", path)
        time.sleep(_POLL)


def _messages(path: str) -> Iterator[tuple[int, bytes]]:
    """Yield kind and content of each record of a run file that can be read."""
    if os.path.isfile(path):
        with open_file(path) as file:
            yield from (messages.kind_and_body(record) for record in read_records(file) if isinstance(record, bytes))
