"""W&B run files, read without W&B, and written by its offline mode."""

from __future__ import annotations

import contextlib
import os
import re
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from toyspec.convert import wandb_messages as messages
from toyspec.convert.alerts import alert_event
from toyspec.convert.formats import ForeignRun
from toyspec.convert.intake import NUMBERS
from toyspec.convert.losses import DAMAGED, NO_PLACE, PART_DROPPED, REPEATED, at_step
from toyspec.convert.protobuf import MessageError, fields, members, signed, text
from toyspec.convert.sources import files_below, head_of, identity_of, is_file, size_of
from toyspec.convert.tensorboard_records import Damage
from toyspec.convert.timeline import earliest
from toyspec.convert.wandb_leveldb import FILE_HEADER, MAGIC, read_records
from toyspec.convert.wandb_media import lines_of, taken_objects
from toyspec.core.errors import SourceError
from toyspec.core.files import open_file
from toyspec.core.writing.clocks import utc_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toyspec.convert.intake import Intake
    from toyspec.convert.wandb_messages import RunMessage

_DIRECTORY = re.compile(r"(?:offline-)?run-\d{8}_\d{6}-(.+)", re.ASCII | re.DOTALL)
# The record of the run is the second one.
_FIRST_RECORDS = 100
_OWN_SETTING = "_wandb"
_FRAMING = frozenset(["_step", "_timestamp", "_runtime", "_wandb"])
_MOST_NAMES = 100_000


def recognise(path: str) -> bool:
    """Return whether *path* is a run file, or a directory with some in it or below."""
    if not os.path.isdir(path):
        return is_file(path) and head_of(path, len(MAGIC)) == MAGIC
    return next(files_below(path, _is_named_so), None) is not None


def _is_named_so(name: str) -> bool:
    return name.endswith(".wandb")


def find_runs(path: str) -> Iterator[ForeignRun]:
    """Yield the run in the file *path*, or in each run file at *path* and below."""
    found = [file for _, files in files_below(path, _is_named_so) for file in files] if os.path.isdir(path) else [path]
    if not found:
        raise SourceError(path, "no run files (*.wandb) in the directory or below")
    files = _Sessions()
    for run in dict.fromkeys(map(files.of, found)):
        yield _run(run)


def _run(files: tuple[str, ...]) -> ForeignRun:
    name = os.path.basename(files[0]).removesuffix(".wandb").removeprefix("run-")
    return ForeignRun(
        name=name,
        source=files[0],
        identity=identity_of(files),
        size=2 * size_of(files),
        records=partial(_records, files),
        parts=tuple(map(_directory_of, files)),
        other_sources=files[1:],
    )


def _directory_of(path: str) -> str:
    """Return the directory that W&B made for the run file *path*; the file itself if it lies elsewhere."""
    directory = os.path.dirname(os.path.abspath(path))
    return directory if _DIRECTORY.fullmatch(os.path.basename(directory)) else path


class _Sessions:
    """Finds the run files of a run: each process that resumes it writes one, in a directory of its own."""

    def __init__(self) -> None:
        self._runs: dict[str, dict[str, tuple[str, ...]]] = {}

    def of(self, path: str) -> tuple[str, ...]:
        """Return the run files of the run that the file *path* is a part of, in the order of their starts.

        As for ``wandb sync``, those are of one run that have the same entity, project and run id.
        """
        folder, name = os.path.split(os.path.abspath(path))
        # W&B keeps a link to the latest one.
        is_link = os.path.islink(folder)
        folder = os.path.realpath(folder) if is_link else folder
        if _DIRECTORY.fullmatch(os.path.basename(folder)) is None:
            return (path,)
        place = os.path.dirname(folder)
        if place not in self._runs:
            self._runs[place] = _runs_in(place)
        files = self._runs[place].get(os.path.join(folder, name), (path,))
        return files if len(files) > 1 or is_link else (path,)


def _runs_in(place: str) -> dict[str, tuple[str, ...]]:
    """Return the run files of the run of each run file in the directories of W&B in *place*."""
    named: dict[str, list[str]] = {}
    with suppress(OSError):
        for folder in sorted(os.listdir(place)):
            match = _DIRECTORY.fullmatch(folder)
            file = os.path.join(place, folder, f"run-{match[1]}.wandb") if match else ""
            if file and os.path.isfile(file):
                named.setdefault(file.rpartition(os.sep)[2], []).append(file)
    return {file: run for files in named.values() for run in _runs_of(files) for file in run}


