"""Asks several implementations about the same bytes, and says where their answers differ."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from conformance.adapters import Adapter, AdapterError
from conformance.comparing import record_differences
from conformance.conversations import Conversation

ROOT = Path(__file__).resolve().parents[4]
MODES = ("tail", "salvage", "prefix", "strict")
# C with sanitizers: a read or write out of bounds, or undefined behaviour, ends the program.
_BUILDS = {
    "go": ("reference/go", ["go", "build", "-o", "{out}", "./cmd/toyspec-adapter"]),
    "c": (
        "reference/c",
        [
            *["cc", "-std=c11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
            *["toyspec.c", "adapter.c", "-o", "{out}", "-lm"],
        ],
    ),
}
_PARTS = ("outcome", "profile", "state", "count", "committed", "fragment", "gap_bytes", "gaps")
_FINDING = ("rule", "severity", "line", "offset", "pointer")

Answer = dict[str, Any]


def commands(folder: Path) -> dict[str, list[str]]:
    """Return how to start each implementation that is there; Go and C, with sanitizers, are built into *folder*."""
    found = {"oracle": [sys.executable, "-m", "conformance.oracle"]}
    listed = json.loads((ROOT / "conformance/implementations.json").read_text(encoding="utf-8"))["implementations"]
    for entry in listed:
        command = [part.format(python=sys.executable, root=ROOT) for part in entry["adapter"]]
        if entry["name"] in _BUILDS and _is_built(entry["name"], folder):
            command = [str(folder / entry["name"])]
        if shutil.which(command[0]) and os.path.exists(command[-1]):
            found[entry["name"]] = command
    return dict(sorted(found.items(), key=lambda item: item[0] != "python"))


def _is_built(name: str, folder: Path) -> bool:
    directory, command = _BUILDS[name]
    if not shutil.which(command[0]):
        return False
    arguments = [part.format(out=folder / name) for part in command]
    return subprocess.run(arguments, cwd=ROOT / directory, check=False, capture_output=True).returncode == 0


class Panel:
    """Implementations that are asked the same."""

    def __init__(self, commands: dict[str, list[str]]) -> None:
        self._adapters = {name: Adapter(command, directory=str(ROOT)) for name, command in commands.items()}
        self._talks: dict[str, Conversation] = {}
        for name, adapter in list(self._adapters.items()):
            try:
                adapter.ask_hello()
            except AdapterError:
                del self._adapters[name]

    @property
    def names(self) -> list[str]:
        """Names of those that answer."""
        return list(self._adapters)

    def ask(self, name: str, request: dict[str, Any]) -> Answer:
        """Return the answer of one, or its failure as an answer of its own."""
        try:
            if name not in self._talks:
                self._talks[name] = Conversation(self._adapters[name])
            return self._talks[name].ask(request)
        except AdapterError as error:
            talk = self._talks.pop(name, None)
            if talk is not None:
                talk.close()
            return {"failed": str(error)}

    def disagreements(self, data: bytes, mode: str) -> Iterator[str]:
        """Yield where one of them differs from the first about *data*, as a reader and as a checker."""
        for role, request in (("reader", {"mode": mode}), ("checker", {})):
            able = [name for name, adapter in self._adapters.items() if self._is_able(adapter, role, mode)]
            asked = {"role": role, "stream": data, "name": "events.jsonl", **request}
            answers = {name: self.ask(name, asked) for name in able}
            first = able[0]
            for name in able[1:]:
                for fact in _differences(role, answers[first], answers[name]):
                    yield f"{role} {mode}: {name} against {first}: {fact}"

    @staticmethod
    def _is_able(adapter: Adapter, role: str, mode: str) -> bool:
        hello = adapter.hello
        return role in hello["roles"] and (role != "reader" or mode in hello.get("modes", MODES))

    def close(self) -> None:
        """End every program."""
        for talk in self._talks.values():
            with contextlib.suppress(AdapterError):
                talk.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _differences(role: str, one: Answer, other: Answer) -> Iterator[str]:
    if "failed" in one or "failed" in other or "error" in one.keys() ^ other.keys():
        yield f"{_short(other)} instead of {_short(one)}"
        return
    if role == "checker":
        for part in ("profile", "state", "valid", "suppressed"):
            if one[part] != other[part]:
                yield f"{part} is {other[part]}, not {one[part]}"
        ours, theirs = (_findings(answer) for answer in (one, other))
        if ours != theirs:
            yield f"findings are {theirs}, not {ours}"
        return
    for part in _PARTS:
        if one.get(part) != other.get(part):
            yield f"{part} is {other.get(part)}, not {one.get(part)}"
    if "records" in one and "records" in other:
        yield from record_differences(one["records"], other["records"])


def _findings(answer: Answer) -> list[tuple[Any, ...]]:
    return [tuple(finding[part] for part in _FINDING) for finding in answer["findings"]]


def _short(answer: Answer) -> str:
    return str({key: value for key, value in answer.items() if key not in {"records", "id"}})[:300]
