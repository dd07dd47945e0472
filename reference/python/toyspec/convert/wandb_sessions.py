"""The sessions of one W&B run: each process that resumes a run writes a directory and a run file of its own."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from toyspec.convert import wandb_messages as messages
from toyspec.convert.losses import NO_PLACE, NOT_FINITE
from toyspec.convert.protobuf import MessageError, fields, text
from toyspec.convert.timeline import earliest
from toyspec.convert.wandb_leveldb import read_records
from toyspec.files import open_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.convert.losses import Ledger
    from toyspec.convert.wandb_messages import RunMessage

_DIRECTORY = re.compile(r"(?:offline-)?run-\d{8}_\d{6}-(.+)", re.ASCII | re.DOTALL)
# The record of the run is the second one.
_FIRST_RECORDS = 100
_OWN_SETTING = "_wandb"


def is_directory(name: str) -> bool:
    """Return whether *name* is that of a directory that W&B makes for one session."""
    return _DIRECTORY.fullmatch(name) is not None


class WandbFiles:
    """Finds the run files of a run, which are in directories beside each other."""

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
        if not is_directory(os.path.basename(folder)):
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
    """Return what the first run record of *path* says; None if it has none, or cannot be read."""
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


class Beginning:
    """What the records of a whole run file say about the run as such."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        """Members of run_start."""
        self.config: dict[str, Any] = {}
        self.argv: list[str] = []
        self.step: int | None = None
        """The step of the first row of the history that has one."""
        self._start: float | None = None
        self._first: Any = None
        """Time of the first row of the history."""
        self._own: dict[str, Any] = {}
        """What W&B keeps about itself among the settings."""

    @property
    def began(self) -> float | None:
        """The start in seconds since the Unix epoch: a row may have a time of its own, before that of the run."""
        return earliest((self._start, self._first)) or None

    def take(self, kind: int, body: bytes) -> None:
        """Take in a message; raise MessageError."""
        if kind == messages.RUN:
            run = messages.run_of(body)
            self.facts |= run.facts
            self._configure(run.config)
            self._start = run.start if self._start is None else self._start
        elif kind == messages.HISTORY and self._first is None:
            self._take_row(body)
        elif kind == messages.CONFIG:
            self._configure(dict(messages.pairs(body)))
        elif kind == messages.ENVIRONMENT:
            self.argv = _argv(body) or self.argv

    def _configure(self, config: dict[str, Any]) -> None:
        for name, value in config.items():
            is_own = name.partition(".")[0] == _OWN_SETTING
            (self._own if is_own else self.config)[name] = value

    def _take_row(self, body: bytes) -> None:
        short, rest = messages.short_items(body)
        row = dict(messages.pairs_of(short, rest))
        self._first = row.get("_timestamp", 0.0)
        step = row.get("_step", messages.step_of(rest))
        self.step = step if type(step) is int and step >= 0 else None

    def settle(self, last: Beginning, ledger: Ledger) -> None:
        """Count what this says, of which the start of the run has what *last* says, too."""
        for kind, own, kept in (("run", self.facts, last.facts), ("config", self.config, last.config)):
            ledger.items += len(own)
            for name, value in own.items():
                if self is not last and plain(kept.get(name)) != plain(value):
                    ledger.drop(NO_PLACE, f"{kind}/{name}, before the run was resumed", value)
                    continue
                if plain(value) is not value:
                    ledger.changed(NOT_FINITE, f"{kind}/{name}", value, "null")
                ledger.done()
        for name, value in self._own.items():
            ledger.lose(NO_PLACE, f"config/{name}", value)


def merged(beginnings: Sequence[Beginning]) -> Beginning:
    """Return what *beginnings* say together; what a later one says counts."""
    if len(beginnings) == 1:
        return beginnings[0]
    made = Beginning()
    for each in beginnings:
        made.facts |= each.facts
        made.config |= each.config
        made.argv = each.argv or made.argv
    return made


def plain(value: Any) -> Any:
    """Return *value*; None for a number that is not finite."""
    return None if isinstance(value, float) and value - value != 0.0 else value


def _argv(body: bytes) -> list[str]:
    found = [(number, text(value)) for number, wire, value in fields(body) if wire == 2 and number in (5, 6)]
    program = [value for number, value in found if number == 6]
    return program + [value for number, value in found if number == 5] if program else []
