"""One run as a row of the table: see PROTOCOL.md of the viewer."""

from __future__ import annotations

import os
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any

from toyspec.escaping import encodable
from toyspec.generated.runs import COLUMNS
from toyspec.runs.run_facts import cut, finite, unended

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toyspec.reading.annotations import Annotations
    from toyspec.runs.run_facts import RankState
    from toyspec.runs.summary import RunSummary

MOST_SETTINGS = 100_000
MOST_METRICS = 1000
MOST_TAGS = 100


class RunRow(dict[str, Any]):
    """The row of a run whose members are made when they are asked for: a filter asks for few of very many runs."""

    def __init__(self, summary: RunSummary, run: str) -> None:
        """*run* is the id of the run of *summary*."""
        super().__init__(id=encodable(run))
        self.summary = summary
        self.facts = summary.facts

    def __missing__(self, name: str) -> Any:
        found = self[name] = _MEMBERS[name](self) if name in _MEMBERS else shown_fact(self.facts[name])
        return found


def distinct_names(names: Sequence[str], paths: Sequence[str]) -> list[str]:
    """Return what to call each of several runs: its name, or its path where another one has the same name."""
    numbers = Counter(names)
    return [path if numbers[name] > 1 else name for name, path in zip(names, paths, strict=True)]


def titles_of(runs: Sequence[RunSummary]) -> list[str]:
    """Return what to call *runs* where a short text counts: by annotation, as they call themselves, or by path.

    The path is that from the directory that all have in common.
    """
    paths = [run.directory for run in runs]
    common = os.path.commonprefix(paths)  # noqa: RUF071 - the last slash of it counts, and addresses have no common path
    start = 1 + max(common.rfind("/"), common.rfind(os.sep))
    return distinct_names([run.facts.name for run in runs], [path[start:] for path in paths])


def row_of(summary: RunSummary, run: str) -> dict[str, Any]:
    """Return the row of *summary*, whose id is *run*; ``findings`` is None, since nothing has checked it.

    It has the first ``MOST_METRICS`` metrics, and the number of the others.
    """
    # Imported here: a filter of a catalog asks for rows, and needs nothing that reads a run.
    from toyspec.runs.rank_states import states_of_other_ranks

    row = RunRow(summary, run)
    found = {name: row[name] for name in ("id", *ROW, *_MEMBERS)}
    if said := row.facts.said:
        found["said"] = _said(said)
    found |= remarks(is_loss_not_finite=row.facts.is_final_loss_not_finite, world_size=summary.world_size)
    members = named_members(row.facts.settings, found["metrics"], left_out=summary.metrics_left_out)
    found |= {"findings": None, **members, "message": None}
    if summary.known_ranks is None:
        return with_ranks(found, states_of_other_ranks(summary.path))
    return with_ranks(found, summary.known_ranks, are_served=False)


def with_ranks(row: dict[str, Any], others: Sequence[RankState], *, are_served: bool = True) -> dict[str, Any]:
    """Return *row* with the ranks from 1 on as they are now, in place of those that were there when it was made.

    Those that are not *are_served* have no curves of their own: only which are not whole is in the row.
    """
    kept = {name: value for name, value in row.items() if name not in ("other_ranks", "unended_ranks")}
    served = [each.rank for each in others] if are_served else ()
    return kept | remarks(other_ranks=served, unended_ranks=unended(others, row.get("world_size")))


def remarks(
    *,
    is_loss_not_finite: bool = False,
    world_size: int | None = None,
    other_ranks: Sequence[int] = (),
    unended_ranks: Sequence[Sequence[int | str]] = (),
) -> dict[str, Any]:
    """Return the members that a row has only where there is something to say."""
    found = {
        "loss_not_finite": is_loss_not_finite,
        "world_size": world_size,
        "other_ranks": list(other_ranks),
        "unended_ranks": [list(each) for each in unended_ranks],
    }
    return {name: value for name, value in found.items() if value}


