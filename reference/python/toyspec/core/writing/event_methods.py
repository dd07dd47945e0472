"""The methods of a writer that write one event each and need only its members."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, SupportsFloat, SupportsIndex, Unpack

from toyspec.core.escaping import printable
from toyspec.core.format.foreign_values import mapping_of
from toyspec.core.system_calls import cause_of, say
from toyspec.core.writing.logged_values import not_by_name
from toyspec.core.writing.run_progress import COUNTED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import EllipsisType

    from toyspec.core.generated.toy_v1 import Author
    from toyspec.core.writing.events import (
        Count,
        Measure,
        Measures,
        Phase,
        TapStatistics,
        TensorStatistics,
        Value,
        Verdict,
    )


class EventMethods(ABC):
    """The events between the start and the end of a run; every call writes one record."""

    @property
    @abstractmethod
    def events_path(self) -> str:
        """Path of the stream."""

    @property
    @abstractmethod
    def is_silent(self) -> bool:
        """True in a process that is not to write, whose calls do nothing."""

    @abstractmethod
    def leave_out(self, name: str, why: str) -> None:
        """Count the value *name* as left out, and say *why* in the log."""

    @abstractmethod
    def _log(self, kind: str, **members: Any) -> None:
        """Write an event."""

    @abstractmethod
    def _log_with_file(self, kind: str, content: bytes | str | os.PathLike[str], members: dict[str, Any]) -> None:
        """Write a file of the bundle, and then the event that names it."""

    def log(
        self,
        values: Mapping[str, Value | Mapping[str, Any]] | None = None,
        /,
        step: Count | EllipsisType = ...,
        *,
        epoch: Measure = None,
        phase: Phase = None,
        **named: Value | Mapping[str, Any],
    ) -> None:
        """Write any values by name, at any time: ``run.log({"train/acc": 0.75}, step=3)``, or ``run.log(loss=2.5)``.

        A number is a value, True is 1.0 and False 0.0, and a string is a text. ``/`` in a name groups values; the
        members of a nested mapping follow its name and a slash: ``run.log({"train": {"acc": 0.75}})`` is the same. A
        value that is none of these is left out alone, which standard error reports once for its name and a note in the
        log counts.

        Without *step*, the values belong to the last ``run.step``, and in a program that never calls that, to one step
        more than the call before. With ``step=None`` they belong to no step. A *step* that is not an integer ≥ 0
        is left out, and counted: the values are where they are without one, with ``given_step``, what was passed.
        """
        given = named if values is None else self._with_named("values", values, named) if named else values
        at = COUNTED if step is ... else step
        self._log("scalars", values=given, step=at, epoch=epoch, phase=phase)

    def _with_named(self, argument: str, values: Any, named: Mapping[str, Any]) -> dict[Any, Any]:
        """Return *values* and those that are *named*; without the first if they have no names, which is counted."""
        found = values if isinstance(values, Mapping) else mapping_of(values)
        if found is None:
            self.leave_out(argument, not_by_name(argument, values))
        return {**(found or {}), **named}

    def scalars(
        self,
        values: Mapping[str, Value],
        *,
        texts: Mapping[str, str] | None = None,
        step: Count = None,
        epoch: Measure = None,
        phase: Phase = None,
    ) -> None:
        """Write any values by name, at *step* if it is given; see ``log``."""
        self._log("scalars", values=values, texts=texts, step=step, epoch=epoch, phase=phase)

    def define(  # noqa: PLR0913 - one for each member of the event
        self,
        name: str,
        *,
        goal: Literal["min", "max", "none"] | None = None,
        unit: str | None = None,
        description: str | None = None,
        step_name: str | None = None,
        phase: Phase = None,
    ) -> None:
        """Write what the metric *name* means; ``*`` at its end matches every name with that beginning."""
        meaning = {"goal": goal, "unit": unit, "description": description, "step_name": step_name}
        self._log("define", name=name, **meaning, phase=phase)

    def artifact(  # noqa: PLR0913 - one for each member of the event
        self,
        path: str | os.PathLike[str],
        *,
        copy: bool = False,
        role: str | None = None,
        size_bytes: Count = None,
        sha256: str | None = None,
        media_type: str | None = None,
        step: Count = None,
        phase: Phase = None,
    ) -> None:
        """Write that the file *path*, in the bundle or the working directory, belongs to the run, with size and digest.

        A file outside of the bundle is copied into its folder ``artifacts`` with *copy*; else a ``reference`` names it.
        Files above 256 MiB are not hashed.
        """
        if self.is_silent:
            return
        # Imported here: start-up time counts.
        from toyspec.core.writing.media import placed_file

        try:
            kind, members = placed_file(os.path.dirname(self.events_path), path, copy=copy)
        except OSError as error:
            say(f"{self.events_path}: {printable(os.fspath(path))} could not be copied ({cause_of(error)})")
            kind, members = placed_file(os.path.dirname(self.events_path), path, copy=False)
        known = {"role": role, "size_bytes": size_bytes, "sha256": sha256, "step": step, "phase": phase}
        if kind == "artifact":
            known["media_type"] = media_type
        self._log(kind, **{**members, **{key: value for key, value in known.items() if value is not None}})

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
        compute_us: Count = None,
        phase: Phase = None,
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
        head: Count = None,
        token_id: Count = None,
        freq: Measure = None,
        phase: Phase = None,
    ) -> None:
        """Write how far the parameter *param*, or its row for one token, is from its initial value."""
        distance = {"cos_to_init": cos_to_init, "l2_to_init": l2_to_init}
        token = {"head": head, "token_id": token_id, "freq": freq, "phase": phase}
        self._log("drift", step=step, param=param, **distance, **token)

    def sample(  # noqa: PLR0913 - one for each member of the event
        self,
        prompt: str,
        text: str,
        *,
        step: Count = None,
        id: str | None = None,  # noqa: A002 - its name in the log
        group: str | None = None,
        messages: Sequence[Mapping[str, str]] | None = None,
        reward: Measure = None,
        rewards: Measures = None,
        advantage: Measure = None,
        tokens: Count = None,
        truncated: bool | None = None,
        phase: Phase = None,
    ) -> None:
        """Write the *text* that the model has produced from a *prompt*, or in a conversation, and what it was worth."""
        said = {"prompt": prompt, "text": text, "id": id, "group": group, "messages": messages}
        worth = {"reward": reward, "rewards": rewards, "advantage": advantage}
        self._log("sample", **said, **worth, tokens=tokens, truncated=truncated, step=step, phase=phase)

    def eval(  # noqa: PLR0913 - one for each member of the event
        self,
        name: str,
        *,
        step: Count = None,
        loss: Measure = None,
        ppl: Measure = None,
        samples: Count = None,
        extra: Mapping[str, Any] | None = None,
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
        loss_delta: Measure = None,
        ppl_ratio: Measure = None,
        phase: Phase = None,
    ) -> None:
        """Write how the run compares with its baseline, which run_start names as ``compare_to``."""
        numbers = {"loss_delta": loss_delta, "ppl_ratio": ppl_ratio, "phase": phase}
        self._log("compare", step=step, baseline_run_id=baseline_run_id, verdict=verdict, **numbers)

    def region_enter(self, region: str, *, step: Count = None, phase: Phase = None) -> None:
        """Write that the computation enters *region*; see ``region`` for both ends at once."""
        self._log("region_enter", region=region, step=step, phase=phase)

    def region_exit(self, region: str, *, step: Count = None, phase: Phase = None) -> None:
        """Write that the computation leaves *region*, the one entered last."""
        self._log("region_exit", region=region, step=step, phase=phase)

    def note(
        self,
        text: str,
        *,
        topic: str | None = None,
        by: Author | Mapping[str, str] | None = None,
        step: Count = None,
        phase: Phase = None,
    ) -> None:
        """Write a remark for people; *topic* says what kind of remark, for example ``decision``."""
        self._log("note", text=text, topic=topic, by=by, step=step, phase=phase)

    def alert(  # noqa: PLR0913 - one for each member of the event
        self,
        text: str,
        *,
        rule: str = "program",
        level: Literal["info", "warning", "error"] = "warning",
        event: Literal["begun", "recovered"] | None = None,
        metric: str | None = None,
        value: Measure = None,
        threshold: Measure = None,
        rank: Count = None,
        step: Count = None,
        phase: Phase = None,
    ) -> None:
        """Write that something needs attention, or is over (*event* ``"recovered"``): what, by which rule, how much."""
        bound = {"event": event, "metric": metric, "value": value, "threshold": threshold}
        self._log("alert", text=text, rule=rule, level=level, **bound, rank=rank, step=step, phase=phase)

    def histogram(
        self,
        name: str,
        *,
        edges: Sequence[SupportsFloat],
        counts: Sequence[SupportsFloat],
        step: Count = None,
        phase: Phase = None,
    ) -> None:
        """Write how many values are between each two of the *edges*, of which there is one more than of *counts*."""
        self._log("histogram", name=name, edges=edges, counts=counts, step=step, phase=phase)

    def media(  # noqa: PLR0913 - one for each member of the event
        self,
        name: str,
        *,
        media_type: str,
        sha256: str | None = None,
        content: bytes | str | os.PathLike[str] | None = None,
        index: Count = None,
        caption: str | None = None,
        size_bytes: Count = None,
        width: Count = None,
        height: Count = None,
        seconds: Measure = None,
        step: Count = None,
        phase: Phase = None,
    ) -> None:
        """Write that a file in the folder ``media`` of the bundle shows *name*, after the file itself.

        *content*, bytes or a path, is what the file has; a *sha256* of another content is refused. Without *content*
        the file with this digest is there already.
        """
        facts = {"index": index, "caption": caption, "size_bytes": size_bytes, "step": step, "phase": phase}
        size = {"width": width, "height": height, "seconds": seconds}
        members = {"name": name, "media_type": media_type, "sha256": sha256, **facts, **size}
        if content is None:
            self._log("media", **members)
        else:
            self._log_with_file("media", content, members)

    def reference(  # noqa: PLR0913 - one for each member of the event
        self,
        uri: str,
        *,
        role: str | None = None,
        size_bytes: Count = None,
        sha256: str | None = None,
        step: Count = None,
        phase: Phase = None,
    ) -> None:
        """Write that the file at *uri*, outside the bundle, belongs to the run; see ``artifact``."""
        self._log("reference", uri=uri, role=role, size_bytes=size_bytes, sha256=sha256, step=step, phase=phase)

    def align(  # noqa: PLR0913 - one for each member of the event
        self,
        *,
        step: SupportsIndex,
        cos: Measure,
        li: Count = None,
        wi: Count = None,
        w: str | None = None,
        wname: str | None = None,
        dfa_norm: Measure = None,
        bp_norm: Measure = None,
        phase: Phase = None,
    ) -> None:
        """Write how well an update agrees with that of back-propagation, for the weight *w* or number *wi* of *li*."""
        weight = {"li": li, "wi": wi, "w": w, "wname": wname}
        self._log("align", step=step, **weight, cos=cos, dfa_norm=dfa_norm, bp_norm=bp_norm, phase=phase)

    def mask(
        self,
        *,
        step: SupportsIndex,
        density: Measure,
        li: Count = None,
        wi: Count = None,
        phase: Phase = None,
    ) -> None:
        """Write which part of the weight number *wi* of layer *li* is updated."""
        self._log("mask", step=step, li=li, wi=wi, density=density, phase=phase)

    def route(  # noqa: PLR0913 - one for each member of the event
        self,
        *,
        step: SupportsIndex,
        shares: Sequence[SupportsFloat | None],
        li: Count = None,
        g0_mean: Measure = None,
        aux: Measure = None,
        phase: Phase = None,
    ) -> None:
        """Write which share of the tokens each expert of layer *li* got."""
        self._log("route", step=step, li=li, shares=shares, g0_mean=g0_mean, aux=aux, phase=phase)

    def system(  # noqa: PLR0913 - one for each member of the event
        self,
        *,
        memory_used_bytes: Count = None,
        memory_limit_bytes: Count = None,
        data_wait_us: Count = None,
        extra: Measures = None,
        step: Count = None,
        phase: Phase = None,
    ) -> None:
        """Write the state of the machine now."""
        memory = {"memory_used_bytes": memory_used_bytes, "memory_limit_bytes": memory_limit_bytes}
        self._log("system", **memory, data_wait_us=data_wait_us, extra=extra, step=step, phase=phase)
