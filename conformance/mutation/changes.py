"""What the list of survivors and the score know of a mutant, whatever language it is written in."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Protocol

Place = tuple[str, str, str, str, int]
"""Module, function, original and mutated source, and which of several such mutants, from 1."""


@dataclass(frozen=True)
class Mutant:
    """One change of one module."""

    module: str
    """Short name of the module."""
    function: str
    """Qualified name of the function, or name of the constant."""
    operator: str
    """What kind of change it is."""
    original: str
    """The source that is changed, on one line."""
    mutated: str
    """What it becomes."""
    occurrence: int
    """Counts, from 1, the mutants of one function that are the same in all of the above."""

    @property
    def place(self) -> Place:
        """What names it in a list of survivors."""
        return self.module, self.function, self.original, self.mutated, self.occurrence

    @property
    def key(self) -> str:
        """A short name that does not depend on line numbers."""
        digest = hashlib.sha256(repr(self.place).encode()).hexdigest()[:12]
        return f"{self.module}-{digest}"


class Fate(Protocol):
    """What became of one mutant."""

    @property
    def mutant(self) -> Mutant:
        """The mutant."""

    @property
    def reason(self) -> str | None:
        """What was wrong with an answer; None where it survived."""

    @property
    def asked(self) -> int:
        """Number of questions that it was asked."""
