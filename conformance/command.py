"""The command line: ``python -m conformance``, and ``toyspec conform``."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from conformance import page
from conformance.adapters import ANSWER_SECONDS, Adapter, AdapterError
from conformance.escaping import printable
from conformance.probes.question import ROLES
from conformance.registry import RegistryError
from conformance.starter import LANGUAGES, StarterError, write_starter

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterator, Mapping

    from conformance.verdicts import Result

GOOD, BAD, USAGE = 0, 1, 2
_PROGRESS_EVERY = 100
_LONG_SECONDS = 45.0
_SHOWN_AT_ONCE = 3
_NUMBERS = 10_000

DESCRIPTION = """\
Test an implementation in any language. You provide one small program, its
adapter; conformance/PROTOCOL.md describes it.

  run         run the corpus for the roles of the adapter (default)
  new         write an adapter to begin with into the folder PATH: its loop and
              its hello in --language; a question then says what is still to do
  doctor      check the adapter step by step
  list        list the questions without running them
  registered  build and test the implementations of the registry
  interop     let every reader of the registry read the output of every writer,
              and compare how canonical writers spell random numbers; with
              --adapter, those of the adapter, the oracle and each --only NAME
  faults      let the writer of --program meet failing calls, full disks and
              kills; without it, each one of the registry
  costs       count what reading costs with --adapter: bytes that a follower
              reads again, descriptors that it leaves open, seconds for many
              records; without it, with each one of the registry
  locks       let the writer of --adapter lock a stream while other programs
              try to write to it; without it, each one of the registry
  hunt        ask implementations of the registry about drawn streams, records
              and sessions for --seconds; each other answer than that of the
              oracle is printed with the smallest input that shows it
  kill        check that the corpus catches every mutant
  matrix      make the tables of published reports: newest, tier, what was not
              asked, and how each implementation got there"""

EPILOG = """\
exit status: 0 if every expected question passes, 1 if not, 2 if nothing could
be asked

examples:
  toyspec conform new my-emitter --language java
  toyspec conform --adapter ./adapter
  toyspec conform doctor --adapter 'node adapter.js'
  toyspec conform --level minimal --adapter ./adapter
  toyspec conform --adapter ./adapter --select toy-v1/step-skipped
  toyspec conform --adapter ./adapter --select proves:encoding/strict-json
  toyspec conform --adapter ./adapter --baseline known.json --junit report.xml
  toyspec conform --adapter ./adapter --revision 1.2
  toyspec conform --adapter ./adapter --fresh 7 --count 1000
  toyspec conform interop --adapter ./adapter
  toyspec conform --adapter ./adapter --report report.json
  toyspec conform faults --program ./fault-writer --report report.json
  toyspec conform matrix report.json --registry conformance/published"""


LEVELS = ("minimal", "quick", "whole")
"""How much of the corpus is asked."""

_LEVEL_HELP = (
    "what is asked: minimal, what every emitter needs; quick, few questions that catch our mutants and are at "
    "least one for each MUST; or the whole corpus (default)"
)


_FRESH_HELP = (
    "the seed of the questions about drawn streams, records and sessions, which a whole run asks as well "
    "(default: another one each time, which the conclusion names)"
)
_REPEAT_HELP = "ask each question N times, later in another order: an answer that changes is a failure (default: 1)"
_LACKS_HELP = (
    "for faults: what the language of --program cannot do: interrupt (no exception arrives inside a call), fork, "
    "bundle, locks (there are none), flock (there are record locks alone), count (of the bytes that a write took)"
)


class UsageError(Exception):
    """Wrong usage of the command, or nothing can be asked."""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of the command to *parser*."""
    add = parser.add_argument
    add("action", nargs="?", default="run", choices=tuple(_ACTIONS), metavar="ACTION", help="one of the actions above")
    add("paths", nargs="*", metavar="PATH", help="for new the folder to write into, for matrix reports of --report")
    add("--language", choices=sorted(LANGUAGES), help="for new: the language of the adapter")
    add("--adapter", metavar="CMD", help="the command that starts the adapter")
    add("--only", action="append", default=[], metavar="NAME", help="an implementation of the registry")
    add("--no-build", action="store_true", help="use the implementations of the registry as built earlier")
    add("--role", action="append", default=[], choices=ROLES, help="test only this role (repeatable)")
    add(
        "--select",
        action="append",
        default=[],
        metavar="PATTERN",
        help="a folder of cases, a name with * and ?, or proves:STATEMENT (repeatable)",
    )
    add("--fresh", type=int, metavar="SEED", help=_FRESH_HELP)
    add("--count", type=int, metavar="N", help="how many are drawn (default: 100; random numbers for interop: 10000)")
    add("--seconds", type=float, default=60.0, metavar="N", help="how long hunt asks (default: 60)")
    add("--revision", metavar="N.N", help="ask what this revision asked (default: the newest but a draft)")
    add("--level", choices=LEVELS, default="whole", help=_LEVEL_HELP)
    _configure_running(parser)


