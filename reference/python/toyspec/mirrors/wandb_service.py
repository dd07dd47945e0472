"""Mirrors a run to Weights & Biases, through its library: a server, or its offline mode."""

from __future__ import annotations

import glob
import math
import os
from typing import TYPE_CHECKING, Any, Final

from toyspec.convert.extras import needed
from toyspec.convert.wandb_leveldb import read_records
from toyspec.convert.wandb_messages import HISTORY, kind_and_body, pairs
from toyspec.files import open_file
from toyspec.mirrors.destination import ServiceRefusedError
from toyspec.mirrors.rows import SentHistogram

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.mirrors.destination import MirroredRun, NumberedRow
    from toyspec.mirrors.rows import Value
    from toyspec.mirrors.settings import Mirror

STEP: Final = "train/step"
"""The metric that W&B draws all others over; its own step counts the rows that were sent."""

_FINAL_ERRORS: Final = frozenset(["AuthenticationError", "UsageError"])
"""What W&B raises where no key is known, or a name is not allowed."""


def destination(mirror: Mirror) -> WandbRun:
    """Return the run of *mirror*; raise ImportError without wandb."""
    return WandbRun(needed("wandb", "wandb", "mirroring to W&B"), mirror.into)


class WandbRun:
    """One run of a project.

    The number of a row is its step in W&B. A server keeps the first row of each number, and says which comes next; of
    runs that it has not seen yet, the files of the offline mode say it.
    """

    def __init__(self, wandb: Any, directory: str | None) -> None:
        self._wandb = wandb
        self._directory = directory
        self._made: Any = None
        self._run: MirroredRun | None = None

    def open(self, run: MirroredRun, place: Any) -> int | None:
        """Start the run, or resume it, and return the number of its next row."""
        del place
        self._run = run
        if self._directory is not None:
            os.makedirs(self._directory, exist_ok=True)
        try:
            self._made = self._init(run)
        except Exception as error:
            if type(error).__name__ in _FINAL_ERRORS:
                raise ServiceRefusedError(f"W&B: {error}") from error
            raise
        self._made.define_metric(STEP)
        self._made.define_metric("*", step_metric=STEP)
        return max(int(self._made.step), _rows_in_files(self._made))

    def _init(self, run: MirroredRun) -> Any:
        return self._wandb.init(
            id=f"{run.run_id}-{run.identity}"[-128:],
            resume="allow",
            reinit="create_new",
            dir=self._directory,
            project=run.project,
            name=run.name,
            group=run.group,
            tags=_texts(run.start.get("tags")),
            notes=run.start.get("notes"),
            config=run.config,
            settings=self._wandb.Settings(
                silent=True, console="off", disable_git=True, disable_code=True, save_code=False,
                x_disable_stats=True, x_disable_meta=True,
            ),
        )  # fmt: skip

    def missing(self, rows: Sequence[NumberedRow]) -> Sequence[NumberedRow]:
        """Return *rows*: W&B has said which comes next."""
        return rows

    def send(self, rows: Sequence[NumberedRow]) -> None:
        """Hand *rows* to the library, which sends them from a process of its own."""
        assert self._run is not None
        for number, row in rows:
            if row.definition is not None:
                self._define(row.definition)
            if row.values:
                values = {name: self._shown(value) for name, value in row.values.items()}
                at = {} if row.step is None else {STEP: row.step}
                self._made.log({**values, **at, "_timestamp": self._run.wall(row.t)}, step=number, commit=True)

    def finish(self, reason: str, t: float) -> None:
        """Send the rest, and end the run: as failed unless it was completed."""
        del t
        self._finish(int(reason != "completed"))

    def close(self) -> None:
        """Send the rest, and leave the run as one that did not end."""
        self._finish(1)

    def _finish(self, exit_code: int) -> None:
        made, self._made = self._made, None
        if made is not None:
            made.finish(exit_code=exit_code)

    def _define(self, definition: dict[str, Any]) -> None:
        goal = definition.get("goal")
        step = definition.get("step_name")
        self._made.define_metric(
            definition["name"],
            step_metric=step if isinstance(step, str) and step else STEP,
            summary=goal if goal in ("min", "max") else None,
        )

    def _shown(self, value: Value) -> Any:
        if isinstance(value, SentHistogram):
            return self._wandb.Histogram(np_histogram=(value.counts, value.edges))
        return math.nan if value is None else value


def _texts(tags: Any) -> list[str] | None:
    return [str(tag) for tag in tags] if isinstance(tags, list) else None


def _rows_in_files(made: Any) -> int:
    """Return the number after the last row in earlier files of an offline run; 0 where there is none."""
    if not made.offline:
        return 0
    own = os.path.abspath(made.sync_dir)
    found = 0
    for path in glob.glob(os.path.join(glob.escape(os.path.dirname(own)), f"*-{glob.escape(made.id)}", "*.wandb")):
        if os.path.dirname(os.path.abspath(path)) != own:
            found = max(found, _rows_in(path))
    return found


def _rows_in(path: str) -> int:
    last = -1
    with open_file(path) as file:
        for record in read_records(file):
            kind, body = kind_and_body(record) if isinstance(record, bytes) else (0, b"")
            if kind == HISTORY:
                step = dict(pairs(body)).get("_step")
                last = max(last, step if isinstance(step, int) else -1)
    return last + 1
