"""Mirrors a run to MLflow, through its client: a server, a database or a directory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from toyspec.convert.extras import needed
from toyspec.convert.mlflow_export import BATCH, STATUSES, allowed_name, param_text
from toyspec.mirrors.rows import SentHistogram

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from toyspec.mirrors.destination import MirroredRun, NumberedRow
    from toyspec.mirrors.rows import SentRow
    from toyspec.mirrors.settings import Mirror

_RUN_TAG: Final = "toyspec.mirror"
_ROWS_TAG: Final = "toyspec.mirror.rows"
_PARAMS: Final = 100
_MAX_STEP: Final = (1 << 63) - 1
_MILLISECONDS: Final = 1000

_Key = tuple[str, int, int, float | None]


def destination(mirror: Mirror) -> MlflowRun:
    """Return the run of *mirror*; raise ImportError without MLflow."""
    return MlflowRun(
        needed("mlflow.tracking", "mlflow", "mirroring to MLflow").MlflowClient(mirror.into),
        needed("mlflow.entities", "mlflow", "mirroring to MLflow"),
    )


class MlflowRun:
    """One run of an experiment. Histograms are left out.

    A tag of the run counts the rows that it has; of those sent after, the metrics that are there are asked for.
    """

    def __init__(self, client: Any, entities: Any) -> None:
        self._client = client
        self._entities = entities
        self._run: MirroredRun | None = None
        self._id = ""

    def open(self, run: MirroredRun, place: Any) -> int | None:
        """Find the run, or start it."""
        del place
        self._run = run
        known = self._client.get_experiment_by_name(run.project)
        experiment = known.experiment_id if known else self._client.create_experiment(run.project)
        found = self._client.search_runs([experiment], f"tags.`{_RUN_TAG}` = '{run.identity}'", max_results=1)
        if not found:
            self._id = self._create(run, experiment)
            self._send_settings(run, known=())
            return 0
        self._id = found[0].info.run_id
        # A process that made the run may have been killed before it sent all settings.
        self._send_settings(run, known=found[0].data.params)
        if found[0].info.status != "RUNNING":
            self._client.update_run(self._id, status="RUNNING")
        return int(found[0].data.tags.get(_ROWS_TAG, 0))

    def missing(self, rows: Sequence[NumberedRow]) -> Sequence[NumberedRow]:
        """Return what MLflow does not have of *rows*."""
        wanted = {name for _, row in rows for name, *_ in self._keys(row)}
        there = {
            (name, metric.step, metric.timestamp, _key_value(metric.value))
            for name in wanted
            for metric in self._client.get_metric_history(self._id, name)
        }
        lacking = [_without(row, self._keys(row), there) for _, row in rows]
        return [item._replace(row=item.row._replace(values=values)) for item, values in zip(rows, lacking, strict=True)]

    def send(self, rows: Sequence[NumberedRow]) -> None:
        """Log the metrics of *rows*, then how many rows there are."""
        metrics = [
            self._entities.Metric(name, math.nan if value is None else value, timestamp, step)
            for _, row in rows
            for name, step, timestamp, value in self._keys(row)
            if name
        ]
        for at in range(0, len(metrics), BATCH):
            self._client.log_batch(self._id, metrics=metrics[at : at + BATCH])
        if rows:
            self._client.set_tag(self._id, _ROWS_TAG, str(rows[-1].number + 1))

    def finish(self, reason: str, t: float) -> None:
        """End the run as finished, failed or killed."""
        assert self._run is not None
        end = round(self._run.wall(t) * _MILLISECONDS)
        self._client.set_terminated(self._id, STATUSES.get(reason, "FAILED"), end_time=end)

    def close(self) -> None:
        """Leave the run unchanged."""

    def _create(self, run: MirroredRun, experiment: str) -> str:
        tags = {_RUN_TAG: run.identity, _ROWS_TAG: "0"}
        notes = run.start.get("notes")
        if isinstance(notes, str):
            tags["mlflow.note.content"] = notes
        start = round(run.wall(0.0) * _MILLISECONDS)
        made = self._client.create_run(experiment, start_time=start, tags=tags, run_name=run.name)
        return str(made.info.run_id)

    def _send_settings(self, run: MirroredRun, known: Container[str]) -> None:
        params = [
            self._entities.Param(allowed_name(name), text)
            for name, value in run.settings.items()
            if allowed_name(name) and allowed_name(name) not in known and (text := param_text(value)) is not None
        ]
        for at in range(0, len(params), _PARAMS):
            self._client.log_batch(self._id, params=params[at : at + _PARAMS])

    def _keys(self, row: SentRow) -> Iterator[_Key]:
        """Yield name, step, time in milliseconds and number of each value; an empty name where there is no place."""
        assert self._run is not None
        timestamp = round(self._run.wall(row.t) * _MILLISECONDS)
        for name, value in row.values.items():
            if isinstance(value, SentHistogram) or (row.step or 0) > _MAX_STEP:
                yield "", 0, timestamp, None
            else:
                yield allowed_name(name), row.step or 0, timestamp, value


def _key_value(value: float) -> float | None:
    return None if math.isnan(value) else value


def _without(row: SentRow, keys: Iterator[_Key], there: set[_Key]) -> dict[str, Any]:
    return {name: value for (name, value), key in zip(row.values.items(), keys, strict=True) if key not in there}