def _runs_of(files: list[str]) -> list[tuple[str, ...]]:
    """Return the *files*, which have one name, by runs; one whose run is not known is of the first run."""
    if len(files) == 1:
        return [tuple(files)]
    heads = {file: _run_of(file) for file in files}
    paths = {
        file: (run.others.get("entity"), run.others.get("project"), run.run_id) for file, run in heads.items() if run
    }
    ordered = sorted(files, key=lambda file: _start_of(file, heads[file]))
    first = next((paths[file] for file in ordered if file in paths), None)
    runs: dict[Any, list[str]] = {}
    for file in ordered:
        runs.setdefault(paths.get(file, first), []).append(file)
    return [tuple(found) for found in runs.values()]


def _run_of(path: str) -> RunMessage | None:
    """Return the first run record of *path*; None if it has none, or cannot be read."""
    with suppress(OSError), open_file(path) as file:
        for record in islice(read_records(file), _FIRST_RECORDS):
            with suppress(MessageError):
                kind, body = messages.kind_and_body(record) if isinstance(record, bytes) else (0, b"")
                if kind == messages.RUN:
                    return messages.run_of(body)
    return None


def _start_of(path: str, run: RunMessage | None) -> float:
    if run is not None and run.start is not None:
        return run.start
    with suppress(OSError):
        return os.stat(path).st_mtime
    return 0.0


def _records(paths: tuple[str, ...], intake: Intake) -> Iterator[bytes]:
    for path in paths:
        head = head_of(path, len(FILE_HEADER))
        if head[: len(MAGIC)] != MAGIC:
            raise SourceError(path, "not a W&B run file: it does not begin with `:W&B`")
        if head != FILE_HEADER:
            raise SourceError(path, f"a W&B run file of version {head[4:].hex()}; only e1be00 (version 0) is known")
    yield from _Import(intake).lines(paths)


