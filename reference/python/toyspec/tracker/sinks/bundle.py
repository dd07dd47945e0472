"""Writes metrics as events of a toy/v1 bundle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.convert.mirrors.settings import Mirror, Selecting
from toyspec.core.writing.devices import device_memory, this_backend
from toyspec.core.writing.field_mapping import event_members
from toyspec.core.writing.processes import ALONE
from toyspec.core.writing.run_ids import DEFAULT_NAME, DEFAULT_TEMPLATE, run_id_from
from toyspec.core.writing.run_starting import start_run
from toyspec.tracker.sinks.sink import Numbering, Sink

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toyspec.tracker.config import LogConfig
    from toyspec.tracker.histograms import GradientStatistics

_EVALUATION = "validation"


class BundleSink(Sink):
    """The run of a logger. Where the training goes back there is a run_resume, as after the return to a checkpoint."""

    __slots__ = ("_sections", "writer")

    def __init__(self, config: LogConfig, *, process: int) -> None:
        """Start the run; raise FileExistsError only with ``exist="fail"``, StreamRefusedError if another writes it."""
        super().__init__(config.record_every)
        self._sections: list[str] = []
        suffix = f"-process{process}" if process else ""
        name = (config.model or {}).get("arch") or config.project or DEFAULT_NAME
        members: dict[str, Any] = {} if config.git is None else {"git": config.git}
        self.writer = start_run(
            config.runs_root or "",
            run_id=None if config.run_name is None else run_id_from(config.run_name) + suffix,
            template=DEFAULT_TEMPLATE.replace("{arch}", run_id_from(str(name))) + suffix,
            model=config.model,
            config=_run_config(config),
            backend=this_backend() if config.backend is None else config.backend,
            host=config.host,
            compare_to=config.compare_to,
            name=config.run_name,
            tags=list(config.tags) or None,
            notes=config.notes,
            exist=config.exist,
            companions=_mirrors(config),
            process=ALONE,
            clock=config.clock,
            **members,
        )

    def log_step(self, step: int, metrics: Mapping[str, float], _numbering: Numbering, /) -> None:
        """Write a step event."""
        # A step whose extra is sorted is written without a detour.
        self.writer.step(step, **event_members("step", dict(sorted(metrics.items()))))

    def go_back(self, step: int, /) -> None:
        """Write a run_resume, unless no later step than *step* is in the bundle."""
        last = self.writer.last_step
        if last is not None and step <= last:
            self.writer.run_resume(max(step - 1, 0))

    def log_validation(self, step: int | None, metrics: Mapping[str, float], /) -> None:
        """Write an eval event."""
        members = event_members("eval", metrics)
        self.writer.eval(_EVALUATION, step=step, **members)

    def log_system(self, step: int | None, metrics: Mapping[str, float], /) -> None:
        """Write a system event, with the memory of the device where it is not given."""
        members = event_members("system", metrics)
        memory = device_memory()
        if memory is not None and not members.keys() & {"memory_used_bytes", "memory_limit_bytes"}:
            members |= {"memory_used_bytes": memory.used, "memory_limit_bytes": memory.limit}
        self.writer.system(step=step, **members)

    def log_gradient(self, step: int, name: str, statistics: GradientStatistics) -> None:
        """Write a grad event."""
        self.writer.grad(name, step=step, **msgspec.structs.asdict(statistics))

    def enter_section(self, name: str) -> None:
        """Write a region_enter event."""
        self._sections.append(name)
        self.writer.region_enter(name)

    def exit_section(self, name: str, _seconds: float, /) -> None:
        """Write a region_exit event."""
        if self._sections and self._sections[-1] == name:
            self._sections.pop()
            self.writer.region_exit(name)

    def finish(self, error: BaseException | None, /) -> None:
        """Write what is missing of the regions, and run_end."""
        for name in reversed(self._sections):
            self.writer.region_exit(name)
        self.writer.close(error)


def _run_config(config: LogConfig) -> dict[str, Any]:
    """Return run_start.config: the settings of the run, and what else is known of it."""
    found: dict[str, Any] = {} if config.project is None else {"project": config.project}
    if config.record_every > 1:
        found["subsample"] = config.record_every
    return {**found, **config.hyperparameters}


def _mirrors(config: LogConfig) -> list[Mirror]:
    """Return the mirror in Weights & Biases, whose names are grouped as train, val and system."""
    if config.project is None:
        return []
    prefixes = {"step": "train/", "eval": "val/"}
    select = Selecting(every=config.log_every, megabytes=config.max_wandb_mb, prefixes=prefixes)
    return [Mirror(to="wandb", project=config.project, select=select)]
