"""Counts what the fault tests did, for the table that ``nox -s faults`` prints."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Literal

What = Literal[
    "faults injected",
    "crash states tried",
    "kills",
    "kills inside a write",
    "inputs fuzzed",
    "records acknowledged",
    "records lost",
    "records invented",
]

COUNTS: Counter[What] = Counter(
    {
        "faults injected": 0,
        "crash states tried": 0,
        "kills": 0,
        "kills inside a write": 0,
        "inputs fuzzed": 0,
        "records acknowledged": 0,
        "records lost": 0,
        "records invented": 0,
    }
)
"""What was done so far, in the order of the table."""

ROWS: dict[str, list[str]] = {"kills": [], "levels": []}
"""Lines of further tables, which tests add to."""

IS_LONG = os.environ.get("TOYSPEC_FAULTS") == "long"
"""True under ``nox -s faults``: loops run for minutes."""


def scaled(short: int, long: int) -> int:
    """Return how often a loop runs."""
    return long if IS_LONG else short


def count(what: What, number: int = 1) -> None:
    """Add *number* to a row of the table."""
    COUNTS[what] += number


def settle(written: Sequence[bytes], acknowledged: Collection[bytes], found: Sequence[bytes]) -> tuple[int, int]:
    """Return how many acknowledged records *found* has not, and how many it has that are not the next one written."""
    lost = len(set(acknowledged) - set(found))
    following = iter(written)
    invented = sum(1 for record in found if record not in following)
    count("records acknowledged", len(acknowledged))
    count("records lost", lost)
    count("records invented", invented)
    return lost, invented