class _Beginning:
    """What the records of a whole run file say about the run as such."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        """Members of run_start."""
        self.config: dict[str, Any] = {}
        self.rest: dict[str, Any] = {}
        """What has no place there."""
        self.step: int | None = None
        """The step of the first row of the history that has one."""
        self._start: float | None = None
        self._first: Any = None
        """Time of the first row of the history."""

    @property
    def began(self) -> float | None:
        """The start in seconds since the Unix epoch: a row may have a time of its own, before that of the run."""
        return earliest((self._start, self._first)) or None

    def take(self, kind: int, body: bytes) -> None:
        """Take in a message; raise MessageError."""
        if kind == messages.RUN:
            run = messages.run_of(body)
            self.facts |= run.facts
            self.rest |= run.others
            self._configure(run.config)
            self._start = run.start if self._start is None else self._start
        elif kind == messages.HISTORY and self._first is None:
            row = dict(messages.pairs(body))
            self._first = row.get("_timestamp", 0.0)
            step = row.get("_step", messages.step_of(body))
            self.step = step if type(step) is int and step >= 0 else None
        elif kind == messages.CONFIG:
            self._configure(dict(messages.pairs(body)))
        elif kind == messages.ENVIRONMENT and (argv := _argv(body)):
            self.facts["argv"] = argv

    def _configure(self, config: dict[str, Any]) -> None:
        for name, value in config.items():
            is_own = name.partition(".")[0] == _OWN_SETTING
            (self.rest if is_own else self.config)[name] = value


class _Import:
    """Hands a run to an intake, each file read twice: run_start comes first, and settings may change to the end."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._ledger = intake.ledger
        self._files = ""
        """The directory with the files of the session at hand."""
        self._session = ""
        """Where there are several, the name of the directory for reports, and a colon."""
        self._record = 0
        self._last_step: int | None = None
        self._step_name = ""
        """The metric that has the steps, in a run that was exported or mirrored."""
        self._names: set[str] = set(_FRAMING)
        self._summary: dict[str, Any] = {}

    def lines(self, paths: Sequence[str]) -> Iterator[bytes]:
        """Yield the lines of the run; before those of each later file comes a ``run_resume``."""
        beginnings = [self._beginning(path) for path in paths]
        whole = _Beginning()
        for each in beginnings:
            whole.facts |= each.facts
            whole.config |= each.config
            whole.rest |= each.rest
        for each in beginnings:
            self._count_changed(each, whole)
        began = earliest(each.began for each in beginnings)
        yield from self._intake.begin(began, config=whole.config, rest=whole.rest, **whole.facts)
        for path, beginning in zip(paths, beginnings, strict=True):
            if len(paths) > 1:
                self._session = f"{os.path.basename(os.path.dirname(path))}: "
            if beginning is not beginnings[0]:
                yield from self._resume(beginning)
            yield from self._of_file(path)
        rest = {
            name: value
            for name, value in self._summary.items()
            if name not in self._names and name.partition(".")[0] not in _FRAMING
        }
        yield from self._values(None, None, rest, "summary")

    def _beginning(self, path: str) -> _Beginning:
        found = _Beginning()
        for message in self._messages(path):
            if not isinstance(message, Damage):
                with contextlib.suppress(MessageError):
                    found.take(*message)
        return found

    def _count_changed(self, beginning: _Beginning, whole: _Beginning) -> None:
        """Drop what a process said before the run was resumed with something else."""
        for kind, own, kept in (("run", beginning.facts, whole.facts), ("config", beginning.config, whole.config)):
            for name, value in own.items():
                if repr(kept[name]) != repr(value):
                    place = f"{kind}/{name}, before the run was resumed"
                    self._ledger.lose(NO_PLACE, place, value, name=f"{kind}/{name}")

    def _messages(self, path: str) -> Iterator[tuple[int, bytes] | Damage]:
        """Yield the kind and the content of each record."""
        with open_file(path) as file:
            file.seek(0)
            done = 0
            for record in read_records(file):
                if isinstance(record, Damage):
                    yield record
                    continue
                done += len(record)
                if done > 1 << 18:
                    self._ledger.advance(done)
                    done = 0
                try:
                    yield messages.kind_and_body(record)
                except MessageError as error:
                    yield Damage(file.tell(), len(record), str(error))

    def _of_file(self, path: str) -> Iterator[bytes]:
        self._files = os.path.join(os.path.dirname(path), "files")
        self._record = 0
        for message in self._messages(path):
            self._record += 1
            if isinstance(message, Damage):
                place = f"{self._session}byte {message.offset}"
                self._ledger.lose(DAMAGED, place, f"{message.length} bytes: {message.fact}")
                continue
            try:
                yield from self._of_message(*message)
            except MessageError as error:
                self._ledger.lose(DAMAGED, self._place, str(error))

    @property
    def _place(self) -> str:
        """The record at hand."""
        return f"{self._session}record {self._record}"

    def _of_message(self, kind: int, body: bytes) -> Iterator[bytes]:
        """Yield the lines of one message."""
        intake, ledger = self._intake, self._ledger
        if kind == messages.HISTORY:
            yield from self._row(body)
        elif kind == messages.STATS:
            stamps = (value for number, wire, value in fields(body) if number == 2 and wire == 2)
            wall = next(map(messages.timestamp, stamps), None)
            yield from intake.values(wall, None, dict(messages.pairs(body)), "system metrics", kind="system")
        elif kind == messages.METRIC:
            made = messages.definition_of(body)
            if made == {"name": "*", "step_name": messages.STEP_METRIC}:
                self._step_name = messages.STEP_METRIC
                self._names.add(self._step_name)
            elif made == {"name": messages.STEP_METRIC}:
                return
            elif "name" in made:
                yield from intake.record({"kind": "define", **made}, self._place)
            else:
                ledger.lose(NO_PLACE, self._place, "a metric without a name", name="definition")
        elif kind == messages.ALERT:
            found = members(body)
            yield from intake.record(alert_event(*(text(found.get(number)) for number in (1, 2, 3))), self._place)
        elif kind in (messages.ARTIFACT, messages.USED_ARTIFACT):
            yield from self._artifact(members(body), is_used=kind == messages.USED_ARTIFACT)
        else:
            self._take(kind, body)

    def _take(self, kind: int, body: bytes) -> None:
        """Take in a message that makes no line by itself."""
        ledger = self._ledger
        if kind == messages.SUMMARY:
            for name, value in messages.pairs(body):
                if name not in self._names and len(self._summary) < _MOST_NAMES:
                    self._summary[name] = value
        elif kind == messages.EXIT:
            self._take_exit(members(body))
        elif kind == messages.ENVIRONMENT:
            ledger.items += 1
            ledger.changed(PART_DROPPED, "environment", "all but program and arguments")
            ledger.done()
        elif kind in (messages.OUTPUT, messages.OUTPUT_RAW):
            ledger.lose(NO_PLACE, "console output", text(members(body).get(3)), name="console output")
        elif kind in messages.OTHER_ITEMS:
            ledger.lose(NO_PLACE, self._place, messages.OTHER_ITEMS[kind], name=messages.OTHER_ITEMS[kind])

    def _row(self, body: bytes) -> Iterator[bytes]:
        pairs = messages.pairs(body)
        found = dict(pairs)
        if len(found) != len(pairs):
            # Of two with one name the later, as W&B's summary has it.
            seen: dict[str, Any] = {}
            for name, value in pairs:
                if name in seen:
                    self._ledger.lose(REPEATED, f"{self._place}: {name}", seen[name], name=name)
                seen[name] = value
        step, wall = found.pop("_step", None), found.pop("_timestamp", None)
        found.pop("_runtime", None)
        step = messages.step_of(body) if step is None else step
        if self._step_name:
            step = found.pop(self._step_name, None)
            step = int(step) if isinstance(step, float) and step.is_integer() else step
        if type(step) is int and step >= 0:
            self._last_step = step
        self._names.update(found)
        yield from self._values(wall, step, found, at_step(step))

    def _values(self, wall: Any, step: Any, found: dict[str, Any], place: str) -> Iterator[bytes]:
        objects = {} if NUMBERS.issuperset(map(type, found.values())) else taken_objects(found)
        yield from self._intake.values(wall, step, found, place)
        for name, each in objects.items():
            at = self._intake.at(wall, step, place)
            yield from lines_of(each, name, at, (self._files, f"{place}: {name}"), self._intake)

    def _resume(self, beginning: _Beginning) -> Iterator[bytes]:
        """Yield the record between the process before and that of *beginning*, which goes on at its first step."""
        # The files of a mirror have the rows of one attempt, one after the other.
        timeline, last, first = self._intake.timeline, self._last_step, None if self._step_name else beginning.step
        if last is not None and first is not None and first <= last:
            again = f"the run was resumed at step {first}, after step {last}"
            self._ledger.note(f"{again}: both attempts are in the stream, and readers show the later one")
        made: dict[str, Any] = {"from_step": (last or 0) if first is None else max(0, first - 1)}
        if beginning.began is not None and timeline.start is not None:
            timeline.last = max(timeline.last, beginning.began - timeline.start)
            made["resumed_at"] = utc_text(beginning.began)
        yield from self._intake.resume(made, "resumption")

    def _take_exit(self, found: dict[int, Any]) -> None:
        code = found.get(1, 0)
        code = signed(code) if isinstance(code, int) else 1
        is_kept = 0 <= code <= 255
        if not is_kept:
            self._ledger.items += 1
            self._ledger.changed(PART_DROPPED, "exit", code)
            self._ledger.done()
        self._intake.end("completed" if code == 0 else "errored", **({"exit_code": code} if is_kept else {}))

    def _artifact(self, found: dict[int, Any], *, is_used: bool) -> Iterator[bytes]:
        """Yield a reference to an artifact: its files lie in a folder of W&B's that the log names."""
        name = text(found.get(3)) or text(found.get(1)) if is_used else text(found.get(5))
        role = "input" if is_used else text(found.get(4))
        if not name:
            self._ledger.lose(NO_PLACE, self._place, "an artifact without a name", name="artifact")
            return
        self._ledger.changed(PART_DROPPED, self._place, f"the files of artifact {name}")
        made = {"kind": "reference", "uri": f"wandb-artifact:{name}", **({"role": role} if role else {})}
        yield from self._intake.record(made, self._place)


def _argv(body: bytes) -> list[str]:
    found = [(number, text(value)) for number, wire, value in fields(body) if wire == 2 and number in (5, 6)]
    program = [value for number, value in found if number == 6]
    return program + [value for number, value in found if number == 5] if program else []
