"""The items of a run: the smallest units that a destination carries, changes or drops, record by record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from toyspec.core.format.numbers import number
from toyspec.core.generated.fields import FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from toyspec.convert.reports import Cause, Ledger
    from toyspec.core.reading.attempts import Attempts
    from toyspec.core.reading.records import Record

ItemKind = Literal[
    "setting", "fact", "measure", "text", "histogram", "media", "alert", "note", "definition", "resume", "end", "record"
]
"""What an item is.

- ``setting``: a value of ``config``; names of nested objects are joined by ``/``.
- ``fact``: another member of run_start, for example ``tags``.
- ``measure``: a number, or null, at a time.
- ``text``: a text at a time; see ``Record.texts``.
- ``histogram``: ``Bins``; those of a gradient too.
- ``media``, ``alert``, ``note``, ``definition``, ``resume``: such a record; its value is all of it.
- ``end``: a member of run_end, for example ``reason``.
- ``record``: a record that is none of these; its value is all of it.
"""

_FRAMING = frozenset(["kind", "schema", "t", "run_id", "started_at", "phase", "step"])
_ENDING = frozenset(["kind", "t", "ended_at", "final_step", "final_loss", "phase", "step"])
# What is in the objects is a number or a text, or says what null was.
_HELD = frozenset(["kind", "phase", "t", "step", "epoch", "name"])
_OBJECTS = frozenset(["extra", "values", "texts", "nonfinite"])
_MEASURED = frozenset(["step", "scalars", "eval", "system"])
_OTHER_KINDS: dict[str, ItemKind] = {
    "media": "media", "alert": "alert", "note": "note", "define": "definition", "run_resume": "resume"
}  # fmt: skip


class Bins(NamedTuple):
    """A histogram."""

    edges: list[float]
    """Borders of the bins, one more than there are."""
    counts: list[float]


class Item(NamedTuple):
    """The smallest unit that a destination carries, changes or drops."""

    kind: ItemKind
    name: str
    value: Any
    record: dict[str, Any]
    """The record that it is from."""
    t: float
    """Seconds since the start of the run."""
    step: int | None
    place: str
    """For reports."""

    @property
    def of(self) -> str:
        """What it is, for reports: its kind, and for a record the kind of that, where the format has it."""
        kind = self.record.get("kind")
        return str(kind) if self.kind == "record" and kind in FIELDS["toy/v1"] else self.kind

    def drop(self, cause: Cause, ledger: Ledger) -> None:
        """Count it in *ledger* as dropped before a destination gets it."""
        ledger.kind = self.of
        ledger.lose(cause, self.place, self.shown)

    @property
    def shown(self) -> Any:
        """The value as reports show it."""
        return self.record if self.kind == "histogram" else self.value


class ItemRow(NamedTuple):
    """Items of one record that are sent together."""

    record: Record
    items: tuple[Item, ...]
    number: int = -1
    """Place of the record in its run, counted from 0 after the one of the start."""

    @property
    def t(self) -> float:
        """Seconds since the start of the run."""
        return float(self.record.time or 0.0)

    @property
    def step(self) -> int | None:
        """The step of the record; None if it has none."""
        return None if self.record.step is None else int(self.record.step)


def start_items(record: Record, start: dict[str, Any]) -> Iterator[Item]:
    """Yield the items of the run's first *record*; *start* is its value with what annotations say."""
    at, place = (float(record.time or 0.0), None), f"line {record.line}"
    yield from setting_items(record, start)
    for name, fact in start.items():
        # The names of values do not say the run's own phase, so that one other than train is a fact.
        is_framing = name in _FRAMING and (name != "phase" or fact == "train")
        if name != "config" and not is_framing:
            yield Item("fact", name, fact, start, *at, f"{place}: {name}")


def setting_items(record: Record, value: dict[str, Any]) -> Iterator[Item]:
    """Yield the settings in the ``config`` of *value*, that of *record*."""
    config = value.get("config")
    for name, setting in flat_settings(config) if isinstance(config, dict) else ():
        time = float(record.time or 0.0)
        yield Item("setting", name, setting, value, time, None, f"line {record.line}: config/{name}")


def flat_settings(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the settings in *config*, those of nested objects too: their names are joined by ``/``."""
    for key, value in config.items():
        if isinstance(value, dict) and value:
            yield from flat_settings(value, f"{prefix}{key}/")
        else:
            yield prefix + key, value


def items_of(record: Record, attempts: Attempts) -> Iterator[Item]:
    """Yield the items of *record*, one after the first of its run; *attempts* has learned it."""
    value = record.value
    at = (float(record.time or 0.0), None if record.step is None else int(record.step))
    place = f"line {record.line}"
    if record.kind == "run_end":
        for name in (name for name in value if name not in _ENDING):
            yield Item("end", name, value[name], value, *at, f"{place}: {name}")
    elif record.kind in _MEASURED:
        for name, measured in attempts.named_values(record).items():
            yield Item("measure", name, measured, value, *at, _place(place, name, at[1]))
        if record.epoch is not None and record.kind == "scalars":
            yield Item("measure", "epoch", record.epoch, value, *at, _place(place, "epoch", at[1]))
        for name, text in attempts.named_texts(record).items():
            yield Item("text", name, text, value, *at, _place(place, name, at[1]))
        for name, other in _others_in(record):
            yield Item("record", name, other, value, *at, _place(place, name, at[1]))
    elif (shown := _histogram(record)) is not None:
        yield Item("histogram", *shown, value, *at, f"{place}: {record.kind}")
    else:
        kind = _OTHER_KINDS.get(record.kind or "", "record")
        name = str(value.get("name")) if kind == "media" else record.kind or ""
        yield Item(kind, name, value, value, *at, f"{place}: {record.kind}")


def _place(line: str, name: str, step: int | None) -> str:
    return f"{line}: {name}" if step is None else f"{line}: {name} at step {step}"


def _histogram(record: Record) -> tuple[str, Bins] | None:
    """Return name and bins of a ``histogram``, or of the distribution of a ``grad``; None if they are not whole."""
    value = record.value
    if record.kind == "histogram":
        name, edges, counts = str(value.get("name")), value.get("edges"), value.get("counts")
    elif record.kind == "grad":
        name, counts = f"gradients/{value.get('param')}", value.get("histogram")
        low, high = number(value.get("min")), number(value.get("max"))
        if not isinstance(counts, list) or not counts or low is None or high is None:
            return None
        width = (high - low) / len(counts)
        edges = [*(low + width * at for at in range(len(counts))), float(high)]
    else:
        return None
    if not isinstance(edges, list) or not isinstance(counts, list) or len(edges) != len(counts) + 1 or not counts:
        return None
    is_whole = all(number(each) is not None for each in (*edges, *counts))
    return (name, Bins(edges, counts)) if is_whole else None


def _others_in(record: Record) -> Iterator[tuple[str, Any]]:
    """Yield the members of a measured record that are neither numbers nor texts, as its schema does not allow them."""
    value, declared = record.value, FIELDS["toy/v1"][record.kind or ""]
    is_read = bool(record.values or record.texts)
    for name, item in value.items():
        # An evaluation without a name does not say whose numbers it has; what is not declared is read but of scalars.
        if name in _HELD or item is None or item == {}:
            continue
        is_other = not isinstance(item, dict) if name in _OBJECTS else number(item) is None and name in declared
        if is_other or not is_read or (record.kind == "scalars" and name not in declared):
            yield name, item
    texts = value.get("texts")
    if isinstance(texts, dict) and is_read:
        yield from ((name, item) for name, item in texts.items() if not isinstance(item, str))
