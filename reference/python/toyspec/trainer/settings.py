"""What a run is trained with: the options of ``toyspec train``. Without NumPy, so that a command line can ask."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from toyspec.core.errors import ToyspecError
from toyspec.trainer.gates import Gate

if TYPE_CHECKING:
    from collections.abc import Mapping

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]


ARCHITECTURE_NAMES = ("transformer", "mlp")
"""What can be trained; the first is the default."""


class SettingsError(ToyspecError, ValueError):
    """Settings with which nothing can be trained."""


class TrainingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that a run is determined by; a period of 0 means never."""

    arch: str = ARCHITECTURE_NAMES[0]
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
        if self.arch not in ARCHITECTURE_NAMES:
            names = ", ".join(ARCHITECTURE_NAMES)
            raise SettingsError(f"unknown architecture {self.arch!r}; use one of {names}")
        if not math.isfinite(self.lr):
            raise SettingsError(f"the learning rate is {self.lr}; it must be a finite number")
        gate = self.quality_gate
        if gate is not None and gate.metric.startswith("eval_") and not self.eval_every:
            raise SettingsError(f"gate {gate} needs evaluations, but they are off; set eval_every above 0")

    @property
    def quality_gate(self) -> Gate | None:
        """The condition in ``gate``."""
        try:
            return None if self.gate is None else Gate.parsed(self.gate)
        except ValueError as error:
            raise SettingsError(str(error)) from error


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
    model, config = run_start.get("model"), run_start.get("config")
    if not isinstance(model, dict) or not isinstance(config, dict):
        raise SettingsError("its run_start has no model or no config")
    missing = [name for name in TrainingSettings.__struct_fields__ if name not in {"arch", "gate", *config}]
    if missing:
        raise SettingsError(f"it is not a run of `toyspec train`: its config has no {missing[0]}")
    return checked_settings({**config, "arch": model.get("arch")})
