"""What each of several runs is called, and how names that are too long are cut.

``reference/viewer/src/names.ts`` does the same in the browser, and ``reference/python/tests/names.json`` is the
specification by example of both.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toyspec.core.runs.run_facts import RunFacts

ELLIPSIS = "…"
"""What a cut shows as."""
# A point is part of a number.
_WORDS = re.compile(r"([-_/ ,=:]+)")


def names_among(names: Sequence[str], paths: Sequence[str]) -> list[str]:
    """Return what to call each of several runs: its name, or its path where that ends in the name or another has it."""
    taken = Counter([*names, *paths])
    pairs = list(zip(names, paths, strict=True))
    return [path if taken[name] > 1 or f"/{path}".endswith(f"/{name}") else name for name, path in pairs]


def names_of(runs: Sequence[RunFacts]) -> list[str]:
    """Return what to call each of *runs*, which no root has in common: paths are those from the directory of all."""
    return names_among([run.name for run in runs], below_all([run.path for run in runs]))


def below_all(paths: Sequence[str]) -> list[str]:
    """Return *paths* from the directory that all have in common."""
    common = os.path.commonprefix(paths)  # noqa: RUF071 - the last slash of it counts, and addresses have no common path
    start = 1 + max(common.rfind("/"), common.rfind(os.sep))
    return [path[start:] for path in paths]


def cut_shared(names: Sequence[str], limit: float, measure: Callable[[str], float] = len) -> list[str]:
    """Return *names* whole, or, where one is longer than *limit*, without words that all have at the same place.

    An ellipsis is where words were. As few as suffice are cut, those at the end first. What differs is never cut:
    a name may stay longer. *measure* returns the length of a text.
    """
    best = {name: name for name in names}
    words = _aligned([_WORDS.split(name) for name in best])
    is_shared = [len(set(column)) == 1 for column in zip(*words, strict=True)]
    stretches = [list(places) for shared, places in groupby(range(len(is_shared)), is_shared.__getitem__) if shared]
    for places in reversed(stretches if len(words) > 1 else []):
        if max(map(measure, best.values())) <= limit:
            break
        if len("".join(words[0][at] for at in places)) > 1:
            for each in words:
                each[places[0] : places[-1] + 1] = [ELLIPSIS, *[""] * (len(places) - 1)]
        shorter = ["".join(each) for each in words]
        if len(set(shorter)) == len(best):
            best = dict(zip(best, shorter, strict=True))
    return [best[name] for name in names]


def _aligned(words: list[list[str]]) -> list[list[str]]:
    """Return as many words of each: where they are not, what is between those that all begin and end with is one."""
    least = min(map(len, words), default=0)
    if all(len(each) == least for each in words):
        return words
    begin = _alike(words, least - 1)
    end = _alike([each[::-1] for each in words], least - 1 - begin)
    return [[*each[:begin], "".join(each[begin : len(each) - end]), *each[len(each) - end :]] for each in words]


def _alike(words: Sequence[Sequence[str]], most: int) -> int:
    """Return the number of words, *most* at most, that all begin with."""
    columns = list(zip(*words, strict=False))[:most]
    return next((at for at, column in enumerate(columns) if len(set(column)) > 1), len(columns))
