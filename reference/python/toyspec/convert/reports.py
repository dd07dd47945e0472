"""Accounts for every item of a conversion: each one is carried, changed or dropped, with the cause."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from toyspec.core.escaping import printable, shortened
from toyspec.core.findings import PathError
from toyspec.core.reading.run_files import ranks_beside
from toyspec.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toyspec.core.findings import ReadReport


Effect = Literal["changed", "dropped"]
"""What happened to an item: its value, step or time differs in the result, or it is not in the result."""
MAX_EXAMPLES = 5
"""Examples that are kept of each cause, unless the caller asks for another number."""
_MOST_NAMES = 1000


class Cause(NamedTuple):
    """Why items are changed or dropped."""

    name: str
    effect: Effect
    meaning: str
    """What happens, in one sentence without a full stop."""


NOT_FINITE = Cause("not-finite", "changed", "NaN and infinities are written as null")
SETTING_AS_TEXT = Cause("setting-as-text", "changed", "a setting that JSON does not have is written as text")
NULL = Cause("null", "changed", "null is written as NaN: the original may have been NaN or an infinity")
TIME_JUMPS = Cause("clock-jump", "changed", "the clock went back, or forward by a year: the time is moved by as much")
TIME_UNUSABLE = Cause("time-unusable", "changed", "the time is not a date from 1970 to 9999; the one before is used")
STEP_UNUSABLE = Cause("step-unusable", "changed", "the step is not an integer ≥ 0; the value is written without a step")
WITHOUT_STEP = Cause("without-step", "changed", "a value without a step is written at step 0")
MILLISECONDS = Cause("milliseconds", "changed", "the time is rounded to whole milliseconds")
NO_PLACE = Cause("no-place", "dropped", "the target has no place for it")
OTHER_RANK = Cause("other-rank", "dropped", "the log of the first rank is sent; name that of another one by its path")
"""Of every export and mirror: the stream of a run is that of its first rank."""
PART_DROPPED = Cause("part-dropped", "changed", "a part of the item has no place in the target")
REPEATED = Cause("repeated-name", "dropped", "a later value in the same record has its name")
SUPERSEDED = Cause("superseded", "dropped", "the run went on after this end, or has a later one")
CHANGED_SETTING = Cause("changed-setting", "dropped", "the run changed the setting later")
DAMAGED = Cause("damaged", "dropped", "the bytes cannot be read; one item is counted for each damaged place")
INVALID = Cause("invalid", "dropped", "the record would make the stream invalid")
NOT_UTF8 = Cause("not-utf-8", "changed", r"bytes that are not UTF-8 are written as \xff")
SECRET = Cause("secret", "changed", "a secret in a setting is written as ***")
ROUNDED = Cause("binary64", "changed", "an integer is rounded to the nearest binary64")
BINARY32 = Cause("binary32", "changed", "the value is rounded to the nearest binary32")


class Example(msgspec.Struct, frozen=True):
    """One item that was changed or dropped."""

    place: str
    """Where it was in the source."""
    value: str
    """What it was, shortened."""
    became: str | None = None
    """What it is in the result; None where it is not there."""


class Loss(msgspec.Struct):
    """What one cause did."""

    cause: str
    effect: Effect
    meaning: str
    count: int = 0
    """Number of times; an item may be changed for several causes."""
    kinds: dict[str, int] = {}
    """The count by kind of items, for a run that is exported or mirrored: ``histogram``, ``media``, ``sample``, …"""
    examples: list[Example] = []


class Ledger:
    """Counts the items of one conversion.

    ``items`` is raised where an item is read. Each then ends in ``done`` or ``drop``; ``changed`` before ``done`` says
    that the item differs in the result. ``carry`` and ``lose`` count items of which nothing else is to be said.
    """

    def __init__(
        self,
        *,
        max_examples: int = MAX_EXAMPLES,
        watch: Callable[[int], None] | None = None,
        before: RunConversion | None = None,
    ) -> None:
        """Count from zero, or go on with the counts of *before*."""
        before = before or RunConversion(format="", source="", target="", run_id="")
        self.items, self.carried = before.items, before.carried
        self.changes, self.drops = before.changed, before.dropped
        self.left_out: Counter[str] = Counter()
        """Number of dropped values by name."""
        self.dropped: Counter[str] = Counter()
        """Number of all other dropped items by cause."""
        self.kind = ""
        """Kind of the item at hand, of a run that is exported or mirrored."""
        self.notes = list(before.notes)
        """Facts about the run as a whole."""
        self._losses: dict[str, Loss] = {loss.cause: loss for loss in before.losses}
        self._max_examples = max_examples
        self._is_changed = False
        self._watch = watch

    @property
    def losses(self) -> list[Loss]:
        """What each cause did, in the order in which they occurred."""
        return list(self._losses.values())

    @property
    def is_settled(self) -> bool:
        """True when every item that was read is carried, changed or dropped."""
        return self.items == self.carried + self.changes + self.drops

    def changed(self, cause: Cause, place: str, value: object, became: object = None) -> None:
        """Record that *value*, part of the item at hand, is *became* in the result."""
        self._is_changed = True
        self._add(cause, 1, place, value, became)

    def done(self, count: int = 1) -> None:
        """Record that the item at hand, the first of *count*, is in the result."""
        self.changes += self._is_changed
        self.carried += count - self._is_changed
        self._is_changed, self.kind = False, ""

    def drop(self, cause: Cause, place: str, value: object, *, count: int = 1, name: str = "") -> None:
        """Record that *count* items are not in the result: values of the *name*, if it has one."""
        self._is_changed = False
        self.drops += count
        counts, key = (self.left_out, name) if name else (self.dropped, cause.name)
        if key not in counts and len(counts) >= _MOST_NAMES:
            counts, key = self.dropped, "values of other names"
        counts[key] += count
        self._add(cause, count, place, value, None)
        self.kind = ""

    def carry(self, count: int = 1) -> None:
        """Count *count* items that are the same in the result."""
        self.items += count
        self.carried += count

    def lose(self, cause: Cause, place: str, value: object, *, count: int = 1, name: str = "") -> None:
        """Count *count* items that are not in the result."""
        self.items += count
        self.drop(cause, place, value, count=count, name=name)

    def note(self, text: str) -> None:
        """Add a fact about the run as a whole, once."""
        if text not in self.notes:
            self.notes.append(text)

    def advance(self, size: int) -> None:
        """Report that *size* more bytes of the source were read."""
        if self._watch is not None:
            self._watch(size)

    def _add(self, cause: Cause, count: int, place: str, value: object, became: object) -> None:
        loss = self._losses.get(cause.name)
        if loss is None:
            loss = self._losses[cause.name] = Loss(cause.name, cause.effect, cause.meaning)
        loss.count += count
        if self.kind:
            loss.kinds[self.kind] = loss.kinds.get(self.kind, 0) + count
        if len(loss.examples) < self._max_examples:
            before, after = _said(value), None if became is None else _said(became)
            if after == before and isinstance(became, str) and not isinstance(value, str):
                # It is the text of something else, such as null.
                after = json.dumps(became, ensure_ascii=False)
            loss.examples.append(
                Example(shortened(place), shortened(before), None if after is None else shortened(after))
            )


def _said(value: object) -> str:
    """Return *value* as a source writes it: a text unchanged, and what JSON has as JSON."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if value is None or isinstance(value, bool | dict | list | tuple):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return str(value)


