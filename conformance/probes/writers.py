"""Questions to writers: records read back unchanged, nothing invalid is written, canonical bytes are exact."""

from __future__ import annotations

import copy
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from conformance.comparing import record_differences
from conformance.messages import ProtocolError
from conformance.oracle import tables
from conformance.oracle.adapter import Oracle
from conformance.oracle.bundles import is_safe_run_id
from conformance.oracle.writing import is_number, number_of, unwrapped
from conformance.probes.expected import is_own, is_timed, with_defaults, without_defaults
from conformance.probes.question import Needs, Question, Stage
from conformance.revisions import as_numbers
from conformance.session_cases import Session

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from conformance.cases import Case

# Rules that a correct program can break; all others are about bytes, which callers of a writer do not control.
_MISUSE = frozenset(
    {
        "missing-key",
        "wrong-type",
        "unexpected-value",
        "bad-format",
        "out-of-range",
        "unsupported-schema",
        "run-start-missing",
        "run-start-repeated",
        "event-after-run-end",
        "time-goes-backwards",
        "step-goes-backwards",
    }
)
_HARMLESS = frozenset(
    {"unknown-kind", "unknown-key", "integer-as-float", "not-readable-by-source", "run-end-missing", "step-skipped"}
)
_NOT_FINITE = ({"float": "nan"}, {"float": "inf"}, {"float": "-inf"})
# A binary64 number that is larger than every binary32 number.
_BEYOND_F32 = {"float": "1e39"}
_TAGS = {"toy/v1": "kind", "kaun/v1": "type"}
"""The key that says what a record is; an entry of metrics/v1 has none."""
_SHOWN = 5
_EXCERPT = 60
_CLOCK_SECONDS = 60.0
"""How far the clock of the runner may be from that of a writer."""
_TICK_SECONDS = 0.02
_MOST_TICKS = 100
_DECIDED = "1.4"
"""The first revision that says what a canonical writer does with absent members, and whose times go forward."""


def questions(case: Case) -> Iterator[Question]:
    """Yield what a writer is asked about *case*."""
    profile = case.profile
    if not _is_about_writing(case) or profile is None:
        return
    rules = {finding.rule for finding in case.findings}
    # Members that writers always write are given; only the questions always-written leave them out.
    records = [declared(record) for record in with_defaults(case.records, profile)]
    if is_clean(case):
        yield _question(case, "", records, partial(_write, case, records, records))
        bare = [without_defaults(record, profile) for record in records]
        if bare != records:
            yield _question(case, "always-written", bare, partial(_write_defaults, case, bare, records))
        for detail, given, expected in _with_non_finite(records, profile):
            yield _question(case, detail, given, partial(_write, case, given, expected))
    elif rules <= _MISUSE | _HARMLESS:
        yield _question(case, "misuse", records, partial(_misuse, case, records))


def declared(record: Any) -> Any:
    """Return a record with the schema that a writer declares in run_start."""
    is_start = isinstance(record, dict) and record.get("kind") == "run_start"
    return {"kind": "run_start", "schema": "toy/v1", **record} if is_start else record


def canonical_questions(case: Case) -> Iterator[Question]:
    """Yield what a canonical writer is asked about *case*."""
    if case.form != "canonical" or case.profile is None or case.scope == "bundle":
        return
    records = list(case.records)
    needs = _needs(case.profile, records)
    yield Question(case=case, role="canonical-writer", needs=needs, play=partial(_canonical, case, records))
    changed = [(detail, given) for detail, given, _ in _with_non_finite(records, case.profile)]
    others = [("zero-from-minus-zero", _with_minus_zero(records)), ("shuffled", _reversed(records))]
    if as_numbers(case.since) >= as_numbers(_DECIDED):
        others.append(("absent", [without_defaults(record, case.profile) for record in records]))
    for detail, given in (*changed, *others):
        if detail == "shuffled" or given != records:
            play = partial(_canonical, case, given)
            yield Question(case=case, role="canonical-writer", detail=detail, needs=needs, play=play)


