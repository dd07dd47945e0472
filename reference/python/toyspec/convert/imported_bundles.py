"""Makes the bundle of one imported run: it appears whole or not at all. Its stream is written in large blocks."""

from __future__ import annotations

import os
import re
import shutil
import time
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toyspec.convert.format_modules import described
from toyspec.convert.incoming_files import files_to_bring
from toyspec.convert.intake import Intake
from toyspec.convert.losses import MAX_EXAMPLES, Ledger
from toyspec.convert.reports import REPORT_FILE, RunConversion
from toyspec.core.errors import SourceError
from toyspec.core.escaping import encodable, shortened
from toyspec.core.files import open_file
from toyspec.core.format.profiles import EVENTS_FILE
from toyspec.core.places.addresses import is_address
from toyspec.core.reading.annotations import read_annotations
from toyspec.core.system_calls import SYSTEM_CALLS, is_locked, sync_directory
from toyspec.core.writing import opening
from toyspec.core.writing.append_file import AppendFile
from toyspec.core.writing.run_ids import check_run_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from toyspec.convert.formats import ForeignRun
    from toyspec.core.writing.event_arguments import Reason

_PARTIAL = ".import-"
# Not a name of a stream: what a killed import leaves is not listed as a run.
_PARTIAL_STREAM = f"{EVENTS_FILE}.partial"
_LONGEST_NAME = 120
_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9._-]+")
_POLL_SECONDS = 0.05
_BLOCK_BYTES = 1 << 20


class ImportOptions(NamedTuple):
    """What applies to every run of an import."""

    root: str
    """The directory below which the bundles are made."""
    ended: Reason | None = None
    max_examples: int = MAX_EXAMPLES
    patience: float = 0.0
    """Seconds to wait for another process that writes the same run."""
    advance: Callable[[int], None] | None = None
    """Is given the number of bytes that were read since the last call."""


class PlannedImport(NamedTuple):
    """A run, and the bundle that it becomes."""

    name: str
    """The importer: a format, a dialect, or whichever dialect is recognized."""
    run: ForeignRun
    source: str
    """The source as the report names it."""
    run_id: str
    earlier: RunConversion | None = None
    """The report of an earlier import of the same source."""

    @property
    def is_done(self) -> bool:
        """True if the source has not changed since the earlier import."""
        return self.earlier is not None and self.earlier.identity == self.run.identity