def drop_damage(report: ReadReport, ledger: Ledger) -> None:
    """Drop each place of a stream that could not be read, by the *report* of its reading."""
    for gap in report.gaps:
        ledger.lose(DAMAGED, f"line {gap.line}", f"{gap.length} bytes: {gap.reason}")
    if report.unlisted_gaps:
        ledger.lose(DAMAGED, "further lines", "unreadable", count=report.unlisted_gaps)
    if report.fragment is not None:
        lost = f"{report.fragment.length} bytes after the last complete record"
        ledger.lose(DAMAGED, f"line {report.fragment.number}", lost)


def lose_ranks(stream: str, ledger: Ledger) -> None:
    """Drop the logs of the ranks beside *stream*, the log of the first one."""
    for rank, path in ranks_beside(stream).items():
        ledger.lose(OTHER_RANK, f"rank {rank}", os.path.basename(path))


def is_number(value: Any) -> bool:
    """Return whether *value* is a number, which booleans are not."""
    return type(value) in (float, int)


def at_step(step: object, name: str = "") -> str:
    """Return where a row, or its value *name*, was: for reports."""
    if not name:
        return "no step" if step is None else f"step {step}"
    return f"{name} without a step" if step is None else f"{name} at step {step}"


def step_of(step: Any) -> int | None:
    """Return *step* as the number of a step; None if it is not an integer ≥ 0."""
    if type(step) is float and step.is_integer():
        step = int(step)
    return step if type(step) is int and step >= 0 else None


