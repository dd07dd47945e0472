"""The methods of a writer that write one event each and need only its members."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, Unpack

from msgspec import UNSET, UnsetType

from toyspec.writing.named_values import NamedValues

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toyspec.writing.event_arguments import (
        Count,
        Measure,
        Measures,
        Phase,
        TapStatistics,
        TensorStatistics,
        Verdict,
    )


class EventMethods(ABC):
    """The events between the start and the end of a run; every call writes one record."""

    def __init__(self) -> None:
        self._names = NamedValues()

    @property
    @abstractmethod
    def events_path(self) -> str:
        """Path of the stream."""

    @abstractmethod
    def _log(self, kind: str, **members: Any) -> None:
        """Write an event."""

    def log(
        self,
        values: Mapping[str, Measure | Mapping[str, Any]],
        *,
        step: Count = UNSET,
        epoch: Measure = UNSET,
        phase: Phase = UNSET,
    ) -> None:
        """Write any numbers by name, at any time; ``/`` in a name groups them: ``run.log({"train/acc": 0.75})``.

        The members of a nested mapping follow its name and a slash: ``run.log({"train": {"acc": 0.75}})`` is the same.
        Of two values that get one name, the later one is written, and standard error reports it once.
        """
        self.scalars(self._names.named(values, self.events_path), step=step, epoch=epoch, phase=phase)

    def scalars(
        self,
        values: Mapping[str, Measure],
        *,
        step: Count = UNSET,
        epoch: Measure = UNSET,
        phase: Phase = UNSET,
    ) -> None:
        """Write any numbers by name; see ``log``."""
        self._log("scalars", values=values, step=step, epoch=epoch, phase=phase)

    def define(  # noqa: PLR0913 - one for each member of the event
        self,
        name: str,
        *,
        goal: Literal["min", "max", "none"] | UnsetType = UNSET,
        unit: str | UnsetType = UNSET,
        description: str | UnsetType = UNSET,
        step_name: str | UnsetType = UNSET,
        phase: Phase = UNSET,
    ) -> None:
        """Write what the metric *name* means; ``*`` at its end matches every name with that beginning."""
        meaning = {"goal": goal, "unit": unit, "description": description, "step_name": step_name}
        self._log("define", name=name, **meaning, phase=phase)

    def artifact(  # noqa: PLR0913 - one for each member of the event
        self,
        path: str,
        *,
        role: str | UnsetType = UNSET,
        size_bytes: Count = UNSET,
        sha256: str | UnsetType = UNSET,
        media_type: str | UnsetType = UNSET,
        step: Count = UNSET,
        phase: Phase = UNSET,
    ) -> None:
        """Write that the file *path*, relative to the bundle and inside it, belongs to the run."""
        facts = {"role": role, "size_bytes": size_bytes, "sha256": sha256, "media_type": media_type}
        self._log("artifact", path=path, **facts, step=step, phase=phase)

    def tap(self, region: str, *, step: SupportsIndex, **statistics: Unpack[TapStatistics]) -> None:
        """Write statistics of an activation where it flows through *region*."""
        self._log("tap", step=step, region=region, **statistics)

    def grad(self, param: str, *, step: SupportsIndex, **statistics: Unpack[TensorStatistics]) -> None:
        """Write statistics of the gradient of the parameter *param*, a GGUF tensor name."""
        self._log("grad", step=step, param=param, **statistics)

    def op_timing(
        self,
        buckets: Mapping[str, SupportsIndex],
        *,
        step: SupportsIndex,
        compute_us: Count = UNSET,
        phase: Phase = UNSET,
    ) -> None:
        """Write how long each kind of operation took in a step, in microseconds."""
        self._log("op_timing", step=step, buckets=buckets, compute_us=compute_us, phase=phase)

    def drift(  # noqa: PLR0913 - one for each member of the event
        self,
        param: str,
        *,
        step: SupportsIndex,
        cos_to_init: Measure,
        l2_to_init: Measure,
        head: Count = UNSET,
        token_id: Count = UNSET,
        freq: Measure = UNSET,
        phase: Phase = UNSET,
    ) -> None:
        """Write how far the parameter *param*, or its row for one token, is from its initial value."""
        distance = {"cos_to_init": cos_to_init, "l2_to_init": l2_to_init}
        token = {"head": head, "token_id": token_id, "freq": freq, "phase": phase}
        self._log("drift", step=step, param=param, **distance, **token)

    def sample(self, prompt: str, text: str, *, step: Count = UNSET, phase: Phase = UNSET) -> None:
        """Write the *text* that the model has produced from a *prompt*."""
        self._log("sample", prompt=prompt, text=text, step=step, phase=phase)

    def eval(  # noqa: PLR0913 - one for each member of the event
        self,
        name: str,
        *,
        step: Count = UNSET,
        loss: Measure = UNSET,
        ppl: Measure = UNSET,
        samples: Count = UNSET,
        extra: Mapping[str, Any] | UnsetType = UNSET,
        phase: Phase = "eval",
    ) -> None:
        """Write the result of the evaluation *name*, or with phase ``serve`` of one request."""
        self._log("eval", name=name, step=step, loss=loss, ppl=ppl, samples=samples, extra=extra, phase=phase)

    def compare(  # noqa: PLR0913 - one for each member of the event
        self,
        verdict: Verdict,
        *,
        step: SupportsIndex,
        baseline_run_id: str,
        loss_delta: Measure = UNSET,
        ppl_ratio: Measure = UNSET,
        phase: Phase = UNSET,
    ) -> None:
        """Write how the run compares with its baseline, which run_start names as ``compare_to``."""
        numbers = {"loss_delta": loss_delta, "ppl_ratio": ppl_ratio, "phase": phase}
        self._log("compare", step=step, baseline_run_id=baseline_run_id, verdict=verdict, **numbers)

    def region_enter(self, region: str, *, step: Count = UNSET, phase: Phase = UNSET) -> None:
        """Write that the computation enters *region*; see ``region`` for both ends at once."""
        self._log("region_enter", region=region, step=step, phase=phase)

    def region_exit(self, region: str, *, step: Count = UNSET, phase: Phase = UNSET) -> None:
        """Write that the computation leaves *region*, the one entered last."""
        self._log("region_exit", region=region, step=step, phase=phase)

    def note(self, text: str, *, step: Count = UNSET, phase: Phase = UNSET) -> None:
        """Write a remark for people."""
        self._log("note", text=text, step=step, phase=phase)

    def system(  # noqa: PLR0913 - one for each member of the event
        self,
        *,
        memory_used_bytes: Count = UNSET,
        memory_limit_bytes: Count = UNSET,
        data_wait_us: Count = UNSET,
        extra: Measures = UNSET,
        step: Count = UNSET,
        phase: Phase = UNSET,
    ) -> None:
        """Write the state of the machine now."""
        memory = {"memory_used_bytes": memory_used_bytes, "memory_limit_bytes": memory_limit_bytes}
        self._log("system", **memory, data_wait_us=data_wait_us, extra=extra, step=step, phase=phase)
