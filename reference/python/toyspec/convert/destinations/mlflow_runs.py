"""Runs of MLflow, through its client: on a server, in a database or in a directory."""

from __future__ import annotations

import math
import os
import re
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from toyspec.convert.destinations.destination import (
    MAX_INT64,
    Destination,
    Lost,
    binary64_of,
    in_binary64,
    in_milliseconds,
    null_as_nan,
    without_step,
)
from toyspec.convert.reports import NO_PLACE, REPEATED, Cause
from toyspec.convert.sources import needed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toyspec.convert.destinations.destination import Ending, RunHead
    from toyspec.convert.run_items import Item, ItemRow

AS_TEXT = Cause("as-text", "changed", "a setting that is not a text is written as JSON text")
NAME = Cause("name", "changed", "a character that MLflow does not allow in names is written as its code: @ as _x40_")
REASON = Cause("reason", "changed", "MLflow knows finished, failed and killed only")

_RUN_TAG: Final = "toyspec.mirror"
_ROWS_TAG: Final = "toyspec.mirror.rows"
_METRICS: Final = 1000
_PARAMS: Final = 100
# MLflow allows the letters and digits of every script.
_NOT_ALLOWED: Final = re.compile(r"[^\w\-. :/]")
_LONGEST_NAME: Final = 250
_LONGEST_PARAM: Final = 6000
_STATUSES: Final = {"completed": "FINISHED", "errored": "FAILED", "aborted": "KILLED", "interrupted": "KILLED"}

_Key = tuple[str, int, int, float | None]


