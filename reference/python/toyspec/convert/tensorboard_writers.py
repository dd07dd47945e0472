"""Finds out which event files in one directory are of one run: processes that write at once have runs of their own."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from toyspec.convert.tensorboard_import import first_value_wall, last_wall

# events.out.tfevents.TIME.HOST.PROCESS.NUMBER, as TensorFlow, torch and tensorboardX write it.
_NAME = re.compile(r"tfevents\.(?P<time>\d+)\.(?P<process>.+?\.\d+)\.\d+(?:\.|$)", re.ASCII)


class EventWriters(NamedTuple):
    """The files of one run."""

    groups: list[list[str]]
    """The files in order; those that one process wrote at once are together."""
    process: str = ""
    """Host and number of the process; empty for the first one of a directory."""
    folder: str = ""
    """What the runs of a directory have in common; empty where it has one."""


class _Chain:
    def __init__(self, process: str) -> None:
        self.process = process
        self.groups: list[list[str]] = []
        self.end = -1.0

    def add(self, path: str, first: float, last: float, process: str) -> None:
        if first < self.end and self.groups:
            self.groups[-1].append(path)
        else:
            self.groups.append([path])
        self.end = max(self.end, last)
        self.process = process


def writers_of(files: list[str], folder: str) -> list[EventWriters]:
    """Return the runs that the event *files* of one directory are of; *folder* is the name of the directory.

    A file that begins after another one ended goes on with it. Two that two processes wrote at the same time are two
    runs; two of one process are one. A file without a time goes on with the one before it.
    """
    if len(files) < 2:
        return [EventWriters([[path] for path in files])]
    chains: list[_Chain] = []
    walls = [(first_value_wall(path), path) for path in files]
    for index, (first, path) in enumerate(walls):
        if first is None:
            walls[index] = (walls[index - 1][0] if index else 0.0, path)
    for first, path in sorted(walls, key=lambda pair: (pair[0] or 0.0, files.index(pair[1]))):
        begin, process = first or 0.0, _process(path)
        chain = next((each for each in chains if each.process == process), None)
        chain = chain or next((each for each in chains if each.end <= begin), None)
        if chain is None:
            chain = _Chain(process)
            chains.append(chain)
        chain.add(path, begin, last_wall(path) or begin, process)
    if len(chains) == 1:
        return [EventWriters(chains[0].groups)]
    return [EventWriters(chain.groups, chain.process if number else "", folder) for number, chain in enumerate(chains)]


def _process(path: str) -> str:
    """Return host and number of the process that wrote *path*; the name of the file where it does not say them."""
    name = os.path.basename(path)
    found = _NAME.search(name)
    return found["process"] if found else name
