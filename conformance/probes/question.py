"""One question to an implementation, and what it needs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from conformance.adapters import AdapterError
from conformance.revisions import CURRENT, as_numbers

if TYPE_CHECKING:
    from conformance.cases import Case

Ask = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Sends one request, without id, and returns the answer; raises AdapterError."""

ROLES = ("reader", "summarizer", "writer", "canonical-writer", "checker", "follower")

_NUMBERS = itertools.count(1)


class UntestableError(Exception):
    """The adapter answered that its library cannot do what is asked."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What a question needs to run."""

    ask: Ask
    new_folder: Callable[[], str]
    """Makes an empty folder for this question alone, and returns its path."""
    hello: Mapping[str, Any]
    revision: str = CURRENT
    """The revision that the requests are about; an adapter that names its revisions gets it."""

    def compares(self, since: str) -> bool:
        """Return whether what is compared since revision *since* counts; an earlier revision stays as it was."""
        return as_numbers(since) <= as_numbers(self.revision)

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to *request*; raise AdapterError, or UntestableError if that is the answer."""
        about = {"revision": self.revision} if "revisions" in self.hello else {}
        answer = self.ask({**request, **about})
        if "untestable" in answer:
            raise UntestableError(answer["untestable"])
        if isinstance(answer.get("error"), str):
            raise AdapterError(f"the adapter answered with an error: {answer['error']}")
        return answer


def capabilities_of(hello: Mapping[str, Any], role: str) -> frozenset[str]:
    """Return the capabilities that *hello* names for *role*: in a list for all roles, or in a list for each."""
    named = hello.get("capabilities", [])
    return frozenset(named.get(role, []) if isinstance(named, dict) else named)


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What an adapter must name in its hello for a question to apply."""

    profile: str | None = None
    mode: str | None = None
    capabilities: frozenset[str] = frozenset()
    locks: frozenset[str] = frozenset()
    """Kinds of locks that the writer must take."""
    is_in_lines: bool = False
    """True when only ``--lines`` mode can carry it: a stream stays open between two requests, or files go along."""

    def missing(self, hello: Mapping[str, Any], role: str) -> str | None:
        """Return what *hello* does not name for *role*, None if it names everything."""
        if self.profile is not None and self.profile not in hello["profiles"]:
            return f"profile {self.profile}"
        if self.mode is not None and self.mode not in hello.get("modes", [self.mode]):
            return f"mode {self.mode}"
        lacking = sorted(self.capabilities - capabilities_of(hello, role))
        if lacking:
            return f"capability {lacking[0]}"
        untaken = sorted(self.locks.difference(hello.get("locks", self.locks)))
        if untaken:
            return f"lock {untaken[0]}"
        return "--lines mode" if self.is_in_lines and not hello.get("lines") else None


@dataclass(frozen=True, kw_only=True)
class Question:
    """One thing to find out about an implementation."""

    case: Case
    role: str
    detail: str = ""
    """Distinguishes questions about one case, for example by the mode of a reader."""
    needs: Needs = field(default_factory=Needs)
    play: Callable[[Stage], list[str]]
    """Asks the question; returns the errors in the answers."""

    @property
    def name(self) -> str:
        """The name of the case with the role and the detail; no two questions share it."""
        return f"{self.case.name} [{self.role}{' ' if self.detail else ''}{self.detail}]"


def new_number() -> int:
    """Return a number that no other follower has."""
    return next(_NUMBERS)
