"""Asks implementations the questions of the corpus, and applies their baselines to the results."""

from __future__ import annotations

import os
import random
import secrets
import sys
import tempfile
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from conformance import baseline, corpus, first_questions, fresh, registry
from conformance.adapters import Adapter, AdapterError
from conformance.oracle import tables
from conformance.probes.question import Stage
from conformance.reports.run import Run
from conformance.revisions import CURRENT, as_numbers, is_draft, known_revisions, listed
from conformance.running import Channel, run
from conformance.statements import decided, is_should
from conformance.verdicts import BAD

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Collection, Iterator, Sequence

    from conformance.probes.question import Question
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

    revision = _revision_of(adapter, options)
    tables.follow(revision)
    roles = _roles_of(adapter, options)
    asking = _Asking(adapter, options, revision, on_result)
    # One program per question takes minutes: the first failure is there before the rest is loaded.
    is_early = options.level == "quick" or (options.level == "whole" and not adapter.lines)
    for part in first_questions.parts(roles, revision, options.select) if is_early else ():
        asking.ask(part)
    cases = [] if options.level == "quick" else corpus.cases(tuple(options.select), revision)
    known = [result.question for result in asking.known.values()]
    questions = known if options.level == "quick" else corpus.questions_of(cases, roles)
    if options.level == "minimal":
        questions = corpus.minimal_questions(questions)
    is_narrowed = bool(options.select or options.role)
    is_whole = options.level == "whole" and not is_narrowed
    seed = _seed_of(options, revision, is_whole=is_whole)
    questions += _fresh_questions(adapter, options, seed, roles, revision)
    if not questions:
        raise UsageError(f"nothing to ask: {len(cases)} cases are selected, the roles are {', '.join(roles) or 'none'}")
    rest = [question for question in questions if question.name not in asking.known]
    if on_start is not None and rest and not asking.is_over:
        on_start(len(rest) * options.repeat)
    asking.ask(rest)
    # Of a run that stopped at its first failure, the rest is absent, which denies conformance.
    results = [decided(asking.known[question.name]) for question in questions if question.name in asking.known]
    results, unused = baseline.apply(asking.known_failures, results)
    stale = unused if is_whole and len(results) == len(questions) else []
    return Run(
        hello=adapter.hello,
        results=results,
        required=len(questions),
        stale=stale,
        revision=revision,
        corpus=corpus.version(revision),
        cases=len(cases) if options.level == "whole" else len({question.case.name for question in questions}),
        is_whole=is_whole,
        seed=seed,
        rounds=options.repeat,
        is_minimal=options.level == "minimal" and not is_narrowed,
    )


def _roles_of(adapter: Adapter, options: Namespace) -> list[str]:
    """Return the roles to ask about; raise UsageError where *options* or the hello cannot be followed."""
    from conformance.command import UsageError

    if options.repeat < 1:
        raise UsageError(f"--repeat is {options.repeat}, and must be 1 or more")
    strange = [name for name in adapter.hello.get("departs_from", []) if not is_should(name)]
    if strange:
        raise UsageError(f"the hello departs from {strange[0]}, which is not a SHOULD of the specification")
    roles = [role for role in adapter.hello["roles"] if not options.role or role in options.role]
    if options.level == "minimal" and "writer" not in roles:
        raise UsageError("the level minimal is asked of writers, and the adapter does not name this role")
    return roles


def _seed_of(options: Namespace, revision: str, *, is_whole: bool) -> int | None:
    """Return the seed of the fresh questions of a run; None where it has none, as before they were invented."""
    asks_fresh = options.action == "run" and is_whole and as_numbers(revision) >= as_numbers(fresh.SINCE)
    return secrets.randbelow(fresh.SEEDS) if options.fresh is None and asks_fresh else options.fresh


def _fresh_questions(
    adapter: Adapter, options: Namespace, seed: int | None, roles: Collection[str], revision: str
) -> Iterator[Question]:
    """Yield the questions that *seed* draws; few where each starts a program, none without a seed."""
    if seed is not None:
        count = options.count if options.count is not None else fresh.COUNT if adapter.lines else fresh.ONE_SHOTS
        yield from fresh.fresh_questions(seed, count, roles, revision)