class MlflowRuns(Destination):
    """Runs of experiments.

    A tag of a run counts the rows that it has; of those sent after, the metrics that are there are asked for.
    """

    def __init__(self, into: str | None = None, artifacts: str | None = None) -> None:
        """Send runs to the tracking URI *into*; experiments that are made have the place *artifacts* for files."""
        super().__init__(into)
        self._client = needed("mlflow.tracking", "mlflow", "writing to MLflow").MlflowClient(into)
        self._entities = needed("mlflow.entities", "mlflow", "writing to MLflow")
        self._artifacts = {} if artifacts is None else {"artifact_location": artifacts}
        self._id = ""
        self._metrics: list[Any] = []
        self._params: dict[str, str] = {}

    @classmethod
    def exporting(cls, directory: str, target: str) -> Self:
        """Write the database ``mlflow.db``, which names its artifacts where they will be."""
        return cls(f"sqlite:///{os.path.join(directory, 'mlflow.db')}", os.path.join(target, "artifacts"))

    def open(self, run: RunHead, place: Any = None) -> int | None:
        """Find the run, or start it; return the number of rows that its tag counts."""
        del place
        self.run = run
        known = self._client.get_experiment_by_name(run.project)
        experiment = known.experiment_id if known else self._client.create_experiment(run.project, **self._artifacts)
        if run.identity:
            query = f"tags.`{_RUN_TAG}` = '{run.identity}'"
            for found in self._client.search_runs([experiment], query, max_results=1):
                self._id = found.info.run_id
                if found.info.status != "RUNNING":
                    self._client.update_run(self._id, status="RUNNING")
                return int(found.data.tags.get(_ROWS_TAG, 0))
        tags = {_RUN_TAG: run.identity, _ROWS_TAG: "0"} if run.identity else {}
        start = run.wall_ms(0.0)
        if start / 1000 != run.wall(0.0):
            self.notes.append("MLflow has the start of the run in whole milliseconds")
        made = self._client.create_run(experiment, start_time=start, tags=tags, run_name=run.name)
        self._id = str(made.info.run_id)
        return 0

    def missing(self, rows: Sequence[ItemRow]) -> Sequence[ItemRow]:
        """Return *rows* without the metrics that MLflow has."""
        names = {key[0] for row in rows for item in row.items if (key := self._key(item)) is not None}
        there = {
            (name, metric.step, metric.timestamp, None if math.isnan(metric.value) else metric.value)
            for name in names
            for metric in self._client.get_metric_history(self._id, name)
        }
        return [row._replace(items=tuple(each for each in row.items if self._key(each) not in there)) for row in rows]

    def put(self, rows: Sequence[ItemRow]) -> list[Lost]:
        """Log *rows*, then how many there are; settings and tags that are there stay the same."""
        self._metrics, self._params = [], {}
        lost = super().put(rows)
        params = [self._entities.Param(*each) for each in self._params.items()]
        for at in range(0, len(params), _PARAMS):
            self._client.log_batch(self._id, params=params[at : at + _PARAMS])
        for at in range(0, len(self._metrics), _METRICS):
            self._client.log_batch(self._id, metrics=self._metrics[at : at + _METRICS])
        if self.run.identity and rows and rows[-1].number >= 0:
            self._client.set_tag(self._id, _ROWS_TAG, str(rows[-1].number + 1))
        return lost

    def carry(self, item: Item) -> Iterator[Lost]:
        """Take metrics and settings; send tags."""
        match item.kind:
            case "measure":
                yield from self._measure(item)
            case "setting":
                yield from self._setting(item)
            case "end" if item.name == "reason" and item.value in _STATUSES:
                yield from self._end(item)
            case "fact" if isinstance(item.value, str) and item.value and item.name in ("name", "group", "notes"):
                if item.name == "notes":
                    self._client.set_tag(self._id, "mlflow.note.content", item.value)
            case "fact" if item.name == "tags" and _are_tags(item.value):
                for tag in item.value:
                    key, _, value = tag.partition("=")
                    self._client.set_tag(self._id, key, value)
            case _:
                yield Lost(NO_PLACE, item)

    def _key(self, item: Item) -> _Key | None:
        """Return name, step, time and number of a metric; None if MLflow has no place for *item*."""
        name = allowed_name(item.name) if item.kind == "measure" else ""
        step = item.step or 0
        if not name or step > MAX_INT64:
            return None
        value = binary64_of(item)
        return name, step, self.run.wall_ms(item.t), None if math.isnan(value) else value

    def _measure(self, item: Item) -> Iterator[Lost]:
        key = self._key(item)
        if key is None:
            yield Lost(NO_PLACE, item)
            return
        name, step, timestamp, _ = key
        self._metrics.append(self._entities.Metric(name, binary64_of(item), timestamp, step))
        yield from self._renamed(item, name)
        yield from without_step(item)
        yield from null_as_nan(item)
        yield from in_binary64(item)
        yield from in_milliseconds(item, self.run)

    def _setting(self, item: Item) -> Iterator[Lost]:
        name, value = allowed_name(item.name), item.value
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        if not name or len(text) > _LONGEST_PARAM:
            yield Lost(NO_PLACE, item)
        elif name in self._params:
            yield Lost(REPEATED, item)
        else:
            self._params[name] = text
            yield from self._renamed(item, name)
            if text is not value:
                yield Lost(AS_TEXT, item, value, text)

    def _renamed(self, item: Item, name: str) -> Iterator[Lost]:
        if name != item.name:
            yield Lost(NAME, item, item.name, name)

    def _end(self, item: Item) -> Iterator[Lost]:
        yield from in_milliseconds(item, self.run)
        if item.value == "interrupted":
            yield Lost(REASON, item, item.value, "KILLED")

    def close(self, end: Ending | None) -> None:
        """End the run as finished, failed or killed."""
        if end is not None:
            status = _STATUSES.get(end.reason, "FAILED")
            self._client.set_terminated(self._id, status, end_time=self.run.wall_ms(end.t))


def allowed_name(name: str) -> str:
    """Return *name* as MLflow allows it, two names never as the same one; an empty one if there is none."""
    allowed = _NOT_ALLOWED.sub(lambda found: f"_x{ord(found[0]):x}_", name)
    is_path = os.path.normpath(allowed) == allowed and allowed[:1] != "/"
    return allowed if is_path and len(allowed) <= _LONGEST_NAME else ""


def _are_tags(tags: Any) -> bool:
    """Return whether all of *tags* are texts whose keys MLflow allows."""
    keys = [tag.partition("=")[0] if isinstance(tag, str) else "" for tag in tags] if isinstance(tags, list) else [""]
    return all(key and allowed_name(key) == key for key in keys)
