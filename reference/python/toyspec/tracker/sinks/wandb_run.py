"""Mirrors metrics to Weights & Biases, within a budget of bytes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from toyspec.system_calls import cause_of, say
from toyspec.tracker.sinks.sink import Ending, Numbering, Sink

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from toyspec.tracker.config import LogConfig
    from toyspec.tracker.histograms import GradientStatistics

_STEP = "train/step"
_GROUPS = ("train", "val", "system", "gradients")
_BYTES_PER_MB = 1_000_000


class WandbSink(Sink):
    """A run of Weights & Biases. No failure stops the training; the first one is reported on standard error.

    Counted is the JSON text of what is handed over. What would exceed the budget is not handed over, nor is anything
    after it.
    """

    __slots__ = ("_budget", "_has_failed", "_is_silent", "run")

    def __init__(self, config: LogConfig) -> None:
        """Start the run of *config*; ``run`` is None where that fails."""
        super().__init__(config.log_every)
        self._budget = int(config.max_wandb_mb * _BYTES_PER_MB)
        self._has_failed = False
        self._is_silent = False
        self.run: Any = None
        self._attempt(lambda: self._start(config))

    def log_step(self, step: int, metrics: Mapping[str, float], _numbering: Numbering, /) -> None:
        """Send ``train/<name>``."""
        self._log("train", step, metrics)

    def log_validation(self, step: int | None, metrics: Mapping[str, float], /) -> None:
        """Send ``val/<name>``."""
        self._log("val", step, metrics)

    def log_system(self, step: int | None, metrics: Mapping[str, float], /) -> None:
        """Send ``system/<name>``."""
        self._log("system", step, metrics)

    def log_gradient(self, step: int, name: str, statistics: GradientStatistics) -> None:
        """Send ``gradients/<name>``, a histogram."""
        if statistics.min is None:
            return
        counts, edges = list(statistics.histogram), statistics.edges()

        def send() -> None:
            import wandb

            self.run.log({f"gradients/{name}": wandb.Histogram(np_histogram=(counts, edges)), _STEP: step})

        self._send(send, {f"gradients/{name}": [counts, edges], _STEP: step})

    def finish(self, ending: Ending, /) -> None:
        """End the run there, as failed unless the training was completed."""
        run, self.run = self.run, None
        if run is not None:
            exit_code = ending.get("exit_code", int(ending["reason"] != "completed"))
            self._attempt(lambda: run.finish(exit_code=exit_code))

    def _log(self, group: str, step: int | None, metrics: Mapping[str, float]) -> None:
        payload: dict[str, float] = {f"{group}/{name}": value for name, value in metrics.items()}
        if step is not None:
            payload[_STEP] = step
        self._send(lambda: self.run.log(payload), payload)

    def _send(self, send: Callable[[], object], payload: object) -> None:
        """Hand *payload* over by *send*, when the budget still has room for it."""
        if self.run is None or self._is_silent:
            return
        size = len(json.dumps(payload).encode())
        if size > self._budget:
            self._is_silent = True
            say("Weights & Biases: max_wandb_mb is used up; nothing more is sent there, the other logs go on")
            return
        self._budget -= size
        self._attempt(send)

    def _start(self, config: LogConfig) -> None:
        import wandb

        hyperparameters = dict(config.hyperparameters)
        self._budget -= len(json.dumps([hyperparameters, config.tags, config.notes], default=str).encode())
        if self._budget < 0:
            raise ValueError("the settings of the run alone exceed max_wandb_mb")
        self.run = wandb.init(
            project=config.project,
            name=config.run_name,
            tags=list(config.tags),
            notes=config.notes,
            config=hyperparameters,
            resume="allow",
        )
        if self.run is not None:
            self.run.define_metric(_STEP)
            for group in _GROUPS:
                self.run.define_metric(f"{group}/*", step_metric=_STEP)

    def _attempt(self, action: Callable[[], object]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - whatever a foreign library raises, training goes on
            if not self._has_failed:
                self._has_failed = True
                say(f"Weights & Biases failed ({type(error).__name__}: {cause_of(error)}); the other logs go on")