class _Asking:
    """Asks an adapter questions, part by part, up to the first failure where *options* end the run there."""

    def __init__(
        self, adapter: Adapter, options: Namespace, revision: str, on_result: Callable[[Result], None] | None
    ) -> None:
        self.known_failures = _baseline_of(options)
        self.known: dict[str, Result] = {}
        """Each result so far, by the name of its question."""
        self.is_over = False
        enough = self._is_failure if options.fail_fast else None
        jobs = adapter.jobs(options.jobs)
        self._run = partial(run, adapter, revision=revision, jobs=jobs, on_result=on_result, enough=enough)
        self._stops = options.fail_fast
        self._repeats = range(1, options.repeat)

    def ask(self, questions: Sequence[Question]) -> None:
        """Ask *questions*, and the same programs again in another order as often as *options* say; or nothing more."""
        if self.is_over:
            return
        again = [question for seed in self._repeats for question in _in_another_order(questions, seed)]
        results = self._run([*questions, *again])
        for result in results:
            earlier = self.known.get(result.question.name)
            self.known[result.question.name] = result if earlier is None else earlier.repeated(result)
        self.is_over = self._stops and any(map(self._is_failure, results))

    def _is_failure(self, result: Result) -> bool:
        (found,), _ = baseline.apply(self.known_failures, [decided(result)])
        return found.verdict in BAD


def _in_another_order(questions: Sequence[Question], seed: int) -> list[Question]:
    chance = random.Random(seed)  # noqa: S311  (a seed gives the same order again)
    return chance.sample(questions, len(questions))


def _revision_of(adapter: Adapter, options: Namespace) -> str:
    """Return the revision to ask about; raise UsageError if the adapter or the corpus does not have it."""
    from conformance.command import UsageError

    own: list[str] = adapter.hello.get("revisions") or listed()
    known = [revision for revision in listed() if revision in own]
    # A draft is asked of who names it.
    offered = known if "revisions" in adapter.hello else [revision for revision in known if not is_draft(revision)]
    wanted: str | None = options.revision or (offered[-1] if offered else None)
    if wanted not in listed():
        raise UsageError(f"the corpus has no revision {wanted or ', '.join(own)}; {known_revisions()}")
    if wanted not in known:
        names = ", ".join(own)
        raise UsageError(f"the adapter names the revisions {names}, not {wanted}; ask with --revision {own[-1]}")
    return wanted


def _baseline_of(options: Namespace) -> list[baseline.Entry]:
    """Return the failures that *options* name as known; raise UsageError if the file cannot be read."""
    from conformance.command import UsageError

    if not options.baseline:
        return []
    try:
        return baseline.load(options.baseline)
    except (baseline.BaselineError, OSError) as error:
        raise UsageError(str(error)) from None


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


def hunt_registered(options: Namespace, seed: int) -> tuple[int, list[str], list[str], list[tuple[str, NotAsked]]]:
    """Let the registry answer fresh questions; return how many, to whom, the differences, and who was not asked."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="conform-"))
        adapters: dict[str, Adapter] = {}
        not_asked = []
        for implementation, adapter in registered(options.only, options):
            if isinstance(adapter, NotAsked):
                not_asked.append((implementation.name, adapter))
                continue
            adapters[implementation.name] = adapter
        # All are asked the same, which those of an earlier revision know too.
        revision = min(
            (_revision_of(adapter, options) for adapter in adapters.values()), key=as_numbers, default=CURRENT
        )
        channels = {name: stack.enter_context(closing(Channel(adapter))) for name, adapter in adapters.items()}
        stages = {
            name: Stage(channel.ask, partial(tempfile.mkdtemp, dir=folder), adapters[name].hello, revision)
            for name, channel in channels.items()
        }
        least = (options.count or fresh.COUNT) if stages else 0
        asked, found = fresh.hunt(stages, seed, options.seconds if stages else 0.0, revision, least=least)
    return asked, list(adapters), found, not_asked


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
