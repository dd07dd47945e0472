"""Asks many mutants, some processes at a time."""

from __future__ import annotations

import gc
import os
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from conformance.corpus import questions_of, selected
from conformance.mutation import copies
from conformance.mutation.instruments import HITS, Instruments
from conformance.mutation.memory import question_digests
from conformance.mutation.sites import EVERYWHERE, Module
from conformance.mutation.subjects import MODULES, ONLY_ASKED_OF
from conformance.mutation.traces import traced
from conformance.mutation.trials import Trial
from conformance.session_cases import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
    from types import CodeType

    from conformance.mutation.changes import Place
    from conformance.mutation.memory import Memory
    from conformance.mutation.sites import Mutant
    from conformance.mutation.traces import Trace
    from conformance.probes.question import Question

_RECENT = 12
_MOST_BYTES_IN_PIECES = 420


@dataclass(frozen=True)
class Fate:
    """What became of one mutant."""

    mutant: Mutant
    reason: str | None
    """What was wrong with an answer; None where it survived."""
    asked: int
    """Number of questions that execute the changed statement."""


class Corpus:
    """All questions, small ones first, and what the oracle does with each."""

    def __init__(self, modules: Sequence[Module], memory: Memory, jobs: int, patterns: Collection[str] = ()) -> None:
        """Take the cases that *patterns* name, by default all."""
        self._modules = {module.name: module for module in modules}
        self.instruments = Instruments(modules)
        hello: Mapping[str, Any] = copies.load(self.instruments.codes, {HITS: self.instruments.hits})().hello()
        self.hello = hello
        self.questions: list[Question] = sorted(
            filter(_is_worth_its_time, questions_of(selected(patterns), hello["roles"])),
            key=lambda question: ("#" in question.case.name, len(question.case.data), question.name),
        )
        self.digests = question_digests(self.questions)
        traces = memory.traces(self.digests)
        if traces is None:
            traces = traced(self.instruments, self.questions, jobs)
            memory.keep_traces(self.digests, traces)
        self.traces: list[Trace] = traces

    @property
    def problems(self) -> list[str]:
        """What the oracle itself answers wrong."""
        found = zip(self.questions, self.traces, strict=True)
        return [f"{question.name}: {trace.problems[0]}" for question, trace in found if trace.problems]

    def reaching(self, mutant: Mutant) -> tuple[list[int], list[int]]:
        """Return the indexes of the questions that execute the statement that *mutant* changes.

        The first list has one question of each sort for each set of executed statements, the second one all others.
        """
        first: list[int] = []
        others: list[int] = []
        seen: set[object] = set()
        for index in self._executing(mutant):
            if mutant.module not in ONLY_ASKED_OF.get(self.questions[index].detail, (mutant.module,)):
                continue
            sort = self._sort(index)
            (others if sort in seen else first).append(index)
            seen.add(sort)
        return first, others

    def _executing(self, mutant: Mutant) -> Sequence[int]:
        """Return the questions that execute what *mutant* changes; of a constant, what uses it."""
        mark = self.instruments.mark(mutant)
        if mark != EVERYWHERE:
            return self._by_mark[mark]
        users = self._modules[mutant.module].users(mutant.function)
        if not users or any(module.imports(mutant.function) for module in self._modules.values()):
            return self._answered
        offset = self.instruments.offset(mutant.module)
        return sorted({index for number in users for index in self._by_mark[offset + number]})

    def _sort(self, index: int) -> tuple[object, ...]:
        """Return what questions have in common that most likely kill the same mutants."""
        question = self.questions[index]
        is_unlike_others = question.case.follow or question.detail == "latest" or isinstance(question.case, Session)
        return index if is_unlike_others else None, self.traces[index].hits, question.role, question.detail

    @cached_property
    def _answered(self) -> list[int]:
        return [index for index, trace in enumerate(self.traces) if not trace.problems]

    @cached_property
    def _by_mark(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = defaultdict(list)
        marks: dict[bytes, list[int]] = {}
        for index in self._answered:
            hits = self.traces[index].hits
            if hits not in marks:
                marks[hits] = [mark for mark, is_hit in enumerate(hits) if is_hit]
            for mark in marks[hits]:
                found[mark].append(index)
        return found


class Sweep:
    """Asks mutants, and remembers what became of them."""

    def __init__(
        self, modules: Sequence[Module], corpus: Corpus, memory: Memory, listed: Container[Place] = ()
    ) -> None:
        """Take all modules; of a mutant whose place is in *listed* a part of the questions has to do."""
        self._modules = {module.name: module for module in modules}
        self._corpus, self._memory = corpus, memory
        self._codes = {module.name: copies.compiled(module.name, module.unchanged()) for module in modules}
        self._index = {digest: index for index, digest in enumerate(corpus.digests)}
        self._known = frozenset(corpus.digests)
        self._asked = memory.keep_questions(corpus.digests)
        self._recent: dict[str, list[int]] = defaultdict(list)
        self._listed = listed
        self._running: dict[int, tuple[Mutant, Trial, int]] = {}

    def run(self, mutants: Iterable[Mutant], jobs: int, on_fate: Callable[[Fate], None]) -> None:
        """Ask *mutants*, *jobs* at a time; call *on_fate* with what became of each."""
        gc.collect()
        gc.freeze()  # so that the collector does not copy what the processes share
        try:
            for mutant in mutants:
                fate = self._start(mutant)
                if fate is not None:
                    on_fate(fate)
                while len(self._running) >= jobs:
                    on_fate(self._ended())
            while self._running:
                on_fate(self._ended())
        finally:
            self._memory.save()

    def _start(self, mutant: Mutant) -> Fate | None:
        """Begin to ask *mutant*; return what became of it where that is known."""
        first, others = self._corpus.reaching(mutant)
        # What is listed needs no proof that it survives, only a look at whether it still does.
        is_listed = mutant.place in self._listed
        reaching = first if is_listed else first + others
        reason = self._memory.is_killed(mutant.key, self._known)
        if reason is not None:
            return Fate(mutant, reason, len(reaching))
        answered = self._memory.answered(mutant.key, in_full=not is_listed)
        order = [index for index in self._order(mutant, reaching) if self._corpus.digests[index] not in answered]
        if not order:
            self._memory.note_survived(mutant.key, self._asked, in_full=mutant.place not in self._listed)
            return Fate(mutant, None, len(reaching))
        trial = Trial(self._corpus.questions, self._corpus.traces, self._corpus.hello)
        trial.start(lambda: self._code(mutant), order)
        self._running[trial.child] = mutant, trial, len(reaching)
        return None

    def _ended(self) -> Fate:
        """Wait until one mutant has been asked; return what became of it."""
        child, status = os.wait()
        while child not in self._running:  # one that the caller has left
            child, status = os.wait()
        mutant, trial, asked = self._running.pop(child)
        outcome = trial.outcome(status)
        if outcome.killer is None:
            self._memory.note_survived(mutant.key, self._asked, in_full=mutant.place not in self._listed)
            return Fate(mutant, None, asked)
        self._memory.note_killed(mutant.key, self._corpus.digests[outcome.killer], outcome.reason)
        for name in (mutant.module, f"{mutant.module}.{mutant.function}"):
            killers = [outcome.killer, *(index for index in self._recent[name] if index != outcome.killer)]
            self._recent[name] = killers[:_RECENT]
        return Fate(mutant, outcome.reason, asked)

    def _order(self, mutant: Mutant, reaching: Sequence[int]) -> Sequence[int]:
        """Return *reaching* with the questions first that killed this mutant before, or others like it."""
        likely = [self._index[killer] for killer in [self._memory.killer(mutant.key)] if killer in self._index]
        likely += self._recent[f"{mutant.module}.{mutant.function}"] + self._recent[mutant.module]
        allowed = set(reaching)
        first = [index for index in dict.fromkeys(likely) if index in allowed]
        return first + [index for index in reaching if index not in first]

    def _code(self, mutant: Mutant) -> Mapping[str, CodeType]:
        tree = self._modules[mutant.module].mutated(mutant)
        return {**self._codes, mutant.module: copies.compiled(mutant.module, tree)}


def _is_worth_its_time(question: Question) -> bool:
    """Return whether a question is asked at all: small streams show what it means to grow in many pieces."""
    if isinstance(question.case, Session):
        return "text_bytes" not in question.case.content  # seconds for what a smaller limit shows to readers
    return question.detail != "pieces" or len(question.case.data) <= _MOST_BYTES_IN_PIECES


def all_modules() -> list[Module]:
    """Return every module of the oracle, read from its source."""
    return [Module(name) for name in MODULES]
