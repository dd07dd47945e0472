"""Tests of what lines are decoded into: records with their events, and gaps."""

from __future__ import annotations

import copy
import math
import pickle
from typing import TYPE_CHECKING, Any, assert_type, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from property_examples import examples
from toyspec.core.checker.collecting import RecordFinding
from toyspec.core.checker.record_rules import RecordValidator
from toyspec.core.files import read_resource
from toyspec.core.findings import Gap, Profile
from toyspec.core.format.canonical import encode
from toyspec.core.format.decoding import event_types, take_integers, typed
from toyspec.core.format.line_validation import validate
from toyspec.core.format.profiles import record_kind
from toyspec.core.generated import rules
from toyspec.core.generated.fields import DATE_TIMES
from toyspec.core.generated.kaun_v1 import Scalar
from toyspec.core.generated.streams import STREAMS
from toyspec.core.generated.toy_v1 import Step
from toyspec.core.reading.reader import read
from toyspec.core.reading.records import Record, RecordFeed

if TYPE_CHECKING:
    from collections.abc import Sequence

PROFILES: tuple[Profile, ...] = get_args(Profile)
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
    b'{"kind":"run_resume","t":1.0,"from_step":0,"resumed_at":null}',
    b'{"kind":"run_resume","t":1.0,"from_step":0,"resumed_at":"no date"}',
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
            event = _event(verdict.value, kind, profile)
            found.append((number, offset, line, kind, verdict.value, event))
        elif verdict.status == "unreadable":
            found.append((number, offset, len(line) + 1))
        offset += len(line) + 1
    return found


def _event(value: dict[str, Any], kind: str | None, profile: Profile) -> str | None:
    """Return what the event of a record must show, by the schema of its kind; None for a record that it refuses."""
    if kind not in event_types(profile):
        return None
    dates = [f"/{name}" for name in DATE_TIMES[profile].get(kind or "entry", ())]
    findings = RecordValidator(profile).findings(kind or "entry", copy.deepcopy(value))
    if any(
        finding.rule != rules.UNSAFE_INTEGER and not (finding.rule == rules.BAD_FORMAT and finding.pointer in dates)
        for finding in findings
        if isinstance(finding, RecordFinding)
    ):
        return None
    definitions = msgspec.json.decode(read_resource("schemas", "bundled", f"{profile.replace('/', '-')}.json"))["$defs"]
    expected = _by_schema(copy.deepcopy(value), definitions[kind or "entry"], definitions)
    if STREAMS[profile]["tag"] is not None:
        del expected[STREAMS[profile]["tag"]]
    words = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
    for name, word in (expected.get("nonfinite") or {}).items():
        path = ["values", name] if "values" in expected else name.split("/")
        _put(expected, path, words[word])
    return repr(expected)


def _put(holder: Any, path: Sequence[str], lost: float) -> None:
    """Put *lost* in place of the null at *path*, if one is there."""
    for key in path[:-1]:
        holder = holder.get(key) if isinstance(holder, dict) else holder[int(key)]
        if not isinstance(holder, dict | list):
            return
    place: Any = path[-1] if isinstance(holder, dict) else int(path[-1])
    if place in holder if isinstance(holder, dict) else True:
        found = holder[place]
        if found is None or (isinstance(found, float) and math.isnan(found)):
            holder[place] = lost


