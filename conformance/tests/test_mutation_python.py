"""Mutants of the Python package: how they are chosen, and which tests are asked."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from conformance.mutation.python import listing
from conformance.mutation.python.command import Fate
from conformance.mutation.python.reach import Reach
from conformance.mutation.python.score import is_enough, page, raw, rooms
from conformance.mutation.python.workshop import Test as Recorded
from conformance.mutation.score import Findings
from conformance.mutation.sites import Module
from conformance.mutation.survivors import Listed, Survivors

if TYPE_CHECKING:
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


def test_each_commit_asks_other_mutants() -> None:
    """The same seed gives the same sample, another seed another one."""
    first = listing.sample(mutants(), 5, "a")
    assert first == listing.sample(list(reversed(mutants())), 5, "a")
    assert first != listing.sample(mutants(), 5, "b")


def test_words_of_errors_are_not_changed() -> None:
    """A message may be worded otherwise; that an error is raised must be noticed."""
    assert not [mutant for mutant in mutants() if "negative~" in mutant.mutated]
    assert [mutant for mutant in mutants() if "negative" in mutant.original and mutant.mutated == "pass"]


def test_marks_are_named_as_the_functions_of_mutants() -> None:
    """What is recorded of a function is found for its mutants, and marks change nothing else."""
    numbers: dict[str, int] = {}
    source = listing.marked("room/counter", SOURCE, numbers)
    functions = {f"room/counter:{mutant.function}" for mutant in mutants()} - {"room/counter:LIMIT"}
    assert functions == set(numbers)
    namespace: dict[str, object] = {"__marks__": bytearray(len(numbers))}
    code = source.replace("from toyspec_marks import MARKS as __marks__", "")
    exec(compile(ast.parse(code), "counter", "exec"), namespace)
    assert namespace["Counter"]().add(4) == 7  # type: ignore[operator]
    assert bytes(len(numbers) * [1]) == namespace["__marks__"]


def test_tests_of_the_function_are_asked_first() -> None:
    """The fastest test that executes the function comes first; what is executed at import asks those of the module."""
    slow = Recorded("slow", 3.0, frozenset({"room/counter:Counter.add"}))
    fast = Recorded("fast", 1.0, frozenset({"room/counter:Counter.add"}))
    other = Recorded("other", 0.1, frozenset({"room/counter:Counter.clear"}))
    far = Recorded("far", 0.1, frozenset({"room/other:run"}))
    found = Reach([slow, fast, other, far])
    of_add = next(mutant for mutant in mutants() if mutant.function == "Counter.add")
    constant = next(mutant for mutant in mutants() if mutant.function == "LIMIT")
    assert [fast, slow] == found.of_function(of_add)
    assert [] == found.of_function(constant)
    assert [other, fast, slow] == found.of_module(constant)


def test_score_leaves_out_what_is_listed() -> None:
    """The raw score counts every mutant, the adjusted one those that a test can catch."""
    first, second, third = mutants()[:3]
    fates = [Fate(first, "a test fails", 1), Fate(second, None, 2), Fate(third, None, 2)]
    listed = Survivors({second.place: Listed(second.place, "equivalent", "It is the same.")})
    found = Findings(fates, listed, [])
    assert ("33.3 %", "50.0 %") == (raw(found.score()), rooms(found)["room"].percent)
    assert is_enough(found, 50.0)
    assert not is_enough(found, 51.0)
    assert "**1 of 3** mutants are killed: 33.3 % raw, 50.0 % adjusted." == next(page(found, listed, 9))
