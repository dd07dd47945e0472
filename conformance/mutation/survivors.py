"""The committed list of mutants that no question can catch, each with the reason: `survivors.json`."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from conformance.mutation.subjects import HERE, MODULES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from conformance.mutation.changes import Mutant, Place

PATH = os.path.join(HERE, "survivors.json")
VERDICTS: Mapping[str, str] = {
    "equivalent": "behaves as the oracle does for every input",
    "not-observable": "differs only where no question can look, or where no implementation can be made to",
    "permitted": "differs in what the specification leaves open",
}
_REQUIRED = frozenset({"file", "function", "original", "mutated", "verdict", "reason"})
_KEYS = _REQUIRED | {"occurrence"}


class SurvivorsError(ValueError):
    """The list is not well formed."""


@dataclass(frozen=True)
class Listed:
    """One entry of the list."""

    place: Place
    verdict: Literal["equivalent", "not-observable", "permitted"]
    reason: str

    @property
    def module(self) -> str:
        """The short name of the module."""
        return self.place[0]


@dataclass(frozen=True)
class Survivors:
    """The whole list."""

    entries: Mapping[Place, Listed]

    def reason(self, mutant: Mutant) -> str | None:
        """Return why *mutant* may survive, None where it may not."""
        found = self.entries.get(mutant.place)
        return found.reason if found else None

    def unknown(self, mutants: Iterable[Mutant]) -> list[Listed]:
        """Return the entries that name none of *mutants*."""
        places = {mutant.place for mutant in mutants}
        return [entry for place, entry in self.entries.items() if place not in places]


def load(path: str = PATH, modules: Collection[str] = MODULES.keys()) -> Survivors:
    """Return the list in the file at *path*, which names some of *modules*; raise SurvivorsError."""
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    if content.keys() != {"survivors"}:
        raise SurvivorsError(f"{path}: expected the key survivors alone")
    entries = [_entry(f"{path}: survivors/{index}", item, modules) for index, item in enumerate(content["survivors"])]
    twice = [place for place, count in Counter(entry.place for entry in entries).items() if count > 1]
    if twice:
        raise SurvivorsError(f"{path}: listed twice: {' · '.join(map(str, twice[0]))}")
    return Survivors({entry.place: entry for entry in entries})


def as_json(mutant: Mutant, verdict: str = "", reason: str = "") -> dict[str, Any]:
    """Return the entry of *mutant*, as the file has it."""
    module, function, original, mutated, occurrence = mutant.place
    place = {"file": module, "function": function, "original": original, "mutated": mutated}
    which = {"occurrence": occurrence} if occurrence > 1 else {}
    return {**place, **which, "verdict": verdict, "reason": reason}


def _entry(place: str, item: Any, modules: Collection[str]) -> Listed:
    if not isinstance(item, dict) or not item.keys() >= _REQUIRED or not item.keys() <= _KEYS:
        raise SurvivorsError(f"{place}: expected the keys {', '.join(sorted(_REQUIRED))}, and perhaps occurrence")
    if item["verdict"] not in VERDICTS:
        raise SurvivorsError(f"{place}: verdict is {item['verdict']!r}, expected one of {', '.join(VERDICTS)}")
    if item["file"] not in modules:
        raise SurvivorsError(f"{place}: file is {item['file']!r}, which is not mutated")
    if not item["reason"].strip():
        raise SurvivorsError(f"{place}: the reason is empty")
    named = (item["file"], item["function"], item["original"], item["mutated"], item.get("occurrence", 1))
    return Listed(named, item["verdict"], item["reason"])
