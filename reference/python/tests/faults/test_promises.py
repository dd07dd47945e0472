"""What docs/explanation/durability.md promises: one test for each promise, under its name."""

from __future__ import annotations

import json
import math
import os
import random
import re
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toyspec
from conformance.drawn import mutated
from faults.checking import fail_every_call
from faults.killing import killed
from faults.oracles import feed_in_pieces, fix, survey
from faults.tally import IS_LONG, count, scaled, settle
from files import lines_file
from property_examples import examples
from strategies import streams
from toyspec.core.errors import StreamRefusedError
from toyspec.core.escaping import printable, printable_bytes
from toyspec.core.reading.follower import follow
from toyspec.core.reading.reader import read
from toyspec.core.system_calls import SystemCalls
from toyspec.core.writing.append_file import AppendFile
from toyspec.core.writing.appending import repair

EXAMPLES = scaled(examples(100), 250)
ANY_BYTES = st.binary(max_size=300) | streams() | st.integers(0, 2**32).map(lambda seed: mutated(random.Random(seed)))
many = settings(max_examples=EXAMPLES, deadline=None, derandomize=not IS_LONG)


@pytest.mark.proves("writing/acknowledged")
def test_promise_1_process_death() -> None:
    """After SIGKILL at any moment, every record whose call returned is readable; at most one fragment follows."""
    toll = killed("library", size=9000, kills=scaled(15, 150), seed=1)
    count("kills", toll.kills)
    count("records acknowledged", toll.acknowledged)
    assert (0, 0) == (toll.lost, toll.invented)


@pytest.mark.proves("writing/synced-ends")
@pytest.mark.proves("writing/failed-sync")
@given(covered=st.integers(0, 5), nul=st.integers(0, 5000), rest=st.binary(max_size=50))
@many
def test_promise_2_power_loss(covered: int, nul: int, rest: bytes) -> None:
    """With durability fsync, what was synced is read whatever the device makes of the rest, and nothing else is."""
    lines = [b'{"kind":"note","t":%d.0,"text":"x"}' % number for number in range(6)]
    durable = 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "events.jsonl")

        def sync(descriptor: int) -> None:
            nonlocal durable
            durable = os.fstat(descriptor).st_size

        file = lines_file(path, durability="fsync", calls=SystemCalls(fsync=sync))
        for line in lines[: covered + 1]:
            file.append(line)
        file.close()
        state = Path(path).read_bytes()[:durable] + bytes(nul) + rest.replace(b"\n", b"")
    count("crash states tried")
    found, _ = survey(state)
    assert (0, 0) == settle(lines, lines[: covered + 1], found)


@pytest.mark.proves("reading/total")
@given(data=ANY_BYTES)
@many
def test_promise_3_total_readers(data: bytes) -> None:
    """Any bytes are read to an end, in every mode, with the documented exceptions only."""
    count("inputs fuzzed")
    survey(data)
    toyspec.check_bytes(data)


@pytest.mark.proves("reading/every-record")
@given(data=streams(), cut=st.integers(0, 3000), noise=st.binary(max_size=30))
@many
def test_promise_4_no_invention(data: bytes, cut: int, noise: bytes) -> None:
    """What is read is a subsequence of what was written, and before the first gap a prefix of it."""
    count("inputs fuzzed")
    written = [bytes(record.raw) for record in read(data, mode="salvage")]
    damaged = data[:cut] + noise.replace(b"\n", b"") + b"\x00" + data[cut:]
    found = [bytes(record.raw) for record in read(damaged, mode="salvage")]
    following = iter(written)
    assert all(record in following for record in found)
    prefix = [bytes(record.raw) for record in read(damaged, mode="prefix")]
    assert written[: len(prefix)] == prefix


@pytest.mark.proves("reading/accounting")
@given(data=ANY_BYTES)
@many
def test_promise_5_no_silence(data: bytes) -> None:
    """Committed bytes, fragment and gaps add up to the size, always."""
    count("inputs fuzzed")
    report = read(data, mode="salvage").report
    assert len(data) == report.committed_bytes + report.fragment_bytes + report.gap_bytes


@pytest.mark.proves("following/same-as-reading")
@given(data=ANY_BYTES, seed=st.integers(0, 1000))
@many
def test_promise_6_a_follower_is_a_reader(data: bytes, seed: int) -> None:
    """However the bytes arrive, a follower gives what reading them at once gives."""
    count("inputs fuzzed")
    feed_in_pieces(data, random.Random(seed))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        path.write_bytes(data)
        items = list(follow(path, until="forever", poll_seconds=0, idle_seconds=0))
    found = [bytes(item.raw) for item in items if isinstance(item, toyspec.Record)]
    assert found == [bytes(record.raw) for record in read(data, mode="salvage")]


