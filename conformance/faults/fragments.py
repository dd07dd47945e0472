"""Faults: streams that end inside a line, and what is beside them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from conformance.faults.case import ENTRY, START, STEP
from conformance.faults.tracing import SYNCS, calls_in, traced

if TYPE_CHECKING:
    from conformance.faults.case import Case

SMALL = b'{"kind":"st'
LARGE = b'{"kind":"note","text":"' + b"z" * 200_000
_OFFSET = len(START + STEP)
SIDE = f"events.jsonl.torn-{_OFFSET}"


def torn(case: Case, fragment: bytes) -> None:
    """A run is resumed; the whole fragment is in a side file."""
    _tear(case, fragment)
    case.run()
    _resume(case)
    case.demand(case.files().get(SIDE) == fragment, "the fragment is not in its side file")


def torn_metrics(case: Case) -> None:
    """A log of metrics/v1 is appended to; the fragment is in a side file."""
    path = os.path.join(case.directory, "metrics.jsonl")
    case.make(ENTRY + LARGE, path)
    case.acknowledged.append("entry 1")
    case.run()
    case.say_all(f"append {path}", "entry 2", "close")
    case.settle(path)
    case.demand(case.files().get(f"metrics.jsonl.torn-{len(ENTRY)}") == LARGE, "the fragment is not in its side file")


def side_file_there(case: Case) -> None:
    """Side files of earlier tears are there; they stay unchanged."""
    _tear(case, SMALL)
    for name in (SIDE, f"{SIDE}-2"):
        case.make(name.encode(), os.path.join(case.directory, name))
    case.run()
    _resume(case)
    files = case.files()
    case.demand(all(files.get(name) == name.encode() for name in (SIDE, f"{SIDE}-2")), "a side file was overwritten")
    case.demand(files.get(f"{SIDE}-3") == SMALL, "the fragment is not in a new side file")


def killed_while_moving(case: Case, calls: str, path: str) -> None:
    """SIGKILL while a fragment is moved; every byte is in the stream or the side file, and a later start goes on."""
    _tear(case, LARGE)
    case.run(traced(calls, os.path.join(case.directory, path), "signal=KILL:when=1"))
    case.program.send(f"open resume {case.directory}\nresume 1\n")
    case.program.wait()
    case.abandon()
    files = case.files()
    is_there = files["events.jsonl"].endswith(LARGE) or files.get(SIDE) == LARGE
    case.demand(is_there, "bytes of the fragment are lost")
    case.run()
    _resume(case)
    case.demand(LARGE in case.files().values(), "bytes of the fragment are lost by the later start")


def cannot_be_cut(case: Case) -> None:
    """The stream cannot be cut; the start fails and leaves everything as it was."""
    _fail_to_move(case, traced("ftruncate", case.stream, "error=EIO"))


def side_file_fails(case: Case) -> None:
    """The side file cannot be synced; the start fails and leaves everything as it was."""
    _fail_to_move(case, traced(SYNCS, os.path.join(case.directory, SIDE), "error=EIO"))


def order_of_syncs(case: Case) -> None:
    """The side file and its directory are synced before the stream is cut."""
    log = os.path.join(case.folder, "log")
    _tear(case, SMALL)
    case.run(traced(f"{SYNCS},ftruncate", log=log))
    _resume(case)
    calls = calls_in(log)
    cut = next(
        (at for at, call in enumerate(calls) if call.startswith("ftruncate") and f"<{case.stream}>" in call), len(calls)
    )
    for path, what in ((os.path.join(case.directory, SIDE), "side file"), (case.directory, "directory")):
        is_synced = any("sync" in call and f"<{path}>" in call for call in calls[:cut])
        case.demand(is_synced, f"the {what} is not synced before the cut")


def step_before_resume(case: Case) -> None:
    """A resumed run gets a step before its run_resume; that is refused, and the run goes on."""
    case.make(START + STEP)
    case.acknowledged += ["run_start", "step 1"]
    case.run()
    case.say_all(f"open resume {case.directory}")
    case.demand(not case.say("step 2").is_ok, "a step without run_resume is written")
    case.say_all("resume 1", "step 2", "end", "close")
    case.settle()


def _tear(case: Case, fragment: bytes) -> None:
    case.make(START + STEP + fragment)


def _resume(case: Case) -> None:
    case.acknowledged[:0] = ["run_start", "step 1"]
    case.say_all(f"open resume {case.directory}", "resume 1", "step 2", "end", "close")
    case.settle()


def _fail_to_move(case: Case, prefix: list[str]) -> None:
    _tear(case, LARGE)
    before = case.files()
    case.run(prefix)
    opened = case.say(f"open resume {case.directory}")
    if opened.is_ok:
        case.refused("resume 1")
    case.demand(all(case.directory in text for text in case.failures), f"no path in a message: {case.failures!r:.120}")
    case.say("close")
    case.demand_locked(is_locked=False, complaint="the failed start keeps its lock")
    case.stop()
    case.demand(case.files() == before, f"files changed: {sorted(case.files())}")
