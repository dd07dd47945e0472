"""A seal shows every change of a sealed run, and no name in it leads out of the run's directory."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

import toyspec
from files import put_irregular
from sealed_runs import broken, write_run
from toyspec.core.checker import CheckOptions, check, iter_runs
from toyspec.core.findings import FileReport, PathError, Skipped
from toyspec.core.generated import rules
from toyspec.core.writing.sealing import seal


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Give a sealed run."""
    return write_run(tmp_path / "runs" / "demo", is_sealed=True)


METRICS = b'{"step":1,"wall_time_ms":1}\n'
TOY = (
    b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"r"}\n{"kind":"step","t":1.0,"step":1,"loss":2.5}\n'
    b'{"kind":"run_end","t":2.0,"reason":"completed"}\n'
)


@pytest.mark.parametrize(
    ("name", "stream", "other"),
    [("metrics.jsonl", METRICS, "a"), pytest.param("events.jsonl", TOY, "b\n", marks=pytest.mark.slow)],
)
def test_every_flipped_bit_is_found(tmp_path: Path, name: str, stream: bytes, other: str) -> None:
    """Each single bit of a small sealed run, in the stream, another file and the seal itself, makes it invalid."""
    (tmp_path / name).write_bytes(stream)
    (tmp_path / other).write_bytes(b"\xff")
    seal(tmp_path)
    assert [] == broken(tmp_path)
    unseen = [
        (path.name, bit)
        for path in sorted(tmp_path.iterdir())
        for bit in range(8 * path.stat().st_size)
        if not flip_is_found(tmp_path, path, bit)
    ]
    assert [] == unseen


