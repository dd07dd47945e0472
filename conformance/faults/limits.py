"""Faults: no room. A disk that is full, a limit of file size, and what others did to the stream before."""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING

from conformance.faults.case import START, STEP, MachineError
from conformance.faults.streams import count_in, found_in
from conformance.faults.tracing import WRITES, fill, held, let_go, small_disk, traced_child, wait_until_longer

if TYPE_CHECKING:
    from conformance.faults.case import Case

_LIMITED = ["sh", "-c", 'ulimit -S -f 6 && exec "$@"', "sh"]
"""Limits the size of files to six blocks, 3072 or 6144 bytes."""
_MANY = 60
_FRAGMENT = b'{"kind":"note","text":"' + b"y" * 20_000
_FOREIGN = b'{"kind":"foreign","t":1.5}\n'


def full_disk(case: Case) -> None:
    """A disk fills up and is freed; records are dropped and counted meanwhile, and whole lines are left."""
    with small_disk(case.folder, "96k") as disk:
        case.directory = os.path.join(disk, "demo")
        case.stream = os.path.join(case.directory, "events.jsonl")
        case.run()
        case.say_all(f"open replace {case.directory}", "start")
        ballast = fill(disk, 16_384)
        _until_refused(case, 3000)
        for number in (90, 91):
            case.refused(f"note {number} 3000")
        os.remove(ballast)
        _demand_all_counted(case)


def limit_of_size(case: Case) -> None:
    """The limit of file size is reached, with SIGXFSZ at its default; the program goes on when it is gone."""
    os.makedirs(case.directory)
    case.run(_LIMITED)
    case.say_all(f"open replace {case.directory}", "start")
    _until_refused(case, 400)
    case.refused("note 90 400")
    _lift(case)
    _demand_all_counted(case)


def limit_and_no_cut(case: Case) -> None:
    """A part of a line is written and cannot be cut off; no later record is glued to it."""
    os.makedirs(case.directory)
    case.run([*_LIMITED, *traced_child("ftruncate", case.stream, "error=EIO")])
    case.say_all(f"open replace {case.directory}", "start")
    _until_refused(case, 400)
    _lift(case)
    for command in ("step 100", "end", "close"):
        case.say(command)
    case.stop()
    with open(case.stream, "rb") as file:
        fragment = file.read().rpartition(b"\n")[2]
    case.settle(fragment=fragment)


def emptied(case: Case) -> None:
    """Another process empties the stream, and there is no room; the file does not grow by NULs."""
    _meet_no_room(case, b"")
    _go_on(case)
    case.demand(b"\0" not in case.files()["events.jsonl"], "NULs in the stream")


def appended(case: Case) -> None:
    """Another process appends a line, and there is no room; that line stays."""
    os.makedirs(case.directory)
    _meet_no_room(case, None)
    _go_on(case)
    case.demand(_FOREIGN in case.files()["events.jsonl"], "the line of another process is cut")


def appended_meanwhile(case: Case) -> None:
    """Another process appends a line after a part of a record was written, before the rest fails; that line stays."""
    os.makedirs(case.directory)
    case.run(held(WRITES, case.stream, "enter", 4))
    case.say_all(f"open replace {case.directory}", "start", "note 1 500")
    size = os.path.getsize(case.stream)
    _limit(case, size + 9)
    case.program.send("note 2 500\n")
    try:
        wait_until_longer(case.stream, size)
    except MachineError:
        # This writer asks for the limit first, and writes no part.
        case.demand(os.path.getsize(case.stream) == size, "the stream has changed")
    with open(case.stream, "ab") as file:
        file.write(_FOREIGN)
    let_go(case.program.pid)
    case.take("", case.program.hear("note 2 500"))
    _lift(case)
    for command in ("step 3", "end", "close"):
        case.say(command)
    case.stop()
    with open(case.stream, "rb") as file:
        content = file.read()
    case.demand(_FOREIGN in content, "the line of another process is cut")
    found = found_in(case.stream)
    case.demand(set(case.acknowledged) <= set(found.names), "acknowledged records are lost")
    case.demand(len(found.broken) <= 1, f"broken lines: {found.broken!r:.80}")


def full_while_resuming(case: Case) -> None:
    """The disk is full while a fragment is moved; it stays where it is, and a later start moves it."""
    with small_disk(case.folder, "96k") as disk:
        case.directory = os.path.join(disk, "demo")
        case.stream = os.path.join(case.directory, "events.jsonl")
        case.make(START + STEP + _FRAGMENT)
        case.acknowledged += ["run_start", "step 1"]
        before = case.files()
        ballast = fill(disk, 8192)
        case.run()
        opened = case.say(f"open resume {case.directory}")
        case.demand(not opened.is_ok or not case.say("resume 1").is_ok, "resumed on a full disk")
        case.demand(
            all(case.directory in text for text in case.failures), f"no path in a message: {case.failures!r:.120}"
        )
        case.say("close")
        case.demand_locked(is_locked=False, complaint="the failed start keeps its lock")
        case.stop()
        case.demand(case.files() == before, "a start that failed changed files")
        os.remove(ballast)
        case.run()
        case.say_all(f"open resume {case.directory}", "resume 1", "step 2", "end", "close")
        case.settle()
        side = case.files().get(f"events.jsonl.torn-{len(START + STEP)}")
        case.demand(side == _FRAGMENT, "the fragment is not in its side file")


def _until_refused(case: Case, size: int) -> None:
    for number in range(1, _MANY):
        if not case.say(f"note {number} {size}").is_ok:
            case.demand(case.directory in case.failures[-1], f"no path in a message: {case.failures[-1]:.120}")
            return
    case.demand(False, "there was room for everything")


def _demand_all_counted(case: Case) -> None:
    """Write on, and demand that the stream and the writer count what was dropped."""
    count = len(case.failures)
    case.say_all("step 100")
    dropped = case.say("dropped").text
    case.demand(dropped == str(count), f"{dropped} counted as dropped, not {count}")
    case.say_all("end", "close")
    found = case.settle()
    said = sum(map(count_in, found.own))
    case.demand(said == count, f"the notes count {said} dropped records, not {count}")


def _limit(case: Case, size: int) -> None:
    resource.prlimit(case.program.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def _lift(case: Case) -> None:
    _limit(case, resource.RLIM_INFINITY)


def _meet_no_room(case: Case, content: bytes | None) -> None:
    """Write, let another process change the stream (append to it when *content* is None), and run out of room."""
    os.makedirs(case.directory, exist_ok=True)
    case.run()
    case.say_all(f"open replace {case.directory}", "start", "note 1 500", "note 2 500")
    if content is None:
        with open(case.stream, "ab") as file:
            file.write(_FOREIGN)
    else:
        os.truncate(case.stream, 0)
        case.acknowledged.clear()
    _limit(case, os.path.getsize(case.stream) + 9)
    case.refused("note 3 500")
    _lift(case)


def _go_on(case: Case) -> None:
    case.say_all("step 4", "end", "close")
    case.settle()
