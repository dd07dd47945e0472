"""What every run has, by the names of schemas/runs.json: commands, catalogs, the viewer and filters use these."""

from __future__ import annotations

from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toyspec.findings import state_text
from toyspec.format.numbers import number
from toyspec.format.run_files import is_of_latest_attempt
from toyspec.generated.runs import COLUMNS, PLANNED_STEPS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from toyspec.findings import Ended
    from toyspec.runs.summary import RunState, RunSummary

_MOST_CHARS = 4096
# As JavaScript writes numbers: outside of these, with an exponent.
_FIXED = (1e-6, 1e21)


class RankState(NamedTuple):
    """The state of the log of one process of a run."""

    rank: int
    state: RunState


class RunFacts:
    """The facts of one run, each made when it is asked for: of very many runs, a list asks for few."""

    def __init__(self, summary: RunSummary) -> None:
        self.summary = summary

    def __getitem__(self, name: str) -> Any:
        """Return the column *name*."""
        return getattr(self, name)

    def all(self) -> dict[str, Any]:
        """Return every column by its name."""
        return {name: self[name] for name in COLUMNS}

    @property
    def run(self) -> str:
        """See schemas/runs.json, as for all others."""
        return self.summary.name

    @property
    def path(self) -> str:
        """The directory of the run."""
        return self.summary.directory

    @property
    def run_id(self) -> str | None:
        """The id that the run gives itself."""
        return _text(self.summary.start.get("run_id"))

    @property
    def name(self) -> str:
        """The name by annotation, else the one that the run gives itself, else ``run``."""
        return self.summary.annotations.name or self._own("name")

    @property
    def group(self) -> str | None:
        """The group by annotation, else the one that the run names."""
        return self.summary.annotations.group or self._own("group")

    @property
    def tags(self) -> list[str]:
        """The tags that the run names, with those that annotations add, and without those that they remove."""
        return self.summary.annotations.tags(self._own("tags"))

    @property
    def notes(self) -> str | None:
        """The notes by annotation, else those that the run has."""
        return self.summary.annotations.notes or self._own("notes")

    @property
    def starred(self) -> bool:
        """Whether an annotation marks the run."""
        return self.summary.annotations.starred

    @property
    def hidden(self) -> bool:
        """Whether an annotation leaves the run out of lists."""
        return self.summary.annotations.hidden

    @property
    def said(self) -> dict[str, Any]:
        """What the run itself says where an annotation says otherwise: some of name, group, tags and notes."""
        own = {key: self._own(key) for key in ("name", "group", "tags", "notes")}
        return (
            {key: value for key, value in own.items() if value != self[key]} if self.summary.annotations.count else {}
        )

    def _own(self, key: str) -> Any:
        """Return what the run itself says: its name, group, tags or notes."""
        found = self.summary.start.get(key)
        if key == "tags":
            return [tag for tag in found if isinstance(tag, str)] if isinstance(found, list) else []
        return _text(found) or (self.run if key == "name" else None)

    @property
    def profile(self) -> str | None:
        """The profile of the stream, else the dialect."""
        summary = self.summary
        return summary.profile or (summary.dialect.name if summary.dialect else None)

    @property
    def state(self) -> RunState:
        """Whether the log is whole."""
        return self.summary.state

    @property
    def is_final_loss_not_finite(self) -> bool:
        """Whether the run has a loss at its end, and that is not finite."""
        return self.summary.says_final_loss and finite(self.final_loss) is None

    @property
    def ended(self) -> Ended:
        """Whether the run says that it ended."""
        return self.summary.ended

    @property
    def reason(self) -> str | None:
        """How the run ended."""
        return _text(self.summary.reason)

    @property
    def error(self) -> str | None:
        """What went wrong."""
        return _text((self.summary.end or {}).get("error")) if self.ended == "yes" else None

    @property
    def sealed(self) -> bool:
        """Whether the run has a seal."""
        return self.summary.sealed

    @property
    def first_step(self) -> int | None:
        """The first step."""
        return self.summary.first_step

    @property
    def last_step(self) -> int | None:
        """The last step."""
        return self.summary.last_step

    @property
    def progress(self) -> float | None:
        """The share of the planned steps that is done."""
        return progress_of(self.last_step, self.settings)

    @property
    def remaining(self) -> float | None:
        """The seconds that the planned steps still take, at the mean pace so far; None once the run has ended."""
        if self.ended == "yes":
            return None
        return remaining_of(self.seconds, (self.first_step, self.last_step), planned_of(self.settings))

    @property
    def state_text(self) -> str:
        """The state for people, with what is known of the end."""
        return state_text(self.state, self.ended)

    @property
    def final_loss(self) -> float | None:
        """The loss at the end."""
        return self.summary.final_loss

    @property
    def seconds(self) -> float | None:
        """How long the run took."""
        return self.summary.seconds

    @property
    def started_at(self) -> str | None:
        """When the run started."""
        return self.summary.started_at

    @property
    def records(self) -> int | None:
        """Number of records."""
        return self.summary.extent.records

    @property
    def bytes(self) -> int:
        """Size of the stream."""
        return self.summary.extent.size

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All settings of the run: see ``settings_of``."""
        return settings_of(self.summary.settled_start)


def unended(ranks: Iterable[RankState], world_size: int | None) -> list[RankState]:
    """Return those of *ranks* whose log is damaged, or torn and of the latest attempt, that of *world_size* processes.

    A process that a restart leaves out writes no end.
    """
    return [
        each
        for each in ranks
        if each.state == "damaged" or (each.state == "torn" and is_of_latest_attempt(each.rank, world_size))
    ]


def warnings_of(ranks: Sequence[tuple[int, str]], *, is_loss_not_finite: bool) -> list[str]:
    """Return in words why a run is not as well as its state says: *ranks* are the other ones that are not whole."""
    found = ["loss not finite"] if is_loss_not_finite else []
    if len(ranks) == 1:
        return [*found, f"rank {ranks[0][0]} {ranks[0][1]}"]
    return [*found, f"{len(ranks)} ranks torn or damaged"] if ranks else found


def settings_of(start: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in the first record of a run: flat, as numbers, text, booleans and None.

    A list is its JSON; of a text that is too long, the end is left out and its digest follows.
    """
    found: dict[str, Any] = {}
    for part in ("config", "model"):
        members = start.get(part)
        if isinstance(members, dict):
            prefix = "" if part == "config" else "model."
            found |= {cut(f"{prefix}{name}"): _scalar(value) for name, value in flat(members)}
    return found


