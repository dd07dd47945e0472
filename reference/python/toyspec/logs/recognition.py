"""Recognizes the dialect of a file by its first bytes, and chooses the keys of its step and time."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.core.escaping import shortened
from toyspec.core.format.flattening import flattened
from toyspec.core.format.line_validation import decode_lenient
from toyspec.core.format.lines import OBJECT, first_lines
from toyspec.core.format.numbers import number
from toyspec.core.reading.log_detection import is_binary
from toyspec.logs.dialects import DOCUMENTS, NO_KEYS, DialectTimeKey
from toyspec.logs.documents import cutter_of, listed
from toyspec.logs.forms import (
    UNNAMED,
    CsvForm,
    JsonForm,
    PatternForm,
    form_of,
    is_number_in_text,
    written_otherwise,
)
from toyspec.logs.mapping import UNIX_SECONDS, ReadAs, not_finite, time_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from toyspec.logs.dialects import Dialect, Keys

_RANKS = ("program", "shape", "guess")
_SAMPLE = 50
_SPACE = b" \t\r\n\xef\xbb\xbf"
_DIGIT = re.compile(rb"\s*[\"']?[-+]?\.?\d", re.ASCII)
_DIGITS = b"0123456789"
_NUMBER_OR_WORD = re.compile(rb"(?i)[0-9]|nan|inf")
_BETWEEN_WORDS = re.compile(r"[^a-z0-9]+", re.ASCII)
_ARRAY = re.compile(rb'"(\w+)"\s*:\s*\[\s*\{', re.ASCII)
_ESCAPES = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]", re.ASCII)
_SHOWN_KEYS = 3
# Deeper members are not looked at.
_MOST_INNER = 8
_HEADER_BYTES = 1 << 13
_HEADER_LINES = 8
_JSON_LINES = frozenset(["lines", "prefixed"])
# Records of tables and of JSON Lines begin near the start of a file.
_MOST_LINES = 500
# A file of these is one object, or has objects over several lines.
_WHOLE = frozenset(["lists", "objects"])
_LINES_NAMES = (".jsonl", ".ndjson")
# Keys of the kind of a record in logs that name it so, and what the kinds are where it is the phase.
_KIND_KEYS = ("event", "type", "kind", "subset", "dataset", "set", "tag", "prefix")
_PHASE_WORDS = frozenset(
    ["train", "training", "val", "valid", "validation", "eval", "evaluate", "evaluation", "test", "testing", "dev"]
)
_FROM_THE_START = ("lines", "csv")
# In the names of all steps that dialects know, and in what other dialects are known by.
_STEP_WORDS = (
    *(b"step", b"schritt", b"iter", b"epoch", b"episode", b"update", b"tick", b"round", b"generation", b"batch"),
    b"interacts",
    *(b"loss", b"learn", b"train", b":::ml", b'"it"', b"t_start", b"ep,", b",ep", b"gen,", b",gen", b"it,", b",it"),
    *(b"snapshot_pkl", b"datetime_start"),
)
_PLAIN = frozenset([int, float, str, type(None)])
# Beside metrics: how long each took.
_TIMING = re.compile(r"(?i)(?:(?:.*[_ ])?(?:time|seconds|secs|duration)|elapsed)(?:_s|_sec|_ms|[_ ]?\(\w+\))?")
_MEASURED = re.compile(r"(?i)loss|acc|reward|return|error|score|perplexity|ppl|f1|mse|mae|auc|bleu|iou|dice|wer|cer")
_WRITTEN = {
    "%": "percentages are read as they are printed, 12.5% as 12.5: {keys}",
    ",": "commas are read as marks between thousands, 1,000 as 1000: {keys}",
}
_WRITER_KEYS = frozenset(
    ["rank", "local_rank", "global_rank", "worker", "worker_id", "process", "process_index", "pid"]
)
_MOMENT = re.compile(r"(?i)time|stamp|(?:^|_)(?:ts|date|wall|at)(?:$|_)")
_ROW_ID = re.compile(r"(?i)(?:^|[_/])(?:(?:rows|tokens)(?=/)|(?:\w*_)?(?:ids?|idx|index|indices))(?:/\d+)?$")
_BATCHES = ("batch", "batch_idx", "batch_id", "minibatch", "iter", "step")
_IN_EPOCH = "steps are counted on over epochs, since {!r} begins again with each {!r}"
_NAMES = ("name", "metric", "metric_name", "metricName", "key", "tag", "variable")
_VALUES = ("value", "metric_value", "metricValue", "scalar", "val")


def has_text(head: bytes, dialect: Dialect) -> bool:
    """Return whether *head* has the text by which *dialect* is known; True if it is known by its keys."""
    text = dialect.recognize.text
    if not text:
        return True
    head = _searched(head, is_numbered=dialect.rank == "shape" and dialect.form.type == "pattern")
    return _pattern(text).search(head) is not None


def recognize(head: bytes, dialects: Sequence[Dialect], *, name: str = "", keys: Keys = NO_KEYS) -> ReadAs | None:
    """Return how to read the file that begins with *head*; None if it is of none of *dialects*.

    *name* is the file's name, which decides between dialects of one rank. *keys* are those that the user named; a
    dialect whose records lack them does not fit.
    """
    # A power loss leaves NUL bytes in a log, but its first line was on the disk long before.
    if not head.strip() or is_binary(head):
        return None
    samples: dict[Any, list[dict[str, Any]]] = {}
    opening = head.lstrip(_SPACE)[:1]
    has_object = OBJECT.search(head) is not None
    is_lines = has_object and opening == b"{" and _is_json_lines(head, name)
    impossible = _impossible_forms(opening, has_object=has_object, is_lines=is_lines)
    if is_lines and all(line[:1] == b"{" for line in head.split(b"\n") if line.strip()):
        # What the message of a record quotes is not the record.
        impossible |= {"pattern"}
    dialect: Dialect | None
    for dialect in sorted(dialects, key=lambda each: _order(each, name)):
        kind = dialect.form.type
        if kind in impossible or (kind == "csv" and not _may_be_table(head, dialect.form.delimiter)):
            continue
        dialect = _matching(dialect, head, is_lines=is_lines)  # noqa: PLW2901 - the array may be a member
        if dialect is None:
            continue
        if keys.columns:
            dialect = with_columns(dialect, keys.columns)  # noqa: PLW2901 - the user has named a part of it
        how = dialect.form, dialect.non_finite, dialect.values.texts, dialect.values.lists
        if how not in samples:
            samples[how] = sample(head, dialect)
        rows = samples[how]
        if _fits(dialect, rows, keys):
            return read_as(dialect, rows, keys=keys, head=head)
    return None


def _matching(dialect: Dialect, head: bytes, *, is_lines: bool) -> Dialect | None:
    """Return *dialect* if *head* has its text, for the array in the object of a document; None if it has not."""
    kind, is_object = dialect.form.type, head.lstrip(_SPACE)[:1] == b"{"
    is_free = dialect.rank == "guess" and kind == "document" and is_object and not is_lines
    inner = _ARRAY.search(head) if is_free else None
    if inner is not None:
        return dialect.with_form(rows=inner[1].decode())
    # An inner object of one that has several lines is not a line of output.
    is_quoted = kind == "pattern" and is_object and decode_lenient(head) is not None
    return None if is_quoted or not has_text(head, dialect) else dialect


def _impossible_forms(opening: bytes, *, has_object: bool, is_lines: bool) -> frozenset[str]:
    """Return the forms that a file cannot have which begins with *opening*."""
    if not has_object:
        return _JSON_LINES if opening in (b"{", b"[") else _JSON_LINES | DOCUMENTS
    if opening not in (b"{", b"["):
        return frozenset(DOCUMENTS)
    return _WHOLE if is_lines else frozenset()


def _is_json_lines(head: bytes, name: str) -> bool:
    """Return whether *head* begins with two objects on a line each, or with one in a file that is named so."""
    lines = head.lstrip(_SPACE).split(b"\n", 2)[:2]
    wanted = 1 if name.endswith(_LINES_NAMES) else 2
    found = [line for line in lines if line.startswith(b"{") and line.rstrip().endswith(b"}")]
    return len(found) >= wanted and found[0] == lines[0]


def read_as(
    dialect: Dialect, rows: Sequence[dict[str, Any]], *, keys: Keys = NO_KEYS, named: bool = False, head: bytes = b""
) -> ReadAs:
    """Return how to read a file of *dialect* whose first records are *rows*, flattened; it begins with *head*.

    *keys* are those that the user named. *named* means that the user named the dialect.
    """
    is_exact = dialect.rank == "program"
    chosen = keys.step or _first(dialect.step, rows, is_exact=is_exact)
    chosen = chosen or (dialect.step[0] if is_exact and dialect.step else None)
    times = [DialectTimeKey(key=keys.time)] if keys.time else _times(dialect.time, rows, is_exact=is_exact)
    present = list(dict.fromkeys(key for row in rows for key in row))
    epochs = [_found(key, present, is_exact=is_exact) for key in dialect.epoch]
    epoch = next((key for key in epochs if key not in (None, chosen)), None)
    is_in_epoch, is_free = False, dialect.rank == "guess" and keys == NO_KEYS
    if is_free and "epoch" in _plain(epoch or chosen or ""):
        batch = chosen if epoch else _first(_BATCHES, rows, is_exact=False)
        outer = epoch or chosen
        if batch and outer and _begins_again(sample(head, dialect, most=_MOST_LINES), batch, outer):
            chosen, epoch, is_in_epoch = batch, outer, True
    phase = _phase(dialect, rows, head)
    doubts: tuple[str, ...] = ()
    writer = None
    if dialect.rank == "guess" or keys.metric or keys.value:
        dialect, doubts = _long(dialect, rows, keys, (chosen, phase, epoch, *(key.key for key in times)))
    if is_free:
        dialect, writer, others = _with_roles(dialect, rows, {chosen, epoch, phase})
        times = times or others
    if keys.time:
        dialect = msgspec.structs.replace(dialect, time=tuple(times))
    return ReadAs(
        dialect=dialect,
        step=chosen,
        time=times[0] if times else None,
        epoch=epoch,
        is_in_epoch=is_in_epoch,
        writer=writer,
        phase=phase if phase not in (dialect.values.name, *dialect.values.names) else None,
        is_named=named or keys != NO_KEYS,
        notes=(*_notes(dialect, head), *([_IN_EPOCH.format(chosen, epoch)] if is_in_epoch else []), *doubts),
        doubts=doubts,
        unread=tuple(_unread(dialect, head)),
    )


def _with_roles(
    dialect: Dialect, rows: Sequence[dict[str, Any]], own: set[str | None]
) -> tuple[Dialect, str | None, list[DialectTimeKey]]:
    """Return *dialect* without the numbers that measure nothing, the key of the writer, and keys of times.

    The writer is the rank or process, where *rows* have several. Times are Unix times by name and size. Of the keys
    *own*, none is meant.
    """
    columns = {key: [row[key] for row in rows if key in row] for row in rows for key in row if key not in own}
    moments = [
        key for key, column in columns.items()
        if _MOMENT.search(key) and all((found := time_of(each, "unix")) and found[1] == "unix" for each in column)
    ]  # fmt: skip
    writers = [
        key for key, column in columns.items() if _plain(key) in _WRITER_KEYS and {int} == set(map(type, column))
    ]
    ids = [
        key.rpartition("/")[0] + "/" if key[-1].isdigit() and "/" in key else key
        for key, column in columns.items()
        if _ROW_ID.search(key) and {int} == set(map(type, column))
    ]
    exclude = tuple(dict.fromkeys([*dialect.values.exclude, *moments, *writers, *ids]))
    times = [DialectTimeKey(key=key, unit="unix") for key in moments]
    writer = next((key for key in writers if len(set(columns[key])) > 1), None)
    return dialect.with_values(exclude=exclude), writer, times


def _begins_again(rows: Sequence[dict[str, Any]], batch: str, epoch: str) -> bool:
    """Return whether the count *batch* grows within each *epoch* of *rows*, and begins again with the next."""
    places = [(row[epoch], row[batch]) for row in rows if type(row.get(epoch)) is int and type(row.get(batch)) is int]
    pairs = list(pairwise(places))
    has_again = any(late[0] > early[0] and late[1] <= early[1] for early, late in pairs)
    return batch != epoch and has_again and all(late[0] > early[0] or late[1] >= early[1] for early, late in pairs)


def _phase(dialect: Dialect, rows: Sequence[dict[str, Any]], head: bytes) -> str | None:
    """Return the key of the phase in *rows* and, where they have none, in more records of *head*; None without one."""
    is_exact = dialect.rank == "program"
    texts = {key: None for row in rows for key, value in row.items() if isinstance(value, str)}
    found = next(filter(None, (_found(each, texts, is_exact=is_exact) for each in dialect.phase)), None)
    if found is None and dialect.form.type == "pattern":
        # An evaluation may come after more records than were looked at.
        groups = "".join(dialect.form.patterns)
        return next((key for key in dialect.phase if f"(?P<{key}>" in groups), "phase" if "phase" in texts else None)
    if found is None and not is_exact and any(f'"{key}"'.encode() in head for key in dialect.phase):
        more = sample(head, dialect, most=_MOST_LINES)
        found = next((key for key in dialect.phase for row in more if isinstance(row.get(key), str)), None)
    if found is None and dialect.rank == "guess":
        found = next((key for key in _KIND_KEYS if key in texts and _names_phases(rows, key)), None)
    return found


def _names_phases(rows: Sequence[dict[str, Any]], key: str) -> bool:
    """Return whether the texts under *key* are phases in most of *rows* that have it."""
    words = [str(row[key]).lower() in _PHASE_WORDS for row in rows if key in row]
    return 2 * sum(words) >= len(words)


def with_columns(dialect: Dialect, columns: tuple[str, ...]) -> Dialect:
    """Return *dialect* for a table without a header, if it is one of tables."""
    if dialect.form.type != "csv":
        return dialect
    return dialect.with_form(columns=columns)


@lru_cache(maxsize=1)
def has_step_word(head: bytes) -> bool:
    """Return whether *head* has a part of a name that steps have; without one, no dialect is recognized by its keys."""
    plain = _lowered(head)
    return any(word in plain for word in _STEP_WORDS)


@lru_cache(maxsize=8)
def _may_be_table(head: bytes, delimiter: str) -> bool:
    """Return whether a cell under the first line of *head* may be a number; a header alone may be one."""
    lines = head[:_HEADER_BYTES].replace("│".encode(), b"|").split(b"\n")
    rows = list(islice((line for line in lines if line.strip(_SPACE) and line[:1] != b"#"), _HEADER_LINES))
    cells = (cell for row in rows[1:] for cell in row.split(None if delimiter == " " else delimiter.encode()))
    return len(rows) < _HEADER_LINES or any(map(_DIGIT.match, cells))


def _order(dialect: Dialect, name: str) -> tuple[int, bool]:
    return _RANKS.index(dialect.rank), not any(fnmatchcase(name, pattern) for pattern in dialect.files)


def _long(
    dialect: Dialect, rows: Sequence[dict[str, Any]], keys: Keys, own: Sequence[str | None]
) -> tuple[Dialect, tuple[str, ...]]:
    """Return *dialect*, and what is in doubt: values are named by the text beside them, whatever its key.

    The keys *own*, that of the step first, are not such texts. Of several, one with a usual name is taken, else the one
    that the fewest records have, which is the most exact. The values are left out where no text tells those of a step
    apart.
    """
    present = list(dict.fromkeys(key for row in rows for key in row))
    if keys.value and not keys.metric:
        # The one metric that the user wants.
        return dialect.with_values(exclude=tuple({*present} - {keys.value})), ()
    usual = (_found(each, present) for each in ((keys.value,) if keys.value else _VALUES))
    value = next((key for key in usual if key and any(_is_value(row.get(key)) for row in rows)), "")
    valued = [row for row in rows if _is_value(row.get(value))]
    others = {key for row in valued for key in row if key not in own and key != value}
    texts = {key: [row[key] for row in valued if type(row.get(key)) is str] for key in others}
    if 2 * len(valued) >= len(rows):
        usual = (_found(each, texts) for each in ((keys.metric,) if keys.metric else _NAMES))
        name = next((key for key in usual if key and 2 * len(texts[key]) >= len(rows)), None)
        is_alone = not any(number(row.get(key)) is not None for row in valued for key in others)
        if name is not None and (keys.metric or is_alone or len(set(texts[name])) > 1):
            return dialect.with_values(name=name, value=value), ()
    names = [key for key, found in texts.items() if len(found) > 1 and 2 * len(set(found)) <= len(found)]
    names.sort(key=lambda key: (len(texts[key]), -len(set(texts[key]))))
    has_more = any(type(row.get(key)) is float for row in valued for key in others)
    if keys.named or has_more or not any(len(set(texts[key])) > 1 for key in names):
        return dialect, ()
    counts = [
        key
        for key in others
        if all(type(row.get(key, 0)) is int and row.get(key, 0) < UNIX_SECONDS[0] for row in valued)
    ]
    places = {
        (row.get(own[0] or ""), next((row[key] for key in names if key in row), None), *map(row.get, counts))
        for row in valued
    }
    if own[0] and 4 * len(places) < 3 * len(valued):
        doubt = f"{value!r} is left out: no text beside it tells its values at one step apart; name one by --metric-key"
        return dialect.with_values(exclude=(*dialect.values.exclude, value)), (doubt,)
    return dialect.with_values(name=names[0], names=tuple(names[1:]), value=value), ()


def _is_value(value: Any) -> bool:
    return number(value) is not None or (isinstance(value, str) and not_finite(value) is not None)


def keys_in(head: bytes, dialects: Iterable[Dialect]) -> list[str]:
    """Return the keys of the records in *head*, as the one of *dialects* reads them that finds the most."""
    found: list[str] = []
    for dialect in dialects:
        if dialect.form.type != "pattern" and has_text(head, dialect):
            found = max(found, list(dict.fromkeys(key for row in sample(head, dialect) for key in row)), key=len)
    return found


def _notes(dialect: Dialect, head: bytes) -> tuple[str, ...]:
    """Return what the user has to know of how the file that begins with *head* is read."""
    values = dialect.values
    notes = []
    if values.name and dialect.rank != "program" and dialect.form.type != "pattern":
        notes.append(f"one metric a record, its name in {values.name!r}, its value in {values.value!r}")
    if dialect.parts:
        notes.append("the program may write a log as several files: `toyspec import DIRECTORY` merges them")
    notes += _notes_on_written(dialect, head)
    notes += _notes_on_unnamed(dialect, head)
    unread = _unread(dialect, head)
    notes += (
        [f"values that are not numbers are left out, such as those of {listed(unread, _SHOWN_KEYS)}"] if unread else []
    )
    if values.texts and dialect.form.type != "pattern":
        rows = sample(head, dialect.with_values(texts=False))
        keys = dict.fromkeys(key for row in rows for key, value in row.items() if is_number_in_text(value))
        notes += [f"numbers in strings are read as numbers: {listed(keys, _SHOWN_KEYS)}"] if keys else []
    return tuple(notes)


def _notes_on_written(dialect: Dialect, head: bytes) -> list[str]:
    """Return which columns of a table have percentages, or commas between thousands."""
    if dialect.form.type != "csv" or not (b"%" in head or b'"' in head):
        return []
    form = CsvForm(dialect.form.delimiter, columns=dialect.form.columns)
    found: dict[str, dict[str, None]] = {mark: {} for mark in _WRITTEN}
    for line in islice(first_lines(head), _SAMPLE):
        form.read(line.data or b"", first=line.number == 1)
        for name, cell in zip(form.header or (), form.cells_of(line.data or b""), strict=False):
            mark = written_otherwise(cell)
            if mark is not None:
                found[mark][name] = None
    return [_WRITTEN[mark].format(keys=listed(keys, _SHOWN_KEYS)) for mark, keys in found.items() if keys]


def _notes_on_unnamed(dialect: Dialect, head: bytes) -> list[str]:
    """Return what of console lines is not read as a metric."""
    if dialect.form.type != "pattern":
        return []
    form = PatternForm(dialect)
    notes = []
    for find, fact in (
        (form.unnamed, "numbers without a name are"),
        (form.unread, "what is not read as numbers is"),
        (form.overwritten, "states that a progress bar overwrote are"),
    ):
        found = next(filter(None, (find(line.data or b"") for line in first_lines(head))), None)
        notes += [] if found is None else [f"{fact} left out, such as {shortened(found)!r}"]
    return notes


def _unread(dialect: Dialect, head: bytes) -> dict[str, None]:
    if dialect.form.type in ("csv", "pattern", "lists") or dialect.values.name:
        return {}
    return dict.fromkeys(key for row in sample(head, dialect) for key in unread_in(row, dialect))


def unread_in(members: Mapping[str, Any], dialect: Dialect) -> Iterator[str]:
    """Yield which flattened *members* of a JSON record have numbers or truths that *dialect* does not read."""
    prefix, left_out = dialect.values.prefix, (*dialect.values.exclude, f"{dialect.config or '?'}/")
    prefixes = tuple(key for key in left_out if key.endswith("/"))
    for key, member in members.items():
        if type(member) in _PLAIN:
            continue
        is_metric = key.startswith(prefix) and key not in left_out and not key.startswith(prefixes)
        if is_metric and key != dialect.config and (type(member) is bool or _has_number(member, _MOST_INNER)):
            yield key


def _has_number(member: Any, depth: int) -> bool:
    """Return whether a list or an object has a number at any of *depth* levels."""
    inner = member if type(member) is list else list(member.values()) if type(member) is dict else []
    return any(number(each) is not None or (depth > 0 and _has_number(each, depth - 1)) for each in inner)


def sample(head: bytes, dialect: Dialect, *, most: int = _SAMPLE) -> list[dict[str, Any]]:
    """Return the first *most* records in *head* as *dialect* reads them, flattened."""
    cutter = cutter_of(dialect)
    form = form_of(dialect)
    is_json = isinstance(form, JsonForm)
    rows: list[dict[str, Any]] = []
    count = 0
    for line in cutter.feed(head) if cutter is not None else first_lines(head):
        count += 1
        if count > _MOST_LINES and dialect.form.type in _FROM_THE_START:
            break
        # To find out what is wrong with a line takes long, and most lines of other files hold no object.
        if line.data is None or (is_json and OBJECT.search(line.data) is None):
            continue
        is_first = line.number == 1
        value = form.read(line.data, first=is_first)
        if value is None:
            value = form.validate(line.data, first=is_first).value
        if value is not None:
            rows.append(dict(flattened(value)))
            if len(rows) == most:
                break
    # A line of prose has words between blanks too.
    if isinstance(form, CsvForm) and dialect.form.delimiter != " " and not rows and form.header and count == 1:
        # A header alone: its names say what the file will be.
        rows.append(dict.fromkeys(form.header, 0))
    return rows


def _fits(dialect: Dialect, rows: Sequence[dict[str, Any]], keys: Keys) -> bool:
    if any(not any(key in row for row in rows) for key in keys.named):
        return False
    marks = dialect.recognize
    is_program = dialect.rank == "program"
    # The text may be in lines without metrics, which some programs print first, or in a large document.
    if is_program and marks.text and (dialect.form.type == "pattern" or (dialect.form.type in DOCUMENTS and not rows)):
        return True
    # What the user named is proof enough of a log that many programs may have written.
    is_free = keys != NO_KEYS and dialect.rank == "guess"
    is_marked = is_free or any(_has_marks(dialect, row) for row in rows)
    if not is_marked or any(key in row for row in rows for key in marks.absent):
        return False
    if keys == NO_KEYS and (is_program or dialect.form.type == "pattern"):
        return dialect.form.type == "pattern" or bool(marks.text or marks.keys or marks.any or marks.equals)
    return _is_measured_log(dialect, rows, keys)


def _is_measured_log(dialect: Dialect, rows: Sequence[dict[str, Any]], keys: Keys) -> bool:
    """Return whether most of *rows* have a step, and some of these a metric; the user's *keys* may stand for a step."""
    step = keys.step or _first(dialect.step, rows, is_exact=False)
    if keys.metric and not _long(dialect, rows, keys, (step,))[0].values.name:
        return False
    if step is None:
        return keys != NO_KEYS and any(_has_metric(row, "") for row in rows)
    if dialect.form.type == "objects" and "/" in step and keys == NO_KEYS:
        # In a summary, the step of the best result for example.
        return False
    if step == UNNAMED and keys == NO_KEYS and not any(_MEASURED.search(key) for row in rows for key in row):
        # A table of data has an index too.
        return False
    is_counted = dialect.form.type == "csv" and step == dialect.form.index and keys == NO_KEYS
    if is_counted and not all(_is_all_measured(row, step) for row in rows):
        return False
    stepped = [row for row in rows if number(row.get(step)) is not None]
    return 2 * len(stepped) >= len(rows) and any(_has_metric(row, step) for row in stepped)


