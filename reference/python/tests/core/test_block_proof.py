from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from property_examples import examples
from strategies import SCALARS, kinds, lines, streams, valid_records
from toyspec.core.checker import check_bytes, stream_checker
from toyspec.core.checker.collecting import Lines
from toyspec.core.checker.stream_checker import BlockProof, StreamChecker
from toyspec.core.findings import FileReport
from toyspec.core.format.line_validation import ValidatedLine, validate_line
from toyspec.core.format.lines import Line


@pytest.fixture(autouse=True, scope="module")
def plain_python() -> Iterator[None]:
    """Proof of blocks is how plain Python checks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOYSPEC_ENGINE", "python")
        yield


STEP = '{{"kind":"step","t":{0}.5,"step":{0},"loss":1.25,"lr":0.5}}'
START = '{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run"}'
ENTRY = (
    '{{"step":{0},"wall_time_ms":{0}.5,"loss":1.25,"grad_norm":0.5,"throughput_samples_per_sec":2.0,'
    '"extra":{{"lr":0.5,"a:b":1}}}}'
)
MANY = 60


@pytest.fixture
def exactly(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return a list that gets every line that is checked on the exact path."""
    found: list[bytes] = []

    def noted(line: Line, **options: Any) -> ValidatedLine:
        found.append(line.data or b"")
        return validate_line(line, **options)

    monkeypatch.setattr(stream_checker, "validate_line", noted)
    return found


def fed(data: bytes) -> FileReport:
    """Return the report on *data*, its first line alone."""
    checker = StreamChecker("-")
    end = data.find(b"\n") + 1
    checker.feed(data[:end])
    checker.feed(data[end:])
    return checker.finish()


def unproven(_: BlockProof, lines: Lines) -> tuple[list[Any], list[int]]:
    """Prove nothing."""
    return [None] * len(lines.data), list(range(len(lines.data)))


def exact(data: bytes, monkeypatch: pytest.MonkeyPatch) -> FileReport:
    """Return the report of the exact path alone."""
    with monkeypatch.context() as patch:
        patch.setattr(BlockProof, "block", unproven)
        patch.setattr(BlockProof, "fits", lambda *_: False)
        patch.setattr(stream_checker, "decode_plain", lambda _: None)
        return check_bytes(data, dialect=None)


def stream(changed: dict[int, str] | None = None) -> bytes:
    """Return a stream of steps, some lines of which are *changed*."""
    parts = [START] + [STEP.format(step) for step in range(1, MANY)]
    for index, line in (changed or {}).items():
        parts[index] = line
    return "".join(part + "\n" for part in parts).encode("utf-8", "surrogateescape")


_CLOCKS = b"".join(
    b'{"step":%d,"wall_time_ms":%d,"loss":0.0,"grad_norm":0.0,"throughput_samples_per_sec":0.0}\n' % (step, wall)
    for step, wall in [(0, 2**53 + 1), (1, 2**53), (2, 0)]
)
"""Clocks beyond the safe integers: a number field holds a float, so the second one does not go back."""