def named_members(settings: dict[str, Any], metrics: dict[str, Any], *, left_out: int = 0) -> dict[str, Any]:
    """Return the first settings and metrics of a run, and the number of the others; *left_out* metrics are not here."""
    more = {"metrics": max(0, len(metrics) - MOST_METRICS) + left_out, "config": max(0, len(settings) - MOST_SETTINGS)}
    return {"config": _first(settings, MOST_SETTINGS), "metrics": _first(metrics, MOST_METRICS), "left_out": more}


def _first(members: dict[str, Any], most: int) -> dict[str, Any]:
    return members if len(members) <= most else dict(islice(members.items(), most))


def annotated(row: dict[str, Any], annotations: Annotations) -> dict[str, Any]:
    """Return *row* with what *annotations* say now, in place of what they said when it was made."""
    own: dict[str, Any] = {name: row[name] for name in ("name", "group", "tags", "notes")} | row.get("said", {})
    texts = {name: getattr(annotations, name) for name in ("name", "group", "notes")}
    found = {name: cut(encodable(text)) for name, text in texts.items() if text} | {
        "tags": shown_tags(annotations.tags(own["tags"]))
    }
    said = {name: own[name] for name, value in found.items() if own[name] != value}
    flags = {"starred": annotations.starred, "hidden": annotations.hidden}
    rest = {name: value for name, value in row.items() if name != "said"}
    return rest | own | found | flags | ({"said": said} if said else {})


def _said(said: dict[str, Any]) -> dict[str, Any]:
    shown = {name: cut(encodable(text)) if isinstance(text, str) else text for name, text in said.items()}
    return shown | ({"tags": shown_tags(said["tags"])} if "tags" in said else {})


def shown_tags(tags: Sequence[str]) -> list[str]:
    """Return *tags* as a row has them."""
    return list(map(cut, tags[:MOST_TAGS]))


ROW = tuple(name for name in COLUMNS if name not in ("run", "path", "profile", "tags", "name"))
"""The columns that a row has unchanged; ``profile`` and ``dialect`` are apart in it."""

_MEMBERS: dict[str, Callable[[RunRow], Any]] = {
    "name": lambda row: cut(encodable(row.facts.name)),
    "tags": lambda row: shown_tags(row.facts.tags),
    "profile": lambda row: row.summary.profile,
    "dialect": lambda row: None if row.summary.dialect is None else row.summary.dialect.name,
    "config": lambda row: _first(row.facts.settings, MOST_SETTINGS),
    "metrics": lambda row: {cut(name): _metric(row.summary, name) for name in row.summary.series},
}


def shown_fact(value: Any) -> Any:
    """Return a fact as JSON can hold it and a table shows it."""
    return cut(value) if isinstance(value, str) else finite(value) if isinstance(value, float) else value


def unreadable_row(run: str, message: str, size: int) -> dict[str, Any]:
    """Return the row of a run that could not be read."""
    known: dict[str, Any] = {"name": encodable(os.path.basename(run)), "state": "damaged", "ended": "unknown"}
    known |= dict.fromkeys(("sealed", "starred", "hidden"), False)
    return {
        "id": encodable(run), **dict.fromkeys((*ROW, "dialect", "profile", "findings")), **known, "tags": [],
        "bytes": size, "config": {}, "metrics": {}, "left_out": {"metrics": 0, "config": 0}, "message": message,
    }  # fmt: skip


def unread_row(run: str, size: int) -> dict[str, Any]:
    """Return the row of a run that was not read yet: what a search has found of it, and nothing else."""
    return {"id": encodable(run), "name": encodable(os.path.basename(run)), "bytes": size, "state": "unread"}


def _metric(summary: RunSummary, name: str) -> dict[str, Any]:
    curve = summary.series[name]
    smaller = summary.smaller_is_better(name)
    best = summary.best(name)
    step_name = summary.axis_of(name)
    return {
        "last": finite(curve.last_finite),
        "best": None if best is None else finite(best[1]),
        "goal": None if smaller is None else "min" if smaller else "max",
        "count": curve.count,
        "nan": curve.not_finite,
        **({"last_not_finite": True} if curve.last is not None and finite(curve.last[1]) is None else {}),
        **({} if step_name in (None, name) else {"step_name": cut(step_name)}),
    }
