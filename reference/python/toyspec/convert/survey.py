"""What lies in a folder, format by format: streams of toyspec, logs of other programs, and other known files."""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING, Literal

import msgspec

from toyspec.convert.finding import ImportableRuns, damage_of, described, format_of
from toyspec.core.errors import StreamError, UnknownFormatError
from toyspec.core.format.known_formats import Look, known_start
from toyspec.core.reading.log_detection import HEAD_BYTES, DialectChoice, detect_profile_at, first_object
from toyspec.core.reading.readers import SURE
from toyspec.core.reading.stream_files import STREAM_NAMES, unpacked_head
from toyspec.core.runs.discovery import ENVIRONMENT, OF_A_BUNDLE, is_passed_over
from toyspec.core.system_calls import cause_of
from toyspec.logs.reader import DialectLog
from toyspec.logs.recognition import has_step_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toyspec.core.reading.readers import OpenedLog

Sort = Literal["profile", "dialect", "foreign", "unreadable"]

_EXAMPLES = 3
_ORDER = ("profile", "dialect", "foreign", "unreadable")
# Text and programs quote output of training without being one.
_NO_OUTPUT = (".py", ".md", ".rst", ".ipynb", ".sh", ".yaml", ".yml", ".toml", ".html", ".c", ".h", ".rs", ".js", ".ts")
_CONSOLE = "pattern"
_TABLES = (".parquet", ".json", ".jsonl", ".csv", ".tsv", ".yaml", ".gz")
_NAMES_OF_OTHERS = (".wandb", ".db", ".sqlite", ".sqlite3", *_TABLES)


class FormatCount(msgspec.Struct, kw_only=True):
    """The files of one format."""

    sort: Sort
    format: str
    """Name of the profile, the dialect or the importer, else what the files look like."""
    title: str
    """The format for people."""
    read_with: str | None
    """The command that reads such a file; None if none is known."""
    needs: str | None = None
    """What has to be known or installed; None if nothing."""
    files: int = 0
    beside: int = 0
    """Number of files beside them that belong to their runs: annotations, seals, manifests."""
    bytes: int = 0
    """Size of all of them."""
    examples: list[str] = msgspec.field(default_factory=list)
    """The first of the files, of the runs where a run has several files."""


class Survey(msgspec.Struct):
    """Everything in a folder."""

    formats: list[FormatCount]
    """The formats, in the order profile, dialect, foreign, unreadable, then by name."""
    others: int = 0
    """Number of files that are none of these."""
    passed_over: list[str] = msgspec.field(default_factory=list)
    """Directories of installed software and version control, in which no file was counted."""
    files: int = 0
    logs: list[str] = msgspec.field(default_factory=list)
    """The paths of streams and of logs that are read in place."""


def survey(root: str, choice: DialectChoice, on_file: Callable[[int], None] = lambda _: None) -> Survey:
    """Return what lies at *root*, a file or a directory, and below it.

    *choice* are the dialects. *on_file* is given the number of files so far. A file or directory that cannot be read
    is listed as unreadable. Hidden directories and symbolic links are left out.
    """
    result, importable = Survey([]), ImportableRuns(root)
    # What is wrong with a source, and the package that it needs, is reported when it is imported.
    deque(importable.runs(), maxlen=0)
    seen: list[tuple[str, str | None, FormatCount]] = []
    beside: list[str] = []
    for path, cause in _files(root, importable, result.passed_over):
        result.files += 1
        on_file(result.files)
        lying = _examined(path, choice, importable) if cause is None else _unreadable(cause)
        if lying is None:
            beside.append(path)
            continue
        run = importable.owners.owner_of(path)
        seen.append((path, None if run is None or run[0] != lying.format else run[1], lying))
    # A run of several files is counted once: where one of them is read as it lies, with that one.
    logs = {(lying.format, run): lying for _, run, lying in seen if run is not None and lying.sort == "dialect"}
    found: dict[tuple[Sort, str], FormatCount] = {}
    for path, place, own in seen:
        lying = own if place is None else logs.get((own.format, place), own)
        entry = found.setdefault((lying.sort, lying.format), lying)
        entry.files += 1
        entry.bytes += _size(path)
        example = place if place is not None and lying.sort == "foreign" else path
        if own.sort == lying.sort and example not in entry.examples and len(entry.examples) < _EXAMPLES:
            entry.examples.append(example)
    result.logs = [path for path, _, own in seen if own.sort in ("profile", "dialect")]
    bundles = {os.path.dirname(path): found[own.sort, own.format] for path, place, own in seen if place is None}
    for path in beside:
        stream = bundles.get(os.path.dirname(path)) if os.path.basename(path) in OF_A_BUNDLE else None
        if stream is None:
            result.others += 1
        else:
            stream.beside += 1
            stream.bytes += _size(path)
    result.formats = sorted(found.values(), key=lambda each: (_ORDER.index(each.sort), each.format))
    return result