def _is_all_measured(row: dict[str, Any], index: str) -> bool:
    """Return whether all that *row* has are metrics and times, by their names; a table of results has settings too."""
    others = [(key, value) for key, value in row.items() if key != index]
    return any(_MEASURED.search(key) for key, _ in others) and all(
        (_MEASURED.search(key) or _TIMING.fullmatch(key)) and _is_value(value) for key, value in others
    )


def _has_marks(dialect: Dialect, row: dict[str, Any]) -> bool:
    marks = dialect.recognize
    is_exact = dialect.rank == "program"
    return (
        all(key in row for key in marks.keys)
        and (not marks.any or any(_found(key, row, is_exact=is_exact) for key in marks.any))
        and all(row.get(key) == value for key, value in marks.equals.items())
    )


def _has_metric(row: dict[str, Any], step: str) -> bool:
    return any(_is_value(value) for key, value in row.items() if key != step)


def _first(keys: Iterable[str], rows: Sequence[dict[str, Any]], *, is_exact: bool) -> str | None:
    """Return the first of *keys* under which *rows* have numbers, as they spell it.

    Unless *is_exact*, case, blanks and what is before the last slash do not count.
    """
    present = list(dict.fromkeys(key for row in rows for key, value in row.items() if number(value) is not None))
    if is_exact:
        return next((key for key in keys if key in present), None)
    keys = list(keys)
    whole = next((found for key in keys if (found := _found(key, present)) is not None), None)
    if whole is not None:
        return whole
    ends = {_plain(key.rpartition("/")[2]): key for key in reversed(present) if "/" in key}
    return next((ends[plain] for key in keys if (plain := _plain(key)) in ends), None)


