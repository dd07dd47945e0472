"""``toyspec annotate``: give runs a name, a group, tags, notes or a star afterwards, or hide them from lists."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from toyspec.core.command_line.figures import shown
from toyspec.core.command_line.parsers import Parser, UsageError
from toyspec.core.commands.stream_changes import StreamChanges
from toyspec.core.escaping import shortened
from toyspec.core.places.addresses import is_address
from toyspec.core.reading.run_files import run_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from toyspec.core.reading.annotations import Annotations
    from toyspec.core.runs.discovery import Found, Stream

Outcome = Literal["annotated", "unchanged", "refused", "failed"]

_DESCRIPTION = """\
Give runs another name or group, tags, notes or a star, or hide them. The log
does not change, and a seal stays intact: each annotation is a line of
annotations.jsonl beside the log. `toyspec ls`, `show`, `view`, `watch`,
`query`, filters and the API show the annotated facts; the last annotation of
a fact counts.

RUN is a run directory, a log, or a directory with runs below it, which are
all annotated. Without an option, print what annotations say."""

_EPILOG = """\
exit status:
  0  every run was annotated
  1  a run was not annotated: it is at an address, which is only read, or
     another process has its annotations open
  2  wrong usage, or a path that could not be read or written

examples:
  toyspec annotate runs/llama-003 --name 'warmup 2000' --tag +good -draft
  toyspec annotate runs/sweep --group 'lr sweep'     all runs below runs/sweep
  toyspec annotate runs/llama-003 --notes 'diverged: bad shard 17' --star
  toyspec annotate runs/llama-001 --hide             no longer in lists
  toyspec annotate runs/llama-003 --name ''          its own name again
  toyspec annotate runs/llama-003                    what annotations say"""

_OUTCOMES: dict[Outcome, str] = {
    "annotated": "annotated",
    "unchanged": "unchanged",
    "refused": "not annotated",
    "failed": "not read or written",
}


def configure(parser: Parser) -> None:
    """Add description, arguments and an example to *parser*."""
    parser.usage = "toyspec annotate RUN… [OPTION…]"
    parser.description = _DESCRIPTION
    parser.epilog = _EPILOG
    parser.is_intermixed = True
    parser.signed = "--tag"
    parser.add_argument("runs", metavar="RUN", nargs="*", help="what to annotate")
    parser.add_argument("--name", help="another name; empty to remove an earlier annotation")
    parser.add_argument("--group", help="another group; empty to remove an earlier annotation")
    parser.add_argument(
        "--tag", metavar="+TAG|-TAG", action="append", default=[], help="add or remove tags: --tag +good -draft"
    )
    parser.add_argument("--notes", metavar="TEXT", help="other notes; empty to remove an earlier annotation")
    stars = parser.add_mutually_exclusive_group()
    stars.add_argument("--star", dest="starred", action="store_true", default=None, help="mark the run")
    stars.add_argument("--unstar", dest="starred", action="store_false", help="remove the mark")
    hiding = parser.add_mutually_exclusive_group()
    hiding.add_argument("--hide", dest="hidden", action="store_true", default=None, help="leave the run out of lists")
    hiding.add_argument("--unhide", dest="hidden", action="store_false", help="list the run again")
    parser.add_argument("--by", metavar="NAME", help="who says it; default: the name of the user")
    parser.add_argument("--json", action="store_true", help="print an object")


def run(options: Namespace) -> int:
    """Annotate the named runs and return an exit code."""
    if not options.runs:
        raise UsageError("no run given; name a run directory, a log, or a directory of runs")
    said = _said(options)
    changes = StreamChanges("annotate", "json" if options.json else "text")
    change = partial(_annotated if said else _told, said=said, changes=changes)
    found = list(_runs(options.runs))
    for path in filter(is_address, options.runs):
        changes.refused(path, "an address is only read; annotate the run where it was written, or a copy")
    for each in found:
        changes.take(each, change)
    return changes.finish("run", _OUTCOMES, least=2 if said else sys.maxsize)


def _said(options: Namespace) -> dict[str, Any]:
    """Return the arguments of ``annotate`` that *options* give; empty without any."""
    said: dict[str, Any] = {
        name: getattr(options, name)
        for name in ("name", "group", "notes", "starred", "hidden")
        if getattr(options, name) is not None
    }
    for name, sign in (("add_tags", "+"), ("remove_tags", "-")):
        tags = [tag[1:] for tag in options.tag if tag.startswith(sign)]
        said |= {name: tags} if tags else {}
    for tag in options.tag:
        if tag[:1] not in ("+", "-") or len(tag) == 1:
            raise UsageError(f"--tag {shortened(tag)!r}: begin with + to add a tag, with - to remove it: --tag +good")
    from toyspec.core.writing.annotating import user_name

    if options.by is not None and not said:
        raise UsageError("nothing to say: give --name, --group, --tag, --notes, --star or --hide")
    return said | ({"by": options.by or user_name()} if said else {})


def _runs(paths: list[str]) -> Iterator[Found]:
    """Yield the runs at and below *paths*, each once; ranks of a run are that run."""
    # Imported here: the help needs none of it.
    from toyspec.core.reading.log_detection import DialectChoice, usual_names
    from toyspec.core.runs.discovery import NotALog, Stream, find_streams
    from toyspec.core.runs.run import one_of_each_run

    names = usual_names(DialectChoice())
    found = [each for path in paths if not is_address(path) for each in find_streams(path, hints=names)]
    streams = {os.path.realpath(each.path): each for each in found if isinstance(each, Stream)}
    # Text beside the runs that is not a log is none of them.
    yield from (each for each in found if not isinstance(each, Stream | NotALog))
    yield from one_of_each_run(streams)


def _annotated(stream: Stream, *, said: dict[str, Any], changes: StreamChanges) -> None:
    from toyspec.core.writing.annotating import annotate

    _report(stream, annotate(stream.path, **said), "annotated", changes)


def _told(stream: Stream, *, said: dict[str, Any], changes: StreamChanges) -> None:  # noqa: ARG001 - as _annotated
    """Print what annotations say of a run."""
    from toyspec.core.reading.annotations import read_annotations

    _report(stream, read_annotations(stream.path), "unchanged", changes)


def _report(stream: Stream, now: Annotations, outcome: Outcome, changes: StreamChanges) -> None:
    run = run_of(stream.path) or "."
    changes.line(f"{shown(run)}: {_facts(now) if now.count else 'no annotations'}")
    changes.done(run, outcome, annotations=_object(now))


def _object(said: Annotations) -> dict[str, Any]:
    """Return what annotations say, by the names of their file."""
    return {
        "name": said.name,
        "group": said.group,
        "tags": {"add": list(said.added), "remove": list(said.removed)},
        "notes": said.notes,
        "starred": said.starred,
        "hidden": said.hidden,
        "lines": said.count,
        "unreadable": said.unreadable,
    }


def _facts(said: Annotations) -> str:
    texts = [f"{name} '{shortened(text)}'" for name in ("name", "group") if (text := getattr(said, name))]
    tags = [*(f"+{tag}" for tag in said.added), *(f"-{tag}" for tag in said.removed)]
    texts += [f"tags {' '.join(map(shortened, tags))}"] if tags else []
    texts += [f"notes '{shortened(said.notes)}'"] if said.notes else []
    texts += [name for name in ("starred", "hidden") if getattr(said, name)]
    texts += [f"{said.unreadable} lines cannot be read and are ignored"] if said.unreadable else []
    return ", ".join(texts) or "as the run says"