def record_questions(case: Case, role: str, given: list[Any], *, is_refused: bool) -> Iterator[Question]:
    """Yield what a writer is asked about *given*, for which *case* has the right stream.

    Records that a writer must refuse may also be written without what is wrong in them.
    """
    assert case.profile is not None
    needs = _needs(case.profile, given)
    if role == "canonical-writer" and not is_refused:
        yield Question(case=case, role=role, needs=needs, play=partial(_canonical, case, given))
    elif role == "writer" and (is_refused or not is_writable(given, case.profile, case.since)):
        yield _question(case, "misuse", given, partial(_misuse, case, given))
    elif role == "writer":
        yield _question(case, "", given, partial(_write, case, given, list(case.records)))


def is_clean(case: Case) -> bool:
    """Return whether a writer must write the records of *case*."""
    rules = {finding.rule for finding in case.findings}
    return _is_about_writing(case) and rules <= _HARMLESS and is_writable(list(case.records), case.profile, case.since)


def _is_about_writing(case: Case) -> bool:
    has_stream = case.profile is not None and case.stream is not None
    return has_stream and case.scope == "stream" and bool(case.records) and not isinstance(case, Session)


def is_writable(records: list[Any], profile: str | None, since: str) -> bool:
    """Return whether a careful writer with a monotonic clock writes *records* of a case that is asked *since* then.

    Before 1.4 nothing said that the times of unknown kinds take no part: such records were not asked of writers.
    """
    run_ids = [record["run_id"] for record in records if record.get("kind") == "run_start" and "run_id" in record]
    is_decided = as_numbers(since) >= as_numbers(_DECIDED)
    timed = (record for record in records if not is_decided or _schema(record, profile or "toy/v1"))
    times = [number_of(record["t"]) for record in timed if is_number(record.get("t"))]
    is_forward = profile != "toy/v1" or sorted(times) == times
    return is_forward and all(isinstance(run_id, str) and is_safe_run_id(run_id) for run_id in run_ids)


def _question(case: Case, detail: str, records: list[Any], play: Any) -> Question:
    assert case.profile is not None
    return Question(case=case, role="writer", detail=detail, needs=_needs(case.profile, records), play=play)


def _needs(profile: str, records: list[Any]) -> Needs:
    own = any(is_own(record, profile) for record in records)
    return Needs(profile=profile, capabilities=frozenset({"own_kinds"} if own else ()))


def _write(case: Case, given: list[Any], expected: list[Any], stage: Stage) -> list[str]:
    stream, reason = _written(stage, "writer", case.profile, given)
    if stream is None:
        return [f"refused valid records{reason}"]
    report = Oracle().read({"role": "reader", "stream": stream, "mode": "salvage", "profile": case.profile})
    found = [*_byte_problems(stream, report), *_integer_problems(stream, case.profile)]
    actual = with_defaults(report["records"], case.profile)
    if (
        len(actual) == len(expected) + 1
        and actual[-1].get("kind") == "run_end"
        and expected[-1].get("kind") != "run_end"
    ):
        actual.pop()  # a writer ends the run when it is closed
    for one, other, source in zip(expected, actual, given, strict=False):
        if "t" not in one and "kind" in other:
            other.pop("t", None)  # a writer may add the time to an event of an unknown kind
        if "nonfinite" not in one and says_what_nulls_were(source, other.get("nonfinite")):
            other.pop("nonfinite")
    found += list(record_differences(expected, actual))
    return found[:_SHOWN]


def says_what_nulls_were(given: dict[str, Any], words: Any) -> bool:
    """Return whether *words* says, under the right names, what numbers of *given* were: [encoding/non-finite-named]."""
    if not isinstance(words, dict) or not words:
        return False
    held = [given] if given.get("kind") != "scalars" else [given | {"values": None}, given.get("values")]
    return all({"float": word} in [item for each in held for item in _at(each, name)] for name, word in words.items())


