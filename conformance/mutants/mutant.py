"""What a mutant is, and the reason for which it must fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conformance.oracle.adapter import Oracle


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One implementation with a known defect."""

    make: type[Oracle]
    role: str
    """The role in which it is wrong."""
    proves: str
    """The statement of requirements.json that it breaks; cases that prove the statement must kill it."""
    reason: str
    """A regular expression that a reason of the failure must match; a failure for another reason is not a kill."""
    where: str = ""
    """Another statement, if the cases of the broken one do not show the defect; "" for the broken one."""
    is_program: bool = False
    """True when its defect is in the protocol, so it has to run as a program."""

    @property
    def name(self) -> str:
        """Its name: lower case, with hyphens."""
        return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in self.make.__name__)[1:]

    @property
    def about(self) -> str:
        """What is wrong with it, in one sentence."""
        return (self.make.__doc__ or "").strip().partition("\n")[0]
