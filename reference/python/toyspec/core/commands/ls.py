"""``toyspec ls``: the runs below a directory, best first."""

from __future__ import annotations

import gc
import sys
from itertools import count
from typing import TYPE_CHECKING

import msgspec

from toyspec.core import rooms
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.arguments import add_reading, dialect_choice, names_in, run_filter, settings
from toyspec.core.command_line.figures import shown
from toyspec.core.command_line.objects import inert_json, run_object
from toyspec.core.command_line.parsers import Parser, add_color, number_from
from toyspec.core.command_line.progress import Progress
from toyspec.core.command_line.run_tables import print_runs
from toyspec.core.command_line.terminal import Terminal, tell
from toyspec.core.places.addresses import is_address, public
from toyspec.core.runs.columns import (
    ALERT_FIELDS,
    FINDING_FIELDS,
    ORDERS,
    asks_for_hidden,
    meets,
    needs_whole_streams,
    ordered,
    requiring,
    value_of,
)

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from toyspec.core.findings import PathError
    from toyspec.core.reading.log_detection import DialectChoice
    from toyspec.core.runs.run import Extent, Run, Runs
    from toyspec.core.runs.run_facts import RunFacts

_MOST_NAMED = 5
DESCRIPTION = (
    "List the runs below each ROOT: the lowest final loss first, runs without one\n"
    "last. Torn and damaged runs are listed with what can be read of them. A torn\n"
    "run that a writer has open is shown as running. A sealed run has a seal, with\n"
    "which `toyspec check` and `toyspec show` compare its files. The final loss is\n"
    "that of run_end, else that of the last step with a loss.\n"
    "\n"
    "A stream of up to 1 MiB is read completely. Of a larger one only the start and\n"
    "the end are read, and its state has a question mark; --full reads everything.\n"
    "Of a stream in an object store, 128 KiB are read.\n"
    "\n"
    "A column is a fact of every run such as last_step, a setting such as config.lr,\n"
    "or a metric: val/acc is its last value, best.val/acc its best, nan.val/acc the\n"
    "number of values that are not finite. The goal of a metric is the one that the\n"
    "run defines; without one, smaller is better for names with loss, error, ppl or\n"
    "perplexity. Metrics need whole streams.\n"
    "\n"
    "--where takes the filters of `toyspec view`: comparisons by < <= > >= = != and\n"
    "~ (contains), numbers with units (2h, 5mb, 70%), and, or, not, parentheses. A\n"
    "word alone is searched in name, path, group, tags, notes, state and profile.\n"
    "`state = errored` finds each word that is shown for a state, and that of its\n"
    "log.\n"
    "errors, warnings and findings are numbers of a check, and alerts of the\n"
    "incidents that health rules find, open_alerts of those that have not ended:\n"
    "these read each run once more.\n"
    "\n"
    "A run that `toyspec annotate` has given a name is listed with it, and a starred\n"
    "one with an asterisk. Hidden runs are left out, unless --hidden or a filter such\n"
    "as 'hidden = true' asks for them.\n"
    "\n"
    "On a terminal, columns that do not fit are hidden; a pipe gets them all."
)
EPILOG = (
    "examples:\n"
    "  toyspec ls runs/\n"
    "  toyspec ls --sort started --json runs/ | jq '.[0]'\n"
    "  toyspec ls --sort val/loss -n 5 --columns lr runs/\n"
    "  toyspec ls --where 'lr < 1e-3 and val/acc > .7' runs/\n"
    "  toyspec ls --json runs/ | jq -r '.[] | [.run, .final_loss] | @csv'\n"
    "  toyspec ls --where 'state != complete or nan.loss > 0' runs/\n"
    "  toyspec ls --where 'alerts > 0' --columns alerts runs/"
)
USAGE = "toyspec ls [OPTION…] [ROOT…]"


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    parser.value(
        "roots",
        "ROOT",
        "directories or addresses; default: the roots in toyspec.toml, else this directory",
        nargs="*",
        type=public,
    )
    _add_columns(parser)
    parser.flag("--hidden", "list runs too that `toyspec annotate --hide` hides")
    parser.flag("-r --reverse", "sort the other way round")
    parser.flag("--full", "read every byte of every stream")
    parser.flag("--json", "print an array of objects, in the same order")
    add_reading(parser, has_columns=False)
    add_color(parser)


def _add_columns(parser: Parser) -> None:
    parser.value(
        "--sort",
        "COLUMN",
        f"{', '.join(ORDERS)}, or any column: a metric, best first by its goal, or a setting; default: loss",
        default="loss",
    )
    parser.value("--columns", "COLUMN[,COLUMN…]", "columns to show as well", type=names_in, default=[])
    parser.value(
        "--where",
        "FILTER",
        "list only runs that meet it: 'lr < 1e-3 and val/acc > .7'; may be repeated",
        type=run_filter,
        action="append",
        default=[],
    )
    parser.value("-n --number", "N", "list only the first N runs", type=number_from(1))


