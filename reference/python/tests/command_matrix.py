"""Command lines made from the parsers of the commands: each option with each of its values, on runs of each sort.

An option without values, or a command without subjects, is an error: give it some, or a reason why it is left out.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from toyspec.cli.commands import COMMANDS, command_parser

if TYPE_CHECKING:
    from collections.abc import Iterator

_RUNS = (
    "sorts/whole", "sorts/resumed", "sorts/broken", "sorts/diverged", "sorts/ranks", "sorts/other/log.csv", "more/rich",
    "more/damaged", "more/parts", "more/entries", "more/kaun", "more/others/log.jsonl", "ranks/missing", "odd",
)  # fmt: skip
_SETS = (
    "sorts/whole sorts/resumed", "more/rich more/torn more/entries", "sorts/diverged sorts/broken sorts/ranks",
    "more/kaun more/parts sorts/other/log.csv", "odd sorts/whole",
)  # fmt: skip
SUBJECTS: dict[str, tuple[str, ...]] = {
    "check": (*_RUNS, "sorts/notes.txt"),
    "show": _RUNS,
    "ls": ("sorts", "more", "runs"),
    "ranks": ("sorts/ranks", "sorts/resumed", "more/ranks", "ranks/missing", "ranks/wide", "ranks/live"),
    "digest": (
        "sorts/whole",
        "sorts/resumed",
        "sorts/broken",
        "sorts/diverged",
        "sorts/other/log.csv",
        _SETS[1],
    ),
    "compare": _SETS,
    "plot": (
        "sorts/whole",
        "sorts/resumed",
        "sorts/diverged",
        "more/rich",
        "more/entries",
        *_SETS,
        "sorts",
    ),
    "tail": (*_RUNS, _SETS[0]),
    "evidence": ("sorts/whole", "sorts/broken", "odd"),
    "doctor": ("more",),
    "repair": ("sorts/whole", "sorts/broken", "more/torn", "more/damaged"),
    "seal": ("sorts/whole", "sorts/broken"),
    "report": ("sorts/whole", "sorts/resumed more/rich"),
    "export": ("csv sorts/whole", "csv sorts/broken sorts/resumed", "kaun odd", "nothing odd"),
    "import": ("sorts/other/log.csv", "more/others/log.jsonl more/others/metrics.csv"),
    "explain": ("step-goes-backwards",),
    "dialect": ("logs/shapes.txt", "logs/table.txt", "sorts/other/log.csv", "more/others/log.jsonl"),
    "sync": ("sorts copy",),
    "catalog": ("build --out out sorts more", "update made"),
    "query": (
        "'select run, tags, annotated, profile, state, ended, reason, final_loss, errors from runs order by path'",
        (
            "'select dialect, first_step, seconds, records, bytes, infos, progress, loss_not_finite"
            " from runs order by path'"
        ),
        "'select run, config, settings, metrics, findings from runs order by path limit 4'",
        "'select run, metric, step, time, value from values order by all limit 60'",
        "\"select 1::decimal(4, 2) a, 2.5::float b, null c, true d, [1, 2] e, {'x': date '2026-01-02'} f, -3 g, '' h\"",
        "\"select 'a' || chr(27) || 'é' a, interval 90 minute b, time '10:00' c, 'x'::blob d, map {'k': 1} e\"",
        "\"select * from (values (1, 'x'), (null, 'yy'), (22, null)) t(n, s)\"",
        "'select run, bytes from runs where false'",
        "'select nothing from runs'",
        "'drop table runs'",
        "''",
    ),
    "annotate": ("sorts/whole", "sorts/resumed sorts/diverged"),
}
"""What each command is asked of."""
NEEDED = {
    "tail": "--once", "plot": "--json", "repair": "--dry-run", "export": "--out out", "import": "--out out",
    "report": "--md", "query": "--catalog made", "dialect": "new --dry-run", "evidence": "--json", "seal": "--json",
}  # fmt: skip
"""What comes with each line of a command."""
PREPARED = {
    "catalog": "catalog build --values sorts --out made",
    "query": "catalog build --values sorts more --out made",
}
"""What is run first."""
MADE = ("out", "copy")
"""What they make, which is removed before the next."""
NOT_RUN = {
    "mcp": "serves until its input ends",
    "view": "serves until it is interrupted",
    "watch": "is a screen",
    "guard": "runs a program",
    "train": "computes for seconds",
    "capture": "runs a program",
    "mirror": "sends until the run ends",
    "push": "needs a hub",
    "pull": "needs a hub",
    "schema": "prints files of schemas/; schemas.txt has its answers",
    "site": "writes a copy of the viewer",
    "emit": "writes what its arguments say; emit.txt has its answers",
    "emitter": "prints a file of its own",
    "skill": "prints a file of its own",
    "conform": "runs programs",
    "completion": "prints a script, which shells test",
}
"""Commands that are not asked, and why."""
LEFT_OUT = {
    "-h": "the page of the command has it",
    "--ray": "needs a cluster",
    "--workers": "starts processes",
    "--follow": "ends by time",
    "--watch": "ends by interruption",
    "--every": "is about --watch",
    "--max-delay": "is about --watch",
    "--idle-timeout": "ends by time",
    "--output": "is needed or named by another line",
    "--out": "is needed",
    "--catalog": "needs DuckDB",
    "--once": "is needed",
    "--report": "writes a file",
}
"""Options that are not asked, and why."""
VALUES: dict[str, tuple[str, ...]] = {
    "--select": ("wrong-type,invalid-json", "nothing"),
    "--ignore": ("invalid-json,time-goes-backwards",),
    "--profile": ("toy/v1", "sorts"),
    "--dialect": ("csv", "nothing"),
    "--step-key": ("step", "acc"),
    "--time-key": ("time",),
    "--metric-key": ("name",),
    "--value-key": ("value",),
    "--columns": ("step,loss",),
    "--max-line-bytes": ("130",),
    "--metric": ("val/acc", "lr", "nothing"),
    "--sort": ("run", "steps", "state", "took", "started", "lr", "val/acc"),
    "--where": ("'loss < 1 and not state = damaged'", "'group ~ k or tags ~ kept'", "'loss <'", "'nothing = 1'"),
    "--number": ("1", "3"),
    "--since": ("x",),
    "--around": ("4", "999"),
    "--tokens": ("200", "600"),
    "--at": ("common", "4", "final"),
    "--points": ("2", "5"),
    "--mean-by": ("group", "lr", "nothing"),
    "--x": ("time", "epoch", "tokens", "lr", "nothing"),
    "--smooth": ("0.9",),
    "--y-min": ("1",),
    "--y-max": ("1",),
    "--size": ("400x300",),
    "--name": ("first",),
    "--title": ("T",),
    "--buckets": ("2",),
    "--lines": ("0", "2", "5"),
    "--rank": ("all", "0", "1", "7", "x"),
    "--examples": ("0", "1"),
    "--ended": ("errored",),
    "--verify": ("sorts/whole/events.jsonl", "nowhere.json"),
    "--group": ("g", "''"),
    "--tag": ("+x", "-kept", "x"),
    "--notes": ("'a note'",),
    "--by": ("ada",),
}
"""What an option is given that names no choices."""
OF_COMMAND: dict[tuple[str, str], tuple[str, ...]] = {
    ("check", "--format"): ("json", "jsonl", "github"),  # sarif names every rule: check-sorts.txt has one
    ("ls", "--columns"): ("lr,loss,best.val/acc,nan.loss,errors,alerts,config.opt.name", "nothing"),
    ("dialect", "--name"): ("mine", "csv"),
    ("check", "--color"): ("always",),
}
"""What it is given with one command."""
_FOREIGN = ("other", "parts", "entries", "whole")
_OF_FOREIGN = ("--dialect", "--step-key", "--time-key", "--metric-key", "--value-key", "--columns")
"""Options that change how logs of other programs are read, and subjects that have such."""
_WITHOUT_JSON = frozenset({
    "--json", "--csv", "--md", "--format", "--color", "--quiet", "--verbose", "--layout", "--raw", "--dialects",
    "--sort", "--reverse", "--profile", "--log", *_OF_FOREIGN,
})  # fmt: skip
"""Options about text, or whose effect the answers without --json show."""


def lines(name: str, subject: str) -> Iterator[str]:
    """Yield the command line of the command *name* on *subject*, then each of the options that it is asked with."""
    base = " ".join(filter(None, ("$ toyspec", name, NEEDED.get(name), subject)))
    given = [text for action in command_parser(name)._actions for text in _given(name, action)]
    is_foreign = any(part in subject for part in _FOREIGN)
    options = [
        text for text in given if text not in base.split() and (is_foreign or text.split()[0] not in _OF_FOREIGN)
    ]
    yield base
    yield from options
    if "--json" in options and name != "digest":  # whose text says what its JSON says
        yield from (f"--json {text}" for text in options if text.partition(" ")[0] not in _WITHOUT_JSON)


def _given(name: str, action: argparse.Action) -> Iterator[str]:
    """Yield how *action* of the command *name* is given, with each of its values but the default."""
    if not action.option_strings or LEFT_OUT.keys() & set(action.option_strings):
        return
    option = action.option_strings[-1]
    if action.nargs == 0:
        yield option
        return
    values = OF_COMMAND.get((name, option)) or VALUES.get(option) or tuple(map(str, action.choices or ()))
    assert values, f"{name} {option}: what is it given? add it to VALUES or, with a reason, to LEFT_OUT"
    yield from (f"{option} {value}" for value in values if value != str(action.default))


def blocks() -> Iterator[tuple[str, str]]:
    """Yield the name and a subject of each command that is asked."""
    for name in COMMANDS:
        assert (name in SUBJECTS) != (name in NOT_RUN), f"{name}: what is it asked of? add it to SUBJECTS or to NOT_RUN"
        yield from ((name, subject) for subject in SUBJECTS.get(name, ()))
