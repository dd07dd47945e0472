"""What a run is trained with: the options of ``toyspec train``. Without NumPy, so that a command line can ask."""

from __future__ import annotations

import math
import operator
import re
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec

from toyspec.core.errors import ToyspecError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


ARCHITECTURE = "mlp"
"""What the model is called in logs and files."""

METRICS = {
    "loss": "loss of the last step",
    "ppl": "perplexity of the last step",
    "loss_ratio": "loss of the last step divided by that of the first",
    "eval_loss": "loss of the last evaluation",
    "eval_ppl": "perplexity of the last evaluation",
    "ppl_ratio": "perplexity divided by the baseline's, as in the last compare event",
}
"""The metrics of gates, and their meanings."""

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_GATE = re.compile(r"\s*([a-z_]+)\s*(<=|>=|<|>)\s*([-+0-9.eE]+)\s*")


class SettingsError(ToyspecError, ValueError):
    """Settings with which nothing can be trained."""


class GateVerdict(NamedTuple):
    """The result of a gate."""

    passed: bool
    value: float | None
    """Value of the metric; None when it is not finite or there is none."""


class Gate(NamedTuple):
    """A condition on the result of a run."""

    metric: str
    comparison: str
    threshold: float

    @classmethod
    def parsed(cls, text: str) -> Gate:
        """Return the gate in *text*; raise SettingsError if it is not one."""
        found = _GATE.fullmatch(text)
        if not found:
            raise SettingsError(f"{text!r} is not a condition; write METRIC<BOUND, for example 'loss_ratio<0.9'")
        metric, comparison, bound = found.groups()
        if metric not in METRICS:
            raise SettingsError(f"unknown metric {metric!r}; use one of {', '.join(METRICS)}")
        try:
            threshold = float(bound)
        except ValueError:
            threshold = math.nan
        if not math.isfinite(threshold):
            raise SettingsError(f"bound {bound!r} must be a finite number")
        return cls(metric, comparison, threshold)

    def __str__(self) -> str:
        return f"{self.metric}{self.comparison}{self.threshold!r}"

    def check(self, results: Mapping[str, float]) -> GateVerdict:
        """Return whether *results* pass; a value that is missing or not finite does not."""
        value = results.get(self.metric, math.nan)
        if not math.isfinite(value):
            return GateVerdict(False, None)
        return GateVerdict(_COMPARISONS[self.comparison](value, self.threshold), value)


Count = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]


class TrainingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that a run is determined by; a period of 0 means never."""

    steps: Annotated[int, msgspec.Meta(ge=1, le=2**32 - 1)] = 200
    """Number of the last step."""
    seed: Count = 0
    lr: Annotated[float, msgspec.Meta(ge=0)] = 5e-3
    """Learning rate, the same in every step."""
    eval_every: Count = 50
    """Steps from one evaluation to the next; the last step is evaluated as well."""
    sample_every: Count = 100
    """Steps from one sample of text to the next; the last step has one as well."""
    checkpoint_every: Count = 50
    """Steps from one checkpoint to the next; the last step has one as well."""
    gate: str | None = None
    """Condition on the result, as Gate writes it; None for none."""

    def __post_init__(self) -> None:
        if not math.isfinite(self.lr):
            raise SettingsError(f"the learning rate is {self.lr}; it must be a finite number")
        gate = self.quality_gate
        if gate is not None and gate.metric.startswith("eval_") and not self.eval_every:
            raise SettingsError(f"gate {gate} needs evaluations, but they are off; set eval_every above 0")

    @property
    def quality_gate(self) -> Gate | None:
        """The condition in ``gate``."""
        return None if self.gate is None else Gate.parsed(self.gate)


def checked_settings(given: Mapping[str, Any]) -> TrainingSettings:
    """Return settings with the values of *given*; raise SettingsError for one that is out of range."""
    try:
        return msgspec.convert(given, TrainingSettings)
    except msgspec.ValidationError as error:
        raise SettingsError(str(error)) from error


def settings_of(run_start: Mapping[str, Any]) -> TrainingSettings:
    """Return the settings of the run that begins with *run_start*.

    Raises SettingsError when `toyspec train` cannot have written it.
    """
    config, model = run_start.get("config"), run_start.get("model")
    if not isinstance(config, dict):
        raise SettingsError("its run_start has no config")
    arch = model.get("arch") if isinstance(model, dict) else None
    if arch != ARCHITECTURE:
        raise SettingsError(f"it is not a run of `toyspec train`: its model is {arch!r}, not {ARCHITECTURE!r}")
    missing = [name for name in TrainingSettings.__struct_fields__ if name not in {"gate", *config}]
    if missing:
        raise SettingsError(f"it is not a run of `toyspec train`: its config has no {missing[0]}")
    return checked_settings(config)