def _found(key: str, present: Iterable[str], *, is_exact: bool = False) -> str | None:
    """Return *key* as it is spelt in *present*; unless *is_exact*, case and the marks between words do not count."""
    if is_exact or key in present:
        return key if key in present else None
    plain = _plain(key)
    return next((each for each in present if _plain(each) == plain), None)


@lru_cache(maxsize=4096)
def _plain(name: str) -> str:
    return _BETWEEN_WORDS.sub("_", name.lower()).strip("_")


def _times(keys: Sequence[DialectTimeKey], rows: Sequence[dict[str, Any]], *, is_exact: bool) -> list[DialectTimeKey]:
    present = list(dict.fromkeys(key for row in rows for key in row))
    spelt = [
        msgspec.structs.replace(key, key=found)
        for key in keys
        if (found := _found(key.key, present, is_exact=is_exact)) is not None
    ]
    return [key for key in spelt if any(time_of(row.get(key.key), key.unit) is not None for row in rows)]


@lru_cache(maxsize=1)
def _lowered(head: bytes) -> bytes:
    return head.lower()


@lru_cache(maxsize=2)
def _searched(head: bytes, *, is_numbered: bool) -> bytes:
    """Return where the text of a dialect is searched in *head*: in all, or in *numbered* lines."""
    # A terminal's colours are between the words.
    head = _ESCAPES.sub(b"", head) if b"\x1b[" in head else head
    # What is printed of a step has numbers, and most lines of prose have none.
    return _numbered_lines(head) if is_numbered else head


def _numbered_lines(head: bytes) -> bytes:
    """Return the lines of *head* that have a digit, or a word for what is not finite."""
    plain = _lowered(head)
    if b"nan" in plain or b"inf" in plain:
        return b"\n".join(line for line in head.split(b"\n") if _NUMBER_OR_WORD.search(line))
    return b"\n".join(line for line in head.split(b"\n") if len(line.translate(None, _DIGITS)) < len(line))


@cache
def _pattern(text: str) -> re.Pattern[bytes]:
    # Bytes, since a head may end within a character; patterns are ASCII, or name bytes by escapes.
    return re.compile(text.encode("latin-1", "replace") if text.isascii() else text.encode())
