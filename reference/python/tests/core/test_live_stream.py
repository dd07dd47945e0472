"""What is read of a live stream is what is in its file, whatever happened to it."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toyspec.core.reading.live_stream import Change, LiveStream

LINES = st.lists(st.sampled_from([b"a", b"bc", b"\n", b"{}\n", b"longer than a chunk\n"]), max_size=6).map(b"".join)


class Copy:
    """The bytes of a stream, as its changes give them."""

    def __init__(self, path: Path, *, chunk_bytes: int = 7) -> None:
        self.stream = LiveStream(lambda: str(path), chunk_bytes=chunk_bytes)
        self.data = b""

    @property
    def is_well(self) -> bool:
        """Whether the last poll met no error."""
        return self.stream.trouble is None

    def poll(self) -> list[Change]:
        """Take in what is new; return the changes of the file."""
        changes: list[Change] = []
        for each in self.stream.poll():
            if isinstance(each, bytes):
                self.data += each
                continue
            changes.append(each)
            if each == "uncommitted-changed":
                self.data = self.data[: self.data.rfind(b"\n") + 1]
            elif each != "gone":
                self.data = b""
        return changes


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["append", "rewrite", "replace", "rotate", "cut", "fix", "delete"]), LINES, st.booleans()
        )
    )
)
def test_copy_is_what_is_there(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, bytes, bool]]
) -> None:
    """However a file is written, cut, replaced, renamed and deleted between polls, the copy has its bytes."""
    path = tmp_path_factory.mktemp("live") / "events.jsonl"
    copy = Copy(path)
    for number, (kind, data, is_polled) in enumerate(changes):
        _change(path, kind, data, number)
        if is_polled:
            copy.poll()
    path.touch()
    # What replaced a fragment may look the same at both of its ends, so a last committed line makes it plain.
    with open(path, "ab") as file:
        file.write(b"end\n")
    copy.poll()
    copy.poll()
    copy.stream.close()
    assert path.read_bytes() == copy.data


def _change(path: Path, kind: str, data: bytes, number: int) -> None:
    text = f"{number} ".encode() + data
    if kind == "append" or not path.exists():
        with open(path, "ab") as file:
            file.write(text)
    elif kind == "rewrite":
        path.write_bytes(text)
    elif kind == "replace":
        (path.parent / "new").write_bytes(text)
        os.replace(path.parent / "new", path)
    elif kind == "rotate":
        path.rename(path.parent / f"old-{number}")
        path.write_bytes(text)
    elif kind == "cut":
        os.truncate(path, path.stat().st_size // 2)
    elif kind == "fix":
        os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
    else:
        path.unlink()


def test_changes_are_named(tmp_path: Path) -> None:
    """Each change of the file is reported once, at the poll that sees it."""
    path = tmp_path / "events.jsonl"
    copy = Copy(path)
    assert ([], []) == (copy.poll(), copy.poll())
    path.write_bytes(b"1\n2")
    assert ["begun"] == copy.poll()
    os.truncate(path, 2)
    assert ["uncommitted-changed"] == copy.poll()
    os.truncate(path, 1)
    assert ["truncated"] == copy.poll()
    path.write_bytes(b"1\n2\n")
    assert [] == copy.poll()
    path.write_bytes(b"3\n4\n")
    assert ["replaced"] == copy.poll()
    path.rename(tmp_path / "old")
    assert (["gone"], [], True) == (copy.poll(), copy.poll(), copy.stream.is_gone)
    path.write_bytes(b"5\n")
    assert (["rotated"], b"5\n") == (copy.poll(), copy.data)
    path.unlink()
    path.write_bytes(b"6\n")
    assert (["replaced"], b"6\n") == (copy.poll(), copy.data)


@pytest.mark.parametrize(
    ("part", "at"),
    [("first line", 0), ("first line", -1), ("committed", -1), ("fragment", 0), ("fragment", 1), ("fragment", -1)],
)
def test_changed_byte_is_seen_at_both_ends(tmp_path: Path, part: str, at: int) -> None:
    """What was read is compared by the first and the last bytes of the committed lines, and of what follows them."""
    path = tmp_path / "events.jsonl"
    parts = {"first line": b"a" * 3000 + b"\n", "committed": b"b" * 9000 + b"\n", "fragment": b"c" * 9000}
    path.write_bytes(b"".join(parts.values()))
    copy = Copy(path, chunk_bytes=1 << 16)
    assert ["begun"] == copy.poll()
    size = len(parts[part])
    changed = bytearray(parts[part])
    # The LF at the end of a line stays.
    changed[at if at >= 0 or part == "fragment" else size - 2] = ord("x")
    path.write_bytes(b"".join((parts | {part: bytes(changed)}).values()) + b"\n")
    assert ["uncommitted-changed" if part == "fragment" else "replaced"] == copy.poll()
    copy.poll()
    assert path.read_bytes() == copy.data


def test_compressed_file_is_unpacked(tmp_path: Path) -> None:
    """A gzip file is read again when it has grown; one that is cut off is an error until more has come."""
    path = tmp_path / "events.jsonl.gz"
    whole = gzip.compress(b"1\n" * 1000, mtime=0)
    path.write_bytes(whole[:-3])
    copy = Copy(path)
    assert ["begun"] == copy.poll()
    assert not copy.is_well
    assert [] == copy.poll()
    path.write_bytes(whole)
    assert (["replaced"], b"1\n" * 1000) == (copy.poll(), copy.data)
    assert (True, len(whole)) == (copy.is_well, copy.stream.size)
    path.write_bytes(whole + gzip.compress(b"2\n"))
    assert (["replaced"], b"1\n" * 1000 + b"2\n") == (copy.poll(), copy.data)


def test_nul_bytes_count_when_they_stay(tmp_path: Path) -> None:
    """What a network file system shows before the data has come is not read as data."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"1\n\0\0\0\0")
    copy = Copy(path)
    copy.poll()
    assert (b"1\n", False) == (copy.data, copy.stream.is_settled)
    with open(path, "r+b") as file:
        file.seek(2)
        file.write(b"22\n\0")
    copy.poll()
    assert b"1\n22\n\0" == copy.data
    copy.poll()
    assert copy.stream.is_settled


def test_all_bytes_are_given_again(tmp_path: Path) -> None:
    """A second pass has the same bytes, and polling goes on after them."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"1\n2\n")
    copy = Copy(path)
    copy.poll()
    assert b"1\n2\n" == b"".join(copy.stream.again())
    with open(path, "ab") as file:
        file.write(b"3\n")
    copy.poll()
    assert b"1\n2\n3\n" == copy.data
