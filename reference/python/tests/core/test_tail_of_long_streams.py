from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from property_examples import examples
from sample_rows import SOURCES, sample_of
from strategies import kinds, lines, valid_records
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.main import main
from toyspec.core.reading import follower
from toyspec.core.reading.live_stream import LiveBytes
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.reading.records import Record

PROFILES = ["toy/v1", "metrics/v1", "kaun/v1"]
# A manifest decides that a stream without a first record of its own is kaun/v1.
FIRST = {
    "toy/v1": b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run"}\n',
    "metrics/v1": b'{"step":1,"wall_time_ms":1.0,"loss":1.5}\n',
    "kaun/v1": b'{"type":"scalar","tag":"loss","step":1,"wall_time":1.5,"value":1.5}\n',
}


def shown(path: Path, *options: str) -> tuple[str, str]:
    """Return what `tail` prints about the events that are there."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        assert main(["tail", "--once", *options, str(path)]) == exit_codes.OK
    return out.getvalue(), err.getvalue()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a stream of a few lines a long one."""
    monkeypatch.setattr(follower, "_CHUNK_BYTES", 256)
    monkeypatch.setattr(follower, "_FIRST_BYTES", 32)
    monkeypatch.setattr(follower, "_GROWTH", 2)


@st.composite
def streams(draw: st.DrawFn, profile: str) -> bytes:
    """Return records with damage between them and after them; the run ends in the last line at most."""
    usual = [kind for kind in kinds(profile) if kind != "run_end"]
    parts = [FIRST[profile] * 5]
    records = [draw(valid_records(profile, draw(st.sampled_from(usual)))) for _ in range(4)]
    for _ in range(draw(st.integers(0, 30))):
        line = json.dumps(draw(st.sampled_from(records))).encode("utf-8", "replace")
        if draw(st.integers(0, 5)) == 0:
            line = draw(lines(profile) | st.sampled_from([b"", b"x", b"{", b"\xff", b" "]))
        parts.append(line + b"\n")
    parts.append(draw(st.sampled_from([b"", b'{"half', b'{"kind":"run_end","t":9.0,"reason":"completed"}\n'])))
    return b"".join(parts).replace(b"\0", b"0")


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.usefixtures("small")
def test_the_last_events_are_the_same_as_when_everything_is_read(
    profile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events, their order, and the notes on damage between them with their lines do not depend on what is skipped."""
    path = tmp_path / "events.jsonl"
    skips = []

    @settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(streams(profile), st.integers(0, 6))
    def same(data: bytes, number: int) -> None:
        # An end of the run within the stream ends reading; the checker reports what comes after it.
        ends = [index for index, line in enumerate(data.split(b"\n")) if b"run_end" in line or b"run\\u005fend" in line]
        if ends and ends[0] < data.count(b"\n") - 1:
            return
        path.write_bytes(data)
        found = shown(path, "-n", str(number))
        with monkeypatch.context() as patch:
            patch.setattr(follower, "_MOST_BYTES", 0)
            assert shown(path, "-n", str(number)) == found
        skips.append(len(data))

    same()
    assert max(skips) > 1000


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.usefixtures("small")
def test_logs_of_other_programs_have_the_same_last_events(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log of lines is read near its end; a document is read whole."""
    source = sample_of(name)
    content = source.read_bytes()
    lines = content.splitlines(keepends=True)
    path = tmp_path / source.name
    many = [*lines, *(lines[len(lines) // 2 :] * 20 if content[:1] != b"[" else [])]
    path.write_bytes(b"".join(many))
    options = ["--dialect", name]
    for number in "1", "7":
        found = shown(path, *options, "-n", number)
        with monkeypatch.context() as patch:
            patch.setattr(follower, "_MOST_BYTES", 0)
            assert shown(path, *options, "-n", number) == found


@pytest.mark.usefixtures("small")
def test_a_part_of_a_line_does_not_count(tmp_path: Path) -> None:
    """Where the bytes that are looked at begin within the last line, more are looked at: the last row is found."""
    path = tmp_path / "progress.csv"
    path.write_bytes(b"step,loss\n" + b"1,2.5\n" * 100 + b"12," + b"0" * 25 + b"1.5\n")
    choice = DialectChoice("csv")
    with follower.follow_last(path, 0, idle_seconds=0.0, dialect=choice) as found:
        assert [(12, 1.5)] == [(item.step, item.values["loss"]) for item in found if isinstance(item, Record)][-1:]


def test_the_middle_of_a_long_stream_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Little more than the end of 30 MB is read as records, and damage near the end has its line number."""
    path = tmp_path / "events.jsonl"
    step = b'{"kind":"step","t":1.0,"step":1,"loss":2.5}\n'
    number = 700_000
    path.write_bytes(FIRST["toy/v1"] + step * number + b"x\n" + step)
    read: list[int] = []
    take = LiveBytes.take

    def counted(file: LiveBytes, data: bytes) -> None:
        read.append(len(data))
        take(file, data)

    monkeypatch.setattr(LiveBytes, "take", counted)
    out, err = shown(path, "-n", "2")
    assert sum(read) < 200_000
    assert ["step 1  loss 2.5"] * 2 == [line.split("s  ", 1)[1] for line in out.splitlines()]
    assert f"{path}:{number + 2}: invalid-json" in err


def test_following_goes_on_after_the_end(tmp_path: Path, small: None) -> None:
    """What is appended, cut and replaced after the end was found is noticed as in a short stream."""
    del small
    path = tmp_path / "events.jsonl"
    step = b'{"kind":"step","t":1.0,"step":%d,"loss":2.5}\n'
    path.write_bytes(FIRST["toy/v1"] + b"".join(step % number for number in range(1, 50)))
    append = [step % 50, b"x\n", b"", step % 2 + b'{"kind":"run_end","t":9.0,"reason":"completed"}\n']

    def write() -> None:
        if append and append[0]:
            with path.open("ab") as file:
                file.write(append[0])
        elif append:
            path.write_bytes(FIRST["toy/v1"] + step % 1)
        del append[:1]

    choice = DialectChoice("auto")
    items: list[Record | follower.TailEvent] = []
    with follower.follow_last(path, 1, idle_seconds=5.0, dialect=choice) as found:
        while not found.is_over:
            items += found.new()
            write()
    steps = [item["step"] for item in items if isinstance(item, Record) and "step" in item]
    assert [48, 49, 50, 1, 2] == steps[-5:]
    assert len(steps) < 40
    events = [item for item in items if isinstance(item, follower.TailEvent)]
    assert ["gap", "truncated", "ended"] == [event.kind for event in events]
    assert 52 == events[0].line
