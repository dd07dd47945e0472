"""A run from its start, or from its last checkpoint, to its end."""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from toyspec.core.generated.metrics_v1 import MetricsEntry
from toyspec.core.generated.toy_v1 import Backend, Git, Host
from toyspec.core.system_calls import say
from toyspec.core.writing.clocks import SYSTEM_CLOCK, Clock, Stopwatch
from toyspec.core.writing.environment import git_revision, this_host
from toyspec.core.writing.run_writer import RunWriter
from toyspec.trainer.earlier_runs import perplexity
from toyspec.trainer.language_model import LOSS_NAME, TEXT_NAME, LanguageModel, shipped_text
from toyspec.trainer.run_files import (
    CheckpointError,
    CheckpointFacts,
    TrainingFiles,
    TrainingProgress,
    load_checkpoint,
    saved_steps,
)
from toyspec.trainer.settings import SettingsError
from toyspec.trainer.stepping import AdamW, grad_norm, grad_norms

if TYPE_CHECKING:
    from collections.abc import Callable

    from toyspec.trainer.earlier_runs import Baseline, Interrupted
    from toyspec.trainer.settings import GateVerdict, TrainingSettings


_FIXED_START = 1780219800.0
"""2026-05-31T09:30:00Z"""
_FIXED_STEP_SECONDS = 0.01


class FixedClock:
    """Time that passes 10 ms a step, from a fixed start, so that two equal runs write equal bytes."""

    def __init__(self) -> None:
        self._passed = 0.0

    def monotonic(self) -> float:
        """Return the seconds that have passed."""
        return self._passed

    def wall(self) -> float:
        """Return the fixed start and the seconds that have passed since."""
        return _FIXED_START + self._passed

    def step_is_done(self) -> None:
        """Let 10 ms pass."""
        self._passed += _FIXED_STEP_SECONDS


class Environment(NamedTuple):
    """The members of run_start other than model and settings."""

    host: Host
    backend: Backend
    git: Git | None
    """None outside a working tree."""
    clock: Clock


def real_environment() -> Environment:
    """Return the environment of this process."""
    host = this_host()
    backend = Backend(kind="cpu", device=host.arch, compute=f"numpy {np.__version__}")
    return Environment(host, backend, git_revision(), SYSTEM_CLOCK)


def fixed_environment() -> Environment:
    """Return a constant environment, the same everywhere and at any time."""
    return Environment(
        Host(name="host", os="linux", arch="x86_64"),
        Backend(kind="cpu", device="x86_64", compute="numpy"),
        Git(sha="0" * 40, branch="main", dirty=False),
        FixedClock(),
    )


ENVIRONMENTS = {"real": real_environment, "fixed": fixed_environment}
"""By the value of ``--clock``."""

EVALUATION = "held-out"
"""Name of the evaluation in a log: the end of the text, which is not trained on."""
PROMPT = "The keeper"
SAMPLE_CHARACTERS = 120

_GIVEN_UP = 3
"""The exit status; not 2, which says that the command line was wrong."""


class Outcome(NamedTuple):
    """How a run ended."""

    exit_code: int
    results: TrainingProgress
    gate: GateVerdict | None
    """None without a gate, and when the run was aborted."""
    aborted: str | None
    """Why the run was given up; None when it was not."""


