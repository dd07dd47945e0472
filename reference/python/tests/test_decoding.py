"""Tests of decoding lines together: the result is what each line gives alone."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from property_examples import examples
from toyspec.findings import Profile
from toyspec.format.decoding import decode_events, decode_values, event_types
from toyspec.format.integers import take_integers
from toyspec.format.line_validation import validate
from toyspec.format.profiles import record_kind
from toyspec.generated.toy_v1 import RegionEnter, Step
from toyspec.read_reports import Gap
from toyspec.reading.reader import Mode, read
from toyspec.reading.records import Record, RecordFeed, Target

if TYPE_CHECKING:
    from collections.abc import Sequence

PROFILES: tuple[Profile, ...] = get_args(Profile)
TARGETS: tuple[Target, ...] = get_args(Target)
STEP = b'{"kind":"step","t":1.0,"step":1,"loss":2.5'
HOSTILE = [
    STEP + b',"x":1e999}',
    STEP + b',"x":"\\ud800"}',
    STEP + b',"x":"\xff"}',
    STEP + b',"x":' + b"[" * 70 + b"]" * 70 + b"}",
    STEP + b',"x":' + b"[" * 2000 + b"]" * 2000 + b"}",
    STEP + b',"tokens":' + b"9" * 400 + b"}",
    STEP + b',"tokens":' + b"9" * 305 + b"}",
    STEP + b',"loss":"no","loss":3.5}',
    STEP + b',"loss":3.5,"loss":"no"}',
    STEP + b',"kind":"note"}',
    STEP + b',"extra":{"a":1,"a":2}}',
    STEP + b"}{}",
    STEP + b"}\r",
    b'{"kind":"note","kind":"step","t":1.0,"step":1}',
    b'{"k\\u0069nd":"step","t":1,"step":1}',
    b'{"t":1.0,"step":1}',
    b'{"kind":null,"t":1.0}',
    b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"r","config":' + b'{"a":' * 70 + b"1" + b"}" * 71,
    b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"r","model":{"arch":"a","x":1e999}}',
    b'{"kind":"note","t":1.0,"text":"' + b"7" * 400 + b'"}',
    b'{"step":1,"wall_time_ms":2.0,"x":1e999}',
    b'{"type":"scalar","step":1,"tag":"a","value":1.5,"wall_time":1.0}',
    b'{"step":1,"tag":"a","value":1.5}',
    b"\xef\xbb\xbf" + STEP + b"}",
]


def _lines(profile: Profile) -> st.SearchStrategy[list[bytes]]:
    return st.lists(strategies.lines(profile) | st.sampled_from(HOSTILE), max_size=8)


def _alone(lines: Sequence[bytes], profile: Profile) -> list[tuple[Any, ...]]:
    """Return what each line is by the exact path: its record with value and event, or its gap."""
    found: list[tuple[Any, ...]] = []
    offset = 0
    for number, line in enumerate(lines, 1):
        verdict = validate(line, first=number == 1)
        if verdict.value is not None:
            kind = record_kind(verdict.value, profile)
            take_integers(verdict.value, profile, kind)
            event = _event(verdict.value, event_types(profile).get(kind))
            found.append((number, offset, line, kind, verdict.value, type(event), event))
        elif verdict.status == "unreadable":
            found.append((number, offset, len(line) + 1))
        offset += len(line) + 1
    return found


def _event(value: dict[str, Any], cls: type[msgspec.Struct] | None) -> msgspec.Struct | None:
    if cls is None:
        return None
    try:
        return msgspec.convert(value, cls)
    except msgspec.ValidationError:
        return None


def _told(item: Record | Gap) -> tuple[Any, ...]:
    if isinstance(item, Gap):
        return item.line, item.offset, item.length
    event = item.event
    return item.line, item.offset, item.raw, item.kind, item.value, type(event), event


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_lines_decoded_together_are_what_each_is_alone(profile: Profile, target: Target, data: st.DataObject) -> None:
    """Records, values, events and gaps do not depend on what lines are decoded into, nor on their neighbours."""
    lines = data.draw(_lines(profile))
    stream = b"".join(line + b"\n" for line in lines)
    cut = data.draw(st.integers(0, len(stream)))
    feed = RecordFeed(profile=profile, target=target)
    found = feed.feed(stream[:cut]) + feed.feed(stream[cut:])
    assert _alone(lines, profile) == [_told(item) for item in found]
    assert sum(isinstance(item, Record) for item in found) == feed.records


@pytest.mark.parametrize("profile", PROFILES)
@settings(max_examples=examples(100), deadline=None)
@given(data=st.data())
def test_events_are_those_of_the_records(profile: Profile, data: st.DataObject) -> None:
    """Events alone come in the order of their records, which replace them where there is none; reports agree."""
    stream = b"".join(line + b"\n" for line in data.draw(_lines(profile)))[: data.draw(st.sampled_from([None, -1]))]
    mode: Mode = data.draw(st.sampled_from(["salvage", "prefix"]))
    records = read(stream, profile=profile, mode=mode)
    expected = [record if record.event is None else record.event for record in records]
    given_events = read(stream, profile=profile, mode=mode)
    found = list(given_events.events())
    assert expected == found
    assert [type(each) for each in expected] == [type(each) for each in found]
    assert records.report == given_events.report


def test_events_go_on_where_records_were_read() -> None:
    """One may look at the first record before asking for the events after it."""
    reading = read((STEP + b"}\n") * 3)
    first = next(reading)
    assert [first.event] * 2 == list(reading.events())
    assert 3 == reading.report.records


@pytest.mark.parametrize("line", HOSTILE)
@pytest.mark.parametrize("target", TARGETS)
def test_hostile_line_hides_behind_no_neighbour(line: bytes, target: Target) -> None:
    """A line that a fast decoder would take for a record is checked alone, and its neighbours stay records."""
    lines = [STEP + b"}", line, STEP + b"}"]
    found = RecordFeed(profile="toy/v1", target=target).feed(b"".join(each + b"\n" for each in lines))
    assert _alone(lines, "toy/v1") == [_told(item) for item in found]


def test_clean_lines_are_proven_together() -> None:
    """Nothing is left to be looked at alone in what writers write."""
    lines = [STEP + b"}", b'{"kind":"region_enter","t":1.0,"region":"a"}']
    events, kinds, odd = decode_events(lines, "toy/v1")
    assert ([Step, RegionEnter], ["step", "region_enter"], []) == ([type(event) for event in events], kinds, odd)
    assert [] == decode_values(lines)[1]


def test_many_brackets_over_many_lines_are_not_a_deep_line() -> None:
    """Only a line that has too many brackets itself is looked at alone."""
    flat = b'{"kind":"tap","t":1.0,"step":1,"region":"a","shape":[1],"gram":[[1.0],[2.0]]}'
    assert [] == decode_values([flat] * 40)[1]
    assert [40] == decode_values([*[flat] * 40, b'{"a":' + b"[" * 65 + b"]" * 65 + b"}"])[1]


def test_event_is_of_the_public_type_through_and_through() -> None:
    """What reading gives equals, copies and pickles as an event that a program made."""
    (record,) = read(STEP + b"}\n", decode="event", profile="toy/v1")
    made = Step(t=1.0, step=1, loss=2.5)
    assert (made, made, made) == (record.event, copy.deepcopy(record.event), pickle.loads(pickle.dumps(record.event)))


@pytest.mark.parametrize("target", TARGETS)
def test_dropped_record_decodes_again(target: Target) -> None:
    """What a record forgot comes back the same, value and event."""
    record = list(read((STEP + b"}\n") * 2, decode=target))[1]
    value, event = record.value, record.event
    record.drop_value()
    assert (value, event) == (record.value, record.event)
    with pytest.raises(AttributeError, match="nothing"):
        _ = record.nothing  # type: ignore[attr-defined]