def _at(value: Any, name: str) -> list[Any]:
    """Return what *name* can mean in a tagged value: keys and indexes, joined by slashes, which a key may have too."""
    if isinstance(value, list):
        members: Mapping[str, Any] = {str(index): item for index, item in enumerate(value)}
    elif isinstance(value, dict):
        members = unwrapped(value)
    else:
        return []
    found = [members[name]] if name in members else []
    for key, member in members.items():
        if name.startswith(f"{key}/"):
            found += _at(member, name[len(key) + 1 :])
    return found


def _write_defaults(case: Case, given: list[Any], expected: list[Any], stage: Stage) -> list[str]:
    """Require that a writer adds the members that are always written, to a scalar the current time."""
    earliest = time.time() - _CLOCK_SECONDS
    stream, reason = _written(stage, "writer", case.profile, given)
    latest = time.time() + _CLOCK_SECONDS
    if stream is None:
        return [f"refused valid records{reason}"]
    report = Oracle().read({"role": "reader", "stream": stream, "mode": "salvage", "profile": case.profile})
    found = []
    for number, (wanted, record) in enumerate(zip(expected, report["records"], strict=False)):
        written = record.get("wall_time")
        if is_timed(wanted, case.profile) and is_number(written):
            if not earliest <= number_of(written) <= latest:
                given_time = f"record {number}, /wall_time is {number_of(written)}"
                found.append(f"{given_time}, expected the current time, {latest - _CLOCK_SECONDS}")
            record["wall_time"] = wanted["wall_time"]
    found += record_differences(expected, report["records"])
    if not found and stage.compares("1.3"):
        found = _clock_problems(case, given, stage, stream)
    return found[:_SHOWN]


def _clock_problems(case: Case, given: list[Any], stage: Stage, earlier: bytes) -> list[str]:
    """Require that a later scalar gets a later time; *earlier* is the stream that was written first."""
    before = _wall_times(case, earlier)
    for _ in range(_MOST_TICKS if before else 0):
        time.sleep(_TICK_SECONDS)
        stream, _ = _written(stage, "writer", case.profile, given)
        if _wall_times(case, stream or b"") != before:
            return []
    return ["/wall_time does not change while time passes"] if before else []


def _wall_times(case: Case, stream: bytes) -> list[float]:
    records = Oracle().read({"role": "reader", "stream": stream, "mode": "salvage", "profile": case.profile})["records"]
    return [
        number_of(record["wall_time"])
        for record in records
        if is_timed(record, case.profile) and is_number(record.get("wall_time"))
    ]


def _misuse(case: Case, given: list[Any], stage: Stage) -> list[str]:
    """Require that the records are refused, or that the output is valid and, since 1.3, has as many of each kind."""
    stream, _ = _written(stage, "writer", case.profile, given)
    if stream is None:
        return []
    request = {"role": "checker", "stream": stream, "name": case.stream, "profile": case.profile}
    errors = [finding for finding in Oracle().check(request)["findings"] if finding["severity"] == "error"]
    found = [
        f"wrote {error['rule']} at line {error['line']}, {error['pointer'] or 'the whole line'}" for error in errors
    ]
    return found or (_lost(case, given, stream) if stage.compares("1.3") else [])


def _lost(case: Case, given: list[Any], stream: bytes) -> list[str]:
    """Return the kinds of which *stream* has fewer records than were given: a record is written or refused."""
    report = Oracle().read({"role": "reader", "stream": stream, "mode": "salvage", "profile": case.profile})
    tag = _TAGS.get(case.profile or "", "")
    asked, written = (Counter(str(record.get(tag)) for record in records) for records in (given, report["records"]))
    return [
        f"answered written, and wrote {written[kind]} of {count} records" + (f" of kind {kind!a}" if tag else "")
        for kind, count in asked.items()
        if written[kind] < count
    ]


