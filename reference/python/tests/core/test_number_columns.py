from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from run_facts import facts
from toyspec.core.reading.reader import Reading

CASES = Path(__file__).resolve().parents[4] / "conformance/cases"
START = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run"}\n'


pytestmark = pytest.mark.usefixtures("plain_python")


def both(path: Path) -> tuple[Any, Any]:
    """Return the facts by columns and by single records."""
    with pytest.MonkeyPatch.context() as patch:
        by_columns = facts(path)
        patch.setattr(Reading, "give_numbers", lambda *_: False)
        return by_columns, facts(path)


@pytest.mark.parametrize("profile", ["toy-v1", "metrics-v1"])
def test_summaries_of_the_corpus_are_alike(profile: str) -> None:
    """Columns of numbers say what records say: curves, times, kinds, measures and the report."""
    if not CASES.is_dir():
        pytest.skip("the corpus is part of the source tree")
    for path in sorted((CASES / profile).rglob("*.jsonl"))[::9]:
        by_columns, by_records = both(path)
        assert by_records == by_columns, path


def test_summary_of_a_long_stream_is_alike(tmp_path: Path) -> None:
    """So it is with thousands of steps of two phases, nulls, other keys, steps that repeat, damage, and a cut end."""
    chance = random.Random(7)
    lines = [START]
    for number in range(9000):
        loss = chance.choice([b"null", b"%.6f" % chance.random()]) if number > 4000 else b"1.5"
        line = b'{"kind":"step","t":%d,"step":%d,"loss":%b,"extra":{"acc":%d}}\n' % (
            number,
            number % 8000,
            loss,
            number,
        )
        other = line.replace(b'"extra"', b'"lr":0.5,"extra"')
        whole = line.replace(b'"step":%d' % (number % 8000), b'"step":%d.0' % (number % 8000))
        phase = line.replace(b"{", b'{"phase":"eval",', 1)
        lines.append(chance.choices([line, other, phase, whole, line[9:]], [900, 90, 90, 9, 1])[0])
    (tmp_path / "events.jsonl").write_bytes(b"".join(lines)[:-20])
    by_columns, by_records = both(tmp_path)
    assert by_records == by_columns
    assert {"loss", "acc", "lr"} <= set(by_columns[0] and by_columns[6])


MEMBERS = st.sampled_from(
    [
        b'"loss":1.5', b'"loss":null', b'"loss":1e999', b'"loss":true', b'"loss":"1"',
        b'"loss":12345678901234567890123',
        b'"step":3', b'"step":3.0', b'"step":-3', b'"step":9223372036854775808', b'"t":1', b'"t":-1', b'"t":null',
        b'"phase":"eval"', b'"phase":"other"', b'"phase":null', b'"epoch":1.5', b'"epoch":null', b'"layer":1',
        b'"extra":{"loss":2}', b'"extra":{"a":1,"b":null}', b'"extra":{"a":[1]}', b'"extra":[]', b'"\\u006coss":2',
        b'"phase":[]',
        b'"extra":{"\\u001f":0.5,"\\"":1}',
        b'"x":{}', b'"kind":"step"', b'"kind":"note"', b'"run":"\xff"', b'"lr":0.1', b'"lr":' + b"1" * 400,
    ]
)  # fmt: skip
LINES = st.lists(MEMBERS, max_size=6).map(
    lambda members: b'{"kind":"step","t":1,"step":2' + b"".join(b"," + each for each in members) + b"}"
)


@given(lines=st.lists(LINES, max_size=12))
@example(lines=[b'{"kind":"step","t":1,"step":2,"loss":1}'] * 3 + [b""] * 2)
def test_any_lines_are_alike(lines: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Odd members, repeated keys, damage and numbers at their limits change nothing."""
    path = tmp_path_factory.mktemp("run") / "events.jsonl"
    path.write_bytes(START + b"".join(line + b"\n" for line in lines))
    by_columns, by_records = both(path)
    os.unlink(path)
    assert by_records == by_columns