@pytest.mark.parametrize("profile", ["toy/v1", "metrics/v1", "kaun/v1"])
def test_proof_changes_nothing(profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any streams, and those of records that repeat their keys with other lines between, get that of the exact path."""

    @st.composite
    def repeating(draw: st.DrawFn) -> bytes:
        kind = draw(st.sampled_from(kinds(profile)))
        models = [draw(valid_records(profile, kind)) for _ in range(2)]
        # Less than two whole records apart: one null, one word or the keys of one object.
        key = draw(st.sampled_from(sorted(models[0])))
        models.append({**models[0], key: draw(st.sampled_from([models[1].get(key), None, {"lr": 0.5}, {"lr": None}]))})
        style: dict[str, Any] = {
            "ensure_ascii": draw(st.booleans()),
            "separators": draw(st.sampled_from([(",", ":"), (", ", ": ")])),
        }
        extra = draw(st.dictionaries(st.sampled_from(["mfu", "x y", "läuft", "kind2"]), SCALARS, max_size=2))
        parts = [START.encode()] if profile == "toy/v1" else []
        for number in range(draw(st.integers(10, 24))):
            record = dict(draw(st.sampled_from(models))) | (extra if draw(st.booleans()) else {})
            record |= {key: number for key in ("t", "step", "wall_time_ms") if key in record}
            if draw(st.booleans()):
                record = dict(reversed(record.items()))
            parts.append(json.dumps(record, **style).encode("utf-8", "replace"))
            if draw(st.integers(0, 9)) == 0:
                parts.append(draw(lines(profile)))
            if draw(st.integers(0, 19)) == 0:
                parts[-1] = parts[-1].replace(b"{", b'{"t":3,', 1)
        return b"".join(part + b"\n" for part in parts)

    @settings(max_examples=examples(160), deadline=None)
    @given(repeating() | streams(profile))
    @example(_CLOCKS)
    def same(data: bytes) -> None:
        assert exact(data, monkeypatch) == fed(data)

    same()


ODD = [
    '{"kind":"step","t":40.5,"step":40,"loss":1.25,"lr":0.5,"lr":0.5}',
    '{"kind":"step","t":40.5,"step":40,"loss":1.25,"loss":0.5}',
    '{"kind":"step","kind":"step","t":40.5,"step":40,"loss":1.25,"lr":0.5}',
    '{"t":40.5,"t":40.5,"step":40,"loss":1.25,"lr":0.5}',
    '{"kind":"step","t":40.5,"step":40,"loss":1.25,"\\u006cr":0.5,"lr":1}',
    '{"kind":"step","t":40.5,"step":40,"loss":1.25,"lr":0.5}{}',
    '{"kind":"step","t":40.5,"step":40,"loss":1.25,"lr":0.5},',
    '{"kind":"step","t":40.5,"step":40,"loss":1e999,"lr":0.5}',
    '{"kind":"step","t":40.5,"step":40.0,"loss":1.0,"lr":0.5}',
    '{"kind":"step","t":40.5,"step":9007199254740992,"loss":1.0,"lr":0.5}',
    '{"kind":"step","t":40.5,"step":40,"loss":NaN,"lr":0.5}',
    '{"kind":"step","t":40.5,"step":40,"loss":1.0,"lr":0.5}\r',
    '{"kind":"step","t":40.5,"step":40,"loss":1.0,"lr":[[[[0.5]]]]}',
    '{"kind":"step","t":40.5,"step":40,"loss":1.0,"lr":' + "[" * 100_000,
    '{"kind":"step","t":40.5,"step":40,"loss":1.0,"lr":0.5,"new":"\\ud800"}',
    '{"kind":"step","t":40.5,"step":40,"loss":1.0,"lr":0.5,"new":"\udcff"}',
    '{"kind":"step","t":40.5,"step":40,"loss":1.0,"lr":0.5,"new":{"a":1,"a":1}}',
    '{"kind":"note","t":40.5,"text":"a:b","text":"c"}',
    "",
    " \t",
    "\ufeff" + STEP.format(40),
]
"""Lines that might be taken for regular."""
PHASES = [
    '{"kind":"step","phase":"eval","t":40.5,"step":1,"loss":1.25,"lr":0.5}',
    '{"kind":"step","phase":"eval","t":40.5,"step":40,"loss":1.25,"lr":0.5}',
    '{"kind":"step","phase":"trial","t":40.5,"step":40,"loss":1.25,"lr":0.5}',
    '{"kind":"step","phase":"train","t":40.5,"step":41,"loss":1.25,"lr":0.5}',
    '{"kind":"step","t":40.5,"step":40,"loss":1.25,"lr":0.5}',
    '{"kind":"step","phase":null,"t":40.5,"step":40,"loss":1.25,"lr":0.5}',
    '{"kind":"step","phase":"train","t":40.5,"step":40,"loss":null,"lr":0.5}',
    '{"kind":"step","phase":"train","phase":"train","t":40.5,"step":40,"loss":1.25,"lr":0.5}',
    '{"kind":"step","phase":"train","t":40.5,"step":40,"loss":1.25,"lr":0.5,"extra":{"mfu":0.5}}',
]
"""Lines of another phase, of none, or with a null."""
TRAINED = {index: STEP.format(index).replace('"t"', '"phase":"train","t"') for index in range(1, MANY)}
NOTE = '{"kind":"note","t":33.5,"text":%s}'
NOTES = {index: f'{{"kind":"note","t":{index}.5,"text":"plain:{index}"}}' for index in range(2, 30)}
NEW = [(10, "1"), *((40, "[" * depth + "]" * depth) for depth in (1, 62, 63, 64, 65))]
"""Values of a key that was reported: brackets that are too deep are found."""


@pytest.mark.parametrize(
    "changed",
    [
        *({40: line} for line in ODD),
        *(TRAINED | {40: line} for line in PHASES),
        *({at: STEP.format(at)[:-1] + f',"new":{text}}}' for at, text in (NEW[0], deep)} for deep in NEW[1:]),
        # A key too many is found where another line has a colon or a key too few.
        NOTES | {31: NOTE % '"x","text":"y"', 32: NOTE % r'"\u003ab"'},
        NOTES | {31: NOTE % '"a:b","text":"c"', 32: NOTE % r'"\u003a\u003ae"'},
        {30: STEP.format(30).replace("}", ',"lr":1}'), 31: '{"kind":"step","t":31.5,"step":31,"loss":1}'},
    ],
)
def test_odd_line_among_regular_ones_is_checked_exactly(
    changed: dict[int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the findings of the exact path, and so have the lines after it."""
    data = stream(changed)
    assert exact(data, monkeypatch) == fed(data)


@pytest.mark.parametrize("times", [1, 5])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"lr":0.5', '"lr":0.5,"lr":0.25'),
        ('"lr":0.5', '"lr":null'),
        ('"lr":0.5', '"lr":"fast"'),
        ('"lr":0.5', '"lr":1e39'),
        ('"lr":0.5', '"lr":9007199254740993'),
        ('"lr":0.5', '"lr":{}'),
        ('"lr":0.5,', ""),
        ('"lr":0.5', '"lr":0.5,"other":1'),
        ('"a:b":1', '"a\\u003ab":1'),
        ('"lr":0.5,"a:b":1', '"lr":0.5,"lr":0.5,"a\\u003ab":1'),
        ('"lr":0.5,"a:b":1', ""),
        (',"extra":{"lr":0.5,"a:b":1}', ""),
        ('{"lr":0.5,"a:b":1}', "null"),
        ('{"lr":0.5,"a:b":1}', "[]"),
        ('"loss":1.25', '"loss":null'),
        ('"loss":1.25', '"loss":1' + "0" * 400),
        ('"loss":1.25,"grad_norm":0.5', '"grad_norm":null,"loss":null'),
        ('"loss":1.25', '"loss":1.25,"loss":1.25'),
        ('"loss":1.25', '"kind":"entry","loss":1.25'),
    ],
)
def test_odd_entry_among_regular_ones_is_checked_exactly(
    old: str, new: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry whose numbers or whose object differ from those around it has the findings of the exact path."""
    parts = [ENTRY.format(step) for step in range(MANY)]
    for index in range(40, 40 + times):
        assert old in parts[index]
        parts[index] = parts[index].replace(old, new)
    data = "".join(part + "\n" for part in parts).encode()
    assert exact(data, monkeypatch) == fed(data)


@pytest.mark.parametrize(
    ("template", "others"),
    [
        (STEP, []),
        (STEP, [(',"lr":0.5', "")]),
        (STEP, [('"t"', '"phase":"eval","t"')]),
        (STEP.replace("0.5", '0.5,"new:key":true,"host":"a:b"'), []),
        (STEP.replace("0.5", '0.5,"host":"a:b"'), [(',"host":"a:b"', "")]),
        (STEP.replace("0.5", '0.5,"extra":{{}}'), []),
        (STEP.replace("0.5", '0.5,"extra":{{"a:b":1,"mfu":2}}'), []),
        (STEP.replace("0.5", '0.5,"extra":{{"a:b":1,"mfu":2}}'), [(',"extra":{"a:b":1,"mfu":2}', "")]),
        (STEP.replace("0.5", '0.5,"extra":{{"a:b":1,"mfu":2}}'), [('"mfu":2', ""), ('"mfu":2', '"mfu":null')]),
        ('{{"kind":"note","t":{0}.5,"text":"at {0}: done"}}', []),
        (ENTRY, []),
        (ENTRY, [('"loss":1.25', '"loss":null')]),
    ],
)
def test_regular_lines_are_taken_at_once(
    template: str, others: list[tuple[str, str]], exactly: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines without findings other than known ones do not take the exact path."""
    parts = [START] if "kind" in template else []
    for step in range(1, 4 * MANY):
        old, new = others[step % len(others)] if others and step % 2 else ("", "")
        parts.append(template.format(step).replace(old, new).replace(",}", "}"))
    data = "".join(part + "\n" for part in parts).encode()
    expected = exact(data, monkeypatch)
    exactly.clear()
    checker = StreamChecker("-")
    for part in data.splitlines(keepends=True):
        checker.feed(part)
    assert len(exactly) <= 2
    assert expected == checker.finish()


def test_records_between_two_odd_lines_are_taken_at_once(exactly: list[bytes]) -> None:
    """Regular lines do not take the exact path because others are damaged."""
    report = fed(stream({20: "{", 40: "{"}))
    assert 2 == [finding.rule for finding in report.findings].count("invalid-json")
    assert [b"{", b"{"] == exactly


def test_deep_nesting_is_refused_on_a_small_stack() -> None:
    """A line of many brackets does not reach a decoder that calls itself for each."""
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(200)
        report = fed(stream({40: '{"kind":"step","t":1,"loss":' + "[" * 5000}))
    finally:
        sys.setrecursionlimit(limit)
    assert ["nested-too-deep"] == [finding.rule for finding in report.findings if finding.line == 41]


def test_unknown_keys_do_not_take_the_exact_path(exactly: list[bytes]) -> None:
    """Lines with an unknown key, whatever its value, are proven."""
    steps = {index: STEP.format(index).replace("}", ',"mfu":0.5}') for index in range(1, MANY)}
    checker = StreamChecker("-")
    for part in stream(steps | {40: steps[40].replace("0.5}", '{"a":1}}')}).splitlines(keepends=True):
        checker.feed(part)
    assert not exactly
    assert ["unknown-key", "run-end-missing"] == [finding.rule for finding in checker.finish().findings]


def whole_floats(lines: int) -> bytes:
    """Return a stream of steps with a fraction in every integer."""
    steps = (f'{{"kind":"step","t":{i}.5,"step":{i}.0,"loss":1.5,"tokens":4096.0}}\n' for i in range(1, lines + 1))
    return b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"a"}\n' + "".join(steps).encode()