@pytest.mark.proves("writing/training-goes-on")
@pytest.mark.proves("writing/failure-told")
def test_promise_7_training_goes_on(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Whichever call fails, and however, no log call raises unless that was asked for; each loss is reported once."""
    for at in range(1, scaled(12, 40)):
        failing = toyspec.testing.FailingCalls(at=at, error=5, lasting="for-ever")
        with toyspec.RunWriter(tmp_path / str(at), calls=failing.calls) as run:
            run.run_start()
            for step in range(1, 6):
                run.step(step, loss=1.0)
        count("faults injected")
        told = capfd.readouterr().err
        assert (run.dropped > 0) <= (told.count(str(tmp_path / str(at))) > 0), at
        assert told.count("\n") <= 2
    assert fail_every_call("library", tmp_path, error=28, lasting="once", effect="error").faults


@pytest.mark.proves("writing/repair-keeps-committed")
@pytest.mark.proves("writing/repair-keeps-fragment")
@pytest.mark.proves("writing/repair-idempotent")
@pytest.mark.proves("writing/repair-locked")
@given(data=ANY_BYTES)
@many
def test_promise_8_repair(data: bytes) -> None:
    """A repair keeps every byte, in the stream or beside it; a second one does nothing; damage is left alone."""
    count("inputs fuzzed")
    with tempfile.TemporaryDirectory() as folder:
        fix(data, Path(folder))
        stream = Path(folder) / "events.jsonl"
        before = stream.read_bytes()
        file = AppendFile.reopen(str(stream))
        with pytest.raises(StreamRefusedError):
            repair(stream)
        file.close()
        assert before == stream.read_bytes()


FLOATS = st.floats() | st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308])


@pytest.mark.proves("encoding/canonical-digits")
@pytest.mark.proves("encoding/non-finite-null")
@given(
    values=st.dictionaries(
        st.text(st.characters(codec="utf-8"), max_size=8), FLOATS | st.integers(-(2**53) + 1, 2**53 - 1), max_size=5
    )
)
@many
def test_promise_9_round_trip(values: dict[str, Any]) -> None:
    """Every float and integer comes back bit for bit; NaN and the infinities come back as null."""
    with tempfile.TemporaryDirectory() as folder:
        with toyspec.RunWriter(os.path.join(folder, "run"), on_error="raise") as run:
            run.run_start(config=values)
        (start, _) = toyspec.read(os.path.join(folder, "run"), mode="strict")
    found = start["config"] if values else start.value.get("config", {})
    expected = {key: value if math.isfinite(value) else None for key, value in values.items()}
    assert repr(sorted(expected.items())) == repr(sorted(found.items()))


@pytest.mark.proves("checking/inert")
@given(text=st.text(st.characters()), data=st.binary(max_size=60))
@many
def test_promise_10_inert_output(text: str, data: bytes) -> None:
    """No character that moves a cursor, hides or reorders text or ends a line leaves the library unescaped."""
    count("inputs fuzzed")
    for shown in (printable(text), printable_bytes(data), repr(msgspec.json.encode(printable(text)))):
        assert not any(character < " " or "\x7f" <= character < "\xa0" for character in shown)
        assert not set(shown) & set("\u202e\u2028\u2029\u2066\u200b\ufeff")
        shown.encode()


def test_every_promise_of_the_page_has_its_statement_and_its_test() -> None:
    """The ten rows of the page name statements of the specification and tests here that are marked with them."""
    root = Path(__file__).resolve().parents[4]
    stated = {
        entry["id"]
        for entry in json.loads((root / "spec/requirements.json").read_text(encoding="utf-8"))["requirements"]
    }
    page = (root / "docs/explanation/durability.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+)\. .*\| (.*) \| `(test_promise_\w+)` \|$", page, re.MULTILINE)
    assert list(map(str, range(1, 11))) == [number for number, _, _ in rows]
    for number, links, name in rows:
        named = set(re.findall(r"\[([a-z]+/[a-z-]+)\]", links))
        marks = globals()[name].pytestmark
        assert named
        assert named <= stated, number
        assert named == {mark.args[0] for mark in marks if mark.name == "proves"}, number
