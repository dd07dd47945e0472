"""Metrics logs: what is recorded is on disk and in memory, and reads back the same."""

from __future__ import annotations

import contextlib
import errno
import itertools
import math
import os
from pathlib import Path
from typing import Any, Literal

import pytest

from files import content
from toyspec.core.checker.checking import check
from toyspec.core.errors import StreamRefusedError
from toyspec.core.format.canonical import InvalidEventError
from toyspec.core.format.numbers import binary32
from toyspec.core.generated.metrics_v1 import MetricsEntry
from toyspec.core.metrics.log import MetricsLog, MetricsLogError, MetricsSummary, grad_norm
from toyspec.core.system_calls import SystemCalls
from toyspec.core.writing.append_file import Options
from toyspec.testing import FailingCalls

FIELDS: dict[str, Any] = {"wall_time_ms": 12.5, "loss": 0.1, "grad_norm": 0.75, "throughput_samples_per_sec": 512}
LINE = b'{"step":%d,"wall_time_ms":12.5,"loss":0.1,"grad_norm":0.75,"throughput_samples_per_sec":512.0,"extra":{}}\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a log whose directory does not exist."""
    return tmp_path / "a" / "b" / "metrics.jsonl"


def with_log(path: Path, data: bytes) -> Path:
    """Put a log at *path*."""
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return path


def steps(path: Path) -> list[int]:
    """Return the step numbers of a log that is opened again."""
    return [entry.step for entry in MetricsLog.open(path)]


def test_entries_are_written_in_the_order_of_the_source(path: Path) -> None:
    """An entry, by its fields or whole, has the source's keys, binary32 text, sorted extra, and always extra."""
    with MetricsLog.open(path) as log:
        assert path.parent.is_dir()
        log.record(step=1, **FIELDS)
        log.record(MetricsEntry(step=2, **FIELDS, extra={"router_entropy": 1.9, "grad_clip_ratio": math.nan}))
    with pytest.raises(ValueError, match="was closed"):
        log.record(step=3, **FIELDS)
    expected = LINE % 1 + (LINE % 2).replace(b"{}", b'{"grad_clip_ratio":null,"router_entropy":1.9}')
    assert expected == content(str(path))
    assert [] == [finding.rule for finding in check(path).files[0].findings if finding.severity == "error"]


def test_memory_holds_what_the_disk_holds(path: Path) -> None:
    """Entries in memory are those that a second reading gives: rounded, with NaN for what is not finite."""
    log = MetricsLog.open(path)
    assert log.is_empty
    log.record(step=1, **FIELDS, extra={"a": 1 / 3})
    log.record(step=2, **FIELDS | {"loss": math.inf, "grad_norm": 1e300})
    again = MetricsLog.open(path)
    assert list(again) == list(log)
    assert (2, False) == (len(again), again.is_empty)
    first, second = again
    assert (binary32(0.1), {"a": binary32(1 / 3)}) == (first.loss, first.extra)
    assert (True, True, {}) == (math.isnan(second.loss), math.isnan(second.grad_norm), second.extra)


def test_reading_accepts_what_the_source_accepts(path: Path) -> None:
    """Blank lines, unknown keys, integers and an absent extra are fine; null is a number that is not finite."""
    text = b'\n \t\n{"grad_norm":null,"loss":1,"step":7,"other":[1],"throughput_samples_per_sec":2,"wall_time_ms":3}\n'
    log = MetricsLog.open(with_log(path, text))
    entry = MetricsEntry(
        step=7, wall_time_ms=3.0, loss=1.0, grad_norm=math.nan, throughput_samples_per_sec=2.0, extra={}
    )
    assert [entry] == list(log)
    assert text == path.read_bytes()


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (b"{broken}", "invalid-json"),
        ((LINE % 1).rstrip() + LINE % 2, "invalid-json"),
    ],
)
def test_a_malformed_line_is_the_documented_error(path: Path, line: bytes, cause: str) -> None:
    """The error names the line, counted from 1 with the blank ones, and the cause; the file stays unchanged."""
    data = LINE % 1 + b"\n" + line + b"\n" + LINE % 3
    with_log(path, data)
    with pytest.raises(MetricsLogError) as caught:
        MetricsLog.open(path)
    assert str(caught.value) == f"metrics_log parse error at line 3: {caught.value.cause}"
    assert cause in caught.value.cause
    assert (3, str(path)) == (caught.value.line, caught.value.path)
    assert data == path.read_bytes()


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (b'{"step":1}\n', "missing required field"),
        ((LINE % 1).replace(b"12.5", b"null"), "wall_time_ms"),
        ((LINE % 1).replace(b"0.1", b"3.5e38"), "loss"),
    ],
)
def test_an_invalid_entry_is_left_out(path: Path, line: bytes, cause: str, capfd: pytest.CaptureFixture[str]) -> None:
    """It is reported once and stays in the file, and the log goes on."""
    with MetricsLog.open(with_log(path, LINE % 1 + line)) as log:
        log.record(step=2, **FIELDS)
    assert ([1, 2], LINE % 1 + line + LINE % 2) == ([entry.step for entry in log], path.read_bytes())
    said = capfd.readouterr().err
    assert (1, True) == (said.count("line 2: "), cause in said)


