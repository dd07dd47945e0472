"""What each place promises to a synchronization, without a server: writes, comparisons, errors, and what is sent."""

from __future__ import annotations

import os
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import toyspec
from files import in_subprocess
from loopback_store import BUCKET, Store
from toyspec.core.errors import PlaceError
from toyspec.core.places.place import ChangedError, Entry
from toyspec.stores import folders, run_sync, transfers
from toyspec.stores.folders import Folder
from toyspec.stores.run_files import files_to_send, kept_name
from toyspec.stores.syncing import target_of
from toyspec.stores.transfers import LocalFile, ShortenedError, relation

obstore = pytest.importorskip("obstore", reason="the extra remote is not installed")


def local(path: Path, data: bytes) -> Any:
    """Return the open file *path* with *data*."""
    path.write_bytes(data)
    return LocalFile(str(path), lines=False)


def test_directory_is_not_a_file_of_a_folder(tmp_path: Path) -> None:
    """What is not a regular file could block, or never end."""
    with pytest.raises(PlaceError) as refused:
        Folder(f"file://{tmp_path}").read_range(f"file://{tmp_path}", 0, 1, None)
    assert f"file://{tmp_path}: a directory, not a regular file; check the directory" == str(refused.value)


def test_folder_that_another_program_holds_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a write nor an extension goes on beside it, and nothing is left over."""

    def held(*_: object) -> None:
        raise BlockingIOError

    target, address = Folder(f"file://{tmp_path}"), f"file://{tmp_path}/p/x"
    with local(tmp_path / "f", b"one\n") as file:
        made = target.put(file, address, None)
        monkeypatch.setattr(folders, "try_lock", held)
        for shared in (0, 3):
            with pytest.raises(ChangedError):
                target.put(file, address, made, shared)
    assert (["x"], b"one\n") == (os.listdir(tmp_path / "p"), (tmp_path / "p" / "x").read_bytes())


def test_leftovers_of_killed_processes_are_removed(tmp_path: Path) -> None:
    """Those of other machines after a day; names that only resemble one stay, and those of a live process."""
    ended = in_subprocess("import os; print(os.getpid())")
    gone = {f".x.{folders._HOST}.{int(ended.stdout)}.new": 5, ".x.elsewhere.7.new": 86_500}
    left = {
        ".y.elsewhere.7.new": 86_300,
        f".z.{folders._HOST}.{'9' * 17}.new": 5,
        f".x.{folders._HOST}.{os.getppid()}.new": 5,
    }
    others = {".x.new": 1e6, "x.elsewhere.7.new": 1e6}
    for name, age in {**gone, **left, **others}.items():
        (tmp_path / name).write_bytes(b"")
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    folder = Folder(f"file://{tmp_path}")
    with local(tmp_path / "f", b"one\n") as file:
        folder.put(file, f"file://{tmp_path}/new", None)
    assert {*left, *others, "f", "new"} == set(os.listdir(tmp_path))
    listed = {os.path.basename(entry.address) for entry in folder.entries(f"file://{tmp_path}")}
    assert {*others, "f", "new"} == listed


@pytest.mark.parametrize(
    "case",
    [
        (100, 100, "same", [(0, 100)]),
        (100, 90, "behind", [(0, 90)]),
        (90, 100, "ahead", [(0, 90)]),
        (100, 0, "behind", []),
        (65_536, 65_536, "same", [(0, 65_536)]),
        (65_537, 65_537, "same", [(61_441, 4096), (0, 4096)]),
    ],
)
def test_object_is_compared_by_few_bytes(
    case: tuple[int, int, str, list[tuple[int, int]]], store: Store, tmp_path: Path
) -> None:
    """Up to 64 KiB all of what both have, else its ends, the last one first; one byte tells."""
    mine, there, expected, asked = case
    data, address = bytes(at % 251 for at in range(max(mine, there))), f"s3://{BUCKET}/x"
    target = target_of(address)
    with local(tmp_path / "f", data[:mine]) as file:

        def found(content: bytes) -> str:
            store.put("x", content)
            return relation(file, target.status(address), target)

        assert expected == found(data[:there])
        assert [f"bytes={start}-{start + size - 1}" for start, size in asked] == [each.range for each in store.reads()]
        for start, size in asked:
            for at in (start, start + size - 1):
                assert "other" == found(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 : there])


def test_file_ends_with_its_last_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is after it is not sent; a file that was cut, or has other bytes now, is not sent in part."""
    monkeypatch.setattr(transfers, "LINE_BYTES", 8)
    path = tmp_path / "f"
    for data, stop, last in (
        (b"", 0, b""), (b"no line", 0, b""), (b"a\nbc\nd", 5, b"bc"), (b"0123456789\n", 11, b""),
        (b"0123456\n", 8, b"0123456"), (b"ab\n0123456\n", 11, b""),
    ):  # fmt: skip
        path.write_bytes(data)
        with LocalFile(str(path), lines=True) as file:
            assert (stop, last, len(data)) == (file.stop, file.last_line(), file.size)
            assert (data[:stop], [data[at : min(stop, at + 3)] for at in range(0, stop, 3)]) == (
                file.read(0, stop), list(file.blocks(3)),
            )  # fmt: skip
    path.write_bytes(b"one\ntwo\n")
    with LocalFile(str(path), lines=True) as file:
        path.write_bytes(b"one\nother\n")
        with pytest.raises(ShortenedError, match="it became shorter while it was read"):
            file.read(0, file.stop)
        assert b"one" == file.read(0, 3)
        path.write_bytes(b"one")
        with pytest.raises(ShortenedError):
            file.read(0, 4)


