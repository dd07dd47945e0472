"""Compares what an implementation found with what a case expects, and lists the differences.

Messages, helps, severities and offsets are never compared.
"""

from __future__ import annotations

import json
import math
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from conformance.cases import Case, Finding
from conformance.tagging import TAGS, TagError, untag

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_SAFE = 2**53 - 1
_SHOWN = 5


def differences(case: Case, actual: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each difference between *case* and those parts that *actual* has.

    *actual* has the keys of case.json: profile, state, records, findings, suppressed. A key that it lacks
    is not compared.
    """
    found = [
        f"{part} is {actual[part]}, expected {getattr(case, part)}"
        for part in ("profile", "state")
        if part in actual and actual[part] != getattr(case, part)
    ]
    if "records" in actual:
        found.extend(_cut(list(record_differences(case.records, actual["records"]))))
    if "findings" in actual:
        found.extend(_cut(finding_differences(case.findings, [finding_of(item) for item in actual["findings"]])))
    if "suppressed" in actual and dict(actual["suppressed"]) != dict(case.suppressed):
        found.append(f"suppressed is {dict(actual['suppressed'])}, expected {dict(case.suppressed)}")
    return found


def record_differences(expected: Sequence[Any], actual: Sequence[Any]) -> Iterator[str]:
    """Yield where two lists of tagged records differ."""
    if len(expected) != len(actual):
        yield f"there are {len(actual)} records, expected {len(expected)}"
    # What is the same at both ends is passed over, so that one record too many is one difference.
    begin = _same(zip(expected, actual, strict=False))
    tails = zip(reversed(expected[begin:]), reversed(actual[begin:]), strict=False)
    end = _same(tails) if len(expected) != len(actual) else 0
    wanted, given = expected[begin : len(expected) - end], actual[begin : len(actual) - end]
    for index, (one, other) in enumerate(zip(wanted, given, strict=False), begin):
        yield from value_differences(one, other, f"record {index}, ")
    for index, record in enumerate(given[len(wanted) :], begin + len(wanted)):
        yield f"record {index} was not expected: {_text(record)}"
    for index, record in enumerate(wanted[len(given) :], begin + len(given)):
        yield f"record {index} is missing: {_text(record)}"


def _same(pairs: Iterable[tuple[Any, Any]]) -> int:
    """Return how many of *pairs* at the beginning have no difference."""
    # Nearly all are alike to the letter, which is found out at a tenth of the cost; True and 1 are not.
    return sum(
        1 for _ in takewhile(lambda pair: repr(pair[0]) == repr(pair[1]) or not any(value_differences(*pair)), pairs)
    )


def value_differences(expected: Any, actual: Any, place: str = "") -> Iterator[str]:
    """Yield where two tagged values differ; numbers are compared by value, never by text."""
    if _is_tag(expected):
        yield from _tagged_differences(expected, actual, place)
    elif isinstance(expected, dict) and isinstance(actual, dict) and not _is_tag(actual):
        yield from _member_differences(expected, actual, place)
    elif isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            yield f"{place} has {len(actual)} items, expected {len(expected)}"
        for index, (one, other) in enumerate(zip(expected, actual, strict=False)):
            yield from value_differences(one, other, f"{place}/{index}")
    elif type(expected) is not type(actual) or expected != actual:
        yield f"{place} is {_text(actual)}, expected {_text(expected)}"


def finding_differences(expected: Sequence[Finding], actual: Sequence[Finding]) -> list[str]:
    """Return the findings that are missing or not expected, or else the first that is out of order."""
    missing, surplus = list(expected), []
    for finding in actual:
        if finding in missing:
            missing.remove(finding)
        else:
            surplus.append(finding)
    found = [f"not found: {finding}" for finding in missing] + [f"not expected: {finding}" for finding in surplus]
    if not found and list(expected) != list(actual):
        place = next(index for index, pair in enumerate(zip(expected, actual, strict=True)) if pair[0] != pair[1])
        found.append(f"finding {place} is {actual[place]}, expected {expected[place]}: the order differs")
    return found


def item_differences(expected: Sequence[Mapping[str, Any]], actual: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return how the items that a follower gave at one poll differ; optional ones may be missing."""
    wanted = list(expected)
    for index, item in enumerate(actual):
        while wanted and wanted[0].get("optional") and not _is_item(wanted[0], item):
            wanted.pop(0)
        if not wanted:
            return [f"item {index} is {_text(item)}, expected nothing more"]
        if not _is_item(wanted[0], item):
            return [f"item {index} is {_text(item)}, expected {_text(wanted[0])}"]
        wanted.pop(0)
    return [f"not given: {_text(item)}" for item in wanted if not item.get("optional")][:_SHOWN]


def finding_of(item: Mapping[str, Any]) -> Finding:
    """Return the four members of a finding that are compared."""
    return Finding(rule=item["rule"], line=item["line"], pointer=item["pointer"], sidecar=item.get("sidecar"))


def _tagged_differences(expected: dict[str, Any], actual: Any, place: str) -> Iterator[str]:
    (tag,) = expected
    if not _is_tag(actual) or tag not in actual:
        yield f"{place} is {_text(actual)}, expected {_text(expected)}"
    elif tag == "object":
        if isinstance(actual[tag], dict):
            yield from _member_differences(expected[tag], actual[tag], place)
        else:
            yield f"{place} is {_text(actual)}, expected {_text(expected)}"
    elif not _same_number(expected, actual):
        yield f"{place} is {_text(actual)}, expected {_text(expected)}"


def _member_differences(expected: Mapping[str, Any], actual: Mapping[str, Any], place: str) -> Iterator[str]:
    for key in expected:
        if key in actual:
            yield from value_differences(expected[key], actual[key], f"{place}/{key}")
        else:
            yield f"{place}/{key} is missing"
    for key in actual:
        if key not in expected:
            yield f"{place}/{key} was not expected"


def _same_number(expected_tag: Any, actual_tag: Any) -> bool:
    expected = untag(expected_tag)
    try:
        actual = untag(actual_tag)
    except (TagError, OverflowError):
        return False
    if isinstance(expected, int) and isinstance(actual, int):
        if abs(expected) <= _SAFE:
            return expected == actual
        # Beyond this, only the binary64 value counts.
        return abs(actual) > _SAFE and float(expected) == float(actual)
    return expected == actual and math.copysign(1, expected) == math.copysign(1, actual)


def _is_item(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> bool:
    (kind,) = expected.keys() - {"optional"}
    if kind != "record" or kind not in actual:
        return bool(expected[kind] == actual.get(kind))
    return not list(value_differences(expected[kind], actual[kind]))


def _is_tag(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and TAGS.issuperset(value)


def _text(value: Any) -> str:
    """Return *value* as a case has it."""
    return json.dumps(value, ensure_ascii=False)


def _cut(found: list[str]) -> list[str]:
    rest = len(found) - _SHOWN
    return found if rest <= 0 else [*found[:_SHOWN], f"and {rest} more"]
