"""Faults: SIGKILL at a random moment."""

from __future__ import annotations

import os
import random
import shutil
import time
from typing import TYPE_CHECKING

from conformance.faults.case import LeftOutError
from conformance.faults.streams import found_in, name_of_command, wrong_in

if TYPE_CHECKING:
    from conformance.faults.case import Case

_ROUNDS = {False: 4, True: 60}
_PIPE_BYTES = 60_000


def killed(case: Case, size: int) -> None:
    """A saturated writer is killed; every acknowledged record is there, and a resumed run goes on."""
    for number in range(_ROUNDS[case.is_long]):
        shutil.rmtree(case.directory, ignore_errors=True)
        case.acknowledged.clear()
        commands = _commands(case, size)
        _kill(case, commands, random.Random(number).uniform(0.0, 0.08))
        found = found_in(case.stream)
        for wrong in wrong_in(found, case.acknowledged):
            case.demand(False, wrong)
        invented = set(found.names).difference(map(name_of_command, commands))
        case.demand(not invented, f"invented: {sorted(invented)[:1]}")
    if "run_start" not in found.names:
        raise LeftOutError("the writer was always killed before its first record")
    fragments = {found.fragment} - {b""}
    case.acknowledged[:] = found.names
    case.run()
    case.say_all(f"open resume {case.directory}", "resume 1", "step 2", "end", "close")
    case.settle()
    sides = {content for name, content in case.files().items() if ".torn-" in name}
    case.demand(sides == fragments, "the fragment is not in its side file")


def _commands(case: Case, size: int) -> list[str]:
    """Return as many commands as a pipe holds."""
    notes = (f"note {number} {size}" for number in range(1, _PIPE_BYTES // 20))
    return [f"open replace {case.directory}", "start", *notes]


def _kill(case: Case, commands: list[str], seconds: float) -> None:
    """Send *commands*, kill the program some time after its first answer, and take in what it acknowledged."""
    case.run()
    case.program.send("".join(f"{command}\n" for command in commands))
    case.take(commands[0], case.program.hear(commands[0]))
    case.take(commands[1], case.program.hear(commands[1]))
    time.sleep(seconds)
    case.program.kill()
    for command, answer in zip(commands[2:], case.program.answers_so_far(), strict=False):
        case.take(command, answer)
    case.abandon()
    case.demand(os.path.exists(case.stream), "no stream is there")
