"""Runs sessions of nox, each even if an earlier one fails, and ends with what each took.

Those of ``--touched`` run first, if the change is about them, then the positional sessions one after another, then the
lanes of ``--lane`` in parallel; one that is done takes the last session of another. `make test`, `make test-all` and
`.ci/run` call it. Only the standard library is used.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Sequence

LOGS = Path("build/checks")
NOX = [str(Path(sys.executable).with_name("nox")), "--no-error-on-missing-interpreters", "-s"]
COUNTS = re.compile(r"(passed|failed|error|no tests ran).* in [0-9.]+s")
"""pytest closes with one line of counts."""
POLL_SECONDS = 0.1
PATHS = {
    "docs": ("docs/", "spec/", "mkdocs.yml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md"),
    "viewer": ("reference/viewer/", "reference/typescript/"),
    "vscode": ("reference/vscode/", "reference/viewer/", "reference/typescript/"),
}
"""Where a change is about a session; for others, the folder of their name in reference/."""
OF_ALL = ("conformance/cases/", "schemas/", "noxfile.py", ".ci/", "Makefile")
"""Where it is about each session."""


@dataclass(frozen=True)
class Outcome:
    """What became of one session, and what it took."""

    words: str
    """The session with its arguments."""
    status: str
    seconds: float
    cpu_seconds: float
    """Processor time of the session and of all that it waited for."""


def changed() -> list[str] | None:
    """Return the files that differ from ``origin/main``, or without one from the commit before; None if unknown."""
    bases = [["git", "merge-base", "HEAD", "origin/main"], ["git", "rev-parse", "--verify", "HEAD~1"]]
    for command in bases:
        if base := _output(command):
            others = _output(["git", "ls-files", "--others", "--exclude-standard"]) or ""
            return [*(_output(["git", "diff", "--name-only", base.strip()]) or "").splitlines(), *others.splitlines()]
    return None


def _output(command: list[str]) -> str | None:
    """Return what *command* prints, None if it fails."""
    with contextlib.suppress(OSError):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return None if done.returncode else done.stdout
    return None


def is_touched(session: str, paths: list[str] | None) -> bool:
    """Return whether a change of *paths* is about *session*."""
    places = PATHS.get(session, (f"reference/{session}/",)) + OF_ALL
    return paths is None or any(path.startswith(places) for path in paths)


class Checks:
    """Sessions that run in some lanes until all have ended or the time is over."""

    def __init__(self, end: float | None, *, is_streamed: bool) -> None:
        self._end, self._is_streamed = end, is_streamed
        self._output, self._taking = threading.Lock(), threading.Lock()
        self._running: set[int] = set()
        self.outcomes: list[Outcome] = []

    def run(self, lane: list[str], lanes: Sequence[list[str]] = ()) -> None:
        """Run the sessions of *lane* one after another, then what is last in the longest of *lanes*."""
        while words := self._taken(lane, lanes):
            if self._is_over():
                self.outcomes.append(Outcome(words, "NOT RUN", 0, 0))
            else:
                self._check(words)

    def _taken(self, lane: list[str], lanes: Sequence[list[str]]) -> str | None:
        with self._taking:
            longest = max(lanes, key=len, default=[])
            return lane.pop(0) if lane else longest.pop() if longest else None

    def stop(self) -> None:
        """End everything that runs."""
        for group in list(self._running):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGTERM)

    def _is_over(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end

    def _check(self, words: str) -> None:
        name, *arguments = shlex.split(words)
        began = time.monotonic()
        self._say(f"\n== {words}{'' if self._is_streamed else ' (its output follows when it has ended)'}\n")
        path = _log(words)
        with path.open("wb") as log:
            # A group of its own, so that all of it can be ended; a file and no pipe, so that nothing that it leaves
            # behind holds up the end.
            process = subprocess.Popen(
                [*NOX, name, "--", *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._running.add(process.pid)
        with path.open("rb") as log:
            status, cpu_seconds = self._wait(process, log)
        self._running.discard(process.pid)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what the session has left behind
        seconds = time.monotonic() - began
        if not self._is_streamed:
            self._say(f"\n== output of {words}: {status}, {seconds:.0f} s\n", path.read_bytes())
        if status == "ok" and re.search(rb"^left out: ", path.read_bytes(), re.MULTILINE):
            status = "left out"
        self.outcomes.append(Outcome(words, status, seconds, cpu_seconds))

    def _wait(self, process: subprocess.Popen[bytes], log: BinaryIO) -> tuple[str, float]:
        """Return the status of *process*, and the processor time that it took; show what it prints meanwhile."""
        is_ended = False
        while True:
            child, status, used = os.wait4(process.pid, os.WNOHANG)
            if self._is_streamed:
                self._say("", log.read())
            if child:
                process.returncode = os.waitstatus_to_exitcode(status)
                word = "TOO LATE" if is_ended else "ok" if status == 0 else "FAILED"
                return word, used.ru_utime + used.ru_stime
            if self._is_over() and not is_ended:
                is_ended = True
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(POLL_SECONDS)

    def _say(self, text: str, output: bytes = b"") -> None:
        with self._output:
            sys.stdout.buffer.write(text.encode() + output)
            sys.stdout.buffer.flush()


def _log(words: str) -> Path:
    """Return the log of a session with these arguments: two parts of one session have two logs."""
    return LOGS / f"{re.sub('[^A-Za-z0-9_]+', '-', words).strip('-')[:100]}.log"


def main() -> int:
    """Run what the arguments name; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("targets", nargs="*", metavar="SESSION", help="a session, with its arguments if quoted")
    parser.add_argument(
        "--touched", nargs="+", default=[], metavar="SESSION", help="run those that the change is about"
    )
    parser.add_argument(
        "--lane", nargs="+", action="append", default=[], metavar="SESSION", help="run beside other lanes"
    )
    parser.add_argument("--budget", type=float, metavar="MINUTES", help="compare the whole time with this one")
    parser.add_argument("--limit", type=float, metavar="MINUTES", help="end what runs then, and report")
    options = parser.parse_args()
    LOGS.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    end = began + options.limit * 60 if options.limit else None
    first = Checks(end, is_streamed=True)
    beside = Checks(end, is_streamed=False)
    # An interrupt ends the main thread; the lanes must not keep the process.
    threads = [threading.Thread(target=beside.run, args=(lane, options.lane), daemon=True) for lane in options.lane]
    paths = changed() if options.touched else None
    is_asked = {session: is_touched(session, paths) for session in options.touched}
    first.outcomes += [Outcome(session, "unchanged", 0, 0) for session, asked in is_asked.items() if not asked]
    try:
        first.run([*(session for session, asked in is_asked.items() if asked), *options.targets])
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        first.stop()
        beside.stop()
        return 130
    return conclude([*first.outcomes, *beside.outcomes], time.monotonic() - began, options.budget)


