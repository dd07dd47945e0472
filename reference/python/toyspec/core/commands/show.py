"""``toyspec show``: one run on one screen."""

from __future__ import annotations

import math
import os
import shutil
import sys
import tempfile
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.arguments import add_dialect, add_profile, dialect_choice
from toyspec.core.command_line.figures import counted, duration, figure, metric_figure, shown, size
from toyspec.core.command_line.objects import dialect_object, facts_object, inert_json
from toyspec.core.command_line.parsers import Parser, add_color
from toyspec.core.command_line.progress import Progress
from toyspec.core.command_line.run_tables import STATES
from toyspec.core.command_line.tables import cut_start, padded, width, wrapped
from toyspec.core.command_line.terminal import Terminal, columns, tell
from toyspec.core.errors import StreamError, StreamMissingError, UnknownFormatError
from toyspec.core.escaping import encodable, printable, shortened
from toyspec.core.format.numbers import number
from toyspec.core.format.record_mapping import said_in, with_lost_numbers
from toyspec.core.generated.rules import SEAL_BROKEN
from toyspec.core.places.addresses import is_address, public
from toyspec.core.reading.annotations import read_annotations
from toyspec.core.reading.log_detection import usual_names
from toyspec.core.reading.run_files import media_file, ranks_beside
from toyspec.core.reading.sealed_files import has_seal
from toyspec.core.runs.discovery import STANDARD_INPUT, logs_in
from toyspec.core.runs.run_facts import flat
from toyspec.core.runs.summary import summarize_run

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Mapping

    from toyspec.core.findings import ReadReport
    from toyspec.core.reading.log_detection import DialectChoice
    from toyspec.core.reading.records import Record
    from toyspec.core.runs.curves import Curve
    from toyspec.core.runs.summary import RunSummary


Better = Literal["lowest", "highest", "unknown"]

_MAX_COLUMNS = 120
_NAME_CHARS = 40
# The longest title that is not the name of a metric.
_TITLE_COLUMNS = len("experiment")
_MAX_LISTED = 12


def configure(parser: Parser) -> None:
    """Add description, arguments and an example to *parser*."""
    parser.usage = "toyspec show [OPTION…] RUN"
    parser.description = (
        "Show one run: its state, where and with which settings it ran, its steps and\n"
        "loss, evaluations, how it ended, and what a check finds. A torn or damaged run\n"
        "is shown with what can be read of it."
    )
    parser.epilog = "examples:\n  toyspec show runs/llama-001\n  ssh host cat runs/a/events.jsonl | toyspec show -"
    parser.add_argument(
        "run", metavar="RUN", type=public, help="a run directory or a stream, also s3://…; - is standard input"
    )
    parser.add_argument("--json", action="store_true", help="print an object with everything that is shown")
    add_profile(parser)
    add_dialect(parser)
    add_color(parser)