class Training:
    """One run: its model, its files, and how far it has come."""

    def __init__(
        self,
        directory: str,
        settings: TrainingSettings,
        environment: Environment,
        *,
        on_step: Callable[[int, float], None],
        baseline: Baseline | None = None,
    ) -> None:
        """Train in *directory*, whose name is the run's id; *on_step* is called with number and loss of each step."""
        self._directory = directory
        self._settings = settings
        self._environment = environment
        self._clock = environment.clock
        self._baseline = baseline
        self._on_step = on_step
        self._text = shipped_text()
        self._model = LanguageModel(len(self._text.vocabulary), settings.seed)
        self._optimizer = AdamW(lr=settings.lr)
        self._unseen = self._text.evaluation(self._model)
        self._config = _config_of(settings, self._model, self._optimizer)
        self._progress = TrainingProgress()

    def start(self) -> Outcome:
        """Train from the beginning; a run that is in the directory is replaced."""
        with RunWriter(self._directory, exist="replace", clock=self._clock) as log:
            files = TrainingFiles(log, self._facts(log))
            log.run_start(
                model=self._model.described(),
                config=self._config,
                backend=self._environment.backend,
                host=self._environment.host,
                git=self._environment.git,
                phase="train",
                compare_to=None if self._baseline is None else self._baseline.run_id,
            )
            files.start()
            return self._train(files, Stopwatch(self._clock))

    def resume(self, was: Interrupted) -> Outcome:
        """Train on from the last checkpoint, or from the beginning where there is none.

        The numbers are those of a run that was never interrupted. Raises SettingsError when the stream cannot be
        written; the cause is on standard error.
        """
        with RunWriter(self._directory, exist="resume", clock=self._clock) as log:
            if not log.active:
                raise SettingsError(f"{log.events_path}: the run cannot be resumed")
            files = TrainingFiles(log, self._facts(log))
            self._load(files)
            log.run_resume(self._progress.step)
            told = max(was.last_time, files.resume(was.furthest_step))
            return self._train(files, Stopwatch(self._clock, last=told))

    def _facts(self, log: RunWriter) -> CheckpointFacts:
        return CheckpointFacts(log.run_id, self._config, self._text.vocabulary)

    def _load(self, files: TrainingFiles) -> None:
        for step in saved_steps(files.weights):
            try:
                self._progress = load_checkpoint(files.weights, step, self._model, files.facts)
            except (CheckpointError, OSError) as error:
                say(f"{error}; looking for an older checkpoint")
            else:
                return

    def _train(self, files: TrainingFiles, watch: Stopwatch) -> Outcome:
        aborted = None
        with contextlib.closing(files):
            ended = self._clock.monotonic()
            while self._progress.step < self._settings.steps and aborted is None:
                ended = self._step(files, watch, ended)
                aborted = self._evaluate(files)
                if self._is_due(self._settings.checkpoint_every):
                    files.checkpoint(self._model, self._progress)
            return self._end(files.log, aborted)

    def _step(self, files: TrainingFiles, watch: Stopwatch, ended: float) -> float:
        """Take one step, record it, and return when it ended; the one before had *ended* at that time."""
        step = self._progress.step + 1
        batch = self._text.batch(self._model, self._settings.seed, step)
        began = self._clock.monotonic()
        loss = self._model.train(batch, self._optimizer)
        if isinstance(self._clock, FixedClock):
            self._clock.step_is_done()
        now = self._clock.monotonic()
        self._progress = self._progress._replace(step=step, loss=loss)
        if step == 1:
            self._progress = self._progress._replace(first_loss=loss)
        norm, wall_us = grad_norm(grad_norms(self._model.parameters)), round((now - ended) * 1e6)
        files.log.step(
            step=step,
            loss=loss,
            ppl=perplexity(loss),
            lr=self._optimizer.lr,
            grad_norm=norm,
            tokens=batch.targets.size,
            compute_us=round((now - began) * 1e6),
            wall_us=wall_us,
        )
        files.measure(
            MetricsEntry(
                step=step,
                wall_time_ms=watch.seconds() * 1000,
                loss=loss,
                grad_norm=norm,
                throughput_samples_per_sec=len(batch.inputs) / wall_us * 1e6 if wall_us else math.nan,
                extra={},
            )
        )
        self._on_step(step, loss)
        return now

    def _evaluate(self, files: TrainingFiles) -> str | None:
        """Evaluate, compare and write text where it is due; return why the run should be given up, None to go on."""
        settings, step, log = self._settings, self._progress.step, files.log
        evaluated = None
        if self._is_due(settings.eval_every):
            evaluated, samples = self._model.evaluate(self._unseen)
            log.eval(EVALUATION, step=step, loss=evaluated, ppl=perplexity(evaluated), samples=samples)
            self._progress = self._progress._replace(eval_loss=evaluated)
        if self._is_due(settings.sample_every):
            written = self._model.write(self._text, PROMPT, SAMPLE_CHARACTERS, [settings.seed, 2, step])
            log.sample(PROMPT, written, step=step, phase="decode")
        if self._baseline is None or (evaluated is None and step < settings.steps):
            return None
        return self._compare(log, evaluated, self._baseline)

    def _compare(self, log: RunWriter, evaluated: float | None, baseline: Baseline) -> str | None:
        step = self._progress.step
        found = baseline.compare(step, evaluated, self._progress.loss)
        if found is None:
            return None
        log.compare(step=step, baseline_run_id=baseline.run_id, **found._asdict())
        self._progress = self._progress._replace(ppl_ratio=found.ppl_ratio)
        return "the loss is not finite" if found.verdict == "abort" else None

    def _is_due(self, period: int) -> bool:
        return period > 0 and (self._progress.step % period == 0 or self._progress.step == self._settings.steps)

    def _end(self, log: RunWriter, aborted: str | None) -> Outcome:
        gate = self._settings.quality_gate
        verdict = None if gate is None else gate.check(_results(self._progress))
        exit_code = _GIVEN_UP if aborted is not None else int(verdict is not None and not verdict.passed)
        log.run_end(
            "completed" if aborted is None else "aborted",
            final_step=self._progress.step,
            final_loss=self._progress.loss,
            exit_code=exit_code,
            error=aborted,
            quality_gate=None
            if gate is None or verdict is None
            else verdict._asdict() | {"metric": gate.metric, "threshold": gate.threshold},
        )
        return Outcome(exit_code, self._progress, verdict, aborted)


def _config_of(settings: TrainingSettings, model: LanguageModel, optimizer: AdamW) -> dict[str, Any]:
    """Return ``config`` of run_start: the settings, and what else the run is determined by."""
    return {
        "context": model.context,
        "steps": settings.steps,
        "lr": settings.lr,
        "seed": settings.seed,
        "batch": model.batch,
        "parameters": model.size,
        "loss_fn": LOSS_NAME,
        "optimizer": "adamw",
        "beta1": optimizer.beta1,
        "beta2": optimizer.beta2,
        "eps": optimizer.eps,
        "weight_decay": optimizer.weight_decay,
        "text": TEXT_NAME,
        "eval_every": settings.eval_every,
        "sample_every": settings.sample_every,
        "checkpoint_every": settings.checkpoint_every,
    } | ({} if settings.gate is None else {"gate": settings.gate})


def _results(progress: TrainingProgress) -> dict[str, float]:
    return {
        "loss": progress.loss,
        "ppl": perplexity(progress.loss),
        "loss_ratio": progress.loss / progress.first_loss if progress.first_loss else math.nan,
        "eval_loss": progress.eval_loss,
        "eval_ppl": perplexity(progress.eval_loss),
        "ppl_ratio": progress.ppl_ratio,
    }
