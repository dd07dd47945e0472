"""What became of the mutants, on disk, so that a sweep that was ended goes on."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Collection

    from conformance.mutation.rust.listing import Mutant

Killer = Literal["corpus", "tests", "compiler"]


@dataclass(frozen=True)
class Fate:
    """What became of one mutant."""

    mutant: Mutant
    by: Killer | None
    """What killed it; None where it survived. What the compiler refuses is not a mutant."""
    reason: str | None
    """What was wrong; None where it survived."""
    asked: int = 0
    """Number of questions that a survivor answered right."""
    is_tested: bool = False
    """True where the tests of the crate have run."""


class Memory:
    """Findings by the key of the mutant. Each holds while the function that the mutant changes stays the same."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._path = os.path.join(folder, "findings.json")
        self._found: dict[str, dict[str, Any]] = {}
        if os.path.exists(self._path):
            with open(self._path, encoding="utf-8") as file:
                self._found = json.load(file)

    def fate(self, mutant: Mutant, questions: Collection[str]) -> Fate | None:
        """Return what is known of *mutant*, None where nothing is. A kill holds while *questions* have its question."""
        found = self._found.get(mutant.key)
        if found is None or found["source"] != mutant.digest:
            return None
        if found["by"] == "corpus" and found["question"] not in questions:
            return None
        return Fate(mutant, found["by"], found["reason"], found["asked"], found["is_tested"])

    def asked(self, mutant: Mutant) -> str:
        """Return the name of the set of questions that *mutant* was asked, which the corpus did not kill."""
        return str(self._found[mutant.key]["corpus"])

    def questions(self, name: str) -> frozenset[str]:
        """Return the set of questions *name*, which :meth:`keep_questions` wrote; empty where there is none."""
        path = os.path.join(self._folder, f"asked-{name}.json")
        if not os.path.exists(path):
            return frozenset()
        with open(path, encoding="utf-8") as file:
            return frozenset(json.load(file))

    def keep_questions(self, name: str, digests: Collection[str]) -> None:
        """Write the set of questions *name* to disk."""
        path = os.path.join(self._folder, f"asked-{name}.json")
        if not os.path.exists(path):
            with open(path, "w", encoding="utf-8") as file:
                json.dump(sorted(digests), file, indent=0)

    def note(self, fate: Fate, question: str | None, corpus: str) -> None:
        """Remember *fate*, which *question* decided if the corpus did; else all questions of *corpus* were asked."""
        self._found[fate.mutant.key] = {
            "source": fate.mutant.digest,
            "by": fate.by,
            "reason": fate.reason,
            "asked": fate.asked,
            "question": question,
            "corpus": corpus,
            "is_tested": fate.is_tested,
        }
        with open(f"{self._path}.new", "w", encoding="utf-8") as file:
            json.dump(self._found, file, indent=0)
        os.replace(f"{self._path}.new", self._path)