def run(options: Namespace) -> int:
    """Print the run and return an exit code."""
    if options.run != STANDARD_INPUT:
        return _show(options, options.run)
    with tempfile.TemporaryDirectory(prefix="toyspec-") as folder:
        # A stream in a directory of this name would be checked as a run that has the name of the directory.
        path = os.path.join(folder, "stream")
        with open(path, "wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        return _show(options, path)


def _show(options: Namespace, path: str) -> int:
    choice = dialect_choice(options)
    try:
        summary = summarize_run(path, watch=Progress("reading").watch, dialect=choice)
    except StreamError as error:
        return _show_another(options, path, choice, error)
    if options.json:
        sys.stdout.write(inert_json(_object(summary, options.run, choice)) + "\n")
        return exit_codes.OK
    terminal = Terminal(color=options.color)
    _print_head(summary, terminal, options.run)
    if summary.dialect is not None:
        terminal.line(f"  {terminal.styled(summary.dialect.sentence, 'dim')}")
    # The copy of standard input is gone once it was shown.
    checked = STANDARD_INPUT if options.run == STANDARD_INPUT else shown(summary.directory)
    for line in _lines(list(_facts(summary, terminal, choice, checked)), terminal, min(columns(), _MAX_COLUMNS)):
        terminal.line(line)
    return exit_codes.OK


def _show_another(options: Namespace, path: str, choice: DialectChoice, error: StreamError) -> int:
    """Show the one log in the directory *path* if its content says which that is, else report *error*."""
    fact, advice = printable(error.fact), ""
    if os.path.isdir(path) and isinstance(error, StreamMissingError | UnknownFormatError):
        logs, candidates = logs_in(path, usual_names(choice))
        if len(logs) == 1:
            return _show(options, logs[0])
        if logs:
            fact, advice = "the directory has several logs", f"name one: {', '.join(map(shown, logs[:_MAX_LISTED]))}"
        elif candidates:
            named = ", ".join(map(shown, candidates))
            fact = f"no run, and no log that is recognized; these files may be logs: {named}"
            advice = f"`toyspec dialect new {shown(candidates[0])}` says how to read such a file"
    if not advice and isinstance(error, StreamMissingError) and (os.path.isdir(path) or is_address(path)):
        advice = f"`toyspec ls {shown(path)}` lists the runs below it"
    tell("show", f"{shown(options.run)}: {fact}", advice)
    return exit_codes.USAGE


def _print_head(summary: RunSummary, terminal: Terminal, run: str) -> None:
    facts = summary.facts
    text = facts.state_text
    state = terminal.styled(text, STATES[facts.state])
    place = [] if run == STANDARD_INPUT else [shown(summary.path)]
    name = "standard input" if run == STANDARD_INPUT else shown(facts.run)
    form = facts.profile or ""
    room = columns() - width(f"{name}  {text}  {form}  ")
    is_apart = terminal.interactive and any(width(path) > room for path in place)
    terminal.line("  ".join([terminal.styled(name, "strong"), state, form, *([] if is_apart else place)]))
    if is_apart:
        terminal.line(f"  {cut_start(place[0], columns() - 2)}")


def _object(run: RunSummary, path: str, choice: DialectChoice) -> dict[str, Any]:
    """Return all that is known of the run as a JSON object; the name of standard input is ``-``."""
    counts = _finding_counts(run, choice)
    facts = facts_object(run.facts) | {"stream": encodable(run.path)}
    if path == STANDARD_INPUT:
        # The copy that was read has a name of its own.
        named = facts["name"] if facts["name"] != facts["run"] else "-"
        facts |= {"run": "-", "path": "-", "name": named, "stream": "-"}
    things, more = thing_objects(run.path) if _has_things(run) else ([], {})
    return {
        **facts,
        **({} if run.dialect is None else {"dialect": dialect_object(run.dialect)}),
        "left_out": {"metrics": run.metrics_left_out, **run.left_out, **more},
        "missing": run.missing,
        **({} if is_address(run.path) else {"things": things}),
        "start": run.start,
        "end": run.end,
        "evals": run.evals,
        "kinds": run.kinds,
        "series": {name: _series(curve) for name, curve in run.series.items()},
        "seal": _seal(counts) if has_seal(run.directory) else None,
        "findings": counts,
    }


def _has_things(run: RunSummary) -> bool:
    return run.profile == "toy/v1" and not is_address(run.path) and has_things(run.path, run.kinds)


def _series(curve: Curve) -> dict[str, Any]:
    points = {"first": curve.first, "last": curve.last, "smallest": curve.lowest, "largest": curve.highest}
    named = {name: {"step": point[0], "value": point[1]} for name, point in points.items() if point is not None}
    return {"count": curve.count, "not_finite": curve.not_finite, **named}


def _lines(facts: list[tuple[str, str]], terminal: Terminal, limit: int) -> Iterator[str]:
    """Yield the lines of *facts*: titles in one column, texts wrapped in the other."""
    hang = max(width(title) for title, _ in facts) + 2
    for title, text in facts:
        head = padded(title, hang)
        for line in wrapped(text, limit - hang - 2):
            yield f"  {terminal.styled(head, 'dim')}{line}".rstrip()
            head = " " * hang


def _facts(run: RunSummary, terminal: Terminal, choice: DialectChoice, checked: str) -> Iterator[tuple[str, str]]:
    """Yield what is known as title and text, in the order of time; *checked* is what `toyspec check` takes."""
    yield from _beginning(run)
    if run.last_step is not None:
        count = run.loss.count if run.loss is not None else 0
        # Values of the loss may be beside the steps, as those of repeated ones are.
        noun = "with a loss" if count <= run.kinds.get("step", count) else "values of the loss"
        yield "steps", f"{run.first_step} to {run.last_step}" + (f", {count} {noun}" if count else "")
    elif any(curve.count > 1 for curve in run.series.values()):
        yield "steps", "none: values are in the order of their lines"
    yield from _curves(run, terminal)
    for name, event in list(run.evals.items())[:_MAX_LISTED]:
        results = _listed(with_lost_numbers(event), leave_out=("kind", "t", "phase", "name"))
        yield "eval", f"{shortened(name, _NAME_CHARS)}  {results}"
    if _has_things(run):
        yield from named_things(run.path)
    # An end without members of its own says no more than the state.
    end = _listed(run.end or {}, leave_out=("kind", "t", "phase", "step"))
    if end:
        yield "end", end
    kinds = sorted(run.kinds.items(), key=lambda item: -item[1])
    named = ", ".join(f"{number} {shortened(kind, _NAME_CHARS)}" for kind, number in kinds[:_MAX_LISTED])
    yield "records", f"{run.report.records} in {size(run.report.size)}" + (f": {named}" if named else "")
    for key, counts in run.missing.items():
        title, noun = ("left out", "value") if key == "left_out" else (key, "record")
        if counts:
            named = ", ".join(f"{n} {shortened(name, _NAME_CHARS)}" for name, n in counts.most_common(_MAX_LISTED))
            more = f" and {len(counts) - _MAX_LISTED} more" if len(counts) > _MAX_LISTED else ""
            total = counted(sum(counts.values()), noun)
            yield title, f"{total}, as notes of the log count them: {named}{more}"
    yield from _ranks(run)
    yield from _findings(run, choice, checked)


def _ranks(run: RunSummary) -> Iterator[tuple[str, str]]:
    """Yield which ranks of a run with several have a log, which stopped first, and which is slowest."""
    if not ranks_beside(run.path):
        return
    from toyspec.core.commands.ranks import number_of_ranks, rank_facts
    from toyspec.core.runs.ranks import ranks_of

    ranks = ranks_of(run.directory)
    yield "ranks", f"{number_of_ranks(ranks)}; see `toyspec ranks`"
    for line in rank_facts(ranks):
        yield "", line


def _beginning(run: RunSummary) -> Iterator[tuple[str, str]]:
    start = run.start
    facts = run.facts
    took = "" if facts.seconds is None else duration(facts.seconds)
    if not took and run.last_time is not None:
        took = "not known: every record is at 0 s"
    if facts.started_at is not None:
        yield "started", figure(facts.started_at) + (f", took {took}" if took else "")
    elif took:
        yield "took", took
    yield from _labels(run)
    parent = start.get("parent")
    if isinstance(parent, dict) and isinstance(parent.get("run_id"), str):
        at = "" if parent.get("step") is None else f" at step {figure(parent['step'])}"
        yield "fork of", f"{shortened(parent['run_id'], _NAME_CHARS)}{at}"
    for key in ("host", "backend", "git", "packages", "model", "config"):
        if isinstance(start.get(key), dict) and start[key]:
            yield key, _listed(start[key])


def _labels(run: RunSummary) -> Iterator[tuple[str, str]]:
    """Yield what the run itself says, and what annotations say instead."""
    start = run.start
    said = run.facts.said
    for key in ("name", "group", "notes", "experiment", "compare_to"):
        if key in said:
            own = "the run has none" if said[key] is None else f"the run says: {figure(said[key])}"
            yield key, f"{figure(run.facts[key])} ({own})"
        elif key in start:
            yield key, figure(start[key])
    for key, separator in (("tags", ", "), ("argv", " ")):
        values = run.facts.tags if key in said else start.get(key)
        if isinstance(values, list):
            yield key, separator.join(map(figure, values[:_MAX_LISTED]))
    marks = [name for name in ("starred", "hidden") if run.facts[name]]
    if marks:
        yield "marks", ", ".join(marks)
    if unreadable := read_annotations(run.path).unreadable:
        yield "marks", f"{unreadable} lines of annotations.jsonl cannot be read and are ignored"


def _curves(run: RunSummary, terminal: Terminal) -> Iterator[tuple[str, str]]:
    # An evaluation that was made once has its own line.
    once = {name for event in run.evals.values() for name in said_in(event, "toy/v1", "eval")[0]}
    told = {name: curve for name, curve in run.series.items() if name not in once or curve.count > 1}
    names = [shortened(name, _NAME_CHARS) for name in told]
    room = columns() - 4 - max(_TITLE_COLUMNS, *map(width, names), 0)
    # Of very many metrics, those that are looked for come first.
    order = sorted(told, key=lambda name: _better(run, name) == "unknown") if len(told) > _MAX_LISTED else list(told)
    for name in order[:_MAX_LISTED]:
        curve = told[name]
        line = curve.line(room, "unicode" if terminal.unicode else "ascii")
        parts = list(_extremes(name, curve, _better(run, name), run.last_step))
        if curve is run.loss and curve.count > 1 and _ends_otherwise(run, curve):
            said = "run_end says" if "final_loss" in (run.end or {}) else "the last step has"
            parts.append(f"{said} final_loss {figure(run.facts.final_loss)}")
        yield shortened(name, _NAME_CHARS), ", ".join(parts)
        if curve.count > 1 and line:
            yield "", line
    more = len(told) - _MAX_LISTED
    if more > 0:
        yield (
            "",
            f"and {more} more; --json has all"
            if not run.metrics_left_out
            else (f"and {more} more in --json, {run.metrics_left_out} beyond the first {len(run.series)} left out"),
        )


def _ends_otherwise(run: RunSummary, curve: Curve) -> bool:
    """Return whether the run has another loss at its end than the last of *curve*, which has values beside the steps.

    Such are the steps that a program repeats without resuming its run.
    """
    return curve.last is not None and run.facts.final_loss not in (None, curve.last[1])


def _is_constant(curve: Curve) -> bool:
    if curve.lowest is None or curve.highest is None or curve.count - curve.not_finite == 1 < curve.count:
        return False
    return curve.lowest[1] == curve.highest[1]


def _better(run: RunSummary, name: str) -> Better:
    """Return which values of the series *name* are better, as far as the profile says."""
    is_smaller = run.smaller_is_better(name)
    return "unknown" if is_smaller is None else "lowest" if is_smaller else "highest"


def _extremes(name: str, curve: Curve, better: Better, last_step: int | None) -> Iterator[str]:
    def at(step: float) -> str:
        # A log without steps, such as one of epochs: its values are in their order.
        return "" if last_step is None else f" at step {step}"

    if curve.count == 1 and curve.first is not None:
        step, value = curve.first
        yield f"{'not finite' if value is None else metric_figure(name, value)}{at(step)}, the only value"
        return
    if _is_constant(curve) and curve.lowest is not None:
        yield f"always {metric_figure(name, curve.lowest[1])}"
        if curve.not_finite:
            yield f"{curve.not_finite} not finite"
        return
    if curve.first is not None and curve.last is not None:
        yield f"first {metric_figure(name, curve.first[1])}"
        yield f"last {metric_figure(name, curve.last[1])}"
    if better == "unknown" and curve.lowest and curve.highest:
        yield f"all from {metric_figure(name, curve.lowest[1])} to {metric_figure(name, curve.highest[1])}"
    best = curve.highest if better == "highest" else curve.lowest
    if better != "unknown" and best:
        yield f"{better} {metric_figure(name, best[1])}{at(best[0])}"
    if curve.not_finite:
        yield f"{curve.not_finite} not finite"


def _finding_counts(run: RunSummary, choice: DialectChoice) -> dict[str, int] | str:
    """Return the number of findings by rule, or why the run could not be checked."""
    from toyspec.core.checker import CheckOptions, iter_reports
    from toyspec.core.findings import FileReport

    progress = Progress("checking")
    on_progress = progress.update if progress.active else None
    report = next(iter(iter_reports([run.path], options=CheckOptions(dialect=choice), on_progress=on_progress)))
    progress.erase()
    if not isinstance(report, FileReport):
        return report.message
    counts: dict[str, int] = dict(report.suppressed)
    for finding in report.findings:
        counts[finding.rule] = counts.get(finding.rule, 0) + 1
    return counts


def _findings(run: RunSummary, choice: DialectChoice, checked: str) -> Iterator[tuple[str, str]]:
    counts = _finding_counts(run, choice)
    if isinstance(counts, str):
        yield "findings", counts
        return
    if has_seal(run.directory):
        yield "seal", _seal(counts) or ""
    named = ", ".join(f"{number} {rule}" for rule, number in counts.items())
    profile = "" if choice.profile is None else f"--profile {quote(shown(choice.profile))} "
    yield "findings", f"{named}; see `toyspec check {profile}{quote(checked)}`" if named else "none"
    if run.report.fragment is not None:
        yield "fragment", f"{run.report.fragment.length} bytes without LF at the end: {_kept(run.report)}"


def _seal(counts: dict[str, int] | str) -> Literal["intact", "broken"] | None:
    """Return whether a check with these findings found the seal intact; None if the run could not be checked."""
    return None if isinstance(counts, str) else "broken" if SEAL_BROKEN in counts else "intact"


def _kept(report: ReadReport) -> str:
    if report.uncommitted:
        return "a whole record"
    return "NUL" if report.fragment and report.fragment.all_nul else "half a record"


def _listed(members: Mapping[str, Any], leave_out: tuple[str, ...] = ()) -> str:
    named = [
        f"{shortened(name.removeprefix('extra.'), _NAME_CHARS)} {figure(value)}"
        for name, value in flat(members)
        if name not in leave_out
    ]
    more = f", and {len(named) - 2 * _MAX_LISTED} more" if len(named) > 2 * _MAX_LISTED else ""
    return ", ".join(named[: 2 * _MAX_LISTED]) + more


# Title of each kind that names something, the member that is the name, and the one that describes it.
_SORTS: Final = {
    "media": ("media", "name", ""),
    "histogram": ("histogram", "name", ""),
    "sample": ("samples", "", ""),
    "alert": ("alert", "", "text"),
    "artifact": ("artifact", "path", "role"),
    "reference": ("reference", "uri", "role"),
}
_TEXTS: Final = b'"texts"'
_PIECE_BYTES: Final = 1 << 20
_TABLE: Final = "text/csv"
_MOST_NAMES: Final = 1000
"""Further names are counted together."""
_TEXT_CHARS: Final = 60


def has_things(path: str, kinds: Mapping[str, int]) -> bool:
    """Return whether records of these *kinds* name anything, or those of the stream at *path* may have texts."""
    return not _SORTS.keys().isdisjoint(kinds) or ("scalars" in kinds and _may_have_texts(path))


def _may_have_texts(path: str) -> bool:
    """Return whether the bytes of the stream have the name of that member: most logs of numbers need no second look."""
    from toyspec.core.reading.stream_files import open_source

    source = open_source(path)
    rest = b""
    try:
        while data := source.read(_PIECE_BYTES):
            if _TEXTS in rest + data:
                return True
            rest = data[-len(_TEXTS) :]
    finally:
        source.close()
    return False


def named_things(path: str) -> Iterator[tuple[str, str]]:
    """Yield title and text for each thing that the stream at *path* names, of the latest attempt; damage is skipped.

    Things of one sort and name are one text: how many there are, of which steps. Raises StreamError.
    """
    found, more = _things(path)
    for title in dict.fromkeys(title for title, _ in found):
        of_title = [(name, thing) for (each, name), thing in found.items() if each == title]
        for name, thing in of_title[:_MAX_LISTED]:
            yield title, thing.text(name)
        left = sum(thing.count for _, thing in of_title[_MAX_LISTED:]) + more.get(title, 0)
        if left:
            yield title, f"and {left} more under other names"


def thing_objects(path: str) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Return what ``named_things`` names as JSON objects, unshortened, and the number of others by their sort."""
    found, more = _things(path)
    return [{"sort": sort, "name": name, **thing.members()} for (sort, name), thing in found.items()], more


def _things(path: str) -> tuple[dict[tuple[str, str], _Thing], dict[str, int]]:
    # Imported here: start-up time counts.
    from toyspec.core.reading.reader import read

    found: dict[tuple[str, str], _Thing] = {}
    more: dict[str, int] = {}
    with read(path, mode="salvage", attempts="latest", dialect=None) as reading:
        for record in reading:
            for key, said in _named(record):
                if key not in found and len(found) >= _MOST_NAMES:
                    more[key[0]] = more.get(key[0], 0) + 1
                else:
                    found.setdefault(key, _Thing()).take(record, said)
    return found, more


def _named(record: Record) -> Iterator[tuple[tuple[str, str], dict[str, str]]]:
    """Yield title and name of each thing that *record* is or has, with the members that describe it."""
    if record.kind == "scalars":
        texts = record.get("texts")
        for name, text in texts.items() if isinstance(texts, dict) else ():
            yield ("text", name), {"text": text} if isinstance(text, str) else {}
    if record.kind not in _SORTS:
        return
    title, name_key, said_key = _SORTS[record.kind]
    name, said = record.get(name_key), {said_key: record.get(said_key)}
    if record.kind == "alert":
        name = f"{record.get('level')} {record.get('rule')}"
    elif record.kind == "media":
        sha256, media_type = record.get("sha256"), record.get("media_type")
        file = media_file(sha256, media_type) if isinstance(sha256, str) and isinstance(media_type, str) else None
        said = {"media_type": media_type, "file": file}
        title = "table" if str(media_type).partition(";")[0].strip().lower() == _TABLE else title
    yield (
        (title, name if isinstance(name, str) else ""),
        {key: value for key, value in said.items() if isinstance(value, str)},
    )


class _Thing(msgspec.Struct):
    """The records of one sort and name."""

    count: int = 0
    steps: tuple[int | float, int | float] | None = None
    said: dict[str, str] = {}
    rewards: tuple[float, float, float, int] = (math.inf, -math.inf, 0.0, 0)
    """Those of samples: the lowest, the highest, their sum and number."""

    def take(self, record: Record, said: dict[str, str]) -> None:
        """Take in one record, with the members that describe it: those of the last one are kept."""
        self.count += 1
        self.said = said or self.said
        step = record.step
        if step is not None:
            first, last = self.steps or (step, step)
            self.steps = min(first, step), max(last, step)
        reward = number(record.get("reward"))
        if record.kind == "sample" and reward is not None:
            low, high, total, count = self.rewards
            self.rewards = min(low, reward), max(high, reward), total + reward, count + 1

    def text(self, name: str) -> str:
        """Return the text for people."""
        parts = [shortened(name, _NAME_CHARS)] if name else []
        parts += [str(self.count)] if self.count > 1 or not name else []
        if self.steps is not None:
            first, last = map(figure, self.steps)
            parts.append(f"at step {first}" if self.steps[0] == self.steps[1] else f"steps {first} to {last}")
        low, high, total, count = self.rewards
        if count:
            parts.append(f"reward {figure(low)} to {figure(high)}, mean {figure(total / count)}")
        said = [shortened(value, _TEXT_CHARS) for key, value in self.said.items() if key != "file" and value]
        said += [f"last in {self.said['file']}"] if "file" in self.said else []
        return "  ".join([*parts, *filter(None, [", ".join(said)])])

    def members(self) -> dict[str, Any]:
        """Return the members of the JSON object: those of the last record, and sums over all."""
        steps = {} if self.steps is None else {"first_step": self.steps[0], "last_step": self.steps[1]}
        low, high, total, count = self.rewards
        mean = total / count if count and math.isfinite(total) else None
        reward = {"reward": {"lowest": low, "highest": high, "mean": mean}} if count else {}
        return {"count": self.count, **steps, **reward, **self.said}
