"""``toyspec train``: train a small language model from scratch and write its run."""

from __future__ import annotations

import argparse
import math
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.parsers import UsageError, local_path, number_from
from toyspec.core.errors import StreamError
from toyspec.core.escaping import printable
from toyspec.core.files import null_device
from toyspec.core.system_calls import cause_of, say
from toyspec.trainer import INSTALLATION
from toyspec.trainer.settings import (
    METRICS,
    Gate,
    SettingsError,
    TrainingSettings,
    checked_settings,
)

if TYPE_CHECKING:
    from argparse import Namespace

    from toyspec.core.command_line.parsers import Parser
    from toyspec.trainer.earlier_runs import Baseline, Interrupted
    from toyspec.trainer.training import Environment


def _show_step(step: int, loss: float) -> None:
    """Print the line of *step*, at once; where that fails, nothing more is shown, and the training goes on."""
    try:
        sys.stdout.write(f"step {step}: loss={loss:.4f}\n")
        sys.stdout.flush()
    except OSError as error:
        # What follows is dropped, and so is the buffer, which the interpreter would write again at its exit.
        null = null_device(os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
        if not isinstance(error, BrokenPipeError):
            say(f"standard output: {cause_of(error)}; training continues without it")


RUNS = "runs"
"""The directory of runs without --out."""
# One thread: the matrices are too small to share, and sums would depend on how many share them.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_DEFAULT = TrainingSettings()

DESCRIPTION = """\
Train a small language model on a short text, from scratch, on the CPU, in
seconds, and write the run as a bundle: events.jsonl, metrics.jsonl and
checkpoints in weights/. Equal settings give equal losses on one machine."""

_EPILOG = """\
--gate takes METRIC<BOUND, with <, <=, > or >=:
{metrics}

--resume continues a killed run from its last checkpoint; give the same
options, or --out alone. Without --resume, a run in DIR is replaced: its files
move to events.jsonl.prev, metrics.jsonl.prev and weights.prev. Existing .prev
files move to .prev-1, .prev-2 and so on first.

exit status:
  0    trained
  1    the gate failed
  2    wrong usage, nothing to resume, or a defect
  3    aborted: the loss cannot be compared with the baseline's
  130  interrupted

examples:
  toyspec train --steps 50 --seed 7 --out runs/first
  toyspec train --steps 50 --seed 8 --out runs/second --compare-to runs/first
  toyspec train --resume --out runs/first
  toyspec train --gate 'loss_ratio<0.9'"""


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    parser.epilog = _EPILOG.format(metrics="\n".join(f"  {name:<11}{use}" for name, use in METRICS.items()))
    parser.value("--out", "DIR", f"the run directory; default: {RUNS}/mlp-DATE-NUMBER", type=local_path)
    parser.flag("--resume", "continue the killed run in DIR")
    parser.value("--steps", "N", f"number of steps; default: {_DEFAULT.steps}", type=number_from(1))
    parser.value("--seed", "N", f"default: {_DEFAULT.seed}", type=number_from(0))
    parser.value("--lr", "RATE", f"learning rate; default: {_DEFAULT.lr}", type=_rate)
    for what, done in (("eval", "evaluate"), ("sample", "write text"), ("checkpoint", "save a checkpoint")):
        parser.value(
            f"--{what}-every",
            "N",
            f"{done} every N steps and at the end, 0: never; default: {getattr(_DEFAULT, f'{what}_every')}",
            type=number_from(0),
        )
    parser.value("--compare-to", "RUN", "compare with the run in this directory")
    parser.value("--gate", "CONDITION", "exit with 1 unless it is met at the end", type=_gate)
    parser.add_argument(
        "--clock",
        choices=("real", "fixed"),
        default="real",
        help="fixed: constant time, host, backend and revision, so that equal runs give equal bytes",
    )


def run(options: Namespace) -> int:
    """Train, show each step, and return an exit code."""
    for name in _THREADS:
        os.environ.setdefault(name, "1")
    try:
        import toyspec.trainer.training  # noqa: F401 - NumPy is slow to import
    except ModuleNotFoundError as error:
        raise UsageError(f"module {error.name!r} is not installed; {INSTALLATION}") from error
    try:
        return _resume(options) if options.resume else _start(options)
    except (SettingsError, StreamError) as error:
        raise UsageError(str(error)) from error
    except (OSError, UsageError):
        raise
    except Exception:  # noqa: BLE001 - Python's own status for it would say that the gate failed
        traceback.print_exc()
        return exit_codes.USAGE


def _start(options: Namespace) -> int:
    from toyspec.core.writing.run_ids import check_run_id, claim_directory
    from toyspec.trainer.training import ENVIRONMENTS

    settings = checked_settings(_given(options))
    environment = ENVIRONMENTS[options.clock]()
    baseline = _baseline(options.compare_to)
    if baseline is None and settings.quality_gate is not None and settings.quality_gate.metric == "ppl_ratio":
        raise UsageError("a gate on ppl_ratio needs --compare-to")
    directory = options.out
    if directory is None:
        directory = claim_directory(RUNS, "mlp", environment.clock.wall())
    try:
        check_run_id(os.path.basename(os.path.abspath(directory)))
    except ValueError as error:
        raise UsageError(f"--out: {error}") from error
    return _shown(directory, settings, environment, baseline, None)


def _resume(options: Namespace) -> int:
    from toyspec.trainer.earlier_runs import interrupted_run
    from toyspec.trainer.training import ENVIRONMENTS

    if options.out is None:
        raise UsageError("--resume needs --out DIR, the run to continue")
    was = interrupted_run(options.out)
    for name, value in _given(options).items():
        if value != getattr(was.settings, name):
            option = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{option} is {value}, but the run was started with {getattr(was.settings, name)}; leave {option} out"
            )
    baseline = _baseline(options.compare_to)
    wanted = was.run_start.get("compare_to")
    if (None if baseline is None else baseline.run_id) != wanted:
        # The log has the id of that run, but its content must not decide which files are opened.
        fact = (
            f"compared with {printable(str(wanted))}; name it with --compare-to"
            if wanted
            else "without --compare-to; leave it out"
        )
        raise UsageError(f"the run was started {fact}")
    return _shown(options.out, was.settings, ENVIRONMENTS[options.clock](), baseline, was)


def _shown(
    directory: str,
    settings: TrainingSettings,
    environment: Environment,
    baseline: Baseline | None,
    was: Interrupted | None,
) -> int:
    from toyspec.trainer.training import Training

    training = Training(directory, settings, environment, baseline=baseline, on_step=_show_step)
    outcome = training.start() if was is None else training.resume(was)
    if outcome.aborted is not None:
        say(f"{directory}: aborted after step {outcome.results.step}: {outcome.aborted}")
    gate = settings.quality_gate
    if gate is not None and outcome.gate is not None and not outcome.gate.passed:
        value = "not finite" if outcome.gate.value is None else f"{outcome.gate.value:.4g}"
        say(f"{directory}: gate failed: {gate.metric} is {value}, required {gate.comparison} {gate.threshold!r}")
    return outcome.exit_code


def _given(options: Namespace) -> dict[str, Any]:
    return {name: value for name in TrainingSettings.__struct_fields__ if (value := getattr(options, name)) is not None}


def _baseline(path: str | None) -> Baseline | None:
    from toyspec.trainer.earlier_runs import Baseline
    from toyspec.trainer.training import EVALUATION

    return None if path is None else Baseline(path, EVALUATION)


def _rate(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number ≥ 0")
    return value


def _gate(text: str) -> str:
    try:
        return str(Gate.parsed(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
