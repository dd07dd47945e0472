"""The samples of a run: which texts a model produced at a step, and the worst and the best of each group."""

from __future__ import annotations

import os
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, Final

from toyspec.core.format.numbers import finite_number
from toyspec.core.reading.attempts import Attempts, Placing
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.reading.reader import read
from toyspec.core.reading.run_files import ranks_beside
from toyspec.core.runs.run_facts import unknown_name

if TYPE_CHECKING:
    from collections.abc import Iterator

_MEMBERS: Final[tuple[str, ...]] = (
    "group",
    "id",
    "reward",
    "rewards",
    "advantage",
    "tokens",
    "truncated",
    "prompt",
    "messages",
    "text",
)
_NUMBERS: Final[tuple[str, ...]] = ("reward", "advantage", "tokens")


def samples_of(
    path: str,
    *,
    step: int | None = None,
    sort: str | None = None,
    most: int | None = None,
    dialect: DialectChoice | None = None,
) -> list[dict[str, Any]]:
    """Return the samples of the run of the stream at *path*, of its other ranks too: their members, step and line.

    Those are of the latest attempt, at *step* alone if it is given. *most* is the number of each group, which are the
    samples of a step that name the same one: the first ones, or with *sort* the lowest and the highest ones by a
    number such as ``reward``, or by a part of the reward, lowest first. One that was not finite is the lowest.

    Raises ExpressionError for a *sort* that no sample has, and StreamError for a stream that cannot be read.
    """
    groups: dict[tuple[Any, Any], list[dict[str, Any]]] = {}
    for sample in _samples(path, dialect or DialectChoice()):
        if step is None or sample["step"] == step:
            groups.setdefault((sample["step"], sample.get("group")), []).append(sample)
    if sort is not None and groups:
        known = dict.fromkeys(name for group in groups.values() for each in group for name in _numbers(each))
        if sort not in known:
            raise unknown_name("no sample has a number", sort, known)
    return [sample for group in groups.values() for sample in _kept(group, sort, most)]


def _samples(path: str, choice: DialectChoice) -> Iterator[dict[str, Any]]:
    for rank, stream in {0: path, **ranks_beside(path)}.items():
        place = {"stream": os.path.basename(stream)} if rank else {}
        with read(stream, mode="salvage", attempts="latest", dialect=choice) as reading:
            attempts = Attempts()
            placing = Placing(attempts)
            for record in reading:
                attempts.learn(record)
                step = placing.take(record)
                if record.kind == "sample" and record.profile == "toy/v1":
                    members = {name: record.value[name] for name in _MEMBERS if name in record.value}
                    yield {"step": step, "line": record.line, **place, **members}


def _numbers(sample: dict[str, Any]) -> dict[str, Any]:
    """Return what *sample* can be sorted by: the parts of its reward by their own names too."""
    parts = sample.get("rewards")
    return {name: sample[name] for name in _NUMBERS if name in sample} | (parts if isinstance(parts, dict) else {})


def _kept(group: list[dict[str, Any]], sort: str | None, most: int | None) -> list[dict[str, Any]]:
    """Return at most *most* samples of *group*: half of them the highest by *sort*, if it is given."""
    if sort is None:
        return group[:most]

    def number(sample: dict[str, Any]) -> float:
        value = finite_number(_numbers(sample).get(sort))
        return -inf if value is None or not isfinite(value) else value

    ordered = sorted(group, key=number)
    if most is None or len(ordered) <= most:
        return ordered
    highest = most // 2
    return ordered[: most - highest] + ordered[len(ordered) - highest :]
