"""Known failures: a file lists failing questions, each with a reason. An entry that is no longer true fails the run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from conformance.verdicts import Result

STALE = "the baseline names this question, which does not exist: remove the entry"
"""The message about an entry that matches no question."""

UNEXPLAINED = "say why"
"""The reason in a baseline that a program wrote; a person has to replace it."""


class BaselineError(ValueError):
    """A baseline is not well formed."""


@dataclass(frozen=True)
class Entry:
    """A failure that is known."""

    question: str
    """Name of a question; ``*`` and ``?`` match several, as in file names."""
    reason: str

    def matches(self, name: str) -> bool:
        """Return whether a question of this *name* is meant."""
        # Names contain brackets, so brackets match only themselves.
        return fnmatchcase(name, self.question.replace("[", "[[]"))


def load(path: str) -> list[Entry]:
    """Return the entries of the file at *path*; raise BaselineError, or OSError."""
    with open(path, encoding="utf-8") as file:
        try:
            content = json.load(file)
        except ValueError as error:
            raise BaselineError(f"{path} is not JSON: {error}") from None
    entries = content.get("known_failures") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise BaselineError(f"{path} must have a list named known_failures")
    return [_entry(path, index, item) for index, item in enumerate(entries)]


def apply(entries: Sequence[Entry], results: Iterable[Result]) -> tuple[list[Result], list[Entry]]:
    """Return the results, known failures as xfail and known failures that pass as xpass; and the unused entries."""
    used: set[Entry] = set()
    decided = []
    for result in results:
        entry = next((entry for entry in entries if entry.matches(result.question.name)), None)
        if entry is None or result.verdict not in {"pass", "fail", "deviation", "error"}:
            decided.append(result)
            continue
        used.add(entry)
        verdict = "xpass" if result.verdict == "pass" else "xfail"
        decided.append(result.named(verdict, f"known failure: {entry.reason}"))  # type: ignore[arg-type]  # a verdict
    return decided, [entry for entry in entries if entry not in used]


def as_text(results: Iterable[Result]) -> str:
    """Return a baseline of everything that fails in *results*; its reasons are still to be given."""
    failures = [result.question.name for result in results if result.verdict in {"fail", "error", "xfail"}]
    entries = [{"question": name, "reason": UNEXPLAINED} for name in failures]
    return json.dumps({"known_failures": entries}, indent=2) + "\n"


def _entry(path: str, index: int, item: object) -> Entry:
    place = f"{path}: known_failures/{index}"
    if not isinstance(item, dict) or item.keys() != {"question", "reason"}:
        raise BaselineError(f"{place} must be an object with the members question and reason")
    question, reason = item["question"], item["reason"]
    if not isinstance(question, str) or not isinstance(reason, str) or not question:
        raise BaselineError(f"{place}: question and reason must be text")
    if reason.strip() in {"", UNEXPLAINED}:
        raise BaselineError(f"{place} must give the reason why {question} fails")
    return Entry(question, reason)