@pytest.mark.parametrize("first", [b'{"step":1}\n', b'{"kind":"run_start","step":1,"wall_time_ms":1}\n'])
def test_a_log_of_another_format_is_refused(path: Path, first: bytes) -> None:
    """Its first record decides, whatever comes after it."""
    with pytest.raises(MetricsLogError, match=r"line 1: the log is .*, not metrics/v1"):
        MetricsLog.open(with_log(path, first + LINE % 2))


@pytest.mark.parametrize("fragment", [b'{"step":2,"wall', (LINE % 2).rstrip(), b"\0\0"])
def test_a_torn_tail_is_moved_away(path: Path, fragment: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    """Bytes of a dead writer go into a file beside, which is reported, and the log continues after the last entry."""
    with_log(path, LINE % 1 + fragment)
    log = MetricsLog.open(path)
    aside = f"{path}.torn-{len(LINE % 1)}"
    assert (1, aside, LINE % 1, fragment) == (len(log), log.torn_path, path.read_bytes(), content(aside))
    assert f"were moved to {aside}" in capfd.readouterr().err
    log.record(step=2, **FIELDS)
    assert LINE % 1 + LINE % 2 == path.read_bytes()
    assert MetricsLog.open(path).torn_path is None


def test_a_log_of_a_live_writer_can_be_read(path: Path) -> None:
    """Reading takes no lock and moves nothing of a writer that is just writing; recording is refused."""
    writer = MetricsLog.open(path)
    writer.record(step=1, **FIELDS)
    with open(path, "ab") as half:
        half.write(b'{"step":2')
    reader = MetricsLog.open(path)
    assert (1, ["metrics.jsonl"]) == (len(reader), os.listdir(path.parent))
    with pytest.raises(StreamRefusedError, match="another writer"):
        reader.record(step=9, **FIELDS)
    assert 1 == len(reader)


def test_recording_goes_on_behind_entries_of_others(path: Path) -> None:
    """What another writer has added since the reading is taken in before the first record."""
    first, second = MetricsLog.open(path), MetricsLog.open(path)
    first.record(step=1, **FIELDS)
    first.close()
    second.record(step=2, **FIELDS)
    assert [1, 2] == [entry.step for entry in second]
    second.close()
    with open(path, "ab") as other:
        other.write(b"{broken}\n")
    third = MetricsLog(str(path), options=Options())
    with pytest.raises(MetricsLogError, match="line 3"):
        third.record(step=3, **FIELDS)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"step": 2**32}, InvalidEventError),
        ({"step": 1.0}, InvalidEventError),
        ({"wall_time_ms": math.nan}, InvalidEventError),
        ({"loss": "low"}, InvalidEventError),
        ({"extra": [1]}, InvalidEventError),
        ({"lossy": 1.0}, TypeError),
    ],
)
def test_what_is_not_an_entry_is_refused(path: Path, fields: dict[str, Any], error: type[Exception]) -> None:
    """A wrong or unknown field raises, and leaves disk and memory unchanged."""
    log = MetricsLog.open(path)
    log.record(step=1, **FIELDS)
    with pytest.raises(error):
        log.record(**{"step": 2, **FIELDS, **fields})
    with pytest.raises(InvalidEventError, match="missing required field `loss`"):
        log.record(step=2, wall_time_ms=1.0)
    with pytest.raises(TypeError, match="not both"):
        log.record(next(iter(log)), step=3)
    assert (1, LINE % 1) == (len(log), path.read_bytes())


