"""Faults: an exception arrives inside a call, as by Ctrl-C or a timeout."""

from __future__ import annotations

import os
import resource
import signal
from typing import TYPE_CHECKING

from conformance.faults.tracing import WRITES, held, let_go, wait_until_longer

if TYPE_CHECKING:
    from conformance.faults.case import Case


def inside_a_write(case: Case) -> None:
    """SIGINT raises an exception while a record is written; a full disk later takes no acknowledged record away."""
    case.needs("interrupt")
    os.makedirs(case.directory)
    case.run(held(WRITES, case.stream, "exit", 3))
    case.say_all(f"open replace {case.directory}", "start", "note 1 500")
    size = os.path.getsize(case.stream)
    case.program.send("note 2 500\n")
    wait_until_longer(case.stream, size)
    os.kill(case.program.pid, signal.SIGINT)
    let_go(case.program.pid)
    answer = case.take("", case.program.hear("note 2 500"))
    case.demand("interrupted" in answer.text, f"no exception arrived: {answer.text}")
    case.say_all("note 3 500")
    limit = os.path.getsize(case.stream) + 9
    resource.prlimit(case.program.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    case.refused("note 4 500")
    resource.prlimit(case.program.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    case.say_all("step 5", "end", "close")
    case.settle()