def test_files_of_a_run_come_in_their_order(tmp_path: Path) -> None:
    """Media come before their records, what a rename makes free before what takes its name, the seal after both."""
    order = [
        "events.jsonl.prev-12", "events.jsonl.prev-2", "events.jsonl.gz", "events.jsonl.prev", "events.jsonl.torn-5",
        "events.jsonl.torn-5-1", "metrics.jsonl.prev", "events.jsonl", "metrics.jsonl", "SHA256SUMS.prev",
        "flow.json", "import.json", "report.md", "run.json", "SHA256SUMS", "annotations.jsonl", "events.rank-1.jsonl",
        f"media/{'a' * 64}.png",
    ]  # fmt: skip
    more = ["events.jsonl.prev-x", "w/a.bin", "w/deep/b.bin", "z.bin"]
    hidden = [".git/x", "w/.x", "SHA256SUMS.new", "other/events.jsonl", "other/y"]
    for name in (*order, *more, *hidden):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "link").symlink_to("z.bin")
    found = [file.name for file in files_to_send(str(tmp_path), "logs")]
    known = [name for name in found if name in order]
    assert sorted(order) == sorted(known)
    assert [name for name in known if ".prev" in name and name.startswith("events")] == [
        "events.jsonl.prev-12", "events.jsonl.prev-2", "events.jsonl.prev",
    ]  # fmt: skip
    assert ["SHA256SUMS", "annotations.jsonl"] == found[-2:]
    kinds = [file.kind for file in files_to_send(str(tmp_path), "all")]
    assert kinds == sorted(kinds, key=["media", "side file", "stream", "sidecar", "seal", "annotations"].index)
    every = {file.name for file in files_to_send(str(tmp_path), "all")}
    assert {*order, *more} == every - {"SHA256SUMS.new"}
    assert not {*hidden, "link"} - {"SHA256SUMS.new"} & every
    assert not set(more) & set(found)


def test_kept_name_is_that_of_the_object() -> None:
    """The same object always has the same name, and another one another."""
    entry = Entry("x", 5, "id")
    assert f"log.prev-{sha256(b'5 id').hexdigest()[:8]}" == kept_name("log", entry)


@pytest.mark.parametrize(
    ("line", "is_end"),
    [
        (b'{"kind":"run_end"}', True), (b'{"kind":"note","text":"run_end"}', False), (b'{"a":"run_end"}', False),
        (b'["run_end"]', False), (b"", False),
    ],
)  # fmt: skip
def test_end_of_a_run_is_its_kind(line: bytes, is_end: bool) -> None:
    """A text that only has the words is none."""
    assert is_end == run_sync._is_end(line)


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"every": True}, "every is True; it must be"),
        ({"every": "5"}, "every is '5'; it must be"),
        ({"every": float("nan")}, "every is nan; it must be"),
        ({"wait": -0.5}, "wait is -0.5; it must be a number of seconds ≥ 0"),
        ({"patience": -1}, "patience is -1; it must be a number of seconds ≥ 0"),
        ({"max_delay": 0.001}, "max_delay is 0.001; it must be a number of seconds ≥ 0.01"),
        ({"files": "weights"}, "files is 'weights'; it must be 'logs' or 'all'"),
    ],
)
def test_setting_that_cannot_be_is_refused(options: dict[str, Any], fact: str) -> None:
    """The message has the value and what it must be."""
    with pytest.raises(ValueError, match=fact):
        toyspec.Sync("runs", **options)


@pytest.mark.parametrize(
    ("to", "fact"),
    [
        ("s3:/bucket/team", "to is 's3:/bucket/team'; an address has two slashes, and ./ before it is a path"),
        ("s3://key:word@bucket/runs", "credentials in an address are not used"),
    ],
)
def test_place_that_was_hardly_meant_is_refused(to: str, fact: str) -> None:
    """A mistake is found where it is made, before a run starts, and no password is shown."""
    with pytest.raises(ValueError, match=fact) as caught:
        toyspec.Sync(to)
    assert "word" not in str(caught.value)


def test_repository_is_not_kept_in_step() -> None:
    """The message names the command that sends there."""
    with pytest.raises(PlaceError, match="runs there are read only; send them with `hf upload`"):
        target_of("hf://me/runs")
