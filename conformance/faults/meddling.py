"""Faults: what other processes, and other starts, do to the files of a run."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from typing import TYPE_CHECKING

from conformance.faults.case import ENTRY, START, STEP

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.faults.case import Case

_LOOK_SECONDS = 1.2
"""A writer looks at most once a second whether its path is still its file."""
_FOREIGN = b'{"kind":"foreign","t":1.5}\n'
_OTHER_ENTRY = ENTRY.replace(b'"step":1,', b'"step":0,')
_END = b'{"kind":"run_end","t":2.0,"reason":"completed"}\n'


def _meddled(case: Case, meddle: Callable[[], object]) -> None:
    os.makedirs(case.directory)
    case.run()
    case.say_all(f"open replace {case.directory}", "start", "step 1")
    meddle()
    case.say_all("step 2")
    time.sleep(_LOOK_SECONDS)
    case.say_all("step 3", "step 4", "end", "close")
    said = case.program.stderr()
    case.demand(case.stream in said, "nothing on standard error names the path")
    case.demand(said.count(case.stream) <= 2, "it is said again and again")
    case.settle()


def deleted(case: Case) -> None:
    """The stream is deleted; it is started again with all records."""
    _meddled(case, lambda: os.remove(case.stream))


def directory_deleted(case: Case) -> None:
    """The directory is deleted; the stream is started again with all records."""
    _meddled(case, lambda: shutil.rmtree(case.directory))


def renamed(case: Case) -> None:
    """The stream is renamed; it is started again, and the renamed file stays."""
    moved = f"{case.stream}.1"
    _meddled(case, lambda: os.rename(case.stream, moved))
    case.demand(case.files()["events.jsonl.1"].startswith(b'{"kind":"run_start"'), "the renamed file is changed")


def replaced(case: Case) -> None:
    """The stream is replaced; it is started again, and the other file is kept."""

    def replace() -> None:
        case.make(_FOREIGN, f"{case.stream}.new")
        os.replace(f"{case.stream}.new", case.stream)

    _meddled(case, replace)
    case.demand(_FOREIGN in case.files().values(), "the file of another process is gone")


def metrics_deleted(case: Case) -> None:
    """A log of metrics/v1 is deleted; that is said once, and all later entries are in a new file."""
    _metrics_meddled(case, os.remove)


def metrics_renamed(case: Case) -> None:
    """A log of metrics/v1 is renamed, as a log rotation does; the old file stays, later entries are in a new one."""
    _metrics_meddled(case, lambda path: os.rename(path, f"{path}.1"))
    case.demand(case.files()["metrics.jsonl.1"].count(b"\n") == 2, "the renamed file is changed")


def metrics_replaced(case: Case) -> None:
    """Another log of metrics/v1 is moved to the path; what it has is kept there or beside, and later entries follow."""

    def replace(path: str) -> None:
        case.make(_OTHER_ENTRY, f"{path}.new")
        os.replace(f"{path}.new", path)

    _metrics_meddled(case, replace)
    case.demand(_OTHER_ENTRY in b"".join(case.files().values()), "the entries of another process are gone")


def _metrics_meddled(case: Case, meddle: Callable[[str], object]) -> None:
    path = os.path.join(case.directory, "metrics.jsonl")
    case.make(ENTRY, path)
    case.run()
    case.say_all(f"append {path}", "entry 2")
    meddle(path)
    time.sleep(_LOOK_SECONDS)
    # What was written before may be in the old file alone.
    case.acknowledged.clear()
    case.say_all("entry 3", "entry 4")
    said = case.program.stderr()
    case.demand(path in said, "nothing on standard error names the path")
    case.demand(said.count(path) <= 2, "it is said again and again")
    case.say_all("close")
    case.settle(path)


def foreign_lines(case: Case) -> None:
    """Another process appends lines without a lock; both keep theirs."""
    os.makedirs(case.directory)
    case.run()
    case.say_all(f"open replace {case.directory}", "start", "step 1")
    for number in range(2, 6):
        with open(case.stream, "ab") as file:
            file.write(_FOREIGN)
        case.say_all(f"step {number}")
    case.say_all("end", "close")
    case.settle()
    case.demand(case.files()["events.jsonl"].count(_FOREIGN) == 4, "lines of another process are gone")


def three_replacements(case: Case) -> None:
    """Three starts replace the run; every earlier log is kept."""
    case.run()
    for number in range(4):
        case.acknowledged.clear()
        case.say_all(f"open replace {case.directory}", "start", f"step {number}", "close")
    case.settle()
    kept = b"".join(case.files().values())
    missing = [number for number in range(4) if b'"step":%d,' % number not in kept]
    case.demand(not missing, f"the logs of starts {missing} are gone")


def replaced_beside_ranks(case: Case) -> None:
    """A run of several ranks is replaced; their streams are kept, but for one that another process holds."""
    case.needs("locks")
    ranks = {
        f"events.rank-{rank}.jsonl": START + b'{"kind":"note","t":1.0,"text":"%d"}\n' % rank for rank in (1, 2, 10)
    }
    for name, content in ranks.items():
        case.make(content, os.path.join(case.directory, name))
    # Before there is a stream to replace, they are ranks of the new run; afterwards, an earlier one has been kept.
    case.run()
    case.say_all(f"open replace {case.directory}", "start", "step 1", "close")
    case.demand(ranks.items() <= case.files().items(), "ranks are moved though nothing is replaced")
    others = {"events.rank-01.jsonl": START, "events.rank-1.jsonl.prev": STEP}
    for name, content in others.items():
        case.make(content, os.path.join(case.directory, name))
    case.acknowledged.clear()
    with open(os.path.join(case.directory, "events.rank-2.jsonl"), "r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        case.say_all(f"open replace {case.directory}", "start", "step 2", "end", "close")
        case.settle()
    files = {name: content for name, content in case.files().items() if ".rank-" in name}
    kept = {f"{name}.prev": content for name, content in ranks.items() if "-2." not in name}
    moved = {"events.rank-1.jsonl.prev-1": STEP, "events.rank-01.jsonl": START}
    held = {"events.rank-2.jsonl": ranks["events.rank-2.jsonl"]}
    case.demand(files == {**kept, **moved, **held}, f"unexpected files of ranks: {sorted(files)}")


def empty_stream(case: Case) -> None:
    """An empty stream is replaced; the real log in .prev stays where it is."""
    case.make(b"")
    case.make(START + STEP + _END, f"{case.stream}.prev")
    case.run()
    case.say_all(f"open replace {case.directory}", "start", "step 1", "close")
    case.settle()
    files = case.files()
    case.demand(files.get("events.jsonl.prev") == START + STEP + _END, "the log in .prev is not there any more")
    case.demand(sorted(files) == ["events.jsonl", "events.jsonl.prev"], f"unexpected files: {sorted(files)}")


def refused_starts(case: Case) -> None:
    """Starts that are refused, or write nothing, change no file."""
    case.run()
    case.say("open replace " + os.path.join(case.folder, "other"))
    case.say("close")
    case.demand(not os.path.exists(os.path.join(case.folder, "other", "events.jsonl")), "an empty stream is left")
    for content, exist, command in (
        (START + STEP, "fail", "start"),
        (START + b"x\n" + STEP, "resume", "resume 1"),
        (b'{"a":1}\n{"b"', "resume", "resume 1"),
        (START + STEP, "replace", "step 5"),
    ):
        case.make(content)
        opened = case.say(f"open {exist} {case.directory}")
        if opened.is_ok:
            case.demand(not case.say(command).is_ok, f"{exist} of {content[-20:]!r} is not refused")
            case.say("close")
        case.demand(case.files() == {"events.jsonl": content}, f"{exist} changed files: {sorted(case.files())}")
    case.stop()


def held(case: Case, lock: Callable[[int, int], object]) -> None:
    """Another process holds the stream with one kind of lock; every start is refused, and nothing changes."""
    case.needs("locks")
    if lock is fcntl.flock:
        case.needs("flock")
    case.make(START + STEP)
    before = case.files()
    case.run()
    with open(case.stream, "r+b") as file:
        lock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        for exist, command in (("resume", "resume 1"), ("replace", "start"), ("fail", "start")):
            opened = case.say(f"open {exist} {case.directory}")
            case.demand(not opened.is_ok or not case.say(command).is_ok, f"{exist} writes to a stream that is held")
            case.say("close")
    case.stop()
    case.demand(case.files() == before, "refused, but files changed")


def opened_twice(case: Case) -> None:
    """The program opens its stream a second time; that is refused, and the first writer goes on with its locks."""
    case.make(START + STEP)
    case.acknowledged += ["run_start", "step 1"]
    case.run()
    case.say_all(f"open resume {case.directory}", "resume 1")
    case.refused(f"open resume {case.directory}")
    case.demand_locked(is_locked=True, complaint="the lock is gone after a second start")
    case.say_all("step 2", "end", "close")
    case.settle()


def own_reader(case: Case) -> None:
    """The program reads the stream that it writes, and closes what it read; the locks stay."""
    case.needs("locks")
    case.needs("flock")
    case.make(START + STEP)
    case.acknowledged += ["run_start", "step 1"]
    case.run()
    case.say_all(f"open resume {case.directory}", "resume 1", f"read {case.stream}")
    case.demand_locked(is_locked=True, complaint="the lock is gone after the program has read its stream")
    case.say_all("step 2", "end", "close")
    case.settle()


def forked_bundle(case: Case) -> None:
    """A forked child logs through RunBundle; nothing is raised there, and the parent goes on."""
    case.needs("bundle")
    case.run()
    case.say_all(f"bundle {case.directory}")
    case.acknowledged += ["run_start", "step 1", "step 3", "run_end"]
    found = case.settle()
    case.demand("step 2" not in found.names, "the child wrote its record")


def forked(case: Case) -> None:
    """A forked child writes; that is refused there, and the parent goes on with its lock."""
    os.makedirs(case.directory)
    case.run()
    case.say_all(f"open replace {case.directory}", "start", "step 1")
    child = case.say("fork 2")
    case.demand(not child.is_ok, "the child got an answer that its record is written")
    case.demand("crashed" not in child.text, "the child crashed")
    case.say_all("step 2", "end", "close")
    case.settle()