def _by_schema(value: Any, schema: dict[str, Any], definitions: dict[str, Any]) -> Any:
    """Return *value* with NaN for each null that is a number, without its other nulls and unknown keys."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    is_number = "number" in schema.get("type", ())
    if value is None:
        return math.nan if is_number else None
    if isinstance(value, dict) and "properties" in schema:
        shown = {
            key: _by_schema(value[key], each, definitions) for key, each in schema["properties"].items() if key in value
        }
        return {key: each for key, each in shown.items() if each is not None}
    if isinstance(value, dict) and "additionalProperties" in schema:
        return {key: _by_schema(each, schema["additionalProperties"], definitions) for key, each in value.items()}
    if isinstance(value, list) and "items" in schema:
        return [_by_schema(each, schema["items"], definitions) for each in value]
    return float(value) if is_number and type(value) is int else value


def _shown(event: Any) -> Any:
    """Return the members of an event that it has, and of the objects in it."""
    if isinstance(event, msgspec.Struct):
        given = {name: getattr(event, name) for name in event.__struct_fields__}
        return {name: _shown(each) for name, each in given.items() if each is not None}
    return list(map(_shown, event)) if isinstance(event, list) else event


def _told(item: Record | Gap) -> tuple[Any, ...]:
    if isinstance(item, Gap):
        return item.line, item.offset, item.length
    event = item.event
    assert event is None or type(event) is event_types(item.profile or "toy/v1")[item.kind]
    shown = None if event is None else repr(_shown(event))
    return item.line, item.offset, item.raw, item.kind, item.value, shown


@pytest.mark.parametrize("profile", PROFILES)
@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_records_and_gaps_are_those_of_the_exact_path(profile: Profile, data: st.DataObject) -> None:
    """Records, values, events and gaps do not depend on where the input is cut, nor on their neighbours."""
    lines = data.draw(_lines(profile))
    stream = b"".join(line + b"\n" for line in lines)
    cut = data.draw(st.integers(0, len(stream)))
    feed = RecordFeed(profile=profile)
    found = feed.feed(stream[:cut]) + feed.feed(stream[cut:])
    assert _alone(lines, profile) == [_told(item) for item in found]
    assert sum(isinstance(item, Record) for item in found) == feed.records


def test_events_go_on_where_records_were_read() -> None:
    """One may look at the first record before asking for the events after it; what has none is given as a record."""
    reading = read(STEP + b"}\n" + STEP + b'}\n{"kind":"future","t":2.0}\n')
    first = next(reading)
    event, future = reading.events()
    assert (first.event, "future", None) == (event, future.kind, future.event)
    assert 3 == reading.report.records


@pytest.mark.parametrize("line", HOSTILE)
def test_hostile_line_hides_behind_no_neighbour(line: bytes) -> None:
    """A line that a fast decoder would take for a record is checked alone, and its neighbours stay records."""
    lines = [STEP + b"}", line, STEP + b"}"]
    found = RecordFeed(profile="toy/v1").feed(b"".join(each + b"\n" for each in lines))
    assert _alone(lines, "toy/v1") == [_told(item) for item in found]


def test_event_is_of_the_public_type_through_and_through() -> None:
    """What reading gives equals, copies and pickles as an event that a program made."""
    (record,) = read(STEP + b"}\n", profile="toy/v1")
    made = Step(t=1.0, step=1, loss=2.5)
    assert (made, made, made) == (record.event, copy.deepcopy(record.event), pickle.loads(pickle.dumps(record.event)))


LOST = [
    b'{"kind":"step","t":1.0,"step":1,"loss":null,"lr":0.5,"extra":{"a":null,"b":1}}',
    b'{"kind":"step","t":1.0,"step":1,"loss":null,"ppl":null,"extra":{"a":null},"nonfinite":{"loss":"inf","extra/a":"-inf"}}',
    b'{"kind":"step","t":1.0,"step":1,"loss":1.5,"extra":{"loss":null},"nonfinite":{"extra/loss":"inf"}}',
    b'{"kind":"scalars","t":1.0,"values":{"loss":null,"extra/a":null},"nonfinite":{"loss":"-inf","extra/a":"inf"}}',
    b'{"kind":"eval","t":1.0,"name":"x","loss":null,"extra":{"a":null},"nonfinite":{"loss":"inf","extra/a":"inf"}}',
    b'{"kind":"eval","t":1.0,"name":"x","extra":{"r":[1,null,{"a":null}],"s":null},"nonfinite":{"extra/r/1":"nan","extra/r/2/a":"inf"}}',
    b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"r","model":{"rope_base":null},"config":{"a":null}}',
    b'{"kind":"route","t":1.0,"step":1,"layer":1,"shares":[0.5,null]}',
    b'{"kind":"tap","t":1.0,"step":1,"region":"r","layer":null,"head":1,"shape":[1],"l2":null,"gram":[[null,1.0]]}',
    b'{"kind":"step","t":1.0,"step":1,"tokens":null}',
    b'{"kind":"note","t":1.0,"text":"null"}',
    b'{"kind":"step","t":1.0,"step":1,"loss":null,"bogus":null}',
]
"""Lines in which a number was not finite, and lines with null for other reasons."""


def test_null_is_nan_and_absent_is_none() -> None:
    """A typed event tells what was not finite from what is not there, by line and in blocks, beside any neighbour."""
    for some in [LOST, *([line] for line in LOST), [STEP + b"}", LOST[0], STEP + b"}"]]:
        found = RecordFeed(profile="toy/v1").feed(b"".join(line + b"\n" for line in some))
        assert _alone(some, "toy/v1") == [_told(item) for item in found]
        for record in found:
            if record.event is not None:
                assert repr(record.event) == repr(typed(record.raw, record.kind, "toy/v1"))
    with pytest.raises(msgspec.ValidationError):
        typed(b'{"kind":"step","t":1.0,"step":1,"tokens":null}', "step", "toy/v1")
    first, second, third = (record.event for record in read(b"\n".join([*LOST[:3], b""]), profile="toy/v1"))
    assert (True, None, 0.5, True, 1.0) == (
        *(math.isnan(first.loss), first.ppl, first.lr),
        *(math.isnan(first.extra["a"]), first.extra["b"]),
    )
    assert (math.inf, True, -math.inf) == (second.loss, math.isnan(second.ppl), second.extra["a"])
    assert (1.5, math.inf) == (third.loss, third.extra["loss"])


def test_type_checkers_know_what_may_be_absent() -> None:
    """An optional key may be None, a number of a map or a required one never is."""
    step = Step(t=1.0, step=1, extra={"a": math.nan})
    assert_type(step.loss, float | None)
    assert_type(step.extra, dict[str, float] | None)
    assert_type(Scalar(step=1, tag="a", value=math.nan).value, float)
    assert step.loss is None
    assert "Step(t=1.0, step=1, extra={'a': nan})" == repr(step)
    assert b'{"kind":"step","t":1.0,"step":1,"extra":{"a":null}}' == encode(step) == msgspec.json.encode(step)
