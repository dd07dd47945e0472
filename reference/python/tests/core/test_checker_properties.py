from __future__ import annotations

import copy
import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from property_examples import examples
from strategies import kinds, records, streams
from toyspec.core.checker import CheckOptions, check_bytes, open_checker
from toyspec.core.checker.checking import Checker
from toyspec.core.checker.collecting import RecordFinding
from toyspec.core.checker.record_rules import RecordValidator
from toyspec.core.checker.stream_checker import StreamChecker
from toyspec.core.findings import FileReport, Profile
from toyspec.core.format.date_times import is_date_time
from toyspec.core.format.decoding import take_integers
from toyspec.core.generated.fields import DATE_TIMES
from toyspec.core.reading.reader import read

PROFILES: tuple[Profile, ...] = ("toy/v1", "metrics/v1", "kaun/v1")
VALIDATORS = {profile: RecordValidator(profile) for profile in PROFILES}
CASES = [(profile, kind) for profile in PROFILES for kind in kinds(profile)]


def engine_accepts(profile: Profile, kind: str, value: Any) -> bool:
    """Return whether the library makes an event of a line with *value*, and its date-times are right."""
    (record,) = read(json.dumps(value).encode() + b"\n", profile=profile)
    event = record.event
    if event is None:
        return False
    dates = [getattr(event, name) for name in DATE_TIMES[profile].get(kind, ())]
    return all(date is None or is_date_time(date) for date in dates)


def schema_accepts(profile: Profile, kind: str, value: Any) -> bool:
    """Return whether the schema of *kind* takes *value*."""
    mine = copy.deepcopy(value)
    take_integers(mine, profile, kind)
    found = VALIDATORS[profile].findings(kind, mine)
    return not [each for each in found if isinstance(each, RecordFinding) and each.rule != "unsafe-integer"]


@pytest.mark.parametrize(("profile", "kind"), CASES)
def test_checker_and_engine_agree(profile: Profile, kind: str) -> None:
    """The schema and the type made from it give the same verdict on any record."""

    @settings(max_examples=examples(60), deadline=None)
    @given(records(profile, kind))
    def agree(value: dict[str, Any]) -> None:
        assert schema_accepts(profile, kind, value) == engine_accepts(profile, kind, value)

    agree()


def chunked(checker: Checker, data: bytes, cuts: list[int]) -> FileReport:
    """Return the report of *checker* on *data* fed in pieces that end at *cuts*."""
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    for start, end in itertools.pairwise(places):
        checker.feed(data[start:end])
    return checker.finish()


@pytest.mark.parametrize("profile", PROFILES)
def test_any_chunking_gives_one_report(profile: str) -> None:
    """The report does not depend on how the bytes arrive, with either engine."""

    @settings(max_examples=examples(80), deadline=None)
    @given(streams(profile), st.lists(st.integers(0, 800), max_size=6))
    def same(data: bytes, cuts: list[int]) -> None:
        whole = check_bytes(data, dialect=None)
        for checker in (StreamChecker("-"), open_checker("-", CheckOptions(dialect=None))):
            assert whole == chunked(checker, data, cuts)

    same()


@settings(max_examples=examples(300), deadline=None)
@given(st.binary(max_size=200) | streams())
def test_check_never_raises(data: bytes) -> None:
    """Any bytes give a report whose figures fit them."""
    report = check_bytes(data, dialect=None)
    assert len(data) == report.bytes
    assert report.valid == (not [f for f in report.findings if f.severity == "error"])
    assert all(0 <= finding.offset <= len(data) for finding in report.findings)
    # What only the end of the stream shows comes last, though its place is the last record or line 1.
    lines = [finding.line for finding in report.findings if finding.rule not in ("run-end-missing", "stream-empty")]
    assert sorted(lines) == lines