def conclude(outcomes: list[Outcome], seconds: float, budget: float | None) -> int:
    """Print what each session took, and all together; return the exit status."""
    lines = ["", "== summary", f"  {'':19} {'':9} {'elapsed':>7}  {'CPU':>7}"]
    rows = [(each.words[:19], each.status, each.seconds, each.cpu_seconds) for each in outcomes]
    lines += [f"  {name:19} {status:9} {elapsed:5.0f} s  {cpu:5.0f} s" for name, status, elapsed, cpu in rows]
    lines.append(f"  {'all':19} {'':9} {seconds:5.0f} s  {sum(each.cpu_seconds for each in outcomes):5.0f} s")
    if budget is not None:
        word = "within" if seconds <= budget * 60 else "OVER"
        lines.append(f"  {word} the budget: {seconds / 60:.0f} of {budget:.0f} minutes")
    for each in outcomes:
        if each.seconds and (counts := _counts(_log(each.words))):
            lines.append(f"{each.words}: {counts}")
    print("\n".join(lines))
    return int(any(each.status not in {"ok", "left out", "unchanged"} for each in outcomes))


def _counts(log: Path) -> str:
    """Return how many tests passed and failed, empty where *log* is not one of pytest."""
    counts = [line for line in log.read_text(errors="replace").splitlines() if COUNTS.search(line)]
    return counts[-1].strip("= ") if counts and not counts[-1].startswith("test result") else ""


if __name__ == "__main__":
    sys.exit(main())
