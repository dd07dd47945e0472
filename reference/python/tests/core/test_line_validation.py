"""Tests of the validation of one line."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from toyspec.core.format import line_validation
from toyspec.core.format.line_validation import decode, validate
from toyspec.core.format.scanner import Scanner
from toyspec.core.generated.limits import MAX_DEPTH, MAX_FINDINGS_PER_RULE

Place = tuple[str, int, str]


def _places(data: bytes, *, first: bool = False) -> list[Place]:
    return [(finding.rule, finding.offset, finding.pointer) for finding in validate(data, first=first).findings]


STOPS = [
    (b"{", 1),
    (b"{}x", 2),
    (b"{} {}", 3),
    (b'{"a":1,}', 7),
    (b'{"a" 1}', 5),
    (b'{"a":1 "b":2}', 7),
    (b"{,}", 1),
    (b"{a:1}", 1),
    (b"{'a':1}", 1),
    (b'{"a":[1,]}', 8),
    (b'{"a":[1 2]}', 8),
    (b'{"a":[1}', 7),
    (b'{"a":tru}', 8),
    (b'{"a":trux}', 8),
    (b'{"a":truee}', 9),
    (b'{"a":nul', 8),
    (b'{"a":Na}', 7),
    (b'{"a":-Inf}', 9),
    (b'{"a":+1}', 5),
    (b'{"a":01}', 6),
    (b'{"a":-}', 6),
    (b'{"a":-x}', 6),
    (b'{"a":1.}', 7),
    (b'{"a":.5}', 5),
    (b'{"a":1.5.2}', 8),
    (b'{"a":1e}', 7),
    (b'{"a":1e+}', 8),
    (b'{"a":1e+', 8),
    (b'{"a":1.', 7),
    (b'{"a":1.2e3e4}', 10),
    (b'{"a":0x10}', 6),
    (b'{"a":"b\x01c"}', 7),
    (b'{"a":"\\x"}', 7),
    (b'{"a":"\\u12G4"}', 10),
    (b'{"a":"\\u12', 10),
    (b'{"a":"\\', 7),
    (b'{"a":"b', 7),
    (b'{"a":"\t"}', 6),
    (b"\x0c{}", 0),
    (b'{"a":1}//', 7),
    ("{“a”:1}".encode(), 1),
]


@pytest.mark.parametrize(("line", "offset"), STOPS)
def test_invalid_json_is_placed_where_the_scan_stops(line: bytes, offset: int) -> None:
    """The place is the first byte that no JSON text could have there, or the end of the line."""
    assert [("invalid-json", offset, "")] == _places(line)
    assert decode(line) is None


FINDINGS: list[tuple[bytes, list[Place]]] = [
    (b"\xef\xbb\xbf{}", [("byte-order-mark", 0, "")]),
    (b'{"a":"\x00\xff"}', [("nul-bytes", 6, "")]),
    (b'{"a":"\xff"}', [("invalid-utf8", 6, "")]),
    (b'{"a":"\xed\xa0\x80"}', [("invalid-utf8", 6, "")]),
    (b'{"a":"\xc0\xaf"}', [("invalid-utf8", 6, "")]),
    (b'{"a":"\xf4\x90\x80\x80"}', [("invalid-utf8", 6, "")]),
    (b'{"a":' + b"[" * MAX_DEPTH, [("nested-too-deep", 4 + MAX_DEPTH, "")]),
    (b' [1,"\\ud800"]', [("not-an-object", 1, "")]),
    (b"NaN", [("not-an-object", 0, "")]),
    (b"null", [("not-an-object", 0, "")]),
    (b'"\\ud800"', [("not-an-object", 0, "")]),
    (b'{"a":[1,NaN]}', [("non-finite-number", 8, "/a/1")]),
    (b'{"a":-Infinity}', [("non-finite-number", 5, "/a")]),
    (b'{"a":1e999}', [("non-finite-number", 5, "/a")]),
    (b'{"a":-1E+309}', [("non-finite-number", 5, "/a")]),
    (b'{"a":' + b"9" * 310 + b"}", [("non-finite-number", 5, "/a")]),
    (b'{"a":-' + b"9" * 309 + b".5}", [("non-finite-number", 5, "/a")]),
    (b'{"\\ud800":1}', [("lone-surrogate", 1, "/\N{REPLACEMENT CHARACTER}")]),
    (b'{"a":"x\\udc00\\ud800"}', [("lone-surrogate", 5, "/a")]),
    (b'{"a":"\\ud83d\\ud83d\\ude00"}', [("lone-surrogate", 5, "/a")]),
    (b'{"a":"\\ud83d \\ude00"}', [("lone-surrogate", 5, "/a")]),
    (b'{"a":"\\ud83d\\ude00","b":"\\ud83d"}', [("lone-surrogate", 24, "/b")]),
    (b'{"a":"\\ud83d\\ude00\\ud123\\uD7ff\\ue000"}', []),
    (b'{"a":1,"\\u0061":2,"a":3}', [("duplicate-key", 16, "/a"), ("duplicate-key", 22, "/a")]),
    (b'{"x/~":{"b":[{"c":1,"c":2}]}}', [("duplicate-key", 24, "/x~1~0/b/0/c")]),
    (
        b'{"a":NaN,"b":"\\ud800","a":1e999}',
        [
            ("non-finite-number", 5, "/a"),
            ("lone-surrogate", 13, "/b"),
            ("non-finite-number", 26, "/a"),
            ("duplicate-key", 26, "/a"),
        ],
    ),
]


@pytest.mark.parametrize(("line", "expected"), FINDINGS)
def test_problem_is_named_and_placed(line: bytes, expected: list[Place]) -> None:
    """Each finding of the bytes and JSON layer has its rule, byte offset and pointer."""
    assert expected == _places(line, first=True)
    readable = all(rule == "duplicate-key" for rule, _, _ in expected)
    assert readable == (decode(line) is not None) == (validate(line, first=True).value is not None)


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b" \t{} \r",
        b'{"a":-0,"b":-0.0,"c":1e-999,"d":1E+2,"e":0e99999}',
        b'{"a":"\\ud83d\\ude00\\\\ud800\\u0000\\/"}',
        b'{"\\"":{"":{"":[[],{},"",null,true,false]}}}',
        '{"é":"\u2028\u007f\U0010ffff"}'.encode(),
        b'{"a":' + b"9" * 308 + b"}",
        b'{"a":' + b"1" * 400 + b"e-300}",
        b'{"a":' + b"9" * 100_000 + b"e-99999}",
        b'{"a":0.' + b"0" * 10_000 + b"1e10001}",
    ],
)
def test_readable_line_has_no_finding_and_its_value(line: bytes) -> None:
    """What RFC 8259 allows is a record, and exact and fast path give the value that the digits mean."""
    verdict = validate(line, first=True)
    assert ("readable", [], {}) == (verdict.status, verdict.findings, verdict.unlisted)
    assert repr(json.loads(line)) == repr(verdict.value) == repr(decode(line))


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a":"' + b"\\" * 1_000_001,
        b'{"a":"' + b'\\"' * 1_000_000,
        b'{"a":' + b"-" * 1_000_000,
        b'{"a":' + b"1" * 1_000_000,
        b'{"a":"' + b"\\ud800" * 200_000 + b'"}',
        b"{" + b'"a":NaN,' * 50_000 + b'"a":1}',
        b'{"' + b"k" * 1_000_000 + b'":[' + b"NaN," * 50_000 + b"1]}",
    ],
    ids=lambda line: repr(line[:8]),
)
def test_hostile_line_is_a_finding_and_stays_small(line: bytes) -> None:
    """Depth, endless tokens and endless findings end in a bounded verdict, not in a crash."""
    verdict = validate(line, first=True)
    assert verdict.status == "unreadable"
    assert decode(line) is None
    assert len(verdict.findings) <= 3 * MAX_FINDINGS_PER_RULE
    assert sum(len(finding.pointer) for finding in verdict.findings) < 5_000_000


@pytest.mark.parametrize("piece_bytes", [1, 2, 3, 7, 1 << 16])
@pytest.mark.parametrize("inner", [MAX_DEPTH - 3, MAX_DEPTH - 2])
def test_depth_does_not_depend_on_where_a_line_is_cut(
    piece_bytes: int, inner: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long line is looked at in pieces: brackets count across them, those in strings and escapes do not."""
    monkeypatch.setattr(line_validation, "_PIECE_BYTES", piece_bytes)
    for text in (rb"[[[\"[[{", rb"\\\\", b"", b"x" * 20, rb"\\\"[" * 3):
        line = b'{"%b":["%b",' % (text, text) + b"[" * inner + b'"%b"' % text + b"]" * inner + b'],"b":"[[["}'
        assert (inner <= MAX_DEPTH - 2) == line_validation.is_shallow(line)
        assert validate(line, first=False).value == decode(line)
        deeper = line.replace(b'],"b"', b"," + b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1) + b'],"b"')
        assert not line_validation.is_shallow(deeper)


def _scan(line: bytes) -> None:
    Scanner(line).scan()


def test_a_long_line_is_checked_in_little_memory() -> None:
    """The look at depth, and the exact look, hold a small multiple of the line, whatever it is made of."""
    for unit in (b'"",', b'"\\"",', b"[],", b"{},", b'{"a":0},', b"[[0],[]],"):
        for look, size in ((line_validation.is_shallow, 2 << 20), (_scan, 1 << 17)):
            line = b'{"a":[' + unit * (size // len(unit)) + b"0]}"
            tracemalloc.start()
            look(line)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 2 * len(line), unit


@pytest.mark.parametrize("space", [b"", b" ", b"\t", b"\n", b"\r\n  "])
def test_white_space_between_numbers_is_passed_over(space: bytes) -> None:
    """A text may have any white space of JSON around the commas of an array."""
    for text in (
        b'{"a":[1,%b2.5,%b-3e1,%b"x"]}',
        b'{"a":[1%b,2.5%b,-3e1%b,"x"]}',
        b'{"a":[1%b,%b2.5%b,%b-3e1%b,%b"x"]}',
    ):
        found = validate(text.replace(b"%b", space), first=False)
        assert {"a": [1, 2.5, -30.0, "x"]} == found.value
