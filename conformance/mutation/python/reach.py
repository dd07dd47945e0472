"""Which tests execute which statements, recorded once and kept on disk."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from conformance.mutation.python import listing
from conformance.mutation.python.users import Users
from conformance.mutation.python.workshop import FOLDER, TESTS, Executed, Test, Workshop
from conformance.mutation.subjects import ROOT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from conformance.mutation.sites import Module, Mutant

RECORDED = os.path.join(FOLDER, "reach")
LAYOUTS = os.path.join(FOLDER, "layouts.json")
_FIRST_TESTS, _FIRST_SECONDS = 30, 10.0
"""Most tests that a mutant is asked before all others, and most recorded time of them together."""
_MOST_SECONDS = 50.0
"""Most recorded time of the other tests that one mutant is asked."""


class Reach:
    """The tests that can notice a mutant."""

    def __init__(
        self, tests: Sequence[Test], layouts: Mapping[str, Sequence[str]], modules: Mapping[str, Module]
    ) -> None:
        """Take *tests*; by :func:`layout_key`, the functions of the statements of each recorded source; all modules."""
        self._layouts = layouts
        self._modules = modules
        self._users = Users(modules)
        self._by_module: dict[str, list[Test]] = defaultdict(list)
        for test in sorted(tests, key=_cost):
            for module in test.executed:
                self._by_module[module].append(test)

    def asked(self, mutant: Mutant) -> Iterator[list[Test]]:
        """Yield the tests that *mutant* is asked: those that are most about it, then the others.

        A test can notice a change of a statement only if it executes it, or uses what a process computes with it once,
        for all tests. Where a module is not the one that was recorded, it is the function that counts.
        """
        wanted = self._users.affected(mutant)
        found = self._executing(wanted)
        if not found:
            # No statement is known that uses it: the tests of the modules where it is known are left.
            wanted = {name: set(range(len(listing.functions(self._modules[name])))) for name in wanted}
            found = self._executing(wanted)
        first = _within(_by_focus(found, frozenset(wanted))[:_FIRST_TESTS], _FIRST_SECONDS)
        rest = _within(_by_turns([test for test in found if test not in first]), _MOST_SECONDS)
        yield from (part for part in (first, rest) if part)

    def _executing(self, wanted: Mapping[str, Collection[int]]) -> list[Test]:
        """Return the tests that execute one of the statements *wanted*, fast ones first."""
        found = {
            test.name: test
            for name, numbers in wanted.items()
            for test in self._by_module.get(name, ())
            if self._is_executed(self._modules[name], numbers, test)
        }
        return sorted(found.values(), key=_cost)

    def _is_executed(self, module: Module, wanted: Collection[int], test: Test) -> bool:
        executed = test.executed[module.name]
        if executed.digest == listing.digest(module):
            return any(executed.statements[at : at + 1] == "1" for at in wanted)
        names = {statement.function for statement in module.statements if statement.number in wanted}
        layout = self._layouts[layout_key(module.name, executed.digest)]
        return any(seen == "1" and name in names for seen, name in zip(executed.statements, layout, strict=False))


def layout_key(module: str, digest: str) -> str:
    """Return what names the source of *module* that has *digest*."""
    return f"{module}@{digest}"


def recorded(starts: tuple[str, ...], *, is_fresh: bool) -> Reach:
    """Return what the tests execute in files whose names begin with one of *starts*.

    Test files that are new or changed run again, all if *is_fresh*. A test that fails then is asked nothing, and is
    named on standard error.
    """
    os.makedirs(RECORDED, exist_ok=True)
    digests = {path: digest for path, digest in _digests().items() if os.path.basename(path).startswith(starts)}
    stale = [name for name, digest in digests.items() if is_fresh or _load(name).get("digest") != digest]
    if stale:
        _record({name: digests[name] for name in stale})
    with open(LAYOUTS, encoding="utf-8") as file:
        layouts = json.load(file)
    modules = {name: listing.loaded(name) for name in listing.module_names()}
    return Reach([test for name in digests for test in _tests(_load(name))], layouts, modules)


def _record(digests: Mapping[str, str]) -> None:
    """Run the files of tests that *digests* names, and keep what each test executes."""
    layouts: dict[str, list[str]] = {}
    if os.path.exists(LAYOUTS):
        with open(LAYOUTS, encoding="utf-8") as file:
            layouts = json.load(file)
    for name in listing.module_names():
        module = listing.loaded(name)
        layouts[layout_key(name, listing.digest(module))] = listing.functions(module)
    _save(LAYOUTS, layouts)
    found: dict[str, list[Test]] = {name: [] for name in digests}
    failed = []
    for test, passed in Workshop("recording").record(list(digests)):
        if passed:
            found[test.file].append(test)
        else:
            failed.append(test.name)
    for name, tests in found.items():
        _save(_path(name), {"digest": digests[name], **_as_json(tests)})
    if failed:
        sys.stderr.write(f"not asked, since they fail without a change: {' '.join(failed)}\n")


def _as_json(tests: Sequence[Test]) -> dict[str, object]:
    """Return *tests* with each set of statements once: many tests execute the same ones of a module."""
    sets: dict[tuple[str, str, str], int] = {}
    entries = []
    for test in tests:
        parts = [(name, each.digest, each.statements) for name, each in test.executed.items()]
        numbers = [sets.setdefault(part, len(sets)) for part in parts]
        entries.append([test.name, test.seconds, test.is_contended, numbers])
    return {"sets": list(sets), "tests": entries}


def _tests(content: Mapping[str, Any]) -> Iterator[Test]:
    """Yield the tests of one file as :func:`_as_json` keeps them."""
    sets = [(name, Executed(digest, statements)) for name, digest, statements in content["sets"]]
    for name, seconds, contended, numbers in content["tests"]:
        yield Test(name, seconds, dict(sets[number] for number in numbers), contended)


def _load(name: str) -> dict[str, Any]:
    """Return what was kept of the file of tests *name*, nothing if it never ran."""
    if not os.path.exists(_path(name)):
        return {}
    with open(_path(name), encoding="utf-8") as file:
        content: dict[str, Any] = json.load(file)
    return content


def _save(path: str, content: object) -> None:
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(content, file)
    os.replace(f"{path}.new", path)


def _path(name: str) -> str:
    return os.path.join(RECORDED, f"{name.replace('/', '-')}.json")


def _cost(test: Test) -> tuple[float, str]:
    return test.seconds, test.name


def _by_focus(tests: Sequence[Test], modules: Collection[str]) -> list[Test]:
    """Return *tests* so that the first ones execute little else than one of *modules*, and take little time."""

    def key(test: Test) -> tuple[float, str]:
        sizes = {name: len(executed.statements) for name, executed in test.executed.items()}
        own = max(size for name, size in sizes.items() if name in modules)
        return sum(sizes.values()) / own * (1 + test.seconds), test.name

    return sorted(tests, key=key)


def _by_turns(tests: Sequence[Test]) -> list[Test]:
    """Return *tests* so that each file has its turn, the fastest test of each first: no file takes all the time."""
    turns: dict[str, int] = defaultdict(int)
    placed = []
    for test in tests:
        placed.append((turns[test.file], test.seconds, test.name, test))
        turns[test.file] += 1
    return [test for *_, test in sorted(placed, key=lambda item: item[:3])]


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
