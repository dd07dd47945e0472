"""Asks implementations the questions of the corpus, and applies their baselines to the results."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from conformance import baseline, first_questions, registry
from conformance.adapters import Adapter, AdapterError
from conformance.corpus import questions_of, selected, version
from conformance.reports.run import Run
from conformance.running import run
from conformance.statements import decided

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Collection, Iterator

    from conformance.registry import Implementation
    from conformance.verdicts import Result


@dataclass(frozen=True)
class NotAsked:
    """Why an implementation of the registry was not asked."""

    fact: str
    is_failure: bool
    """False when only the toolchain is missing."""

    def __str__(self) -> str:
        return self.fact


def prove(
    adapter: Adapter,
    options: Namespace,
    *,
    on_start: Callable[[int], None] | None = None,
    on_result: Callable[[Result], None] | None = None,
) -> Run:
    """Return the run of *adapter*, which has sent its hello; raise UsageError when there is nothing to ask.

    *on_start* is called with the number of questions.
    """
    from conformance.command import UsageError

    roles = [role for role in adapter.hello["roles"] if not options.role or role in options.role]
    jobs = adapter.jobs(options.jobs)
    # One program per question takes minutes: the first failure is there before the rest is loaded.
    parts = first_questions.parts(roles, options.select) if options.core or not adapter.lines else ()
    known = {
        result.question.name: result for part in parts for result in run(adapter, part, jobs=jobs, on_result=on_result)
    }
    if options.core:
        questions = [result.question for result in known.values()]
        cases = list({question.case.name: question.case for question in questions}.values())
    else:
        cases = list(selected(options.select))
        questions = questions_of(cases, roles)
    if not questions:
        raise UsageError(f"nothing to ask: {len(cases)} cases are selected, the roles are {', '.join(roles) or 'none'}")
    rest = [question for question in questions if question.name not in known]
    if on_start is not None and rest:
        on_start(len(rest))
    known |= {result.question.name: result for result in run(adapter, rest, jobs=jobs, on_result=on_result)}
    results = [decided(known[question.name]) for question in questions]
    stale: list[baseline.Entry] = []
    is_whole = not (options.select or options.role or options.core)
    if options.baseline:
        try:
            results, unused = baseline.apply(baseline.load(options.baseline), results)
        except (baseline.BaselineError, OSError) as error:
            raise UsageError(str(error)) from None
        stale = unused if is_whole else []
    return Run(
        hello=adapter.hello,
        results=results,
        required=len(questions),
        stale=stale,
        corpus=version(),
        cases=len(cases),
        is_whole=is_whole,
    )


def outside(options: Namespace) -> list[Adapter]:
    """Return the adapter that *options* names and that of the oracle, which needs no build; none without a name.

    Raise AdapterError.
    """
    if not options.adapter:
        return []
    own = Adapter(options.adapter, deadline=options.deadline, mode=options.mode)
    oracle = Adapter([sys.executable, "-m", "conformance.oracle"], directory=registry.ROOT, deadline=options.deadline)
    for adapter in (own, oracle):
        adapter.ask_hello()
    return [own, oracle]


def registered(only: Collection[str], options: Namespace) -> Iterator[tuple[Implementation, Adapter | NotAsked]]:
    """Build the implementations of the registry, all or those in *only*, and yield each.

    With each comes its adapter, or the reason why it has none.

    Raise RegistryError for a name in *only* that the registry does not have.
    """
    known = registry.load()
    unknown = sorted(set(only) - {implementation.name for implementation in known})
    if unknown:
        names = ", ".join(implementation.name for implementation in known)
        raise registry.RegistryError(f"the registry has no {unknown[0]!r}; it has {names}")
    for implementation in known:
        if only and implementation.name not in only:
            continue
        missing = implementation.missing()
        if missing is not None:
            yield implementation, NotAsked(f"not asked: {missing}", is_failure=False)
            continue
        command = registry.filled(implementation.adapter)
        adapter = Adapter(command, directory=implementation.folder, deadline=options.deadline, mode=options.mode)
        try:
            if not options.no_build:
                implementation.make()
            adapter.ask_hello()
        except (registry.BuildError, AdapterError) as error:
            yield implementation, NotAsked(f"failed: {error}", is_failure=True)
            continue
        lacking = [role for role in implementation.roles if role not in adapter.hello["roles"]]
        if lacking:
            fact = f"failed: the registry names the role {', '.join(lacking)}, but the hello does not"
            yield implementation, NotAsked(fact, is_failure=True)
        else:
            yield implementation, adapter


def prove_registered(
    options: Namespace, *, say: Callable[[str], None], on_result: Callable[[Result], None] | None = None
) -> tuple[list[Run], list[tuple[str, NotAsked]]]:
    """Build and ask the implementations of the registry; return the runs, and why others were not asked."""
    from conformance.reports.human import conclusion

    runs: list[Run] = []
    not_asked: list[tuple[str, NotAsked]] = []
    for implementation, adapter in registered(options.only, options):
        if isinstance(adapter, NotAsked):
            not_asked.append((implementation.name, adapter))
            continue
        own = os.path.join(implementation.folder, "conformance-baseline.json")
        has_own = not options.baseline and os.path.exists(own)
        found = prove(adapter, _with_baseline(options, own) if has_own else options, on_result=on_result)
        runs.append(found)
        say(conclusion(found))
    return runs, not_asked


def _with_baseline(options: Namespace, path: str) -> Namespace:
    changed = type(options)(**vars(options))
    changed.baseline = path
    return changed
