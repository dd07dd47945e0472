"""The columns that a list needs of each run: of its JSON, what the names that are asked for may be found in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toyspec.catalog.tables import COLUMNS, name, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# What other names mean in a path of DuckDB's JSON depends on its version.
PLAIN = re.compile(r"[\w./ -]{1,200}")
_PREFIXES = ("config.", "model.", "last.", "best.", "nan.")
_OF_START = frozenset(["name", "group", "tag", "tags", "run_id", "progress"])
# The columns say neither that a whole number is an integer nor what a value is that is not text.
_IS_UNCLEAR = "(final_loss IS NULL OR final_loss = trunc(final_loss) OR reason IS NULL)"


def asked_columns(names: Sequence[str], *, has_words: bool) -> str:
    """Return the SQL of the columns of COLUMNS, in which JSON is left out that does not have one of *names*.

    *has_words* is true where words are searched in the names of the runs.
    """
    if has_words or not _OF_START.isdisjoint(names) or not all(map(PLAIN.fullmatch, names)):
        return ", ".join(map(name, COLUMNS))
    settings = {part: _with_a_setting(part, names) for part in ("config", "model")}
    replaced = settings | {"run_start": "NULL", "run_end": f"CASE WHEN {_IS_UNCLEAR} THEN run_end END"}
    replaced["metrics"] = f"CASE WHEN {_IS_UNCLEAR} THEN metrics ELSE {_metrics(names)} END"
    replaced |= dict.fromkeys(("findings", "tags"), "NULL")
    return ", ".join(f"{replaced.get(column, name(column))} AS {name(column)}" for column in COLUMNS)


def _with_a_setting(part: str, names: Iterable[str]) -> str:
    """Return the SQL of the settings of a run: null if none of *names* can be one, as the end of a key of JSON."""
    return f"CASE WHEN {holds_setting(part, names)} THEN {part} END"


def holds_setting(part: str, names: Iterable[str]) -> str:
    """Return the SQL of whether the settings of a run in *part*, ``config`` or ``model``, may have one of *names*."""
    ends = {each.rpartition(".")[2] for each in names}
    return " OR ".join(f"contains({part}, {text(end + chr(34))})" for end in sorted(ends)) or "false"


def _metrics(names: Iterable[str]) -> str:
    """Return the SQL of an object with the metrics of a run that *names* may mean."""
    keys = [f'"{metric}"' for metric in sorted({metric for each in names for metric in metrics_of(each)})]
    members = [f"{text(f'{key}:')} || json_extract(metrics, {text(f'$.{key}')})" for key in keys]
    return f"'{{' || concat_ws(',', {', '.join(members)}) || '}}'" if members else "NULL"


def metrics_of(asked: str) -> Iterator[str]:
    """Yield the metrics that a name may mean, that without any prefix last."""
    yield asked
    for prefix in _PREFIXES:
        asked = asked.removeprefix(prefix)
        yield asked
