"""The registry of implementations, ``implementations.json``: what each needs, and how to build it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from conformance.commands import captured

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
REGISTRY = os.path.join(HERE, "implementations.json")
_OUTPUT_CHARACTERS = 3000
_BUILD_SECONDS = 1800
_PROBE_SECONDS = 60


class RegistryError(ValueError):
    """The registry is not well formed, or lacks what was asked for."""


class BuildError(Exception):
    """A build failed; the text has the command and the end of its output."""


@dataclass(frozen=True)
class Implementation:
    """One entry of the registry. Commands are lists of words; ``{python}`` and ``{root}`` are filled in."""

    name: str
    language: str
    directory: str
    """Folder of the implementation, from the root of the tree."""
    needs: tuple[tuple[str, ...], ...]
    """Commands that succeed if the toolchain is installed."""
    install: str
    """What to install if it is not, in words."""
    build: tuple[tuple[str, ...], ...]
    """Commands that are run in the folder before the adapter is started."""
    adapter: tuple[str, ...]
    roles: tuple[str, ...]
    """The roles that the hello must name."""

    @property
    def folder(self) -> str:
        """The folder as a path that can be opened."""
        return os.path.join(ROOT, self.directory)

    def missing(self) -> str | None:
        """Return what this machine lacks, None if it has everything."""
        if not os.path.isdir(self.folder):
            return f"{self.directory} is not part of this installation"
        for command in self.needs:
            if not _succeeds(command):
                return f"`{' '.join(command)}` does not run; install {self.install}"
        return None

    def make(self) -> None:
        """Build the implementation; raise BuildError."""
        for command in self.build:
            words = filled(command)
            try:
                done = captured(words, self.folder, _BUILD_SECONDS)
            except (OSError, subprocess.TimeoutExpired) as error:
                raise BuildError(f"`{' '.join(words)}` in {self.directory}: {error}") from None
            if done.returncode != 0:
                output = done.stdout.decode(errors="replace")[-_OUTPUT_CHARACTERS:]
                raise BuildError(f"`{' '.join(words)}` in {self.directory} ended with {done.returncode}:\n{output}")


def load(path: str = REGISTRY) -> list[Implementation]:
    """Return the implementations in the registry; raise RegistryError."""
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    return [_implementation(path, item) for item in content["implementations"]]


def filled(words: tuple[str, ...]) -> list[str]:
    """Return *words* with ``{python}`` and ``{root}`` filled in."""
    return [word.replace("{python}", sys.executable).replace("{root}", ROOT) for word in words]


def _implementation(path: str, item: Any) -> Implementation:
    keys = {"name", "language", "directory", "needs", "install", "build", "adapter", "roles"}
    if not isinstance(item, dict) or item.keys() != keys:
        raise RegistryError(f"{path}: an entry must have exactly the keys {', '.join(sorted(keys))}")
    lists = {key: tuple(map(tuple, item[key])) for key in ("needs", "build")}
    return Implementation(**{**item, **lists, "adapter": tuple(item["adapter"]), "roles": tuple(item["roles"])})


def _succeeds(command: tuple[str, ...]) -> bool:
    words = filled(command)
    if shutil.which(words[0]) is None:
        return False
    try:
        done = subprocess.run(
            words,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
