"""Mutants of the Python package: how they are chosen, and which tests are asked."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from conformance.mutation.python import listing
from conformance.mutation.python.command import SURVIVORS, Fates
from conformance.mutation.python.reach import Reach, layout_key
from conformance.mutation.python.samples import PAGE, Sample, part, published
from conformance.mutation.python.score import Fate, is_enough, raw, rooms
from conformance.mutation.python.workshop import Executed
from conformance.mutation.python.workshop import Test as Recorded
from conformance.mutation.score import Findings
from conformance.mutation.sites import Module
from conformance.mutation.survivors import Listed, Survivors, load

if TYPE_CHECKING:
    from pathlib import Path

    from conformance.mutation.sites import Mutant

SOURCE = '''"""Docstring."""
from __future__ import annotations
LIMIT = 3
class Counter:
    def add(self, value):
        """Docstring."""
        def inner():
            return value + LIMIT
        if value < 0:
            raise ValueError("negative")
        return inner()
'''


def mutants() -> list[Mutant]:
    """Return the mutants of the source above."""
    return [mutant for mutant in Module("room/counter", SOURCE).mutants if listing.is_asked(mutant)]


def test_words_of_errors_are_not_changed() -> None:
    """A message may be worded otherwise; that an error is raised must be noticed."""
    assert not [mutant for mutant in mutants() if "negative~" in mutant.mutated]
    assert [mutant for mutant in mutants() if "negative" in mutant.original and mutant.mutated == "pass"]


def mutant_of(function: str, original: str) -> Mutant:
    """Return a mutant of the statement *original* of *function*."""
    return next(each for each in mutants() if each.function == function and each.original.startswith(original))


def recorded(name: str, statements: str, module: Module | None = None) -> Recorded:
    """Return a test that executes *statements* of *module*, by default the source above."""
    module = module or Module("room/counter", SOURCE)
    executed = {module.name: Executed(listing.digest(module), statements)} if statements else {}
    return Recorded(name, 1.0, executed)


def asked(
    tests: list[Recorded], mutant: Mutant, layouts: dict[str, list[str]] | None = None, *modules: Module
) -> list[str]:
    """Return the names of *tests* that *mutant* of one of *modules* is asked, in their order."""
    known = modules or [Module("room/counter", SOURCE)]
    reach = Reach(tests, layouts or {}, {module.name: module for module in known})
    return [test.name for batch in reach.asked(mutant) for test in batch]


def test_each_executed_statement_leaves_a_mark() -> None:
    """What is recorded of a statement is found by its number, and marks change nothing else."""
    module = Module("room/counter", SOURCE)
    source = listing.marked(module, 2).replace("from toyspec_marks import MARKS as __hits__", "")
    namespace: dict[str, object] = {"__hits__": bytearray(2 + len(listing.functions(module)))}
    exec(compile(ast.parse(source), "counter", "exec"), namespace)
    assert namespace["Counter"]().add(4) == 7  # type: ignore[operator]
    functions = ["Counter.add.inner", "Counter.add.inner", "Counter.add", "Counter.add", "Counter.add"]
    assert functions == listing.functions(module)
    # All but the statement that raises an error.
    assert bytes([0, 0, 1, 1, 1, 0, 1]) == namespace["__hits__"]


def test_only_tests_that_execute_the_statement_are_asked() -> None:
    """A change is noticed by no test that does not execute it; a constant, where it is used or else in its module."""
    tests = [recorded("raises", "0011"), recorded("adds", "11101"), recorded("none", "")]
    assert ["raises"] == asked(tests, mutant_of("Counter.add", "raise"))
    assert ["adds"] == asked(tests, mutant_of("Counter.add.inner", "return"))
    assert ["adds", "raises"] == sorted(asked(tests, mutant_of("Counter.add", "if")))
    assert ["adds"] == asked(tests, mutant_of("LIMIT", "LIMIT"))
    assert ["raises"] == asked(tests[:1], mutant_of("LIMIT", "LIMIT"))


@pytest.mark.parametrize(
    ("source", "executed", "expected"),
    [
        # It is executed once in a process, for the first test that calls it.
        (
            "@cache\ndef made():\n    return 2\ndef used():\n    return made()\ndef other():\n    return 1\n",
            ["11", "01", "001"],
            ["0", "1"],
        ),
        # It is called at import, in no test.
        ("def made():\n    return 3\nLIMIT = made()\ndef used():\n    return LIMIT\n", ["01"], ["0"]),
    ],
)
def test_a_function_asks_the_tests_of_what_uses_it(source: str, executed: list[str], expected: list[str]) -> None:
    """A result that is kept, or made at import, is used by tests that do not execute the function."""
    module = Module("room/counter", source)
    tests = [recorded(str(at), statements, module) for at, statements in enumerate(executed)]
    assert expected == asked(tests, next(each for each in module.mutants if each.function == "made"), None, module)


IMPORTED = {
    "the constant": "from toyspec.room.counter import LIMIT\ndef far():\n    return LIMIT\n",
    "by another name": "from toyspec.room.counter import LIMIT as most\ndef far():\n    return most\n",
    "the module": "from toyspec.room import counter\ndef far():\n    return counter.LIMIT\n",
    "a constant of it": "from toyspec.room.counter import LIMIT\nMOST = LIMIT\ndef far():\n    return MOST\n",
    "a default": "from toyspec.room.counter import LIMIT\ndef far(most=LIMIT):\n    return most\n",
    "a class attribute": (
        "from toyspec.room.counter import LIMIT\nclass Far:\n    most = LIMIT\n    def far(self):\n        return 1\n"
    ),
    "what a function keeps": (
        "from functools import cache\nfrom toyspec.room.counter import LIMIT\n"
        "@cache\ndef kept():\n    return LIMIT\ndef far():\n    return kept()\n"
    ),
}


@pytest.mark.parametrize("source", IMPORTED.values(), ids=IMPORTED)
def test_a_constant_asks_the_tests_of_the_modules_that_import_it(source: str) -> None:
    """It is read there, directly or through another name, and no statement of its own module is executed."""
    near, far = Module("room/counter", SOURCE), Module("room/far", source)
    number = next(each.number for each in far.statements if each.function.endswith("far") and each.is_counted)
    tests = [recorded("other", "0011"), recorded("far", "0" * number + "1", far)]
    assert ["far"] == asked(tests, mutant_of("LIMIT", "LIMIT"), None, near, far)


def test_a_class_attribute_asks_the_tests_that_use_its_class() -> None:
    """A default of a field is read from the objects, wherever they are made."""
    near = Module("room/near", "class Options:\n    most = 3\n")
    far = Module("room/far", "from toyspec.room.near import Options\ndef far():\n    return Options()\n")
    tests = [recorded("far", "1", far), recorded("other", "0011")]
    assert ["far"] == asked(tests, near.mutants[0], None, near, far)


def test_after_a_change_of_the_module_its_functions_count() -> None:
    """The statements of another source have other numbers, so that each test of the function is asked."""
    before = Module("room/counter", "LIMIT = 2\n" + SOURCE)
    layouts = {layout_key(before.name, listing.digest(before)): listing.functions(before)}
    tests = [recorded("raises", "0011", before), recorded("inner", "01", before)]
    assert ["raises"] == asked(tests, mutant_of("Counter.add", "return"), layouts)
    assert ["inner"] == asked(tests, mutant_of("Counter.add.inner", "return"), layouts)


def fates() -> tuple[list[Fate], Survivors]:
    """Return what became of three mutants, one of which is listed."""
    first, second, third = mutants()[:3]
    listed = Survivors({second.place: Listed(second.place, "equivalent", "It is the same.")})
    return [Fate(first, "a test fails", 1), Fate(second, None, 2), Fate(third, None, 2)], listed


def test_score_leaves_out_what_is_listed() -> None:
    """The raw score counts every mutant, the adjusted one those that a test can catch."""
    found = Findings(*fates(), [])
    assert ("33.3 %", "50.0 %") == (raw(found.score()), rooms(found)["room"].percent)
    assert is_enough(found, 50.0)
    assert not is_enough(found, 51.0)


def test_published_sample_names_each_survivor() -> None:
    """The page has both scores, what lacks a test, and why no test catches the rest."""
    found, listed = fates()
    sample = Sample.of("a", found, 9, "Of a trial,", listed)
    assert sample.score() == Findings(found, listed, []).score()
    lines = list(part([sample], listed))
    assert "Of a trial, 1 of 3 mutants are killed: **33.3 %** raw," == lines[0]
    assert 1 == sum(line.startswith("| room/counter: ") for line in lines)
    assert any("It is the same." in line for line in lines)


def test_modules_that_need_a_package_are_there() -> None:
    """No module that is left out where its package is missing has another name by now."""
    assert set(listing.NEEDED) <= set(listing.module_names())


def test_page_has_what_the_file_of_samples_says() -> None:
    """The part of the page is made from the file, and from the list of survivors."""
    listed = load(SURVIVORS, listing.module_names())
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    assert "\n".join(part(published(), listed)).strip() in page


def test_interrupted_sample_goes_on(tmp_path: Path) -> None:
    """What was killed is not asked again; a survivor is, since it may have got a test."""
    killed, survived, _ = fates()[0]
    kept = Fates("a", is_resumed=False, folder=str(tmp_path))
    kept.add(killed)
    kept.add(survived)
    asked = [killed.mutant, survived.mutant]
    assert {0: killed} == Fates("a", is_resumed=True, folder=str(tmp_path)).known(asked)
    assert {} == Fates("a", is_resumed=False, folder=str(tmp_path)).known(asked)
