"""A record as one readable line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toyspec.core.command_line.columns import cut
from toyspec.core.command_line.figures import figure
from toyspec.core.escaping import shortened
from toyspec.core.format.profiles import tag_of
from toyspec.core.reading.records import Row
from toyspec.core.runs.run_facts import flat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.core.command_line.terminal import Terminal
    from toyspec.core.reading.records import Record

# The members that name what an event is about.
_SUBJECTS = ("run_id", "name", "region", "param", "baseline_run_id")
# Members that the beginning of a line shows already, or that are the same in every record.
_SAID = frozenset(["kind", "type", "schema", "t", "step", "phase", "wall_time", "wall_time_ms", "minimize"])
_SCALAR = frozenset(["tag", "value"])
_STEPS = frozenset(["step", "_step", "global_step", "iteration", "iter"])
# Members that `toyspec show` shows better.
_LEFT_OUT = ("host.", "backend.", "git.")
_NAME_CHARS = 40
_TIME_COLUMNS = 12


def event_line(record: Record, terminal: Terminal, limit: int | None) -> str:
    """Return *record* as one line: time, what it is about, then its members; cut to *limit* columns."""
    time = _time(record).rjust(_TIME_COLUMNS)
    text = "  ".join([time, *_head(record), *_members(record)])
    if limit:
        text = cut(text, limit)
    return terminal.styled(text[: len(time)], "dim") + text[len(time) :]


def _head(record: Record) -> Iterator[str]:
    """Yield what the event is about: its kind and subject, or its step or tag where these are enough."""
    if isinstance(record, Row):
        step = "" if record.step is None else f"step {figure(record.step)}"
        yield from filter(None, [step, record.phase and figure(record.phase)])
        return
    value = record.value
    step = f"step {figure(value['step'])}" if "step" in value else ""
    if _is_scalar(record):
        yield step
        yield f"{figure(value.get('tag'))} {figure(value.get('value'))}"
        return
    if _is_step(record):
        yield step or "step"
    else:
        yield figure(record.kind)
        yield from (figure(value[key]) for key in _SUBJECTS if key in value)
        if step:
            yield step
    if record.kind == "step" and value.get("phase") not in (None, "train"):
        yield figure(value["phase"])


def _members(record: Record) -> Iterator[str]:
    if isinstance(record, Row):
        # A row without metrics says something else; its step was shown.
        others = (each for each in flat(record.value) if each[0] not in _STEPS or each[1] != record.step)
        members = record.values.items() or others
        yield from (f"{shortened(name, _NAME_CHARS)} {figure(member)}" for name, member in members)
        return
    said = _SAID | (_SCALAR if _is_scalar(record) else frozenset() if _is_step(record) else frozenset(_SUBJECTS))
    for name, member in flat(record.value):
        if name not in said and name != tag_of(record.profile) and not name.startswith(_LEFT_OUT):
            yield f"{shortened(name.removeprefix('extra.'), _NAME_CHARS)} {figure(member)}"


def _is_scalar(record: Record) -> bool:
    return record.profile == "kaun/v1" and record.kind == "scalar"


def _is_step(record: Record) -> bool:
    return record.profile == "metrics/v1" or record.kind == "step"


def _time(record: Record) -> str:
    """Return the time since the start of the run; where the record has only the time of day, that."""
    if record.time_origin == "unix":
        return _clock(record.time)
    return "" if record.time is None else f"{record.time:.1f} s"


def _clock(seconds: float | None) -> str:
    from time import gmtime, strftime

    if seconds is None or not 0 <= seconds < 1e11:
        return ""
    return strftime("%H:%M:%SZ", gmtime(seconds))