def step_member(step: Any, place: str, ledger: Ledger) -> dict[str, int]:
    """Return *step* as a member; nothing without one, and, with an entry in the ledger, if it is not an integer ≥ 0."""
    number = step_of(step)
    if number is not None:
        return {"step": number}
    if step is not None:
        ledger.changed(STEP_UNUSABLE, place, step)
    return {}


def as_setting(value: Any, place: str, ledger: Ledger) -> Any:
    """Return *value*, a setting, as JSON has it: null for a number that is not finite, and a text for what it has not.

    Each of these is in the ledger.
    """
    if isinstance(value, float) and value - value != 0.0:
        ledger.changed(NOT_FINITE, place, value, "null")
        return None
    if isinstance(value, dict):
        return {str(key): as_setting(inner, f"{place}/{key}", ledger) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [as_setting(inner, f"{place}/{index}", ledger) for index, inner in enumerate(value)]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    ledger.changed(SETTING_AS_TEXT, place, type(value).__name__, value)
    return str(value)


REPORT_FILE = "import.json"
"""Name of the report of an import, in the bundle that it made."""
Direction = Literal["import", "export"]
Status = Literal["converted", "done-before"]
"""Whether a run was converted now, or was found converted from the same source."""


class RunConversion(msgspec.Struct, kw_only=True):
    """What became of one run; ``items`` is ``carried`` plus ``changed`` plus ``dropped``."""

    format: str
    """Name of the foreign format."""
    source: str
    """Path of what was read."""
    target: str
    """Path of what was written."""
    run_id: str
    status: Status = "converted"
    identity: str = ""
    """Digest of names, sizes and times of the source's files; a later import compares it."""
    item: str = "items"
    """What is counted, in the plural."""
    items: int = 0
    """Items in the source."""
    carried: int = 0
    """Items that are the same in the target."""
    changed: int = 0
    """Items that differ in the target."""
    dropped: int = 0
    """Items that are not in the target."""
    losses: list[Loss] = []
    """What each cause changed or dropped."""
    notes: list[str] = []
    """Facts about the run as a whole."""

    def take(self, ledger: Ledger) -> None:
        """Take over the counts of *ledger*, which must be settled."""
        assert ledger.is_settled, f"{self.source}: an item is unaccounted for"
        self.items, self.carried = ledger.items, ledger.carried
        self.changed, self.dropped = ledger.changes, ledger.drops
        self.losses, self.notes = ledger.losses, ledger.notes

    @property
    def has_damage(self) -> bool:
        """True if a part of the source could not be read."""
        return any(loss.cause == "damaged" for loss in self.losses)


class Totals(msgspec.Struct):
    """Sums over all runs."""

    runs: int = 0
    items: int = 0
    carried: int = 0
    changed: int = 0
    dropped: int = 0


class ConversionReport(msgspec.Struct, kw_only=True):
    """What a conversion did; ``schemas/conversion/v1/conversion.json`` describes it as JSON."""

    toyspec: str = __version__
    direction: Direction
    runs: list[RunConversion] = []
    errors: list[PathError] = []
    """Sources that could not be converted."""
    summary: Totals = msgspec.field(default_factory=Totals)

    def add(self, run: RunConversion) -> None:
        """Add *run* and its counts."""
        self.runs.append(run)
        total = self.summary
        self.summary = Totals(
            total.runs + 1,
            total.items + run.items,
            total.carried + run.carried,
            total.changed + run.changed,
            total.dropped + run.dropped,
        )


def text_of(run: RunConversion) -> Iterator[str]:
    """Yield lines that report *run* to a person."""
    route = f"{printable(run.target)}  from {printable(run.source)} ({run.format})"
    if run.status == "done-before":
        yield f"{route}: already there, the source has not changed"
        return
    counts = [f"{run.items} {run.item if run.items != 1 else run.item.removesuffix('s')}"]
    counts += [f"{count} {word}" for count, word in _parts(run) if count]
    yield f"{route}: {', '.join(counts)}"
    for loss in run.losses:
        kinds = f" ({', '.join(f'{kind} {count}' for kind, count in loss.kinds.items())})" if loss.kinds else ""
        yield f"  {loss.effect} {loss.count} ({loss.cause}): {printable(loss.meaning)}{kinds}"
        for example in loss.examples:
            became = "" if example.became is None else f" → {printable(example.became)}"
            yield f"      {printable(example.place)}: {printable(example.value)}{became}"
    for note in run.notes:
        yield f"  note: {printable(note)}"


def _parts(run: RunConversion) -> list[tuple[int, str]]:
    if run.carried == run.items:
        return [(run.items, "carried unchanged")] if run.items else []
    return [(run.carried, "carried"), (run.changed, "changed"), (run.dropped, "dropped")]
