"""Faults: values that no reader would accept."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from conformance.faults.case import LeftOutError

if TYPE_CHECKING:
    from conformance.faults.case import Case

_HOSTILE = ("long-integer", "zeros", "bad-utf8", "twin-keys", "sparse", "nan", "deep", "long", "no-kind")
_MAY_BE_WRITTEN = {"bad-utf8", "nan"}
"""Replaced by U+FFFD where the language can hold no other text, and by null."""


def hostile(case: Case) -> None:
    """Each value is refused, or is a line that everybody can read; the run goes on after it."""
    os.makedirs(case.directory)
    case.run()
    case.say_all(f"open replace {case.directory}", "start", "step 1")
    tried = 0
    for name in _HOSTILE:
        try:
            answer = case.say(f"value {name}")
        except LeftOutError:
            continue
        tried += 1
        case.demand(name in _MAY_BE_WRITTEN or not answer.is_ok, f"{name} is acknowledged")
    case.demand(tried >= 5, f"only {tried} values were tried")
    case.say_all("step 2000", "end", "close")
    case.settle()
