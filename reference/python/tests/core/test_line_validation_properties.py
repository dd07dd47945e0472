"""Tests that the validation of a line works for any bytes, and agrees with other readers of JSON."""

from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from property_examples import examples
from toyspec.core.format.line_validation import decode, spans, validate

# Texts near JSON, so that both verdicts are common.

TEXTS = st.text(st.sampled_from('ab"\\/~\b\n\x00\x1f\x7fé\u2028\ufeff\ufffd\ud800\udfff\U0001f600{}[]'), max_size=5)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXTS)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=5)
TOKENS = [
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b" ",
        b"\t",
        b"\r",
        b'"',
        b'"a"',
        b'"b":',
        b"1",
        b"-",
        b"0",
        b".",
        b"e",
        b"+",
    ),
    *(b"9" * 150, b"0" * 160, b"1e400", b"-1.5e-3", b"NaN", b"-Infinity", b"true", b"nul", b"\\", b"\\u00", b"\\ud83d"),
    *(b"\\ude00", b"\\n", b"\x00", b"\x1f", b"\xff", "é".encode(), "\u2028".encode(), b"\xef\xbb\xbf", b"[" * 33),
    *(b"]" * 33, b'{"a":' * 32, b"}" * 32, b'{"a":['),
]
NEAR_JSON = st.lists(st.sampled_from(TOKENS), max_size=25).map(b"".join)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Draw a JSON object and make a few edits in its text."""
    text = json.dumps(draw(OBJECTS), ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 4)))
        text = text[:start] + draw(st.sampled_from([b"", *TOKENS])) + text[end:]
    return text.replace(b"\n", b" ")


LINES = st.one_of(st.binary(max_size=30).map(lambda data: data.replace(b"\n", b"")), NEAR_JSON, mutated())


@settings(max_examples=examples(600))
@given(LINES)
@example(b'{"a":' + b"9" * 309 + b"}")
@example(b'{"a":' + b"1" * 309 + b"}")
@example(b'{"a":' + b"[" * 63 + b"]" * 63 + b"}")
@example(b'{"a":' + b"[" * 64 + b"]" * 64 + b"}")
@example(b'{"a":"' + b"[" * 64 + b'\\"]"}')
def test_fast_and_exact_path_agree(line: bytes) -> None:
    """The fast path accepts exactly the readable lines and gives the same value."""
    verdict = validate(line, first=False)
    assert repr(verdict.value) == repr(decode(line))


def _strict_json(line: bytes) -> tuple[list[str], Any]:
    """Read *line* with the standard library, made strict: the findings that it sees, and the value."""
    findings = []

    def note(rule: str, value: Any) -> Any:
        findings.append(rule)
        return value

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(found)) < len(found):
            note("duplicate-key", None)
        return dict(found)

    def number(text: str) -> float | None:
        return float(text) if math.isfinite(float(text)) else note("non-finite-number", None)

    def integer(text: str) -> int | None:
        return int(text) if math.isfinite(float(text)) else note("non-finite-number", None)

    def constant(_: str) -> None:
        note("non-finite-number", None)

    value = json.loads(
        line.decode(), object_pairs_hook=pairs, parse_float=number, parse_int=integer, parse_constant=constant
    )
    if any("\ud800" <= character <= "\udfff" for character in json.dumps(value, ensure_ascii=False)):
        note("lone-surrogate", None)
    return findings, value


@settings(max_examples=examples(600))
@given(LINES)
@example(b'{"\\ud800":1,"\\ud800":"\\udfff"}')
def test_exact_path_agrees_with_the_standard_library(line: bytes) -> None:
    """Made strict, the standard library accepts the same texts, sees the same findings and reads the same value."""
    verdict = validate(line, first=False)
    rules = {finding.rule for finding in verdict.findings}
    assert all(0 <= finding.offset <= len(line) for finding in verdict.findings)
    assert (verdict.status == "readable", verdict.status == "unreadable") == (
        verdict.value is not None,
        bool(rules - {"duplicate-key"}),
    )
    if verdict.status == "blank" or rules & {"nul-bytes", "invalid-utf8", "nested-too-deep"}:
        return
    try:
        findings, value = _strict_json(line)
    except ValueError:
        assert {"invalid-json"} == rules
        return
    if not isinstance(value, dict):
        assert {"not-an-object"} == rules
        return
    # A repeated key hides the finding of an earlier value from the standard library.
    assert set(findings) <= rules if "duplicate-key" in rules else set(findings) == rules
    if verdict.value is not None:
        # Of a repeated key, the last value counts, at its place.
        assert json.dumps(value, sort_keys=True) == json.dumps(verdict.value, sort_keys=True)


def _pointers(value: Any, pointer: str = "") -> dict[str, Any]:
    found = {pointer: value}
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        found |= _pointers(member, f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}")
    return found


@settings(max_examples=examples(150))
@given(OBJECTS, st.sampled_from([None, 1]), st.booleans(), st.data())
def test_spans_find_every_value(
    value: dict[str, Any], indent: int | None, ascii_only: bool, data: st.DataObject
) -> None:
    """Every value of a line begins at the byte that its pointer leads to, asked for alone or with all others."""
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    line = text.encode("utf-8", "surrogatepass").replace(b"\n", b" ")
    if validate(line, first=False).value is None:
        return
    found = spans(line)
    value = json.loads(line)
    assert _pointers(value).keys() == found.keys()
    for pointer, member in _pointers(value).items():
        start, _ = json.JSONDecoder().raw_decode(line[found[pointer] :].decode())
        assert repr(member) == repr(start)
    wanted = data.draw(st.sets(st.sampled_from([*found, "/no/such", "/~01"]), max_size=4))
    assert {pointer: found[pointer] for pointer in wanted if pointer in found} == spans(line, wanted)


def test_span_of_a_repeated_key_is_that_of_its_last_value() -> None:
    """Places follow the value that readers take."""
    assert {"": 0, "/a": 11} == spans(b'{"a":1,"a":2}')
    assert {"/a/b": 22} == spans(b'{"a":{"b":1},"a":{"b":2}}', ["/a/b"])