def flip_is_found(run: Path, path: Path, bit: int) -> bool:
    """Return whether the run is invalid while one bit of *path* is flipped."""
    with path.open("r+b", buffering=0) as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ (1 << (bit % 8))]))
        is_found = not check(run, select=[rules.SEAL_BROKEN]).files[0].valid
        file.seek(bit // 8)
        file.write(bytes([byte]))
    return is_found


def test_digests_are_shown_as_far_as_they_differ(run: Path) -> None:
    """A digit that changed in the seal itself is in the message, however late it comes."""
    seal = run / "SHA256SUMS"
    data = bytearray(seal.read_bytes())
    right = chr(data[30])
    data[30] = ord("0") if right != "0" else ord("1")
    seal.write_bytes(data)
    ((_, message),) = broken(run)
    assert f"{right}…, expected " in message
    assert f"{chr(data[30])}…; it has " in message


def test_names_that_leave_the_run_are_not_opened(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A parent directory, an absolute path and a link to the outside are findings; what they name is never opened."""
    outside = run.parent / "secret"
    outside.write_bytes(b"secret")
    (run / "link").symlink_to(outside)
    (run / "up").symlink_to(run.parent, target_is_directory=True)
    digest = hashlib.sha256(b"secret").hexdigest()
    names = ["../secret", str(outside), "weights/../../secret", "link", "up/secret"]
    with (run / "SHA256SUMS").open("a") as file:
        file.writelines(f"{digest}  {name}\n" for name in names)
    opened = []

    def watched(path: str | bytes, *rest: int, real: Callable[..., int] = os.open) -> int:
        opened.append(os.path.realpath(os.fsdecode(path)))
        return real(path, *rest)

    monkeypatch.setattr(os, "open", watched)
    expected = [(4 + i, f"`{name}` is outside of the bundle; it was not opened") for i, name in enumerate(names)]
    assert expected == [(line, message.replace("…", "")) for line, message in broken(run)]
    assert str(run / "flow.json") in opened
    assert str(outside) not in opened


def test_links_inside_of_the_run_are_followed(run: Path) -> None:
    """A name that ends inside of the run is compared, whatever links it passes."""
    (run / "weights" / "latest").symlink_to("step_1.gguf")
    digest = hashlib.sha256(b"\0weights").hexdigest()
    with (run / "SHA256SUMS").open("a") as file:
        file.write(f"{digest} *weights/latest\n")
    assert [] == broken(run)


@pytest.mark.parametrize("kind", ["directory", "FIFO", "link to nothing", "large"])
def test_seal_that_is_not_a_file_is_a_finding(run: Path, kind: str) -> None:
    """What has the name of the seal and cannot be read is reported, and never waited for."""
    place = run / "SHA256SUMS"
    place.unlink()
    if kind == "large":
        os.truncate(os.open(place, os.O_CREAT | os.O_WRONLY), (16 << 20) + 1)
    else:
        put_irregular(place, kind)
    reason = "longer than 16777216 bytes" if kind == "large" else "regular file"
    ((line, message),) = broken(run)
    assert line == 1
    assert reason in message


def test_pipe_in_the_seal_is_not_waited_for(run: Path) -> None:
    """A file that became a pipe is not a regular file."""
    (run / "flow.json").unlink()
    os.mkfifo(run / "flow.json")
    assert [(2, "`flow.json` is not a regular file")] == broken(run)


def test_large_files_are_hashed_in_little_memory(run: Path) -> None:
    """The size of a file does not matter to the memory that its digest takes."""
    with (run / "weights" / "big").open("wb") as file:
        file.truncate(64 << 20)
    tracemalloc.start()
    seal(run, existing="keep")
    assert [] == broken(run)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 << 20


def test_streams_that_have_no_seal(run: Path, tmp_path: Path) -> None:
    """A stream under another name, in memory or on standard input has no seal; nor is one looked for with --ignore."""
    (run / "SHA256SUMS").write_bytes(b"junk\n")
    shutil.copy(run / "events.jsonl", run / "copy.jsonl")
    assert check(run / "copy.jsonl").files[0].valid
    assert toyspec.check_bytes((run / "events.jsonl").read_bytes()).valid
    assert check(run, ignore=["seal-broken"]).files[0].valid
    assert not check(run / "events.jsonl").files[0].valid


def test_compressed_stream_is_sealed_as_it_is(run: Path) -> None:
    """The digest of gzip data is that of the file, and a change that decompression does not show is found."""
    packed = bytearray(gzip.compress((run / "events.jsonl").read_bytes()))
    (run / "events.jsonl").unlink()
    (run / "events.jsonl.gz").write_bytes(packed)
    seal(run, existing="keep")
    assert [] == broken(run)
    packed[5] ^= 1  # in the time stamp
    (run / "events.jsonl.gz").write_bytes(packed)
    ((line, message),) = broken(run)
    assert "`events.jsonl.gz` changed" in message
    assert line == 1


def test_damage_that_takes_the_profile_is_found_in_a_walk(tmp_path: Path) -> None:
    """A sealed stream that no longer looks like a log is reported, not skipped as a file of another format."""
    run = write_run(tmp_path / "runs" / "demo", is_sealed=True)
    other = write_run(tmp_path / "runs" / "other")
    for directory in (run, other):
        stream = directory / "events.jsonl"
        stream.write_bytes(b'{"x":1}\n' * 9000)
    found = {type(verdict) for verdict in iter_runs([str(tmp_path)], options=CheckOptions())}
    assert {FileReport, Skipped} == found
    (other / "SHA256SUMS").write_text(f"{hashlib.sha256(stream.read_bytes()).hexdigest()}  events.jsonl\n")
    (run / "SHA256SUMS").unlink()
    kinds = [type(verdict) for verdict in iter_runs([str(tmp_path)], options=CheckOptions())]
    assert [Skipped, Skipped, PathError] == kinds


def test_sealed_directory_without_its_stream(run: Path) -> None:
    """A sealed run that lost its stream is reported if it is named."""
    (run / "events.jsonl").unlink()
    (run / "flow.json").unlink()
    (verdict,) = iter_runs([str(run)], options=CheckOptions())
    assert isinstance(verdict, FileReport)
    assert ["stream-missing"] == [finding.rule for finding in verdict.findings]