def _canonical(case: Case, given: list[Any], stage: Stage) -> list[str]:
    stream, reason = _written(stage, "canonical-writer", case.profile, given)
    if stream is None:
        return [f"refused valid records{reason}"]
    if stream == case.data:
        return []
    at = next((i for i, (one, other) in enumerate(zip(stream, case.data, strict=False)) if one != other), None)
    at = min(len(stream), len(case.data)) if at is None else at
    line = case.data.count(b"\n", 0, at) + 1
    return [f"line {line}, byte {at}: wrote {_around(stream, at)}, expected {_around(case.data, at)}"]


def _written(stage: Stage, role: str, profile: str | None, records: list[Any]) -> tuple[bytes | None, str]:
    """Return the stream, or None and the reason of the refusal."""
    answer = stage.answer({"role": role, "profile": profile, "records": records})
    if answer["outcome"] == "refused":
        return None, f": {answer['reason']!a}" if "reason" in answer else ""
    if "stream" not in answer:
        raise ProtocolError("the answer must have the member stream")
    return answer["stream"], ""


def _byte_problems(stream: bytes, report: Mapping[str, Any]) -> list[str]:
    found = []
    if report["gaps"]:
        gap = report["gaps"][0]
        line = stream[gap["offset"] : gap["offset"] + gap["length"]]
        found.append(f"wrote an unreadable line at byte {gap['offset']}: {gap['reason']}: {ascii(line[:_EXCERPT])[1:]}")
    if report["fragment"]:
        found.append(f"wrote {report['fragment']} bytes after the last LF")
    if b"\r" in stream:
        found.append("wrote a carriage return")
    if len(stream.splitlines()) > stream.count(b"\n") or b"\n\n" in stream:
        found.append("wrote a blank line")
    return found


def _integer_problems(stream: bytes, profile: str | None) -> list[str]:
    """Return the integers that were written with a fraction or an exponent."""
    request = {"role": "checker", "stream": stream, "profile": profile}
    return [
        f"wrote {finding['rule']} at line {finding['line']}, {finding['pointer']}"
        for finding in Oracle().check(request)["findings"]
        if finding["rule"] == "integer-as-float"
    ]


def _around(data: bytes, at: int) -> str:
    return ascii(data[max(0, at - 20) : at + 20])[1:]


def _with_non_finite(records: list[Any], profile: str) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """Yield *records* with a non-finite number in place of each null that represents one."""
    for value in (*_NOT_FINITE, _BEYOND_F32):
        changed = [_replaced(record, _schema(record, profile), profile, value) for record in records]
        if changed != records:
            yield f"null-from-{value['float']}", changed, records


def _with_minus_zero(value: Any) -> Any:
    """Return *value* with the integer -0 in place of each integer 0."""
    if value == {"int": "0"}:
        return {"int": "-0"}
    if isinstance(value, dict):
        return {key: _with_minus_zero(item) for key, item in value.items()}
    return [_with_minus_zero(item) for item in value] if isinstance(value, list) else value


def _reversed(value: Any) -> Any:
    """Return *value* with the members of every object in the opposite order."""
    if isinstance(value, dict):
        return {key: _reversed(item) for key, item in reversed(value.items())}
    return [_reversed(item) for item in value] if isinstance(value, list) else value


def _schema(record: Mapping[str, Any], profile: str) -> Mapping[str, Any]:
    key = tables.tag_key(profile)
    kind = "entry" if key is None else record.get(key)
    return tables.kinds(profile).get(kind, {}) if isinstance(kind, str) else {}


def _replaced(value: Any, schema: Mapping[str, Any], profile: str, by: Mapping[str, str]) -> Any:
    schema = tables.resolved(schema, profile)
    if isinstance(value, dict):
        named, others = schema.get("properties", {}), schema.get("additionalProperties", {})
        return {key: _replaced(item, named.get(key, others), profile, by) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, schema.get("items", {}), profile, by) for item in value]
    types = schema.get("type", [])
    if value is not None or "number" not in types or (by is _BEYOND_F32 and "x-width" not in schema):
        return value
    return copy.copy(by)
