"""Dialects: how to read the logs of other programs, as data. See schemas/meta/dialect.json."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Literal

import msgspec

Rank = Literal["program", "shape", "guess"]
FormType = Literal["lines", "prefixed", "document", "csv", "pattern"]
TimeUnit = Literal["unix", "unix-seconds", "unix-milliseconds", "run-seconds", "run-clock", "date-time", "any"]
NonFinite = Literal["bare", "text", "null"]

STEP_NAMES = ("step", "time", "epoch", "phase")
"""The parts of a record that a key can be named for."""


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of a dialect; the meta-schema says what its members mean."""


class Source(_Part, frozen=True, kw_only=True):
    """The program that writes a dialect."""

    program: str
    version: str = ""
    where: str = ""


class Form(_Part, frozen=True, kw_only=True):
    """How the records lie in the file."""

    type: FormType
    prefix: str = ""
    rows: str = ""
    delimiter: str = ","
    patterns: tuple[str, ...] = ()


class Marks(_Part, frozen=True, kw_only=True):
    """What has to hold for a file of the dialect."""

    keys: tuple[str, ...] = ()
    any: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    text: str = ""
    equals: dict[str, str | int] = {}


class TimeKey(_Part, frozen=True, kw_only=True):
    """A key of the time, and its unit."""

    key: str
    unit: TimeUnit = "any"


class Values(_Part, frozen=True, kw_only=True):
    """Which keys are metrics."""

    prefix: str = ""
    exclude: tuple[str, ...] = msgspec.field(name="except", default=())
    name: str = ""
    value: str = ""


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
    source: Source | None = None
    files: tuple[str, ...] = ()
    parts: Literal["successive", "together"] | None = None
    time: tuple[TimeKey, ...] = ()
    epoch: tuple[str, ...] = ()
    phase: tuple[str, ...] = ()
    values: Values = Values()
    skip: str = ""
    config: str = ""
    config_except: tuple[str, ...] = ()
    run: str = ""
    run_id: str = ""
    manifest: dict[str, str] = {}
    end: End | None = None
    define: Define | None = None
    non_finite: tuple[NonFinite, ...] = ()
    steps: Literal["increase", "any"] = "any"
    restart: Restart | None = None
    loses: str = ""


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
    from toyspec.generated.dialects import DIALECTS

    return tuple(map(dialect_of, DIALECTS))


def dialect_named(name: str) -> Dialect:
    """Return the shipped dialect *name*; raise ValueError if there is none."""
    known = {dialect.name: dialect for dialect in dialects()}
    if name not in known:
        raise ValueError(f"unknown dialect {name!r}; choose one of {', '.join(known)}")
    return known[name]
