"""The reader of dialects: recognizes one by the first bytes of a file, or reads by the one that the user named."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from toyspec.core.errors import UnknownFormatError
from toyspec.core.escaping import printable, shortened
from toyspec.core.files import open_file
from toyspec.core.format.profiles import stream_name
from toyspec.core.generated.limits import MAX_LINE_BYTES
from toyspec.core.reading.log_detection import CONSOLE_BYTES, HEAD_BYTES, first_object
from toyspec.core.reading.stream_files import unpacked_head
from toyspec.logs.dialects import NO_KEYS, Keys, dialect_named, dialect_of, dialects
from toyspec.logs.mapping import ReadAs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.core.checker.collecting import CheckOptions
    from toyspec.core.reading.log_detection import DialectChoice
    from toyspec.logs.checker import DialectChecker
    from toyspec.logs.dialects import Dialect
    from toyspec.logs.row_feed import RowFeed

_MOST_KEYS = 40
_SURE = {"program": 1.0, "shape": 0.75, "guess": 0.25}
# Forms whose records are lines between other output.
_CONSOLES = ("pattern", "prefixed")


class DialectLog(ReadAs, frozen=True, kw_only=True):
    """A log of a dialect, which its reader opens."""

    @property
    def sure(self) -> float:
        """How sure it is that the dialect fits; less if it was guessed by the names of keys."""
        return _SURE[self.dialect.rank]

    @property
    def title(self) -> str:
        """The title of the dialect."""
        return self.dialect.title

    @property
    def is_document(self) -> bool:
        """True if its records are not lines."""
        return self.dialect.form.is_document

    def feed(self, *, max_line_bytes: int = MAX_LINE_BYTES, target: Literal["rows", "blocks"] = "rows") -> RowFeed:
        """Return what makes the rows of the file."""
        # Imported here, as all that reads a log: a folder without one needs only the names of dialects.
        from toyspec.logs.row_feed import RowFeed

        return RowFeed(self, max_line_bytes=max_line_bytes, target=target)

    def checker(self, path: str, options: CheckOptions) -> DialectChecker:
        """Return what checks the file at *path*."""
        # Imported here: what one of them needs costs the others their start.
        from toyspec.logs.checker import DialectChecker

        return DialectChecker(path, self, options=options)


class Dialects:
    """The reader; see ``toyspec.core.reading.readers.DialectsReader`` for each function."""

    order = 0.0
    named = staticmethod(dialect_named)
    made = staticmethod(dialect_of)
    keys = staticmethod(Keys)

    def names(self) -> list[str]:
        """Return the names of the dialects that toyspec ships."""
        return [dialect.name for dialect in dialects()]

    def files(self) -> list[str]:
        """Return the patterns of the usual names of their files."""
        return list(dict.fromkeys(pattern for dialect in dialects() for pattern in dialect.files))

    def opened(self, dialect: Dialect, head: bytes) -> DialectLog:
        """Return a log that begins with *head*, read by *dialect*."""
        from toyspec.logs.recognition import read_as, sample

        return _opened(read_as(dialect, sample(head, dialect), head=head))

    def proposed(self, path: str) -> Dialect | None:
        """Return the dialect that is proposed for the file at *path*, if it is sure; None otherwise."""
        # Imported here: only what no dialect fits needs it.
        from toyspec.logs.proposal import propose

        proposal = propose(unpacked_head(path, CONSOLE_BYTES)[0], "proposed")
        return proposal.dialect if proposal is not None and proposal.sure else None

    def manifest(self, name: str) -> dict[str, str]:
        """Return where the run.json beside a log of the dialect *name* has the members of run_start."""
        return next((each.manifest for each in dialects() if each.name == name), {})

    def may_go_on(self, data: bytes, asked: DialectChoice) -> bool:
        """Return whether *data* lacks the text by which the console output of a program is known."""
        from toyspec.logs.recognition import has_text

        return asked.name != "auto" or not any(has_text(data, dialect) for dialect in _consoles(asked))

    def recognise(self, head: bytes, path: str, asked: DialectChoice) -> DialectLog | None:
        """Return how to read the file at *path*, which begins with *head*; None if no dialect fits.

        Raise UnknownFormatError where no record has the keys that the user named.
        """
        from toyspec.logs.recognition import has_step_word, recognize

        if asked.named is not None:
            return _opened(_named(asked.named, head, path, asked))
        first = first_object(head)
        known = [*asked.own, *dialects()]
        if asked.is_manifested:
            known = [each for each in known if each.rank == "program"]
        may_fit = bool(asked.own) or asked.keys is not None or has_step_word(head)
        name = stream_name(os.path.basename(path))
        keys = asked.keys or NO_KEYS
        found = recognize(head, known, name=name, keys=keys) if may_fit else None
        if found is None and first is None and (text := _console_text(head, path)) is not head:
            found = recognize(text, _consoles(asked), name=name, keys=keys)
        if found is None and asked.keys is not None:
            raise _missing(asked.keys, head, known, path)
        return None if found is None else _opened(found)


READER = Dialects()


def _opened(read_as: ReadAs) -> DialectLog:
    return DialectLog(**{name: getattr(read_as, name) for name in read_as.__struct_fields__})


def _named(dialect: Dialect, head: bytes, path: str, asked: DialectChoice) -> ReadAs:
    """Return how to read a file by *dialect*; raise UnknownFormatError without the named keys."""
    from toyspec.logs.recognition import read_as, sample, with_columns

    keys = asked.keys or NO_KEYS
    dialect = with_columns(dialect, keys.columns) if keys.columns else dialect
    rows = sample(head, dialect)
    if not rows and dialect.form.type in _CONSOLES:
        head = _console_text(head, path)
        rows = sample(head, dialect)
    if rows and any(not any(key in row for row in rows) for key in keys.named):
        raise _missing(keys, head, [dialect], path)
    return read_as(dialect, rows, keys=keys, named=True, head=head)


def _missing(keys: Keys, head: bytes, known: Sequence[Dialect], path: str) -> UnknownFormatError:
    """Return the error that says which of *keys* no record has, and which keys there are."""
    from toyspec.logs.documents import listed
    from toyspec.logs.recognition import keys_in

    there = keys_in(head, known)
    missing = [key for key in keys.named if key not in there]
    fact = f"no record has the key {shortened(missing[0])}" if missing else "no record has the keys that were named"
    fact = fact if missing or not there else "the records have no number under the keys that were named"
    advice = (
        f"the records have: {listed(map(printable, there), _MOST_KEYS)}"
        if there
        else "no record was found; name the form with --dialect"
    )
    return UnknownFormatError(path or "<bytes>", f"{fact}; {advice}")


def _console_text(head: bytes, path: str) -> bytes:
    """Return more of the text file at *path*; *head* itself where that is all, or *path* is something else."""
    if len(head) < HEAD_BYTES or b"\0" in head or not os.path.isfile(path):
        return head
    with open_file(path) as file:
        return file.read(CONSOLE_BYTES)


def _consoles(asked: DialectChoice) -> list[Dialect]:
    """Return the dialects whose records are lines between other output, and which are known by a text."""
    return [each for each in (*asked.own, *dialects()) if each.form.type in _CONSOLES and each.recognize.text]