def test_integers_with_a_fraction_are_taken_at_once(exactly: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """They are proven, reported once in each stream, and count as the integers that they are."""
    for _ in range(2):
        exactly.clear()
        data = whole_floats(40) + b'{"kind":"step","t":99.0,"step":43.0,"loss":1.0,"tokens":4096.0}\n'
        report = fed(data)
        found = [(finding.rule, finding.line, finding.message) for finding in report.findings]
        assert [
            ("integer-as-float", 2, "`step` is written 1.0, expected an integer without fraction and exponent"),
            ("step-skipped", 42, "step 43 after step 40: 2 steps are missing"),
            ("run-end-missing", 42, "the stream ends without `run_end`"),
        ] == found
        assert not exactly
        assert exact(data, monkeypatch) == report


@pytest.mark.parametrize("text", ["1.5", "-1.0", "1e300", "9007199254740993.0", "9007199254740993", '"1.0"', "1e-5"])
def test_odd_integer_among_those_with_a_fraction_is_checked_exactly(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes `1.0` refuses every fraction, and every number that may lose a digit."""
    data = whole_floats(30) + f'{{"kind":"step","t":99.0,"step":31.0,"loss":1.0,"tokens":{text}}}\n'.encode()
    assert exact(data, monkeypatch) == fed(data)


def test_more_unknown_keys_than_are_listed_are_counted() -> None:
    """Each key is listed once with its count; those beyond the limit are counted at each place."""
    names = [f"mine_{number}" for number in range(150)]
    mine = ",".join(f'"{name}":1' for name in names)
    lines = [START, *(STEP.format(step)[:-1] + f",{mine}}}" for step in range(1, MANY))]
    report = fed("".join(f"{line}\n" for line in lines).encode())
    listed = [finding for finding in report.findings if finding.rule == "unknown-key"]
    assert (100, 50 * (MANY - 1)) == (len(listed), report.suppressed["unknown-key"])
    assert all(str(MANY - 1) in finding.message for finding in listed)
