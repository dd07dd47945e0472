"""Command lines made from the parsers of the commands: each option with each of its values, on runs of each sort.

An option without values, or a command without subjects, is an error: give it some, or a reason why it is left out.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from toyspec.core.command_line.commands import COMMANDS, command_parser

if TYPE_CHECKING:
    from collections.abc import Iterator

_SETS = (
    "more/rich more/torn more/entries", "sorts/whole sorts/resumed", "sorts/diverged sorts/broken sorts/ranks",
    "more/kaun more/parts sorts/other/log.csv", "odd sorts/whole",
)  # fmt: skip
_PLAIN_RUNS = (
    "sorts/resumed", "sorts/broken", "sorts/ranks", "sorts/other/log.csv", "more/damaged", "more/parts", "more/kaun",
    "odd",
)  # fmt: skip
PLAIN: dict[str, tuple[str, ...]] = {
    "check": (*_PLAIN_RUNS, "more/rich", "sorts/diverged", "more/entries", "sorts/notes.txt"),
    "show": (*_PLAIN_RUNS, "ranks/missing", "ranks/wide", "sorts/whole", "sorts/diverged", "more/entries"),
    "tail": (*_PLAIN_RUNS, "sorts/whole", "more/entries", "sorts/whole sorts/resumed"),
    "ls": ("sorts", "runs"),
    "digest": ("sorts/resumed", "sorts/broken", "sorts/diverged", _SETS[0]),
    "compare": _SETS[1:],
    "samples": ("more/rich", "odd", "sorts/broken"),
    "bisect": ("sorts/ranks sorts/whole", "odd odd"),
    "evidence": ("sorts/broken", "odd"),
    "repair": ("sorts/whole", "more/torn", "more/damaged"),
    "seal": ("sorts/broken",),
    "query": (
        "'select run, tags, annotated, profile, state, ended, reason, final_loss, errors from runs order by path'",
        (
            "'select dialect, first_step, seconds, records, bytes, infos, progress, loss_not_finite"
            " from runs order by path'"
        ),
        "'select run, config, settings, metrics, findings from runs order by path limit 4'",
        "\"select * from (values (1, 'x'), (null, 'yy'), (22, null)) t(n, s)\"",
        "'select nothing from runs'",
        "'drop table runs'",
        "''",
    ),
}
"""What each command is asked of without options, and with --json."""
SUBJECTS: dict[str, tuple[str, ...]] = {
    "check": ("sorts/whole", "sorts/broken", "more/others/log.jsonl", "ranks/missing"),
    "show": ("more/rich", "more/others/log.jsonl", "ranks/missing"),
    "ls": ("more",),
    "digest": ("sorts/whole", "sorts/other/log.csv"),
    "compare": (_SETS[0],),
    "samples": ("more/rich",),
    "bisect": ("sorts/resumed sorts/broken",),
    "expect": ("write sorts/resumed -o made.json", "check sorts/resumed golden.json"),
    "tail": ("sorts/diverged", "more/rich", "more/others/log.jsonl", "ranks/missing"),
    "evidence": ("sorts/whole",),
    "doctor": ("more",),
    "repair": ("sorts/broken",),
    "seal": ("sorts/whole",),
    "export": ("tensorboard sorts/whole", "tensorboard sorts/broken sorts/resumed", "nothing odd"),
    "import": ("sorts/other/log.csv", "more/others/log.jsonl more/others/metrics.csv"),
    "explain": ("step-goes-backwards",),
    "sync": ("sorts copy",),
    "catalog": ("build --out out sorts more", "update made"),
    "query": (
        "\"select 1::decimal(4, 2) a, 2.5::float b, null c, true d, [1, 2] e, {'x': date '2026-01-02'} f, -3 g, '' h\"",
        "\"select 'a' || chr(27) || 'é' a, interval 90 minute b, time '10:00' c, 'x'::blob d, map {'k': 1} e\"",
        "'select run, bytes from runs where false'",
    ),
    "annotate": ("sorts/whole", "sorts/resumed sorts/diverged"),
}
"""What each command is asked of with each of its options."""
NEEDED = {
    "tail": "--once", "repair": "--dry-run", "export": "--out out", "import": "--out out",
    "query": "--catalog made",
}  # fmt: skip
"""What comes with each line of a command."""
PREPARED = {
    "expect": "expect write sorts/whole -o golden.json",
    "catalog": "catalog build sorts --out made",
    "query": "catalog build sorts more --out made",
}
"""What is run first."""
MADE = ("out", "copy")
"""What they make, which is removed before the next."""
NOT_RUN = {
    "mcp": "serves until its input ends",
    "view": "serves until it is interrupted",
    "watch": "is a screen",
    "plot": "writes a picture; plot.txt has its answers",
    "report": "writes a page",
    "guard": "watches until the runs end",
    "train": "computes for seconds",
    "capture": "runs a program",
    "run": "runs a program",
    "mirror": "sends until the run ends",
    "schema": "prints files of schemas/; answers.txt has its answers",
    "emitter": "prints a file of its own",
    "dialect": "writes settings; proposals.jsonl has what it proposes",
    "skill": "prints a file of its own",
    "conform": "runs programs",
    "completion": "prints a script, which shells test",
}
"""Commands that are not asked, and why."""
LEFT_OUT = {
    "-h": "the page of the command has it",
    "--ray": "needs a cluster",
    "--workers": "starts processes",
    "--watch": "ends by interruption",
    "--every": "is about --watch",
    "--max-delay": "is about --watch",
    "--idle-timeout": "ends by time",
    "--timeout": "ends by time",
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
    "--rtol": ("1e-3", "-1"),
    "--range": ("0.5",),
    "--atol": ("0.5", "x"),
    "--ulp": ("4",),
    "--noise": ("sorts/diverged", "nothing"),
    "--sort": ("run", "steps", "state", "took", "started", "lr", "val/acc"),
    "--where": ("'loss < 1 and not state = damaged'", "'group ~ k or tags ~ kept'", "'loss <'", "'nothing = 1'"),
    "--number": ("1", "3"),
    "--since": ("x",),
    "--step": ("4", "5"),
    "--tokens": ("200", "600"),
    "--name": ("first",),
    "--buckets": ("2",),
    "--lines": ("0", "2", "5"),
    "--examples": ("0", "1"),
    "--ended": ("errored",),
    "--group": ("g", "''"),
    "--tag": ("x",),
    "--untag": ("kept",),
    "--notes": ("'a note'",),
}
"""What an option is given that names no choices."""
OF_COMMAND: dict[tuple[str, str], tuple[str, ...]] = {
    ("ls", "--columns"): ("lr,loss,best.val/acc,nan.loss,errors,alerts,config.opt.name", "nothing"),
    ("check", "--color"): ("always",),
    ("check", "--expect"): ("nothing.json",),
    ("samples", "--sort"): ("reward", "nothing"),
    ("expect", "--steps"): ("2,3", "-1"),
}
"""What it is given with one command."""
_FOREIGN = ("other", "parts", "entries", "whole")
_OF_FOREIGN = ("--dialect", "--step-key", "--time-key", "--metric-key", "--value-key", "--columns")
"""Options that change how logs of other programs are read, and subjects that have such."""
_WITHOUT_JSON = frozenset({
    "--json", "--csv", "--format", "--color", "--quiet", "--verbose",
    "--sort", "--reverse", "--profile", *_OF_FOREIGN,
})  # fmt: skip
"""Options about text, or whose effect the answers without --json show."""


def lines(name: str, subject: str, *, is_plain: bool) -> Iterator[str]:
    """Yield the command line of the command *name* on *subject*, then each of the options that it is asked with.

    One that *is_plain* is asked with --json alone, if the command has it.
    """
    base = " ".join(filter(None, ("$ toyspec", name, NEEDED.get(name), subject)))
    given = [text for action in command_parser(name)._actions for text in _given(name, action)]
    is_foreign = any(part in subject for part in _FOREIGN)
    options = [
        text for text in given if text not in base.split() and (is_foreign or text.split()[0] not in _OF_FOREIGN)
    ]
    yield base
    if is_plain:
        yield from (text for text in options if text == "--json")
        return
    yield from options
    if "--json" in options and name not in ("digest", "evidence"):  # which print JSON alone
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


def blocks(name: str) -> Iterator[tuple[str, bool]]:
    """Yield each subject of the command *name*, and whether it is asked without options."""
    yield from ((subject, False) for subject in SUBJECTS[name])
    yield from ((subject, True) for subject in PLAIN.get(name, ()))


def asked() -> list[str]:
    """Return the commands that are asked."""
    for name in COMMANDS:
        assert (name in SUBJECTS) != (name in NOT_RUN), f"{name}: what is it asked of? add it to SUBJECTS or to NOT_RUN"
    return [name for name in COMMANDS if name in SUBJECTS]
