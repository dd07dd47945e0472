"""Checks streams with several workers, in the order in which they are found."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from toyspec.distributed.processes import Processes
from toyspec.distributed.running import Work, results_of
from toyspec.distributed.threads import Threads
from toyspec.findings import FileReport, PathError, Skipped
from toyspec.runs.walking import STANDARD_INPUT, Found, Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from toyspec.distributed.crews import Workers

Verdict = FileReport | PathError | Skipped


def check_in_parallel(
    found: Iterable[Found], check: Callable[[Found], Verdict], workers: Workers
) -> Generator[tuple[Found, Verdict]]:
    """Yield each of *found* with the result of *check*, in order; *workers* call it.

    A stream that ends its worker each time is a PathError.
    """
    work: Work[Found, Verdict] = Work(partial(_check_batch, check=check), weight, _not_checked)
    for is_here, group in groupby(found, lambda item: item.path == STANDARD_INPUT):
        if is_here:  # only this process can read it
            yield from ((item, check(item)) for item in group)
            continue
        with closing(results_of(group, work, workers)) as results:
            yield from results


def workers_for(number: int, *, is_remote: bool) -> Workers:
    """Return *number* workers of this machine."""
    return Threads(number) if is_remote else Processes(number)


def weight(found: Found) -> int:
    """Return the number of bytes to read; 0 for a stream whose size is not known."""
    return found.size if isinstance(found, Stream) else 1


def _check_batch(batch: list[Found], check: Callable[[Found], Verdict]) -> list[Verdict]:
    return [check(item) for item in batch]


def _not_checked(item: Found, reason: str) -> PathError:
    return PathError(item.path, f"not checked: {reason}; all others were checked")
