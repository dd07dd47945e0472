"""What a mutant is, and what has to give it away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conformance.oracle.adapter import Oracle


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One wrong implementation."""

    make: type[Oracle]
    role: str
    """The role in which it is wrong."""
    proves: str
    """The statement of requirements.json that it breaks; cases that prove it have to kill it."""
    reason: str
    """A regular expression that a reason of the failure has to match: who dies of something else is not killed."""
    where: str = ""
    """Another statement whose cases show it, where the broken one is kept by every case; "" for the broken one."""
    talks: bool = False
    """True when its fault is in how it talks, so that it has to be a program."""

    @property
    def name(self) -> str:
        """Its name: lower case, with hyphens."""
        return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in self.make.__name__)[1:]

    @property
    def about(self) -> str:
        """What is wrong with it, in one sentence."""
        return (self.make.__doc__ or "").strip().partition("\n")[0]