@pytest.mark.parametrize("effect", ["error", "short-write"])
@pytest.mark.parametrize("lasting", ["once", "for-ever"])
def test_no_failing_call_parts_disk_and_memory(
    tmp_path: Path, lasting: Literal["once", "for-ever"], effect: Literal["error", "short-write"]
) -> None:
    """Whichever call fails, record raises, memory has exactly the entries that are on disk, and the tail is kept."""
    for at in itertools.count(1):
        path = with_log(tmp_path / str(at) / "metrics.jsonl", LINE % 1 + b'{"step":2')
        failing = FailingCalls(at=at, error=errno.EIO, effect=effect, lasting=lasting)
        log = MetricsLog.open(path, options=Options(calls=failing.calls))
        recorded = [1]
        for step in (2, 3, 4):
            with contextlib.suppress(OSError):
                log.record(step=step, **FIELDS)
                recorded.append(step)
        with contextlib.suppress(OSError):
            log.close()
        assert recorded == [entry.step for entry in log]
        assert recorded == steps(path)
        kept = [content(os.path.join(path.parent, name)) for name in os.listdir(path.parent) if ".torn-" in name]
        assert b'{"step":2' in kept
        if not failing.was_hit:
            break
    assert at > 12
    assert [1, 2, 3, 4] == recorded


def test_an_interrupt_does_not_part_disk_and_memory(path: Path) -> None:
    """Ctrl-C in the middle of a record leaves an entry in both places or in none."""
    parts = iter([None, 5, None])

    def write(descriptor: int, data: Any) -> int:
        os.write(descriptor, data[: next(parts)])
        raise KeyboardInterrupt

    log = MetricsLog.open(path, options=Options(calls=SystemCalls(write=write)))
    for step in (1, 2, 3):
        with pytest.raises(KeyboardInterrupt):
            log.record(step=step, **FIELDS)
    log.close()
    assert [1, 3] == steps(path) == [entry.step for entry in log]


def test_what_a_signal_handler_records_is_in_memory_too(path: Path) -> None:
    """An entry that a handler records while another is written comes after it, on disk and in memory."""
    calls = iter(range(3, 5))

    def write(descriptor: int, data: Any) -> int:
        for step in calls:
            log.record(step=step, **FIELDS)
        return os.write(descriptor, data)

    log = MetricsLog.open(path, options=Options(calls=SystemCalls(write=write)))
    for step in (1, 2):
        log.record(step=step, **FIELDS)
    log.close()
    assert [1, 3, 4, 2] == steps(path) == [entry.step for entry in log]


def test_a_summary_counts_what_is_finite(path: Path) -> None:
    """Losses that are not finite are left out of the three and counted; without a finite one they are NaN."""
    log = MetricsLog.open(path)
    assert MetricsSummary() == log.summary()
    log.record(step=1, **FIELDS | {"loss": math.nan})
    summary = log.summary()
    assert (1, 12.5, 1) == (summary.total_steps, summary.total_wall_time_ms, summary.non_finite)
    assert all(math.isnan(value) for value in (summary.loss_min, summary.loss_mean, summary.loss_max))
    for step, loss in ((2, 0.1), (3, 0.2), (4, 0.4)):
        log.record(step=step, **FIELDS | {"loss": loss, "wall_time_ms": 10.0 * step})
    mean = binary32((binary32(0.1) + binary32(0.2) + binary32(0.4)) / 3)
    expected = MetricsSummary(
        total_steps=4,
        total_wall_time_ms=40.0,
        loss_min=binary32(0.1),
        loss_mean=mean,
        loss_max=binary32(0.4),
        non_finite=1,
    )
    assert expected == log.summary()


def test_a_gradient_norm_is_rounded_once() -> None:
    """The norm is summed in binary64 and rounded to binary32; of nothing it is zero."""
    assert 0.0 == grad_norm([])
    assert 5.0 == grad_norm([3, 4])
    assert binary32(math.sqrt(0.1**2 * 3)) == grad_norm(0.1 for _ in range(3))
    assert math.inf == grad_norm([1e200])
    assert math.isnan(grad_norm([math.nan, 1.0]))
