"""Gives what a program logs the kind, the phase and the step of a record, and says what it leaves out for that.

It writes nothing: the stream asks it before each record. Made to fit, a phase that the format does not have names the
values, and a step that is not an integer ≥ 0 is one of them, under a name of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from itertools import repeat
from math import isnan, nan
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from toyspec.core.errors import must_be_one_of
from toyspec.core.escaping import shortened
from toyspec.core.generated.fields import FIELDS
from toyspec.core.writing.events import PHASES, is_phase
from toyspec.core.writing.logged_values import LeftOut, as_value, members_in, step_number, whole
from toyspec.core.writing.plain_values import plain_number
from toyspec.core.writing.run_progress import COUNTED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toyspec.core.generated.toy_v1 import Step
    from toyspec.core.writing.run_progress import Resumption, RunProgress

_GIVEN_STEP: Final = "given_step"
"""Name of what was passed as a step and is none."""


def place(
    kind: str, given: dict[str, Any], progress: RunProgress, resumption: Resumption, *, is_lenient: bool
) -> tuple[str, object, list[LeftOut]]:
    """Give the members *given* of a record of *kind* a phase and a step, those that can be written if *is_lenient*.

    Return the kind that it is of now, the step that may say where a resumed run goes on, UNSET for none, and what is
    left out.
    """
    left_out: list[LeftOut] = []
    is_of_another = "phase" in given and "phase" in FIELDS["toy/v1"].get(kind, ()) and not is_phase(given["phase"])
    if is_of_another and is_lenient and progress.records:
        kind = _give_a_phase(kind, given, progress, left_out)
    if kind == "scalars" and is_lenient and given.get("step", COUNTED) is not COUNTED:
        number, values = step_number(given["step"]), members_in(given.get("values"))
        if number is None:
            left_out.append(_no_step(given["step"]))
            given["values"] = given.get("values") if values is None else _with_given_step(values, given["step"])
        given["step"] = COUNTED if number is None else number
    phase = given.get("phase") or progress.phase
    is_at_last = False
    if given.get("step") is COUNTED:
        is_at_last = progress.is_resumed_by_steps
        given["step"] = progress.log_step(phase)
        if given["step"] is UNSET:
            del given["step"]
    # Values that were given another phase have a count of their own, which says nothing about the run.
    is_train = kind in {"step", "scalars"} and phase == "train" and not is_of_another
    step = whole(given.get("step")) if is_train and not is_at_last else UNSET
    is_added = kind == "scalars" and resumption.adds(given.get("values"), step, progress)
    return kind, UNSET if is_added else step, left_out


def number_step(event: Step) -> LeftOut | None:
    """Give *event* the number that its step can be, and return None; else move what was passed to its ``extra``."""
    number = step_number(event.step)
    if number is not None:
        event.step = number
        return None
    event.extra = _with_given_step(members_in(event.extra) or {}, event.step)
    return _no_step(event.step)


class Completions:
    """Makes samples of tables of completions, as TRL logs them, each row once: a callback logs a table that grows."""

    def __init__(self) -> None:
        self._before: dict[str, list[dict[str, Any]]] = {}

    def new_in(self, name: str, rows: Iterable[Mapping[Any, Any]], step: Any) -> list[dict[str, Any]] | None:
        """Return the members of the samples in *rows*, the table *name* at *step*, but those that it had before.

        A row has the texts ``prompt`` and ``completion``, and may have its step, an advantage, and rewards by name.
        None where the rows are not completions, or have more than those.
        """
        found = list(map(_sample_of, rows, repeat(step)))
        samples = [sample for sample in found if sample is not None]
        if not samples or len(samples) < len(found):
            return None
        before, self._before[name] = self._before.get(name, []), samples
        return samples[len(before) if samples[: len(before)] == before else 0 :]


def _sample_of(row: Mapping[Any, Any], step: Any) -> dict[str, Any] | None:
    parts = dict(row)
    prompt, text, at = (parts.pop(name, None) for name in ("prompt", "completion", "step"))
    if not isinstance(prompt, str) or not isinstance(text, str):
        return None
    numbers: dict[str, float] = {}
    for name, value in parts.items():
        number = plain_number(value)
        if number is not None:
            # There is one NaN, which is the same in a row that comes again.
            numbers[str(name)] = nan if isnan(number) else number
        elif value is not None:
            return None
    advantage, reward, own = numbers.pop("advantage", None), numbers.pop("reward", None), step_number(at)
    given = {"step": step if own is None else own, "advantage": advantage, "reward": reward, "rewards": numbers or None}
    return {"prompt": prompt, "text": text} | {key: value for key, value in given.items() if value is not None}


def make_values(members: dict[str, Any]) -> None:
    """Make the *members* of a step those of plain values, at the same place."""
    extra = members.pop("extra", None)
    place = {key: members.pop(key) for key in ("step", "phase") if key in members}
    values = {key: value for key, value in members.items() if key not in {"kind", "t", "nonfinite"}}
    values |= members_in(extra) or {}
    members.clear()
    members.update(kind="scalars", **place, values=values)


def _with_given_step(values: Mapping[Any, Any], step: object) -> dict[Any, Any]:
    return {**values, _GIVEN_STEP: as_value(step)}


def _no_step(step: object) -> LeftOut:
    got = f"got {type(step).__name__} {as_value(step)!r}"
    fact = f"it must be an integer ≥ 0, {got}; its values are where they are without a step"
    return LeftOut("step", f"{fact}, beside {_GIVEN_STEP}")


def _give_a_phase(kind: str, given: dict[str, Any], progress: RunProgress, left_out: list[LeftOut]) -> str:
    """Leave out the phase of *given*, which is none of the format, and name values after it; return the kind.

    Readers name the values of another phase in the same way.
    """
    phase = given.pop("phase")
    found = as_value(phase.value if isinstance(phase, Enum) else phase)
    if found is None or is_phase(found):
        given.update({} if found is None else {"phase": found})
        return kind
    named = shortened(str(found))
    fact = f"{must_be_one_of(PHASES)}, got {named}"
    if kind == "step":
        if isinstance(given.get("step"), int):
            progress.pass_step(given["step"], str(phase))
        make_values(given)
        kind = "scalars"
    if kind == "scalars":
        given["values"] = {named: given.get("values", {})}
        if isinstance(given.get("texts"), Mapping):
            given["texts"] = {f"{named}/{key}": text for key, text in given["texts"].items()}
        fact = f"{fact}; the values are named after it, as {named}/loss"
    elif kind == "eval":
        given["phase"] = "eval"
    left_out.append(LeftOut("phase", fact))
    return kind
