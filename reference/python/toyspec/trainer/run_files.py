"""All files of a run: the two logs, the graph and the checkpoints. A disk that is full stops them, not the training."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.core.errors import ToyspecError
from toyspec.core.format.profiles import METRICS_FILE
from toyspec.core.generated.metrics_v1 import MetricsEntry
from toyspec.core.metrics.log import MetricsLog
from toyspec.core.system_calls import SYSTEM_CALLS, cause_of, say
from toyspec.core.writing.opening import keep
from toyspec.trainer.checkpoints import WEIGHTS_DIRECTORY, save_checkpoint, write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from toyspec.core.writing.run_writer import RunWriter
    from toyspec.trainer.checkpoints import CheckpointFacts, TrainingProgress
    from toyspec.trainer.language_model import LanguageModel

FLOW_FILE = "flow.json"


class StepResult(NamedTuple):
    """What is recorded of a step."""

    step: int
    loss: float
    ppl: float
    lr: float
    grad_norm: float
    tokens: int
    samples: int
    compute_us: int
    wall_us: int


class TrainingFiles:
    """The files of one run beside and including its stream, which *log* writes.

    What fails is said once on standard error, and not tried again. When the stream could not be opened, nothing
    else is written: the directory may be another writer's.
    """

    def __init__(self, log: RunWriter, facts: CheckpointFacts) -> None:
        self.log = log
        self._directory = log.directory
        self.facts = facts
        """What each checkpoint says beside the numbers."""
        self._metrics: MetricsLog | None = None
        self._measured = 0
        self._is_usable = log.active
        self._given_up: set[str] = set()

    @property
    def weights(self) -> str:
        """Path of the directory with the checkpoints."""
        return os.path.join(self._directory, WEIGHTS_DIRECTORY)

    def start(self, graph: Mapping[str, Any]) -> None:
        """Begin a new run, after its run_start; files of one that it replaces move to ``.prev``."""
        for name in (METRICS_FILE, WEIGHTS_DIRECTORY):
            self._attempt(name, lambda name=name: _move_to_prev(os.path.join(self._directory, name)))  # type: ignore[misc]
        self._attempt(FLOW_FILE, lambda: write_json(os.path.join(self._directory, FLOW_FILE), graph))
        self._attempt(METRICS_FILE, self._open_metrics)

    def resume(self, furthest_step: int) -> float:
        """Resume a run that had reached *furthest_step*; return the seconds that its metrics log covers.

        The steps that are repeated compute the same numbers, so the metrics log keeps the lines that it has.
        """
        self._attempt(METRICS_FILE, self._open_metrics)
        if self._measured > furthest_step:
            # It is left from a run that this one had begun to replace when it was killed.
            self._attempt(METRICS_FILE, self._replace_metrics)
        entries = list(self._metrics or ())
        return entries[-1].wall_time_ms / 1000 if entries else 0.0

    def step(self, result: StepResult, elapsed: float) -> None:
        """Record a step that ended *elapsed* seconds after the start of training."""
        self.log.step(
            result.step,
            loss=result.loss,
            ppl=result.ppl,
            lr=result.lr,
            grad_norm=result.grad_norm,
            tokens=result.tokens,
            compute_us=result.compute_us,
            wall_us=result.wall_us,
        )
        metrics = self._metrics
        if metrics is not None and result.step > self._measured:
            entry = MetricsEntry(
                step=result.step,
                wall_time_ms=elapsed * 1000,
                loss=result.loss,
                grad_norm=result.grad_norm,
                throughput_samples_per_sec=result.samples / result.wall_us * 1e6 if result.wall_us else math.nan,
                extra={},
            )
            self._attempt(METRICS_FILE, lambda: metrics.record(entry))

    def checkpoint(self, model: LanguageModel, progress: TrainingProgress) -> None:
        """Save what is needed to go on from here."""
        self._attempt(WEIGHTS_DIRECTORY, lambda: save_checkpoint(self.weights, model, progress, self.facts))

    def close(self) -> None:
        """Close the metrics log."""
        if self._metrics is not None:
            self._attempt(METRICS_FILE, self._metrics.close)

    def _open_metrics(self) -> None:
        self._metrics = MetricsLog.open(os.path.join(self._directory, METRICS_FILE))
        self._measured = max((entry.step for entry in self._metrics), default=0)

    def _replace_metrics(self) -> None:
        if self._metrics is not None:
            self._metrics.close()
        _move_to_prev(os.path.join(self._directory, METRICS_FILE))
        self._open_metrics()

    def _attempt(self, what: str, action: Callable[[], object]) -> None:
        if not self._is_usable or what in self._given_up:
            return
        try:
            action()
        except (OSError, ToyspecError) as error:
            self._given_up.add(what)
            if what == METRICS_FILE:
                self._metrics = None
            say(f"{os.path.join(self._directory, what)}: {cause_of(error)}; training continues without it")


def _move_to_prev(path: str) -> None:
    if os.path.lexists(path):
        keep(path, SYSTEM_CALLS)
