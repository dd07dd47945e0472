"""Which tests execute which functions, recorded once and kept on disk."""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from typing import TYPE_CHECKING

from conformance.mutation.python.workshop import FOLDER, TESTS, Test, Workshop, WorkshopError
from conformance.mutation.subjects import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.mutation.sites import Mutant

PATH = os.path.join(FOLDER, "reach.json")
_OF_FUNCTION_SECONDS = 60.0
_OF_MODULE_SECONDS = 120.0
"""Most recorded time of the tests that one mutant is asked; the fastest run first."""


class Reach:
    """The tests that can notice a mutant."""

    def __init__(self, tests: Sequence[Test]) -> None:
        self._by_function: dict[str, list[Test]] = defaultdict(list)
        self._by_module: dict[str, list[Test]] = defaultdict(list)
        for test in sorted(tests, key=lambda test: (test.seconds, test.name)):
            for function in test.functions:
                self._by_function[function].append(test)
            for module in {function.partition(":")[0] for function in test.functions}:
                self._by_module[module].append(test)

    def of_function(self, mutant: Mutant) -> list[Test]:
        """Return tests that execute the function of *mutant*; none for what is executed at import."""
        names = mutant.function.split(".")
        for size in range(len(names), 0, -1):
            found = self._by_function.get(f"{mutant.module}:{'.'.join(names[:size])}")
            if found:
                return _within(found, _OF_FUNCTION_SECONDS)
        return []

    def of_module(self, mutant: Mutant) -> list[Test]:
        """Return tests that execute a function of the module of *mutant*."""
        return _within(self._by_module.get(mutant.module, []), _OF_MODULE_SECONDS)


def recorded(starts: tuple[str, ...], *, is_fresh: bool) -> Reach:
    """Return what the tests execute in files whose names begin with one of *starts*.

    Test files that are new or changed run again, all if *is_fresh*. Raises WorkshopError if one of them fails.
    """
    known: dict[str, dict[str, object]] = {}
    if os.path.exists(PATH) and not is_fresh:
        with open(PATH, encoding="utf-8") as file:
            known = json.load(file)
    digests = {path: digest for path, digest in _digests().items() if os.path.basename(path).startswith(starts)}
    stale = [name for name in digests if known.get(name, {}).get("digest") != digests[name]]
    if stale:
        entries: dict[str, list[dict[str, object]]] = {name: [] for name in stale}
        for entry in Workshop("recording").record(stale):
            entries[str(entry["test"]).partition("::")[0]].append(entry)
        failed = [str(entry["test"]) for found in entries.values() for entry in found if entry["failed"]]
        if failed:
            raise WorkshopError("these tests fail without any change, with plain Python: " + ", ".join(failed))
        known = {name: entry for name, entry in known.items() if os.path.exists(os.path.join(ROOT, name))}
        known.update({name: {"digest": digests[name], "tests": entries[name]} for name in stale})
        with open(f"{PATH}.new", "w", encoding="utf-8") as file:
            json.dump(known, file)
        os.replace(f"{PATH}.new", PATH)
    return Reach([_test(entry) for name in digests for entry in known[name]["tests"]])  # type: ignore[attr-defined]


def _test(entry: dict[str, object]) -> Test:
    return Test(str(entry["test"]), float(entry["seconds"]), frozenset(entry["functions"]))  # type: ignore[arg-type,call-overload]


def _within(tests: Sequence[Test], seconds: float) -> list[Test]:
    """Return the first of *tests* that take *seconds* together, at least one."""
    found: list[Test] = []
    for test in tests:
        seconds -= test.seconds
        if found and seconds < 0:
            break
        found.append(test)
    return found


def _digests() -> dict[str, str]:
    """Return the digest of each file of tests, by its path from the root. Tests of the tree itself are left out."""
    found = {}
    for folder, folders, files in os.walk(os.path.join(ROOT, TESTS)):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__pycache__", "browser")))
        for name in sorted(files):
            path = os.path.join(folder, name)
            if name.startswith("test_") and name.endswith(".py"):
                with open(path, "rb") as file:
                    data = file.read()
                found[os.path.relpath(path, ROOT).replace(os.sep, "/")] = hashlib.sha256(data).hexdigest()
    return found
