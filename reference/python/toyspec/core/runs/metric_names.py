"""What the names of metrics say: which one is the loss, and whether smaller values are better."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from toyspec.core.escaping import shortened
from toyspec.core.generated.runs import LOSS_NAMES, SMALLER_IS_BETTER

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping


Meaning = TypeVar("Meaning")

MOST_ALIKE = 20_000
"""Number of names among which one that is alike is searched for, which takes a second."""


def near_names(name: str, known: Iterable[str]) -> str:
    """Return the question whether one of *known* was meant by *name*; empty where none is like it."""
    # Imported here: start-up time counts.
    from difflib import get_close_matches

    near = get_close_matches(name, list(islice(known, MOST_ALIKE)), 3, 0.51)
    return f"did you mean {' or '.join(repr(shortened(each)) for each in near)}?" if near else ""


def loss_among(metrics: Container[str]) -> str | None:
    """Return the name of the training loss among *metrics*; None if it is not there."""
    return next((name for name in LOSS_NAMES if name in metrics), None)


def losses_first(names: Iterable[str]) -> list[str]:
    """Return *names* in the order of lists: the training loss, other losses, the least nested, then by letters."""
    return sorted(names, key=lambda name: (name not in LOSS_NAMES, "loss" not in name.lower(), name.count("/"), name))


@lru_cache(maxsize=1024)
def default_goal(name: str) -> str | None:
    """Return ``min`` for a metric whose name says that smaller values are better, else None."""
    lowered = name.lower()
    return "min" if any(word in lowered for word in SMALLER_IS_BETTER) else None


def goal_of(name: str, goals: Mapping[str, str]) -> str | None:
    """Return the goal of the metric *name* by *goals*, whose names may end in ``*``, else by its name."""
    stated = defined(name, goals)
    return default_goal(name) if stated is None else stated


def defined(name: str, definitions: Mapping[str, Meaning]) -> Meaning | None:
    """Return what *definitions*, whose names may end in ``*``, say of the metric *name*; None for nothing."""
    if name in definitions:
        return definitions[name]
    fitting = [key for key in definitions if key.endswith("*") and name.startswith(key[:-1])]
    return definitions[max(fitting, key=len)] if fitting else None
