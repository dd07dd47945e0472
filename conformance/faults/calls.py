"""Faults: calls of the system that fail."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from conformance.faults.case import ENTRY, START, STEP
from conformance.faults.streams import count_in, found_in
from conformance.faults.tracing import SYNCS, WRITES, calls_in, held, let_go, traced, wait_until_open

if TYPE_CHECKING:
    from conformance.faults.case import Case

_HEAD = b'{"kind":"'


def _start(case: Case, calls: str, inject: str, path: str = "", log: str = os.devnull) -> None:
    os.makedirs(case.directory, exist_ok=True)
    case.run(traced(calls, path or case.stream, inject, log))


def no_space_once(case: Case, error: str) -> None:
    """The third write fails; the record is dropped, and later ones and a note that counts it are written."""
    _start(case, WRITES, f"error={error}:when=3")
    case.say_all(f"open replace {case.directory}", "start", "step 1")
    case.refused("step 2")
    case.say_all("step 3", "step 4")
    case.demand(case.say("dropped").text == "1", "the dropped record is not counted")
    case.say_all("end", "close")
    found = case.settle()
    case.demand(sum(map(count_in, found.own)) == 1, "no note counts the dropped record")


def first_write(case: Case, error: str, exist: str, before: bytes = b"") -> None:
    """The first write of a start fails; every file is as it was, and none is new."""
    if before:
        case.make(before)
    files = case.files()
    _start(case, WRITES, f"error={error}:when=1")
    case.say_all(f"open {exist} {case.directory}")
    case.refused("resume 1" if exist == "resume" else "start")
    case.say("close")
    case.stop()
    case.demand(case.files() == files, f"the start failed, but files changed: {sorted(case.files())}")


def input_output_error(case: Case) -> None:
    """The third write fails for good; nothing before it is lost, and no later record is acknowledged and lost."""
    _start(case, WRITES, "error=EIO:when=3")
    case.say_all(f"open replace {case.directory}", "start", "step 1")
    case.refused("step 2")
    for command in ("step 3", "end", "close"):
        case.say(command)
    case.settle()


def interrupted(case: Case, error: str, when: str) -> None:
    """A write is interrupted, once or again and again; no call hangs."""
    _start(case, WRITES, f"error={error}:when={when}")
    case.say_all(f"open replace {case.directory}", "start", "step 1")
    for command in ("step 2", "step 3", "end", "close"):
        case.say(command)
    case.settle()
    case.demand("+" in when or "step 3" in case.acknowledged, "logging did not go on")
    case.demand(all(case.directory in text for text in case.failures), "no path in a message")


def short_write(case: Case) -> None:
    """A write takes nine bytes; the rest of the line follows, or nothing of it is acknowledged."""
    _start(case, WRITES, f"retval={len(_HEAD)}:when=3")
    case.say_all(f"open replace {case.directory}", "start", "step 1")
    is_acknowledged = case.say("step 2").is_ok
    case.say("step 3")
    case.say("close")
    case.stop()
    # strace only claims that nine bytes were written.
    found = found_in(case.stream)
    rests = [json.loads(_HEAD + line).get("step") for line in found.broken if line.startswith(b'step"')]
    case.demand(
        rests == ([2] if is_acknowledged else []), f"the rest of the line does not follow: {found.broken!r:.80}"
    )
    case.demand("step 1" in found.names, "step 1 is lost")
    case.demand("step 3" not in case.acknowledged or "step 3" in found.names, "step 3 is lost")


def empty_write(case: Case) -> None:
    """Writes take nothing and report no error; no call hangs, and nothing is acknowledged that is not there."""
    case.needs("count")
    _start(case, WRITES, "retval=0:when=3+")
    case.say_all(f"open replace {case.directory}", "start", "step 1")
    case.refused("step 2")
    for command in ("step 3", "close"):
        case.say(command)
    case.settle()


def sync_at_start(case: Case) -> None:
    """The sync of run_start fails; it is not repeated, and run_end is not acknowledged as if all were on the disk."""
    log = os.path.join(case.folder, "log")
    _start(case, SYNCS, "error=EIO:when=1", log=log)
    case.say_all(f"open replace {case.directory}")
    case.refused("start")
    case.say("step 1")
    case.refused("end")
    case.say("close")
    case.settle()
    case.demand(len(calls_in(log)) == 1, "the failed sync was repeated")


def sync_at_end(case: Case) -> None:
    """The sync of run_end fails, and that is reported."""
    _start(case, SYNCS, "error=EIO:when=2")
    case.say_all(f"open replace {case.directory}", "start", "step 1")
    case.refused("end")
    case.say("close")
    case.settle()


def directory_sync_error(case: Case) -> None:
    """The sync of the directory fails, and that is reported."""
    _start(case, SYNCS, "error=EIO", path=case.directory)
    case.say_all(f"open replace {case.directory}")
    case.refused("start")
    for command in ("step 1", "end", "close"):
        case.say(command)
    case.settle()


def directory_sync_missing(case: Case) -> None:
    """The file system cannot sync directories (EINVAL); logging goes on."""
    _start(case, SYNCS, "error=EINVAL", path=case.directory)
    case.say_all(f"open replace {case.directory}", "start", "step 1", "end", "close")
    case.settle()


def no_locks(case: Case, call: str, error: str) -> None:
    """One kind of locks is not available; logging goes on with the other."""
    case.make(START + STEP)
    case.run(traced(call, case.stream, f"error={error}"))
    case.acknowledged += ["run_start", "step 1"]
    case.say_all(f"open resume {case.directory}", "resume 1", "step 2", "end", "close")
    case.settle()


def lock_held(case: Case) -> None:
    """A lock is held by another process; the message reports it, and nothing changes."""
    case.needs("locks")
    case.needs("flock")
    case.make(START + STEP)
    before = case.files()
    case.run(traced("flock", case.stream, "error=EAGAIN"))
    for exist in ("resume", "replace"):
        message = case.say(f"open {exist} {case.directory}")
        message = message if not message.is_ok else case.say("resume 1" if exist == "resume" else "start")
        case.demand(not message.is_ok, f"{exist} goes on without its lock")
        case.demand("writer" in message.text, f"the message does not say why: {message.text[-80:]}")
    case.stop()
    case.demand(case.files() == before, "refused, but files changed")


def replaced_before_lock(case: Case) -> None:
    """The stream is replaced between open and lock; records go to the file that is at the path."""
    case.needs("locks")
    case.needs("flock")
    case.make(START + STEP)
    case.acknowledged += ["run_start", "step 1"]
    case.run(held("flock", case.stream, "enter", 1))
    case.program.send(f"open resume {case.directory}\n")
    wait_until_open(case.stream)
    case.make(START + STEP, f"{case.stream}.new")
    os.link(case.stream, f"{case.stream}.old")
    os.replace(f"{case.stream}.new", case.stream)
    let_go(case.program.pid)
    opened = case.take("open", case.program.hear("open"))
    case.demand(opened.is_ok, f"`open` failed: {opened.text[-80:]}")
    case.say_all("resume 1", "step 2", "end", "close")
    case.settle()
    files = case.files()
    case.demand(files["events.jsonl.old"] == START + STEP, "the old file was written to")
    # It is the stream to go on with, not the work of another process that has to be moved away.
    case.demand(sorted(files) == ["events.jsonl", "events.jsonl.old"], f"unexpected files: {sorted(files)}")


def one_write(case: Case) -> None:
    """A record of 300,000 bytes is handed over by one write."""
    log = os.path.join(case.folder, "log")
    _start(case, WRITES, "", log=log)
    case.say_all(f"open replace {case.directory}", "start", "note 1 300000", "close")
    case.settle()
    case.demand(len(calls_in(log)) == 2, f"two records took {len(calls_in(log))} writes")


def metrics_no_space(case: Case) -> None:
    """In metrics/v1, the second write fails with a full disk; the entry is refused, and later ones are written."""
    path = os.path.join(case.directory, "metrics.jsonl")
    case.make(ENTRY, path)
    case.acknowledged.append("entry 1")
    case.run(traced(WRITES, path, "error=ENOSPC:when=2"))
    case.say_all(f"append {path}", "entry 2")
    case.refused("entry 3")
    case.say_all("entry 4", "close")
    case.settle(path)
