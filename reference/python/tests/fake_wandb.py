"""A package ``wandb`` that keeps what it is handed in a file, and fails on request: for programs of their own."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

SOURCE = """
import json, os

def _kept(call, content):
    if call in os.environ.get("FAKE_WANDB_FAILS", "").split():
        raise ConnectionError("no route to host")
    with open(os.environ["FAKE_WANDB"], "a") as file:
        file.write(json.dumps([call, content]) + "\\n")

class Settings:
    def __init__(self, **options):
        pass

class Histogram:
    def __init__(self, np_histogram):
        self.counts, self.edges = map(list, np_histogram)
        self.shown = {"counts": self.counts, "edges": self.edges}

class Run:
    offline = False

    def __init__(self, settings):
        self.id = settings["id"]
        with open(os.environ["FAKE_WANDB"]) as file:
            calls = [json.loads(line) for line in file]
        self.step = max([at for call, content in calls if call == "log" for at in [content[1]]], default=-1) + 1

    def define_metric(self, name, **options):
        _kept("define_metric", [name, options])

    def log(self, row, step, commit):
        shown = {k: getattr(v, "shown", v) for k, v in row.items()}
        _kept("log", [shown, step])

    def alert(self, **members):
        _kept("alert", members)

    def finish(self, exit_code):
        _kept("finish", exit_code)

def init(**settings):
    del settings["settings"]
    _kept("init", settings)
    return Run(settings)
"""


class FakeWandb:
    """What programs have handed to the package."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        package = directory / "packages" / "wandb.py"
        package.parent.mkdir()
        package.write_text(SOURCE)
        self._file = directory / "wandb-calls.jsonl"
        self._file.touch()
        self._monkeypatch = monkeypatch
        paths = [str(package.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
        monkeypatch.setenv("FAKE_WANDB", str(self._file))

    def fail(self, *calls: str) -> None:
        """Let these calls fail from now on."""
        self._monkeypatch.setenv("FAKE_WANDB_FAILS", " ".join(calls))

    def forget(self) -> None:
        """Forget all calls."""
        self._file.write_text("")

    def calls(self, name: str) -> list[Any]:
        """Return what each call of *name* was handed."""
        found = [json.loads(line) for line in self._file.read_text().splitlines()]
        return [content for call, content in found if call == name]

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows without their times."""
        return [{key: value for key, value in row.items() if key != "_timestamp"} for row, _ in self.calls("log")]