def run(options: Namespace) -> int:
    """Print the list and return an exit code."""
    # The runs are kept to the end and are not in cycles; searching for cycles takes 0.3 to 0.9 s of 10,000 runs.
    gc.disable()
    try:
        return _list(options)
    finally:
        gc.enable()


def _list(options: Namespace) -> int:
    order = [] if options.sort in ORDERS else [options.sort]
    columns = list(dict.fromkeys([*options.columns, *order]))
    asked = [*columns, *(name for each in options.where for name in each.fields)]
    configuration = settings()
    choice = dialect_choice(options, configuration, search=True)
    if any(name in ALERT_FIELDS for name in asked):
        # A wrong rule is reported before anything is read.
        rooms.health_options.all_rules(None, configuration)
    options.roots = options.roots or list(configuration.roots) or ["."]
    runs = _listed(options.roots, "whole" if options.full or needs_whole_streams(asked) else "ends", choice)
    known = _known(runs, options, asked, choice)
    met = [facts for facts in requiring(known, order, options.where) if meets(facts, options.where)]
    met = ordered(met, options.sort, reverse=options.reverse)
    shows_hidden = options.hidden or asks_for_hidden(*options.where)
    seen = [each for each in met if shows_hidden or not each.hidden]
    hidden, shown_runs = len(met) - len(seen), seen[: options.number]
    if options.json:
        _print_json(shown_runs, columns)
    elif seen:
        terminal, left_out = Terminal(color=options.color), len(seen) - len(shown_runs)
        print_runs(shown_runs, terminal, roots=options.roots, more=columns, left_out=left_out)
        _report_others(known, runs.skipped)
    elif known and not hidden:
        tell("ls", f"none of {len(known)} runs meets the conditions")
    elif not hidden:
        _report_none(runs.errors, options)
        _report_others(known, runs.skipped)
    if hidden:
        number = "1 run is" if hidden == 1 else f"{hidden} runs are"
        tell("ls", f"{number} hidden by annotation; --hidden lists them too")
    return _report_errors(runs.errors)


def _known(runs: Runs, options: Namespace, asked: Sequence[str], choice: DialectChoice) -> list[RunFacts]:
    """Return what is known of each run, with the fields that are *asked* for, in the order of their streams."""
    counts = any(name in FINDING_FIELDS for name in asked)
    # An object has the settings too, which a resumption in the middle of a long log may have changed.
    fields = [*asked, *(["progress"] if options.json else [])]
    known = [_checked(run, run.known(fields), choice) if counts else run.known(fields) for run in runs]
    known.sort(key=lambda facts: facts.stream)
    return known


def _checked(run: Run, facts: RunFacts, choice: DialectChoice) -> RunFacts:
    """Return *facts* with the number of findings of a check."""
    from toyspec.core.checker.checking import count_findings

    return msgspec.structs.replace(facts, findings=count_findings(run.path, choice))


def _report_others(known: Sequence[RunFacts], skipped: int) -> None:
    """Say what the list does not: logs in which no metric was found, and how many files are not logs."""
    if blank := [each.stream for each in known if each.dialect is not None and not each.metrics]:
        named = ", ".join(map(shown, blank[:_MOST_NAMED])) + (", …" if len(blank) > _MOST_NAMED else "")
        tell("ls", f"no metric was found in {named}; `toyspec check` says what to do")
    if skipped:
        files = "1 other file is" if skipped == 1 else f"{skipped} other files are"
        tell("ls", f"{files} not recognized as logs; `toyspec doctor` says what is there")


def _report_none(errors: Sequence[PathError], options: Namespace) -> None:
    if not errors:
        is_remote = any(map(is_address, options.roots))
        import_takes = "`toyspec import` takes logs of other tools from there"
        advice = import_takes if is_remote else "`toyspec doctor` names what else is there"
        tell("ls", f"no runs below {', '.join(map(shown, options.roots))}; {advice}")


def _report_errors(errors: Sequence[PathError]) -> int:
    """Name what could not be read; return an exit code."""
    for error in errors:
        tell("ls", f"{shown(error.path)}: {error.message}")
    return exit_codes.USAGE if errors else exit_codes.OK


def _listed(roots: list[str], extent: Extent, dialect: DialectChoice) -> Runs:
    from toyspec.core.runs.run import list_runs

    looked = count(1)
    with Progress("reading") as progress:
        look = (lambda: progress.show(f"{next(looked)} files searched for logs")) if progress.active else None
        return list_runs(*roots, read=extent, on_progress=progress.on_bytes, on_look=look, dialect=dialect)


def _print_json(runs: Sequence[RunFacts], columns: Sequence[str]) -> None:
    objects = ({"columns": {name: value_of(run, name) for name in columns}} if columns else {} for run in runs)
    lines = (f"\n{inert_json(asked | run_object(run))}" for asked, run in zip(objects, runs, strict=True))
    sys.stdout.write("[" + ",".join(lines) + "\n]\n")
