"""``toyspec seal``: write the digests of all files of a run, so that `toyspec check` finds every later change."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Literal

from toyspec.core.command_line.figures import counted, shown, size
from toyspec.core.command_line.parsers import Parser, UsageError, local_path
from toyspec.core.command_line.progress import Progress
from toyspec.core.command_line.terminal import Terminal
from toyspec.core.commands.stream_changes import change_each
from toyspec.core.errors import StreamError, StreamRefusedError
from toyspec.core.findings import PathError
from toyspec.core.format.profiles import SEAL_FILE
from toyspec.core.runs.discovery import NoStream, find_streams

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from toyspec.core.runs.discovery import Found, Stream

Existing = Literal["refuse", "keep"]
Outcome = Literal["sealed", "intact", "refused", "failed"]

DESCRIPTION = """\
Write SHA256SUMS, the seal of a run: the SHA-256 digest of every file in its
directory. From then on `toyspec check` reports every change, and so does
`sha256sum -c SHA256SUMS`.

RUN is a run directory, a stream in one, or a directory with runs below it.
A run is sealed only when it is complete and no writer has it open. A run
whose seal is intact is left unchanged."""

EPILOG = """\
exit status:
  0  every run is sealed now
  1  a run was not sealed: not complete, damaged, in use by a writer, or
     changed since it was sealed
  2  wrong usage, or a path that could not be read or written

examples:
  toyspec seal runs/llama-003
  toyspec seal --again runs/llama-003   after a file was added or changed
  toyspec check runs/llama-003"""

_OUTCOMES: dict[Outcome, str] = {
    "sealed": "sealed",
    "intact": "sealed before, unchanged",
    "refused": "not sealed",
    "failed": "not read or written",
}
USAGE = "toyspec seal [OPTION…] RUN…"


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    parser.value("paths", "RUN", "what to seal", nargs="*", type=local_path)
    parser.flag("--again", "replace a seal that is there; it moves to SHA256SUMS.prev")


def run(options: Namespace) -> int:
    """Seal the named runs and return an exit code."""
    if not options.paths:
        raise UsageError("no run given; name a run directory, a stream, or a directory of runs")
    if "-" in options.paths:
        raise UsageError("standard input cannot be sealed; name a run directory")
    sealed = partial(_sealed, existing="keep" if options.again else "refuse")
    return change_each("seal", _runs(options.paths), sealed, noun="run", titles=_OUTCOMES)


def _runs(paths: list[str]) -> Iterator[Found]:
    """Yield what is found below *paths*, each run directory once."""
    seen = set()
    for path in paths:
        for found in find_streams(path):
            directory = os.path.abspath(os.path.dirname(found.path))
            if isinstance(found, PathError | NoStream) or directory not in seen:
                yield found
                seen.add(directory)


def _sealed(stream: Stream, *, existing: Existing) -> Outcome:
    """Seal one run, and print what was done."""
    # Imported here: the help needs none of it.
    from toyspec.core.writing.sealing import seal

    directory = os.path.dirname(stream.path) or "."
    if existing == "refuse" and os.path.lexists(os.path.join(directory, SEAL_FILE)):
        return _earlier(stream.path, directory)
    with Progress("sealing") as progress:
        done = seal(stream.path, existing=existing, on_progress=progress.update)
    terminal = Terminal(color="never")
    terminal.line(f"{shown(done.path)}: {counted(done.files, 'file')}, {size(done.bytes)}")
    if done.earlier_path is not None:
        terminal.line(f"    the earlier seal is now {shown(done.earlier_path)}")
    return "sealed"


def _earlier(path: str, directory: str) -> Outcome:
    """Report that the seal that is there is intact and covers every file; raise StreamRefusedError if it does not."""
    from toyspec.core.checker import check
    from toyspec.core.checker.sidecars import unsealed_files
    from toyspec.core.generated import rules

    report = check(path, select=[rules.SEAL_BROKEN])
    if report.errors:
        raise StreamError(path, report.errors[0].message)
    if not report.files[0].valid:
        fact = "the run changed since it was sealed: `toyspec check` lists how; --again seals it as it is"
        raise StreamRefusedError(path, "foreign", fact)
    if left := unsealed_files(directory):
        fact = f"the seal lacks {counted(len(left), 'file')}, for example {left[0]}; --again adds what is new"
        raise StreamRefusedError(path, "foreign", fact)
    Terminal(color="never").line(f"{shown(os.path.join(directory, SEAL_FILE))}: sealed before, unchanged")
    return "intact"