def _configure_running(parser: ArgumentParser) -> None:
    """Add how questions are sent, and where results go."""
    add = parser.add_argument
    add("--repeat", type=int, default=1, metavar="N", help=_REPEAT_HELP)
    add("--fail-fast", action="store_true", help="stop at the first failure; the rest counts as not asked")
    add("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="number of programs to run in parallel")
    add("--deadline", type=float, default=ANSWER_SECONDS, metavar="SECONDS", help="time limit for one answer")
    add("--mode", choices=("auto", "lines", "oneshot"), default="auto", help="how to send requests to the adapter")
    add("--baseline", metavar="FILE", help="known failures with reasons")
    add("--write-baseline", metavar="FILE", help="write all failures as a baseline; replace its reasons")
    add("--transcript", metavar="FILE", help="write every message to this file")
    add("--jsonl", metavar="FILE", help="write every result as a line of JSON")
    add("--junit", metavar="FILE", help="write a report for CI systems")
    add("--matrix", metavar="FILE", help="write a table in Markdown")
    add("--page", metavar="FILE", help="write the results into a page of the site")
    add("--proven", metavar="FILE", help="write which statements each implementation keeps, for registered")
    add("--report", metavar="FILE", help="write the report that an implementation publishes")
    add("--source", metavar="ADDRESS", help="the address of the commit that is asked, for --report")
    add("--registry", metavar="DIR", help="a folder with one TOML file for each implementation, for matrix")
    add("--program", metavar="CMD", help="for faults: the command that starts the program of PROTOCOL.md")
    add("--lacks", action="append", default=[], metavar="NAME=WHY", help=_LACKS_HELP)
    add("--fault", default="", metavar="TEXT", help="for faults: only those whose title has this text")
    add("--long", action="store_true", help="for faults: kill writers for minutes")
    add("--badge", metavar="FILE", help="write a badge, as .svg or .json")
    add("--quiet", action="store_true", help="print only the conclusion")
    add("--json", action="store_true", help="print the report that --report writes, and nothing else, for run")


def execute(options: Namespace) -> int:
    """Execute *options*; return the exit status."""
    from conformance.reports.published import ReportError

    action = _ACTIONS[options.action]
    if (options.paths and options.action not in {"new", "matrix"}) or (options.json and options.action != "run"):
        action = _misused
    try:
        return action(options)
    except (UsageError, AdapterError, RegistryError, ReportError, StarterError) as error:
        sys.stderr.write(f"conform: {printable(str(error))}\n")
        return USAGE


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    from argparse import ArgumentParser, RawDescriptionHelpFormatter

    parser = ArgumentParser(
        prog="conform", description=DESCRIPTION, epilog=EPILOG, formatter_class=RawDescriptionHelpFormatter
    )
    configure(parser)
    return execute(parser.parse_args(arguments))


def _misused(options: Namespace) -> int:
    if options.json:
        raise UsageError(f"--json is for run, not for {options.action}")
    raise UsageError(f"{options.action} takes no path, but got {options.paths[0]}; `new` and `matrix` take them")


def _new(options: Namespace) -> int:
    if len(options.paths) != 1 or options.language is None:
        raise UsageError(f"new takes one folder and a --language, which is one of {', '.join(sorted(LANGUAGES))}")
    (folder,) = options.paths
    commands = write_starter(folder, options.language)
    _say(
        [f"{printable(folder)} has {LANGUAGES[options.language].file} and README.md. Next:", *map(printable, commands)]
    )
    return GOOD


def _run(options: Namespace) -> int:
    from conformance.reports import human, published
    from conformance.runner import prove

    if not options.adapter:
        raise UsageError("--adapter is missing: name the command that starts the adapter")
    with _opened(options.transcript) as transcript:
        adapter = Adapter(options.adapter, deadline=options.deadline, mode=options.mode, transcript=transcript)
        adapter.ask_hello()
        shown: list[Result] = []
        is_silent = options.quiet or options.json
        on_start, on_result = (None, None) if is_silent else _as_it_runs(adapter, options, shown)
        run = prove(adapter, options, on_start=on_start, on_result=on_result)
    _write_reports(options, [run])
    if options.json:
        _say([json.dumps(published.report_of(run, options.source))])
    else:
        _say([human.conclusion(run)] if options.quiet else human.lines(run, shown))
    return GOOD if run.is_good else BAD


def _list(options: Namespace) -> int:
    from conformance.corpus import questions_of, selected

    _say(
        question.name
        for question in questions_of(
            selected(options.select, revision=_listed_revision(options)), options.role or ROLES
        )
    )
    return GOOD


def _listed_revision(options: Namespace) -> str:
    from conformance.revisions import CURRENT, known_revisions, listed

    if options.revision not in (None, *listed()):
        raise UsageError(f"the corpus has no revision {options.revision}; {known_revisions()}")
    return options.revision or CURRENT


def _doctor(options: Namespace) -> int:
    from conformance.doctor import examine

    if not options.adapter:
        raise UsageError("--adapter is missing: name the command that starts the adapter")
    healthy = True
    for step in examine(Adapter(options.adapter, deadline=options.deadline)):
        healthy = healthy and step.is_right
        _say(step.lines())
    _say(["no errors; now run the corpus" if healthy else "fix the first error, then run the doctor again"])
    return GOOD if healthy else BAD


def _registered(options: Namespace) -> int:
    from conformance.reports import human
    from conformance.runner import prove_registered

    runs, not_asked = prove_registered(options, say=lambda line: _say([line]), on_result=_progress(options))
    for run in runs:
        _say(human.failures(run))
    _write_reports(options, runs)
    if runs:
        from conformance.reports.matrix import matrix

        _say(matrix(runs))
    _say(f"{name}: {reason}" for name, reason in not_asked)
    if not runs:
        raise UsageError("no implementation could be asked")
    if options.page and whole_registry(options) and not not_asked:
        page.put(options.page, "matrix", page.matrix(runs))
    if options.proven and whole_registry(options) and not not_asked:
        from conformance.proven import proven_text

        _write(options.proven, proven_text(runs))
    # A missing toolchain is a failure only in CI, where everything is installed.
    whole = not not_asked or ("CI" not in os.environ and all(not reason.is_failure for _, reason in not_asked))
    return GOOD if whole and all(run.is_good for run in runs) else BAD


def _interop(options: Namespace) -> int:
    from conformance.interop import compare_numbers, interop_lines, read_one_another
    from conformance.runner import NotAsked, outside, registered

    adapters = outside(options)
    asked = list(registered(options.only, options)) if options.only or not adapters else []
    adapters += [adapter for _, adapter in asked if isinstance(adapter, Adapter)]
    if not adapters:
        raise UsageError("no implementation could be asked")
    found = read_one_another(adapters)
    _say(interop_lines(found))
    scores, errors = compare_numbers(adapters, _NUMBERS if options.count is None else options.count)
    _say(f"{name}: {right} of {count} random numbers are right" for name, (right, count) in scores.items())
    _say(errors)
    _say(f"{implementation.name}: {adapter}" for implementation, adapter in asked if isinstance(adapter, NotAsked))
    _say([f"{found.streams} streams of {len(adapters)} implementations"])
    if options.page and whole_registry(options) and len(adapters) == len(asked) and not options.adapter:
        page.put(options.page, "interop", page.interop(found))
    return BAD if found.errors or errors else GOOD


def _hunt(options: Namespace) -> int:
    from conformance.runner import hunt_registered

    seed = 1 if options.fresh is None else options.fresh
    asked, names, found, not_asked = hunt_registered(options, seed)
    _say(map(printable, found))
    _say(f"{name}: {reason}" for name, reason in not_asked)
    _say([f"{asked} questions to {', '.join(names)}, drawn with seed {seed}: {len(found)} differences"])
    if not names:
        raise UsageError("no implementation could be asked")
    return BAD if found or any(reason.is_failure for _, reason in not_asked) else GOOD


def _kill(options: Namespace) -> int:
    from conformance.kill_score import kill_all, report

    kills = kill_all(options.only, jobs=options.jobs)
    if not kills:
        raise UsageError(f"no mutant is named {options.only[0]!r}; conformance/mutants/all_mutants.py lists them")
    _say(report(kills))
    if options.page and not options.only:
        page.put(options.page, "kills", page.kills(kills))
    return GOOD if all(kill.is_killed for kill in kills) else BAD


def _faults(options: Namespace) -> int:
    from conformance.faults.command import run

    return run(options)


def _costs(options: Namespace) -> int:
    from conformance.faults.costs import run

    return run(options)


def _locks(options: Namespace) -> int:
    from conformance.locks.command import run

    return run(options)


def _matrix(options: Namespace) -> int:
    from conformance.reports import published

    if not options.paths:
        raise UsageError("name at least one report, which --report has written")
    entries = published.registered(options.registry or published.REGISTRY)
    reports = [published.read_report(path) for path in options.paths]
    if not options.registry and not options.page:
        # Plain reports, of implementations that no registry has to know.
        entries = [published.entry_of(report) for report in reports]
    for name in published.unregistered(reports, entries):
        sys.stderr.write(f"conform: {printable(name)} is not registered: add {printable(name)}.toml to the registry\n")
    _say(lines := list(published.tables(reports, entries)))
    if options.page:
        page.put(options.page, "published", lines)
    return GOOD


_ACTIONS: Mapping[str, Callable[[Namespace], int]] = {
    "run": _run,
    "new": _new,
    "doctor": _doctor,
    "list": _list,
    "registered": _registered,
    "interop": _interop,
    "hunt": _hunt,
    "faults": _faults,
    "costs": _costs,
    "locks": _locks,
    "kill": _kill,
    "matrix": _matrix,
}


def whole_registry(options: Namespace) -> bool:
    """Return whether the options select everything."""
    return not (options.only or options.select or options.role)


def _write_reports(options: Namespace, runs: list[Any]) -> None:
    from conformance.reports import machine, matrix, published

    for run in runs[:1]:
        if options.report:
            published.write_report(options.report, published.with_corpus(options.report, run, options.source))
        if options.jsonl:
            _write(options.jsonl, _text(machine.jsonl(run)))
        if options.junit:
            _write(options.junit, _text(machine.junit(run)))
        if options.badge:
            draw = matrix.badge_json if options.badge.endswith(".json") else matrix.badge_svg
            _write(options.badge, draw(run))
        if options.write_baseline:
            from conformance.baseline import as_text

            _write(options.write_baseline, as_text(run.results))
    if options.matrix:
        _write(options.matrix, _text(matrix.matrix(runs)))


def _progress(options: Namespace) -> Callable[[Result], None] | None:
    """Return a function that shows progress, None when standard error is not a terminal."""
    if options.quiet or not sys.stderr.isatty():
        return None
    count = 0

    def show(result: Result) -> None:
        nonlocal count
        count += 1
        if count % _PROGRESS_EVERY == 0:
            sys.stderr.write(f"\r{count} asked, now {printable(result.question.case.name)[:60]:<60}\r")

    return show


def _as_it_runs(
    adapter: Adapter, options: Namespace, shown: list[Result]
) -> tuple[Callable[[int], None], Callable[[Result], None]]:
    """Return what says how long a run of one program per question takes, and what shows the first failures at once.

    The failures that it shows are added to *shown*.
    """
    from conformance.reports import human
    from conformance.statements import decided
    from conformance.verdicts import BAD as BAD_VERDICTS

    progress = _progress(options)

    def start(questions: int) -> None:
        seconds = questions * adapter.hello_seconds / adapter.jobs(options.jobs)
        if not adapter.lines and seconds > _LONG_SECONDS:
            sys.stderr.write(
                f"conform: the adapter is started for each of {questions} questions: about {seconds / 60:.0f} minutes. "
                "With --lines it is started once; --level quick asks only few questions: one at least for each MUST.\n"
            )

    def show(result: Result) -> None:
        is_new = all(result.question is not earlier.question for earlier in shown) and not options.baseline
        if is_new and decided(result).verdict in BAD_VERDICTS and len(shown) < _SHOWN_AT_ONCE:
            shown.append(result)
            _say(human.failure(result))
        if progress is not None:
            progress(result)

    return start, show


@contextlib.contextmanager
def _opened(path: str | None) -> Iterator[Any]:
    if path is None:
        yield None
        return
    from conformance.transcript import Transcript

    with open(path, "w", encoding="utf-8") as file:
        yield Transcript(file)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)


def _text(lines: Iterator[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _say(lines: Any) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
