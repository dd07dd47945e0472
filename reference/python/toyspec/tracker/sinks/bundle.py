"""Writes metrics as events of a toy/v1 bundle."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.mirrors.settings import Mirror, Selecting
from toyspec.system_calls import cause_of, say
from toyspec.tracker.sinks.sink import Ending, Numbering, Sink
from toyspec.writing.devices import device_memory, this_backend
from toyspec.writing.environment import git_revision
from toyspec.writing.field_mapping import event_members
from toyspec.writing.run_ids import DEFAULT_NAME, DEFAULT_TEMPLATE, claim_directory, run_id_from
from toyspec.writing.run_writer import RunWriter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toyspec.tracker.config import LogConfig
    from toyspec.tracker.histograms import GradientStatistics

_EVALUATION = "validation"


class BundleSink(Sink):
    """A bundle that stays valid in whatever order the steps come.

    Where the training goes back there is a run_resume, as after the return to a checkpoint. A step that comes twice in
    a row, and a step 0 after that, is kept as a note.
    """

    __slots__ = ("_last", "_must_resume", "_sections", "_told", "writer")

    def __init__(self, config: LogConfig, writer: RunWriter) -> None:
        super().__init__(config.record_every)
        self.writer = writer
        self._last = writer.last_step
        self._sections: list[str] = []
        self._must_resume = writer.resumes
        self._told: list[str] = []
        if not self._must_resume:
            writer.run_start(
                model=config.model,
                config=_run_config(config),
                backend=this_backend() if config.backend is None else config.backend,
                host=config.host,
                git=git_revision() if config.git is None else config.git,
                compare_to=config.compare_to,
                name=config.run_name,
                tags=list(config.tags) or None,
                notes=config.notes,
            )

    @classmethod
    def open(cls, config: LogConfig, *, process: int) -> BundleSink | None:
        """Return the bundle of *config*; None where its folder cannot be made, which is reported on standard error.

        Raise FileExistsError only with ``exist="fail"``, StreamRefusedError only for a run that has ended, with
        ``exist="resume"``.
        """
        try:
            directory = _directory(config, process)
        except OSError as error:
            say(f"{os.fspath(config.runs_root or '')}: {cause_of(error)}; no bundle is written; the program continues")
            return None
        return cls(config, RunWriter(directory, exist=config.exist, mirrors=_mirrors(config), clock=config.clock))

    def log_step(self, step: int, metrics: Mapping[str, float], _numbering: Numbering, /) -> None:
        """Write a step event."""
        if self._must_resume:
            self._resume(step - 1)
        if self._last is not None and step <= self._last:
            self._keep_as_note(step, metrics)
            return
        self.writer.step(step, **event_members("step", metrics))
        self._last = step

    def go_back(self, step: int, /) -> None:
        """Write a run_resume, unless no later step than *step* is in the bundle."""
        if self._last is not None and step <= self._last:
            self._tell("goes back", f"training continues at step {step} after step {self._last}")
            self._resume(step - 1)

    def log_validation(self, step: int | None, metrics: Mapping[str, float], /) -> None:
        """Write an eval event."""
        self._resume_where_left()
        members = event_members("eval", metrics)
        self.writer.eval(_EVALUATION, step=step, **members)

    def log_system(self, step: int | None, metrics: Mapping[str, float], /) -> None:
        """Write a system event, with the memory of the device where it is not given."""
        self._resume_where_left()
        members = event_members("system", metrics)
        memory = device_memory()
        if memory is not None and not members.keys() & {"memory_used_bytes", "memory_limit_bytes"}:
            members |= {"memory_used_bytes": memory.used, "memory_limit_bytes": memory.limit}
        self.writer.system(step=step, **members)

    def log_gradient(self, step: int, name: str, statistics: GradientStatistics) -> None:
        """Write a grad event."""
        self._resume_where_left()
        self.writer.grad(name, step=step, **msgspec.structs.asdict(statistics))

    def enter_section(self, name: str) -> None:
        """Write a region_enter event."""
        self._resume_where_left()
        self._sections.append(name)
        self.writer.region_enter(name)

    def exit_section(self, name: str, _seconds: float, /) -> None:
        """Write a region_exit event."""
        if self._sections and self._sections[-1] == name:
            self._sections.pop()
            self.writer.region_exit(name)

    def finish(self, ending: Ending, /) -> None:
        """Write what is missing of the regions, and run_end."""
        self._resume_where_left()
        for name in reversed(self._sections):
            self.writer.region_exit(name)
        self.writer.run_end(**ending)
        self.writer.close()

    def _keep_as_note(self, step: int, metrics: Mapping[str, float]) -> None:
        fact = f"step {step} was logged again"
        self._tell("repeats", f"{fact}; the bundle keeps it as a note")
        self.writer.note(f"{fact}: {msgspec.json.encode(dict(metrics)).decode()}", step=step)

    def _tell(self, subject: str, fact: str) -> None:
        """Say *fact* on standard error, unless one of its *subject* was said before."""
        if subject not in self._told:
            self._told.append(subject)
            say(f"{self.writer.events_path}: {fact}")

    def _resume(self, from_step: int) -> None:
        self._must_resume = False
        self._last = max(from_step, 0)
        self.writer.run_resume(self._last)

    def _resume_where_left(self) -> None:
        if self._must_resume:
            self._resume(self._last or 0)


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


def _directory(config: LogConfig, process: int) -> str:
    """Return the folder of the run; one without a name gets the next free one of its day."""
    assert config.runs_root is not None, "a bundle has a place"
    root = os.fspath(config.runs_root)
    suffix = f"-process{process}" if process else ""
    if config.run_name is not None:
        return os.path.join(root, run_id_from(config.run_name) + suffix)
    arch = (config.model or {}).get("arch") or config.project or DEFAULT_NAME
    return claim_directory(root, DEFAULT_TEMPLATE + suffix, arch=run_id_from(str(arch)), wall=config.clock.wall())