class ImportPlan:
    """Gives each run the run id of an earlier import of the same source, or a free one, in the order of the runs.

    The ids do not depend on what becomes of the runs, so several workers make the bundles that one would make.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._names: dict[str, _Names] = {}

    def add(self, name: str, run: ForeignRun) -> PlannedImport:
        """Return the plan for *run*, found by the importer *name*."""
        wanted = safe_run_id(run.name)
        names = self._names.setdefault(wanted, _Names(self._root, wanted))
        sources = [
            encodable(source if is_address(source) else os.path.abspath(source))
            for source in (run.source, *run.other_sources)
        ]
        run_id, earlier = names.of(sources, run.dialect or name)
        return PlannedImport(name, run, sources[0], run_id, earlier)


class _Names:
    """The run ids ``a``, ``a-2``, ``a-3`` … of runs that want the same one."""

    def __init__(self, root: str, wanted: str) -> None:
        self._root = root
        self._wanted = wanted
        self._number = 0
        self._known: dict[tuple[str, str], tuple[str, RunConversion | None]] = {}

    def of(self, sources: Sequence[str], format_name: str) -> tuple[str, RunConversion | None]:
        """Return the run id of a run with these *sources*, and the report of the import that made it before."""
        keys = [(source, format_name) for source in sources]
        while True:
            found = next((self._known[key] for key in keys if key in self._known), None)
            if found is not None:
                return found
            self._number += 1
            name = self._wanted if self._number == 1 else f"{self._wanted}-{self._number}"
            directory = os.path.join(self._root, name)
            if not os.path.lexists(directory):
                self._known[keys[0]] = (name, None)
                continue
            earlier = _earlier(directory)
            if earlier is not None:
                self._known.setdefault((earlier.source, earlier.format), (name, earlier))


class TargetError(OSError):
    """Nothing can be made in the directory of an import, so every other run would fail too."""


def make_bundle(plan: PlannedImport, options: ImportOptions) -> RunConversion:
    """Import one run and return what became of it; raise SourceError or OSError, TargetError among them."""
    return _Import(plan, options).go()


def discard_partial(root: str, run_id: str) -> None:
    """Remove what an import of *run_id* that was killed has left below *root*."""
    directory = os.path.join(root, _PARTIAL + run_id)
    if not is_locked(os.path.join(directory, _PARTIAL_STREAM)):
        shutil.rmtree(directory, ignore_errors=True)


class _Import:
    """The import of one run."""

    def __init__(self, plan: PlannedImport, options: ImportOptions) -> None:
        self._plan = plan
        self._run = plan.run
        self._options = options
        self._target = os.path.join(options.root, plan.run_id)

    def go(self) -> RunConversion:
        """Import the run."""
        plan, options = self._plan, self._options
        made = RunConversion(
            format=self._run.dialect or plan.name,
            source=plan.source,
            target=encodable(self._target),
            run_id=plan.run_id,
            identity=self._run.identity,
            item=described(plan.name)[1],
        )
        try:
            os.makedirs(options.root, exist_ok=True)
            directory = _claim(os.path.join(options.root, _PARTIAL + plan.run_id), options.patience)
        except OSError as error:
            raise TargetError(error.errno, error.strerror, options.root) from error
        try:
            before = _earlier(self._target)
            if before is not None and _key(before) == _key(made):
                # A worker made it, and was lost before it could report it.
                return before
            ledger = Ledger(max_examples=options.max_examples, watch=options.advance)
            self._write(made, ledger, directory)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        return made

    def _write(self, made: RunConversion, ledger: Ledger, directory: str) -> None:
        stream = os.path.join(directory, _PARTIAL_STREAM)
        _write_stream(stream, self._lines(ledger, directory))
        made.take(ledger)
        os.rename(stream, os.path.join(directory, EVENTS_FILE))
        with open(os.path.join(directory, REPORT_FILE), "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(made), indent=2) + b"\n")
        if self._plan.earlier is None:
            os.rename(directory, self._target)
        else:
            _update(directory, self._target)
        sync_directory(SYSTEM_CALLS, self._options.root)

    def _completed(self, start: dict[str, Any], ledger: Ledger) -> dict[str, Any]:
        """Return *start* with its run id, and with what annotations of the source give in place of its members."""
        found = read_annotations(self._run.source).over(start)
        for flag in ("starred", "hidden"):
            if found.pop(flag, False):
                ledger.note(f"annotations have it {flag}; `toyspec annotate` marks the new run")
        run_id, wanted = self._plan.run_id, safe_run_id(self._run.name)
        if run_id != wanted:
            ledger.note(f"another run is named {wanted}, so this one is {run_id}")
        return {**found, "schema": "toy/v1", "run_id": run_id}

    def _lines(self, ledger: Ledger, directory: str) -> Iterator[bytes]:
        intake = Intake(ledger, directory, partial(self._completed, ledger=ledger))
        yield from self._run.records(intake)
        if not intake.is_begun:
            raise SourceError(self._run.source, "its first record cannot be read, so it is not known which run it is")
        if not intake.has_metrics:
            ledger.note("no metric was found in it")
        yield from intake.finish(self._options.ended)


def safe_run_id(name: str) -> str:
    """Return the run id nearest to *name* that is a safe directory name."""
    cleaned = _NOT_ALLOWED.sub("-", name).strip("-._")[:_LONGEST_NAME].rstrip(".")
    try:
        return check_run_id(cleaned)
    except ValueError:
        return f"run-{cleaned}" if cleaned else "run"


def _earlier(directory: str) -> RunConversion | None:
    """Return the report of the import that made *directory*; None if another program did."""
    try:
        with open_file(os.path.join(directory, REPORT_FILE)) as file:
            return msgspec.json.decode(file.read(), type=RunConversion)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _key(made: RunConversion) -> tuple[str, str, str]:
    return made.source, made.format, made.identity


def _claim(directory: str, patience: float) -> str:
    """Make the empty *directory*; what a killed import has left there is removed.

    Raise SourceError if another import still writes there after *patience* seconds.
    """
    if os.path.lexists(directory):
        end = time.monotonic() + patience
        while is_locked(os.path.join(directory, _PARTIAL_STREAM)):
            if time.monotonic() >= end:
                raise SourceError(directory, "another import writes this run now; wait for it, or choose another --out")
            time.sleep(_POLL_SECONDS)
        shutil.rmtree(directory, ignore_errors=True)
    os.mkdir(directory)
    return directory


def _update(directory: str, target: str) -> None:
    """Replace the stream, its files and the report in *target*; the earlier stream gets a free name beside it."""
    stream = os.path.join(target, EVENTS_FILE)
    if os.path.lexists(stream):
        if is_locked(stream):
            raise SourceError(target, f"{shortened(stream)} is being written; the run was not imported again")
        opening.keep(stream, SYSTEM_CALLS)
    # A stream never names a file that is not there yet.
    for old, new in files_to_bring(directory, target):
        os.makedirs(os.path.dirname(new), exist_ok=True)
        os.replace(old, new)
    os.replace(os.path.join(directory, EVENTS_FILE), stream)
    os.replace(os.path.join(directory, REPORT_FILE), os.path.join(target, REPORT_FILE))


def _write_stream(path: str, lines: Iterable[bytes]) -> None:
    """Create the log *path* of *lines*, in large blocks, and force it to the device."""
    file = AppendFile.create(path)
    try:
        with file.lock:
            block: list[bytes] = []
            size = 0
            for line in lines:
                block.append(line)
                size += len(line)
                if size >= _BLOCK_BYTES:
                    file.commit(b"".join(block))
                    block, size = [], 0
            if block:
                file.commit(b"".join(block))
            file.sync(directory="too")
    finally:
        file.close()