def planned_of(settings: dict[str, Any]) -> float | None:
    """Return the number of steps that a run will do by its *settings*, more than 0; None where it is not known."""
    short = {name.rpartition(".")[2]: value for name, value in reversed(settings.items())}
    planned = next((found for name in PLANNED_STEPS if (found := number(short.get(name))) is not None), None)
    return planned if planned and planned > 0 else None


def progress_of(last_step: float | None, settings: dict[str, Any]) -> float | None:
    """Return the share of its planned steps that a run has done; None where it is not known."""
    planned = planned_of(settings)
    if last_step is None or planned is None:
        return None
    # A quotient may be beyond what a float holds.
    return 1.0 if last_step >= planned else max(0.0, last_step / planned)


def remaining_of(
    seconds: float | None, steps: tuple[float | None, float | None], planned: float | None
) -> float | None:
    """Return the seconds until *planned* steps are done, at the pace of the first and last of *steps* in *seconds*.

    None where it is not known.
    """
    first, last = steps
    if planned is None or first is None or last is None or last < first or not seconds or seconds < 0:
        return None
    try:
        found = seconds / (last - first + 1) * max(0.0, planned - last)
    except OverflowError:
        return None
    return found if isfinite(found) else None


def finite(value: Any) -> Any:
    """Return a number that JSON has; None for another."""
    found = number(value)
    return found if found is not None and isfinite(found) else None


def cut(text: str) -> str:
    """Return *text*, cut where it is too long for a table, with the digest of all: different texts stay different."""
    if len(text) <= _MOST_CHARS:
        return text
    return f"{text[:_MOST_CHARS]}… #{_digest(text.encode('utf-8', 'surrogatepass')):08x}"


def _scalar(value: Any) -> Any:
    if isinstance(value, str):
        return cut(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return finite(value)
    return cut(_json(value)) if isinstance(value, list | dict) else None


def _json(value: Any) -> str:
    """Return the JSON of *value* as JavaScript writes it: the viewer's own reader shows the same."""
    if isinstance(value, list):
        return f"[{','.join(map(_json, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{_json(key)}:{_json(member)}' for key, member in value.items())}}}"
    if isinstance(value, float | int) and not isinstance(value, bool):
        try:
            return number_text(float(value)) if isfinite(value) else "null"
        except OverflowError:
            return "null"
    return msgspec.json.encode(value).decode()


def number_text(value: float) -> str:
    """Return a number as JavaScript writes it; an integer that is too large for that, with all its digits."""
    if value == 0:
        return "0"
    if _FIXED[0] <= abs(value) < _FIXED[1]:
        from decimal import Decimal

        text = format(Decimal(repr(value)), "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, _, exponent = repr(value).partition("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent):+d}" if exponent else mantissa


def _digest(data: bytes) -> int:
    """Return the FNV-1a digest of *data*, 32 bits: the viewer's own reader has it too."""
    found = 0x811C9DC5
    for byte in data:
        found = ((found ^ byte) * 0x01000193) & 0xFFFFFFFF
    return found


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every member that is not an object by its name; inner members by the outer name, a dot and their own."""
    for key, member in value.items():
        if isinstance(member, dict) and member:
            yield from flat(member, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", member


def differing(each: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the names whose values are not the same in all of *each*, flat members of several runs, that have any.

    A run without members does not make those of the others a difference. Types count: 1, 1.0 and true differ.
    """
    telling = [members for members in each if members]
    names = {name for members in telling for name in members}
    return {name for name in names if len({repr(members.get(name, differing)) for members in telling}) > 1}
