"""Tests of the line splitter."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toyspec.core.findings import HEAD_BYTES, Fragment
from toyspec.core.format.lines import Line, LineSplitter

STREAMS = st.lists(st.sampled_from([b"\n", b"a", b"\x00", b"\r", b"{}", b"0123456789"]), max_size=40).map(b"".join)


def _split(chunks: list[bytes], limit: int = 1 << 24) -> tuple[list[Line], Fragment | None]:
    splitter = LineSplitter(max_line_bytes=limit)
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    return lines, splitter.fragment()


def _cut(data: bytes, sizes: list[int]) -> list[bytes]:
    chunks = []
    for size in sizes:
        chunks.append(data[:size])
        data = data[size:]
    return [*chunks, data]


def test_lines_carry_number_offset_and_bytes_without_lf() -> None:
    """Only 0x0A ends a line, and each line knows where it stands."""
    lines, fragment = _split([b"a\r\n\n\xe2\x80\xa8b\x0bc\nrest"])

    assert [
        Line(1, 0, 2, b"a\r", b""),
        Line(2, 3, 0, b"", b""),
        Line(3, 4, 6, b"\xe2\x80\xa8b\x0bc", b""),
    ] == lines
    assert Fragment(4, 11, 4, all_nul=False, head=b"rest") == fragment


def test_stream_that_ends_in_lf_has_no_fragment() -> None:
    """A committed stream leaves nothing over."""
    assert _split([b"a\n"])[1] is None
    assert _split([b""])[1] is None


@given(STREAMS, st.lists(st.integers(0, 9), max_size=30), st.integers(1, 40))
def test_cutting_gives_the_lines_that_feeding_gives(data: bytes, sizes: list[int], limit: int) -> None:
    """Both ways to cut a chunk at once give its lines and leave the same fragment, or take in nothing."""
    fed, cut, ended = (LineSplitter(max_line_bytes=limit) for _ in range(3))
    for chunk in _cut(data, sizes):
        before = fed.position, fed.size
        expected = [line.data for line in fed.feed(chunk)]
        lines, together = cut.cut(chunk), ended.cut_together(chunk)
        if lines is None:
            assert together is None
            assert before == (cut.position, cut.size) == (ended.position, ended.size)
            cut.feed(chunk)
            ended.feed(chunk)
        else:
            assert expected == lines
            assert b"".join(data + b"\n" for data in lines) == together
            ended.skip(len(lines), 0)
        assert (fed.position, fed.fragment()) == (cut.position, cut.fragment()) == (ended.position, ended.fragment())


def test_too_long_line_is_never_held() -> None:
    """Memory stays at the limit while a line without end goes by, and the next line is read normally."""
    splitter = LineSplitter(max_line_bytes=1 << 16)
    chunk = b"\x00" * (1 << 16)
    tracemalloc.start()
    for _ in range(1600):
        splitter.feed(chunk)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    fragment = splitter.fragment()
    assert peak < 1 << 20
    assert fragment == Fragment(1, 0, 1600 << 16, all_nul=True, head=b"\x00" * HEAD_BYTES)
    assert splitter.pending() is None
    assert [
        Line(1, 0, 1600 << 16, None, b"\x00" * HEAD_BYTES),
        Line(2, (1600 << 16) + 1, 1, b"a", b""),
    ] == splitter.feed(b"\na\n")


@given(st.lists(st.sampled_from([b"\x00", b"\x00\x00\x00", b"a"]), min_size=1), st.integers(1, 5))
@example([b"\x00", b"\x00", b"a"], 1)
@example([b"a", b"\x00", b"\x00"], 1)
@example([b"\x00", b"a", b"\x00"], 1)
def test_fragment_says_whether_every_byte_is_nul(chunks: list[bytes], limit: int) -> None:
    """One other byte anywhere makes a fragment an unterminated line, held or not."""
    _, fragment = _split(chunks, limit)

    assert fragment is not None
    assert (set(b"".join(chunks)) == {0}) == fragment.all_nul
    assert b"".join(chunks)[:HEAD_BYTES] == fragment.head


def test_limit_below_one_is_refused() -> None:
    """A limit that no line can keep is a misuse."""
    with pytest.raises(ValueError, match="max_line_bytes is 0"):
        LineSplitter(max_line_bytes=0)
