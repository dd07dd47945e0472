"""``toyspec show``: one run on one screen."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections import Counter
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

import msgspec

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.arguments import add_reading, dialect_choice
from toyspec.core.command_line.figures import cell, counted, duration, figure, metric_figure, shown, size
from toyspec.core.command_line.objects import inert_json, run_object
from toyspec.core.command_line.parsers import Parser, add_color
from toyspec.core.command_line.progress import Progress
from toyspec.core.command_line.run_tables import STATES, print_table
from toyspec.core.command_line.tables import Side, cut_start, padded, some_of, width, wrapped
from toyspec.core.command_line.terminal import Terminal, columns, tell
from toyspec.core.directories import new_file
from toyspec.core.errors import StreamError, StreamMissingError, UnknownFormatError
from toyspec.core.escaping import printable, shortened
from toyspec.core.format.record_mapping import said_in, with_lost_numbers
from toyspec.core.generated.rules import SEAL_BROKEN
from toyspec.core.places.addresses import is_address, public
from toyspec.core.reading import readers
from toyspec.core.reading.annotations import read_annotations
from toyspec.core.reading.log_detection import DialectChoice, usual_names
from toyspec.core.reading.run_files import earlier_logs, ranks_beside
from toyspec.core.reading.sealed_files import has_seal
from toyspec.core.runs.discovery import STANDARD_INPUT, logs_in
from toyspec.core.runs.reported import findings_of, grouped
from toyspec.core.runs.run_facts import flat
from toyspec.core.runs.summary import summarize_run

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Mapping

    from toyspec.core.runs.curves import Curve
    from toyspec.core.runs.ranks import RankProgress, Ranks
    from toyspec.core.runs.summary import RunSummary

    Line = tuple[str, str]
    """A title, empty where it is that of the line before, and a text."""

_MAX_COLUMNS = 120
_NAME_CHARS = 40
_TEXT_CHARS = 60
# The longest title that is not the name of a metric.
_TITLE_COLUMNS = len("experiment")
_MAX_LISTED = 12
_LABELS = ("name", "group", "notes", "experiment", "compare_to", "tags", "argv")
_PARTS = ("host", "backend", "git", "packages", "model", "config")
USAGE = "toyspec show [OPTION…] RUN"
DESCRIPTION = (
    "Show one run: its state, where and with which settings it ran, its steps and\n"
    "loss, evaluations, how it ended, and what a check finds. A torn or damaged run\n"
    "is shown with what can be read of it.\n"
    "\n"
    "Of a run whose processes each write a log, a table of them follows: which\n"
    "stopped first, which is slowest and by how much. Ranks that wait for each other\n"
    "take equally long from step to step: log compute_us, the time before the wait,\n"
    "to see which one the others wait for."
)
EPILOG = "examples:\n  toyspec show runs/llama-001\n  ssh host cat runs/a/events.jsonl | toyspec show -"


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    parser.value("run", "RUN", "a run directory or a stream, also s3://…; - is standard input", type=public)
    parser.flag("--json", "print the object that `toyspec ls --full --json` lists")
    add_reading(parser)
    add_color(parser)


def run(options: Namespace) -> int:
    """Print the run and return an exit code."""
    if options.run != STANDARD_INPUT:
        return _show(options, options.run)
    with tempfile.TemporaryDirectory(prefix="toyspec-") as folder:
        # A stream in a directory of this name would be checked as a run that has the name of the directory.
        path = os.path.join(folder, "stream")
        with new_file(path) as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        return _show(options, path)


def _show(options: Namespace, path: str, choice: DialectChoice | None = None) -> int:
    choice = choice or dialect_choice(options)
    try:
        summary = summarize_run(path, watch=Progress("reading").watch, dialect=choice)
    except StreamError as error:
        return _show_another(options, path, choice, error)
    is_piped = options.run == STANDARD_INPUT
    facts = summary.facts
    if options.json:
        # The copy of standard input has a name of its own.
        named = {"run": "-", "path": "-", "stream": "-"} if is_piped else {}
        named |= {"name": "-"} if is_piped and facts.name == facts.run else {}
        sys.stdout.write(inert_json(run_object(msgspec.structs.replace(facts, **named))) + "\n")
        return exit_codes.OK
    terminal = Terminal(color=options.color)
    _print_head(summary, terminal, options.run)
    if summary.dialect is not None:
        terminal.line(f"  {terminal.styled(summary.dialect.sentence, 'dim')}")
    checked = STANDARD_INPUT if is_piped else shown(summary.directory)
    lines = [*_beginning(summary), *_settings(summary), *_values(summary, terminal), *_records(summary)]
    lines += _findings(summary, choice, checked)
    hang = max(width(title) for title, _ in lines) + 2
    for title, text in lines:
        head = padded(title, hang)
        for part in wrapped(text, min(columns(), _MAX_COLUMNS) - hang - 2):
            terminal.line(f"  {terminal.styled(head, 'dim')}{part}".rstrip())
            head = " " * hang
    if ranks_beside(summary.path):
        _print_ranks(summary.directory, terminal)
    return exit_codes.OK


def _show_another(options: Namespace, path: str, choice: DialectChoice, error: StreamError) -> int:
    """Show the one log in the directory *path* if its content says which that is, else report *error*."""
    fact, advice = printable(error.fact), ""
    if os.path.isdir(path) and isinstance(error, StreamMissingError | UnknownFormatError):
        logs = logs_in(path, usual_names(choice))
        if len(logs) == 1:
            return _show(options, logs[0])
        if logs:
            fact, advice = "the directory has several logs", f"name one: {', '.join(map(shown, logs[:_MAX_LISTED]))}"
    elif isinstance(error, UnknownFormatError) and choice.name == "auto" and not choice.keys and os.path.isfile(path):
        dialect = readers.dialects().proposed(path)
        if dialect is not None:
            steps = f"`toyspec dialect new --write {shown(path)}` keeps it"
            tell("show", f"{shown(options.run)} is of no known format", f"read as proposed; {steps}")
            return _show(options, path, DialectChoice(dialect.name, own=(*choice.own, dialect)))
        advice = f"`toyspec dialect new {shown(path)}` proposes how to read it"
    if not advice and isinstance(error, StreamMissingError) and (os.path.isdir(path) or is_address(path)):
        advice = f"`toyspec ls {shown(path)}` lists the runs below it"
    tell("show", f"{shown(options.run)}: {fact}", advice)
    return exit_codes.USAGE


def _print_head(summary: RunSummary, terminal: Terminal, run: str) -> None:
    facts = summary.facts
    name, place = ("standard input", "") if run == STANDARD_INPUT else (shown(facts.run), shown(summary.path))
    state, profile = facts.state_text, facts.profile or ""
    is_apart = terminal.interactive and width(f"{name}  {state}  {profile}  {place}") > columns()
    head = [terminal.styled(name, "strong"), terminal.styled(state, STATES[facts.state]), profile]
    terminal.line("  ".join(head if is_apart or not place else [*head, place]))
    if is_apart:
        terminal.line(f"  {cut_start(place, columns() - 2)}")


def _beginning(run: RunSummary) -> Iterator[Line]:
    """Yield when the run began, and what it is called."""
    start, facts = run.start, run.facts
    took = "" if facts.seconds is None else duration(facts.seconds)
    if not took and run.last_time is not None:
        took = "not known: every record is at 0 s"
    if facts.started_at is not None:
        yield "started", figure(facts.started_at) + (f", took {took}" if took else "")
    elif took:
        yield "took", took
    for key in _LABELS:
        value = facts[key] if key in facts.said else start.get(key)
        own = _label(key, facts.said.get(key))
        own = f" ({f'the run says: {own}' if own else 'the run has none'})" if key in facts.said else ""
        if text := _label(key, value) + own:
            yield key, text
    if marks := [name for name in ("starred", "hidden") if facts[name]]:
        yield "marks", ", ".join(marks)
    if unreadable := read_annotations(run.path).unreadable:
        yield "marks", f"{unreadable} lines of annotations.jsonl cannot be read and are ignored"


def _settings(run: RunSummary) -> Iterator[Line]:
    """Yield where the run ran, and with which settings."""
    start, parent = run.start, run.start.get("parent")
    if isinstance(parent, dict) and isinstance(parent.get("run_id"), str):
        at = "" if parent.get("step") is None else f" at step {figure(parent['step'])}"
        yield "fork of", f"{shortened(parent['run_id'], _NAME_CHARS)}{at}"
    for key in _PARTS:
        if isinstance(start.get(key), dict) and start[key]:
            yield key, _members(start[key])


def _label(key: str, value: Any) -> str:
    if not isinstance(value, list):
        return cell(value)
    return (" " if key == "argv" else ", ").join(map(figure, value[:_MAX_LISTED]))


def _values(run: RunSummary, terminal: Terminal) -> Iterator[Line]:
    """Yield the steps, each metric with its curve, and evaluations."""
    if run.last_step is not None:
        count = run.loss.count if run.loss is not None else 0
        # Values of the loss may be beside the steps, as those of repeated ones are.
        noun = "with a loss" if count <= run.kinds.get("step", count) else "values of the loss"
        yield "steps", f"{run.first_step} to {run.last_step}" + (f", {count} {noun}" if count else "")
    elif any(curve.count > 1 for curve in run.series.values()):
        yield "steps", "none: values are in the order of their lines"
    # An evaluation that was made once has its own line.
    once = {name for event in run.evals.values() for name in said_in(event, "toy/v1", "eval")[0]}
    order = [name for name, curve in run.series.items() if name not in once or curve.count > 1]
    if len(order) > _MAX_LISTED:
        # Of very many metrics, those that are looked for come first.
        order.sort(key=lambda name: run.smaller_is_better(name) is None)
    room = columns() - 4 - max(_TITLE_COLUMNS, *(width(shortened(name, _NAME_CHARS)) for name in order), 0)
    for name in order[:_MAX_LISTED]:
        curve = run.series[name]
        yield shortened(name, _NAME_CHARS), ", ".join(_extremes(run, name, curve))
        line = curve.line(room, "unicode" if terminal.unicode else "ascii")
        if curve.count > 1 and line:
            yield "", line
    if len(order) > _MAX_LISTED:
        left_out = f", {run.metrics_left_out} beyond the first {len(run.series)} left out" * bool(run.metrics_left_out)
        yield "", f"and {len(order) - _MAX_LISTED} more in --json{left_out}"
    for name, event in list(run.evals.items())[:_MAX_LISTED]:
        results = _members(with_lost_numbers(event), leave_out=("kind", "t", "phase", "name"))
        yield "eval", f"{shortened(name, _NAME_CHARS)}  {results}"
    if len(run.evals) > _MAX_LISTED:
        yield "", f"and {len(run.evals) - _MAX_LISTED} more evaluations"


def _extremes(run: RunSummary, name: str, curve: Curve) -> Iterator[str]:
    """Yield what the metric *name* comes to, part by part."""

    def at(step: float) -> str:
        # A log without steps, such as one of epochs: its values are in their order.
        return "" if run.last_step is None else f" at step {step}"

    first, last, low, high = curve.first, curve.last, curve.lowest, curve.highest
    if first is None or last is None:
        return
    if curve.count == 1:
        yield f"{'not finite' if first[1] is None else metric_figure(name, first[1])}{at(first[0])}, the only value"
        return
    is_smaller = run.smaller_is_better(name)
    if low and high and low[1] == high[1] and curve.count - curve.not_finite > 1:
        yield f"always {metric_figure(name, low[1])}"
    else:
        yield f"first {metric_figure(name, first[1])}, last {metric_figure(name, last[1])}"
        if low and high and is_smaller is None:
            yield f"all from {metric_figure(name, low[1])} to {metric_figure(name, high[1])}"
        elif low and high:
            word, best = ("lowest", low) if is_smaller else ("highest", high)
            yield f"{word} {metric_figure(name, best[1])}{at(best[0])}"
    if curve.not_finite:
        yield f"{curve.not_finite} not finite"
    # Steps that a program repeats without resuming its run are values beside the steps.
    if curve is run.loss and run.facts.final_loss not in (None, last[1]):
        said = "run_end says" if "final_loss" in (run.end or {}) else "the last step has"
        yield f"{said} final_loss {figure(run.facts.final_loss)}"


def _records(run: RunSummary) -> Iterator[Line]:
    """Yield what the run has besides numbers, how it ended, and the number of records, with what is missing."""
    if run.profile == "toy/v1" and not is_address(run.path):
        yield from _things(run)
    # An end without members of its own says no more than the state.
    if end := _members(run.end or {}, leave_out=("kind", "t", "phase", "step")):
        yield "end", end
    count, line = run.attempts.superseded
    if count:
        yield "resumed", f"the resumption at line {line} supersedes {counted(count, 'step')}, which are left out"
    if run.attempts.number > 1:
        yield "attempts", f"{run.attempts.number}; the last is shown"
    if kept := earlier_logs(run.path):
        yield "kept", f"{counted(len(kept), 'earlier log')} of this run: {some_of(kept, _MAX_LISTED)}"
    named = _tally(Counter(run.kinds))
    yield "records", f"{run.report.records} in {size(run.report.size)}" + (f": {named}" if named else "")
    for key, title, noun in (("left_out", "left out", "value"), ("dropped", "dropped", "record")):
        if counts := run.missing[key]:
            yield title, f"{counted(counts.total(), noun)}, as notes of the log count them: {_tally(counts)}"


def _tally(counts: Counter[str]) -> str:
    names = [f"{number} {shortened(name, _NAME_CHARS)}" for name, number in counts.most_common()]
    return some_of(names, _MAX_LISTED)


def _members(members: Mapping[str, Any], leave_out: tuple[str, ...] = ()) -> str:
    return some_of(
        [
            f"{shortened(name.removeprefix('extra.'), _NAME_CHARS)} {figure(value)}"
            for name, value in flat(members)
            if name not in leave_out
        ],
        2 * _MAX_LISTED,
    )


# The members that name and describe what a record of each kind is.
_NAMED: Final = {
    "media": ("name", "media_type"),
    "histogram": ("name", ""),
    "sample": ("name", ""),
    "alert": ("rule", "text"),
    "artifact": ("path", "role"),
    "reference": ("uri", "role"),
}
_TEXTS: Final = b'"texts"'
_PIECE_BYTES: Final = 1 << 20


def _things(run: RunSummary) -> Iterator[Line]:
    """Yield each thing that records of the latest attempt name: how many there are, and what the last one is."""
    # Imported here: start-up time counts.
    from toyspec.core.reading.reader import read

    if _NAMED.keys().isdisjoint(run.kinds) and not ("scalars" in run.kinds and _may_have_texts(run.path)):
        return
    counts, last = Counter[tuple[str, str]](), dict[tuple[str, str], str]()
    with read(run.path, mode="salvage", attempts="latest", dialect=None) as reading:
        for record in reading:
            texts = record.get("texts")
            found = [("text", *each) for each in texts.items()] if isinstance(texts, dict) else []
            if record.kind in _NAMED:
                name, text = map(record.get, _NAMED[record.kind])
                found.append((record.kind, name, text))
            for kind, name, text in found:
                key = kind, name if isinstance(name, str) else ""
                counts[key] += 1
                last[key] = text if isinstance(text, str) else ""
    for kind in dict.fromkeys(kind for kind, _ in counts):
        names = [name for each, name in counts if each == kind]
        for name in names[:_MAX_LISTED]:
            number = counts[kind, name]
            parts = [shortened(name, _NAME_CHARS), str(number) if number > 1 or not name else ""]
            yield kind, "  ".join(filter(None, [*parts, shortened(last[kind, name], _TEXT_CHARS)]))
        if len(names) > _MAX_LISTED:
            yield "", f"and {len(names) - _MAX_LISTED} more names"


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


def _findings(run: RunSummary, choice: DialectChoice, checked: str) -> Iterator[Line]:
    """Yield the number of findings by rule; *checked* is what `toyspec check` takes to list them."""
    from toyspec.core.checker import CheckOptions, iter_reports
    from toyspec.core.findings import FileReport

    with Progress("checking") as progress:
        found = iter_reports([run.path], options=CheckOptions(dialect=choice), on_progress=progress.on_bytes)
        report = next(iter(found))
    if not isinstance(report, FileReport):
        yield "findings", report.message
        return
    counts = {group.first.rule: group.count for group in grouped(findings_of(report))}
    if has_seal(run.directory):
        yield "seal", "broken" if SEAL_BROKEN in counts else "intact"
    named = ", ".join(f"{number} {rule}" for rule, number in counts.items())
    profile = "" if choice.profile is None else f"--profile {quote(shown(choice.profile))} "
    yield "findings", f"{named}; see `toyspec check {profile}{quote(checked)}`" if named else "none"
    if fragment := run.report.fragment:
        kept = "a whole record" if run.report.uncommitted else "NUL" if fragment.all_nul else "half a record"
        yield "fragment", f"{fragment.length} bytes without LF at the end: {kept}"


def _print_ranks(directory: str, terminal: Terminal) -> None:
    """Print the ranks of a run as a table, which stopped first, and which is slowest."""
    from toyspec.core.runs.ranks import ranks_of

    ranks = ranks_of(directory)
    earlier = len(ranks.ranks) - len(ranks.latest)
    more = f", and {earlier} of an earlier attempt," if earlier else ""
    of = "" if ranks.world_size is None else f" of {ranks.world_size}"
    terminal.line(f"\n{len(ranks.latest)}{of} ranks{more} have a log")
    table = [["rank", "state", "end", "steps", "behind", "step time", "compute", "silent", "error"]]
    table += [_rank(each, is_latest=each in ranks.latest) for each in ranks.ranks]
    kept = [column for column in zip(*table, strict=True) if any(column[1:])]
    sides: list[Side] = ["left" if column[0] in ("state", "end", "error") else "right" for column in kept]
    print_table(list(map(list, zip(*kept, strict=True))), sides, terminal)
    terminal.lines(_rank_facts(ranks))


def _rank_facts(ranks: Ranks) -> Iterator[str]:
    """Yield what is to be said about the ranks of a run together, each as a line."""
    if ranks.missing:
        yield f"no log of rank {some_of([str(rank) for rank in ranks.missing], _MAX_LISTED)}"
    for error in ranks.errors:
        yield f"{shown(error.path)}: {printable(error.message)}"
    if ranks.first_to_stop is not None:
        yield f"stopped first: rank {ranks.first_to_stop.rank}: {ranks.first_to_stop.why}"
    elif len(ranks.latest) > 1 and any(each.reason != "completed" for each in ranks.latest):
        yield "stopped first: not known"
    if ranks.slowest is not None:
        slow = ranks.slowest
        yield f"slowest: rank {slow.rank}, {slow.factor:.2f} times the median of the others, by {slow.by}"


def _rank(row: RankProgress, *, is_latest: bool) -> list[str]:
    return [
        str(row.rank),
        row.state if is_latest else f"{row.state}, earlier attempt",
        "" if row.reason is None else shortened(row.reason, _NAME_CHARS),
        cell(row.last_step, str),
        str(row.behind) if row.behind else "",
        cell(row.step_seconds, _short),
        cell(row.compute_seconds, _short),
        # Without a later record of another rank nothing was missed.
        duration(row.silent_seconds) if row.silent_seconds and row.silent_seconds > 1 else "",
        "" if row.error is None else shortened(row.error, _TEXT_CHARS),
    ]


def _short(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else duration(seconds)
