"""Dialects: how to read the logs of other programs, as data. See schemas/meta/dialect.json."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Literal

import msgspec

Rank = Literal["program", "shape", "guess"]
FormType = Literal["lines", "prefixed", "document", "objects", "lists", "csv", "pattern"]
TimeUnit = Literal["unix", "unix-seconds", "unix-milliseconds", "run-seconds", "run-clock", "date-time", "any"]
NonFinite = Literal["bare", "text", "null"]

DOCUMENTS = frozenset(["document", "objects", "lists"])
"""The forms whose records are not lines."""


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A part of a dialect; the meta-schema says what its members mean."""


class DialectSource(_Part, frozen=True, kw_only=True):
    """The program that writes a dialect."""

    program: str
    version: str = ""
    where: str = ""


class EpochStep(_Part, frozen=True, kw_only=True):
    """How a step is made of an epoch and a place in it."""

    key: str
    outer: str
    size: str
    inner: str
    first: int


class Form(_Part, frozen=True, kw_only=True):
    """How the records lie in the file."""

    type: FormType
    prefix: str = ""
    rows: str = ""
    delimiter: str = ","
    columns: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    carry: tuple[str, ...] = ()
    index: str = ""
    place: EpochStep | None = None

    @property
    def is_document(self) -> bool:
        """True if the records are not lines, so that the file needs no LF."""
        return self.type in DOCUMENTS

    @property
    def is_by_lines(self) -> bool:
        """True if each line is read without the lines before it, the header excepted.

        False for documents, where a group is carried on to later lines, and where rows are numbered.
        """
        return not self.is_document and not self.carry and not self.index


class Marks(_Part, frozen=True, kw_only=True):
    """What has to hold for a file of the dialect."""

    keys: tuple[str, ...] = ()
    any: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    text: str = ""
    equals: dict[str, str | int] = {}


class DialectTimeKey(_Part, frozen=True, kw_only=True):
    """A key of the time, and its unit."""

    key: str
    unit: TimeUnit = "any"


class Values(_Part, frozen=True, kw_only=True):
    """Which keys are metrics."""

    prefix: str = ""
    exclude: tuple[str, ...] = msgspec.field(name="except", default=())
    name: str = ""
    value: str = ""
    names: tuple[str, ...] = ()
    texts: bool = False
    lists: bool = False


class Restart(_Part, frozen=True, kw_only=True):
    """The record that begins an attempt."""

    key: str
    equals: str


class End(_Part, frozen=True, kw_only=True):
    """The record that ends the run."""

    key: str
    equals: str
    reason: str
    reasons: dict[str, Literal["completed", "interrupted", "aborted", "errored"]]


class Define(_Part, frozen=True, kw_only=True):
    """A record that says which values of a metric are better."""

    key: str
    equals: str
    name: str
    goal: str
    goals: dict[str, Literal["min", "max"]]


class Dialect(_Part, frozen=True, kw_only=True):
    """One dialect; see the meta-schema for each member."""

    schema: str = msgspec.field(name="$schema", default="urn:toyspec:meta:dialect:v1")
    name: str
    title: str
    rank: Rank
    form: Form
    recognize: Marks
    step: tuple[str, ...]
    source: DialectSource | None = None
    files: tuple[str, ...] = ()
    parts: Literal["successive", "together"] | None = None
    time: tuple[DialectTimeKey, ...] = ()
    epoch: tuple[str, ...] = ()
    phase: tuple[str, ...] = ()
    values: Values = Values()
    skip: str = ""
    config: str = ""
    config_except: tuple[str, ...] = ()
    run: str = ""
    manifest: dict[str, str] = {}
    end: End | None = None
    define: Define | None = None
    non_finite: tuple[NonFinite, ...] = ()
    steps: Literal["increase", "any"] = "any"
    planned: tuple[str, ...] = ()
    restart: Restart | None = None
    loses: str = ""

    def with_values(self, **members: Any) -> Dialect:
        """Return the dialect with other *members* of its values."""
        return msgspec.structs.replace(self, values=msgspec.structs.replace(self.values, **members))

    def with_form(self, **members: Any) -> Dialect:
        """Return the dialect with other *members* of its form."""
        return msgspec.structs.replace(self, form=msgspec.structs.replace(self.form, **members))


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """Keys that the user named; None and an empty tuple for those that are found out."""

    step: str | None = None
    time: str | None = None
    metric: str | None = None
    """Key of a metric's name, where a record has one metric."""
    value: str | None = None
    """Key of its value."""
    columns: tuple[str, ...] = ()
    """Names of the columns of a table without a header."""

    @property
    def named(self) -> list[str]:
        """The keys that a record must have."""
        return [key for key in (self.step, self.time, self.metric, self.value) if key is not None]


NO_KEYS = Keys()


def dialect_of(document: Any) -> Dialect:
    """Return the dialect in *document*, the JSON value of its file; raise ValueError for a wrong one."""
    try:
        dialect = msgspec.convert(document, Dialect)
        for pattern in (*dialect.form.patterns, dialect.recognize.text):
            re.compile(pattern)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    except re.error as error:
        raise ValueError(f"the regular expression {error.pattern!r} is wrong: {error}") from None
    return dialect


@cache
def dialects() -> tuple[Dialect, ...]:
    """Return the dialects that toyspec ships, in the order in which they are tried."""
    from toyspec.core.generated.dialects import DIALECTS

    return tuple(map(dialect_of, DIALECTS))


def dialect_named(name: str) -> Dialect:
    """Return the shipped dialect *name*; raise ValueError if there is none."""
    known = {dialect.name: dialect for dialect in dialects()}
    if name not in known:
        raise ValueError(f"unknown dialect {name!r}; choose one of {', '.join(known)}")
    return known[name]
