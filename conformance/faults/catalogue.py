"""The faults, in the order of the table."""

from __future__ import annotations

import fcntl
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from conformance.faults import calls, deaths, fragments, interrupts, limits, meddling, places, values
from conformance.faults.case import START, STEP
from conformance.faults.tracing import COPIES, SYNCS

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.faults.case import Case


_RUN = START + STEP


@dataclass(frozen=True)
class Fault:
    """One row of the table; its parts are run one after the other, each in a folder of its own."""

    title: str
    parts: tuple[Callable[[Case], None], ...]


_FIRST_WRITE = Fault(
    "the first write fails: EIO, ENOSPC",
    tuple(
        partial(calls.first_write, error=error, exist=exist, before=before)
        for error in ("EIO", "ENOSPC")
        for exist, before in (("replace", b""), ("fail", b""), ("replace", _RUN), ("resume", _RUN))
    ),
)


def _calls() -> list[Fault]:
    return [
        Fault(
            "a write fails: ENOSPC, EDQUOT", tuple(partial(calls.no_space_once, error=e) for e in ("ENOSPC", "EDQUOT"))
        ),
        _FIRST_WRITE,
        Fault("a write fails in metrics/v1: ENOSPC", (calls.metrics_no_space,)),
        Fault("a write fails: EIO", (calls.input_output_error,)),
        Fault(
            "a write fails now and then, or every time: EINTR, EAGAIN",
            tuple(
                partial(calls.interrupted, error=e, when=w)
                for e, w in (("EINTR", "3..20"), ("EAGAIN", "3"), ("EAGAIN", "3+"))
            ),
        ),
        Fault("a write takes nine bytes; writes take none", (calls.short_write, calls.empty_write)),
        Fault("a record of 300 kB is one write", (calls.one_write,)),
        Fault("fsync fails at run_start, at run_end", (calls.sync_at_start, calls.sync_at_end)),
        Fault("fsync of the directory: EIO, EINVAL", (calls.directory_sync_error, calls.directory_sync_missing)),
        Fault(
            "no locks: flock ENOLCK, EOPNOTSUPP; record locks EINVAL, ENOLCK",
            tuple(
                partial(calls.no_locks, call=call, error=error)
                for call, error in (
                    ("flock", "ENOLCK"),
                    ("flock", "EOPNOTSUPP"),
                    ("fcntl", "EINVAL"),
                    ("fcntl", "ENOLCK"),
                )
            ),
        ),
        Fault(
            "another process holds the stream: flock, record lock",
            (calls.lock_held, partial(meddling.held, lock=fcntl.flock), partial(meddling.held, lock=fcntl.lockf)),
        ),
        Fault("the program opens its stream again, reads it", (meddling.opened_twice, meddling.own_reader)),
        Fault("the stream is replaced between open and lock", (calls.replaced_before_lock,)),
        Fault("an exception inside a write, then no room", (interrupts.inside_a_write,)),
    ]


def _room() -> list[Fault]:
    return [
        Fault("the disk is full, then freed", (limits.full_disk,)),
        Fault("the disk is full while resuming", (limits.full_while_resuming,)),
        Fault("limit of file size, SIGXFSZ at its default", (limits.limit_of_size,)),
        Fault("a part of a line cannot be removed", (limits.limit_and_no_cut,)),
        Fault("emptied by another process, then no room", (limits.emptied,)),
        Fault("appended to by another process, then no room", (limits.appended, limits.appended_meanwhile)),
    ]


def _ends() -> list[Fault]:
    return [
        Fault("SIGKILL: records of 100 bytes", (partial(deaths.killed, size=100),)),
        Fault("SIGKILL: records of 3 kB", (partial(deaths.killed, size=3000),)),
        Fault("SIGKILL: records of 300 kB", (partial(deaths.killed, size=300_000),)),
        Fault(
            "torn: a fragment, NULs", tuple(partial(fragments.torn, fragment=f) for f in (fragments.SMALL, bytes(5000)))
        ),
        Fault("torn: a fragment of 200,000 bytes", (partial(fragments.torn, fragment=fragments.LARGE),)),
        Fault("torn: metrics/v1", (fragments.torn_metrics,)),
        Fault("torn: side files are there already", (fragments.side_file_there,)),
        Fault(
            "SIGKILL while a fragment is moved",
            (
                partial(fragments.killed_while_moving, calls="ftruncate", path="events.jsonl"),
                partial(fragments.killed_while_moving, calls=SYNCS, path="."),
                partial(fragments.killed_while_moving, calls=COPIES, path=fragments.SIDE),
            ),
        ),
        Fault("a fragment cannot be moved or cut: EIO", (fragments.side_file_fails, fragments.cannot_be_cut)),
        Fault("side file and directory are synced before the cut", (fragments.order_of_syncs,)),
        Fault("a step after resuming without run_resume", (fragments.step_before_resume,)),
    ]


def _others() -> list[Fault]:
    return [
        Fault("deleted while open: stream, directory", (meddling.deleted, meddling.directory_deleted)),
        Fault("renamed or replaced while open", (meddling.renamed, meddling.replaced)),
        Fault("deleted while open: metrics/v1", (meddling.metrics_deleted,)),
        Fault("renamed or replaced while open: metrics/v1", (meddling.metrics_renamed, meddling.metrics_replaced)),
        Fault("another process appends lines", (meddling.foreign_lines,)),
        Fault("three replacing starts", (meddling.three_replacements,)),
        Fault("a run of several ranks is replaced", (meddling.replaced_beside_ranks,)),
        Fault("an empty stream is replaced", (meddling.empty_stream,)),
        Fault("refused starts change nothing", (meddling.refused_starts,)),
        Fault("a directory at the path, a file above it", (places.directory, places.file_above)),
        Fault("a FIFO at the path, a socket", (places.fifo, places.fifo_with_reader, places.socket_file)),
        Fault("a link to /dev/null at the path", (places.null_link,)),
        Fault("a forked child writes", (meddling.forked,)),
        Fault("a forked child writes through RunBundle", (meddling.forked_bundle,)),
        Fault("hostile values", (values.hostile,)),
    ]


FAULTS = (*_calls(), *_room(), *_ends(), *_others())