def _files(root: str, importable: ImportableRuns, passed_over: list[str]) -> Iterator[tuple[str, str | None]]:
    """Yield the path of each file with None, and of each directory that cannot be listed with the cause."""
    if not os.path.isdir(root):
        yield root, None
        return
    pending = [root]
    while pending:
        directory = pending.pop()
        try:
            with os.scandir(directory) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            yield directory, cause_of(error)
            continue
        if directory != root and any(entry.name == ENVIRONMENT for entry in entries):
            passed_over.append(directory)
            continue
        yield from ((entry.path, None) for entry in entries if entry.is_file(follow_symlinks=False))
        every = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
        passed_over += [entry.path for entry in every if is_passed_over(entry.name)]
        folders = [entry for entry in every if not is_passed_over(entry.name)]
        # A repository of Aim is hidden.
        known = [each for each in folders if not each.name.startswith(".") or importable.owners.owner_of(each.path)]
        pending += [entry.path for entry in reversed(known)]


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _examined(path: str, choice: DialectChoice, importable: ImportableRuns) -> FormatCount | None:  # noqa: PLR0911 - one for each sort
    try:
        head, is_compressed = unpacked_head(path, HEAD_BYTES)
    except (StreamError, OSError) as error:
        cause = cause_of(error)
        return _unreadable(cause)
    own = choice.profile_of(head, path)
    if own is not None:
        return FormatCount(sort="profile", format=own, title=f"profile of your own, {own}", read_with="toyspec show")
    is_possible = choice.own or choice.keys is not None or has_step_word(head) or len(head) == HEAD_BYTES
    run = importable.owners.owner_of(path)
    # What belongs to a run of several files may look like anything.
    if not (is_possible or is_compressed or run or _may_be_foreign(path, head)):
        return None
    # The records of a JSON array are on lines of their own, and the last one has no comma.
    first = None if head.lstrip().startswith(b"[") else first_object(head)
    profile = None if first is None else detect_profile_at(path, first)
    read_as = _read_as(choice, head, path)
    if read_as is not None and run is not None and run[0] != read_as.use.name:
        return _imported(run[0])
    is_console = isinstance(read_as, DialectLog) and read_as.dialect.form.type == _CONSOLE
    if read_as is not None and not (is_console and path.endswith(_NO_OUTPUT)):
        needs = f'--step-key unless the step is "{read_as.use.step}"' if read_as.sure < SURE else None
        title, name = read_as.title, read_as.use.name
        return FormatCount(sort="dialect", format=name, title=title, read_with="toyspec show", needs=needs)
    if profile is not None:
        return FormatCount(sort="profile", format=profile, title=f"toyspec stream, {profile}", read_with="toyspec show")
    return None if is_compressed else _foreign(path, head, run)


def _read_as(choice: DialectChoice, head: bytes, path: str) -> OpenedLog | None:
    """Return how the file *path* that begins with *head* is read; None also where its records lack the keys."""
    try:
        return choice.choose(head, lambda record, **_: detect_profile_at(path, record), path=path)
    except UnknownFormatError:
        return None


def _may_be_foreign(path: str, head: bytes) -> bool:
    """Return whether the file *path* may be of another tool, or one of toyspec: by its name, or its first bytes."""
    name = os.path.basename(path)
    is_named = name.endswith(_NAMES_OF_OTHERS) or name in OF_A_BUNDLE or "tfevents" in name or name in STREAM_NAMES
    return is_named or b'"kind"' in head or b'"scalar"' in head or known_start(head) is not None


def _unreadable(cause: str) -> FormatCount:
    title = cause if "cannot be read" in cause else f"cannot be read: {cause}"
    return FormatCount(sort="unreadable", format=cause, title=title, read_with=None)


def _imported(name: str) -> FormatCount:
    return FormatCount(sort="foreign", format=name, title=described(name)[0], read_with=f"toyspec import {name}")


def _foreign(path: str, head: bytes, run: tuple[str, str] | None) -> FormatCount | None:
    name = run[0] if run is not None else format_of(path) if _may_be_foreign(path, head) else None
    if name is not None:
        return _imported(name)
    look: Look | None = known_start(head)
    if look is None:
        return None
    damage = damage_of(path)
    if damage is not None:
        return _unreadable(damage)
    # What toyspec itself would read was tried above.
    command = None if look.read_with is None or look.read_with.startswith("toyspec ") else look.read_with
    needs = None if command is None else command.split()[0]
    return FormatCount(sort="foreign", format=look.fact, title=look.fact, read_with=command, needs=needs)
