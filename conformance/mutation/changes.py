"""What the list of survivors and the score know of a mutant, whatever language it is written in."""

from __future__ import annotations

from typing import Protocol

Place = tuple[str, str, str, str, int]
"""Module, function, original and mutated source, and which of several such mutants, from 1."""


class Mutant(Protocol):
    """One change of one module."""

    @property
    def module(self) -> str:
        """Short name of the module."""

    @property
    def function(self) -> str:
        """Name of the function, or of the constant."""

    @property
    def operator(self) -> str:
        """What kind of change it is."""

    @property
    def original(self) -> str:
        """The source that is changed."""

    @property
    def mutated(self) -> str:
        """What it becomes."""

    @property
    def place(self) -> Place:
        """What names it in a list of survivors."""


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
