"""What became of the mutants, on disk, so that a sweep that was ended goes on."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from conformance.mutation.rust.listing import Mutant, digest

if TYPE_CHECKING:
    from collections.abc import Collection

Killer = Literal["corpus", "tests", "compiler"]


@dataclass(frozen=True)
class Fate:
    """What became of one mutant."""

    mutant: Mutant
    by: Killer | None
    """What killed it; None where it survived. The compiler refuses what is no mutant at all."""
    reason: str | None
    """What was wrong; None where it survived."""
    asked: int = 0
    """Number of questions that a survivor answered right."""
    is_tested: bool = False
    """True where the tests of the crate have run."""


class Memory:
    """Findings by the key of the mutant. Each holds while the file that the mutant changes stays the same."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, "findings.json")
        self._found: dict[str, dict[str, Any]] = {}
        if os.path.exists(self._path):
            with open(self._path, encoding="utf-8") as file:
                self._found = json.load(file)

    def fate(self, mutant: Mutant, questions: Collection[str], corpus: str) -> Fate | None:
        """Return what is known of *mutant*, None where it has to be asked.

        A kill holds while its question is one of *questions*, a survival while *corpus* is the same.
        """
        found = self._found.get(mutant.key)
        if found is None or found["file"] != digest(mutant.path):
            return None
        if found["by"] == "corpus" and found["question"] not in questions:
            return None
        if found["by"] in {"tests", None} and found["corpus"] != corpus:
            return None
        return Fate(mutant, found["by"], found["reason"], found["asked"], found["is_tested"])

    def note(self, fate: Fate, question: str | None, corpus: str) -> None:
        """Remember *fate*, which *question* decided if the corpus did; write everything to disk."""
        self._found[fate.mutant.key] = {
            "file": digest(fate.mutant.path),
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
