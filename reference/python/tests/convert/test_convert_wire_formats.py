"""Binary records of other programs, one by one: what each message is, and what damage costs."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convert.test_convert_wandb import chunk, written
from toyspec.convert import wandb_files
from toyspec.convert.protobuf import MessageError
from toyspec.convert.tensorboard_files import Damage, decode_event
from toyspec.convert.wandb_files import FILE_HEADER, read_records

BLOCK = 64


@pytest.fixture(autouse=True, scope="module")
def _small_blocks() -> Iterator[None]:
    """Let a few records fill several blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wandb_files, "BLOCK_BYTES", BLOCK)
        patch.setattr(wandb_files, "MAX_RECORD_BYTES", 4 * BLOCK)
        yield


def read(data: bytes) -> list[bytes | Damage]:
    """Return what is read of a run file."""
    return list(read_records(io.BytesIO(data)))


def sized(*sizes: int) -> list[bytes]:
    """Return records of these *sizes*, without zeros."""
    return [bytes((at + number) % 251 + 1 for at in range(size)) for number, size in enumerate(sizes)]


@given(st.lists(st.integers(0, 3 * BLOCK), max_size=6), st.data())
def test_every_whole_record_of_wandb_is_read(sizes: list[int], data: st.DataObject) -> None:
    """A file that ends anywhere has the records that ended before, and says once that something is missing."""
    records = sized(*sizes)
    whole, ends = written(records, BLOCK)
    assert records == read(whole)
    size = data.draw(st.integers(len(FILE_HEADER), len(whole)))
    found = read(whole[:size])
    kept = [record for record, end in zip(records, ends, strict=True) if end <= size]
    assert kept == [item for item in found if isinstance(item, bytes)]
    damages = [item for item in found if isinstance(item, Damage)]
    rest = whole[max([len(FILE_HEADER), *(end for end in ends if end <= size)]) : size]
    assert len(damages) <= 1
    assert damages or not any(rest)
    assert rest or not damages


BEGIN, END = FILE_HEADER, chunk(1, b"end")
DAMAGED: dict[str, tuple[bytes, list[bytes | Damage]]] = {
    "nothing": (BEGIN, []),
    "a record without an end": (
        BEGIN + chunk(2, b"abc") + END,
        [Damage(17, 3, "a record has no end"), b"end"],
    ),
    "a beginning after a beginning": (
        BEGIN + chunk(2, b"abc") + chunk(2, b"de") + chunk(4, b"f"),
        [Damage(17, 3, "a record has no end"), b"def"],
    ),
    "a middle and an end without a beginning": (BEGIN + chunk(3, b"abc") + chunk(4, b"d") + END, [b"end"]),
    "a wrong check sum": (
        BEGIN + chunk(1, b"abc")[:-1] + b"x" + END,
        [Damage(7, 10, "the check sum of a record is wrong"), b"end"],
    ),
    "a wrong length": (
        BEGIN + struct.pack("<IHB", 1, 40, 1) + b"abc" + END,
        [Damage(7, 10, "the check sum of a record is wrong"), b"end"],
    ),
    "a kind that there is not": (
        BEGIN + chunk(5, b"abc") + chunk(0, b"abc") + END,
        [Damage(7, 20, "the check sum of a record is wrong"), b"end"],
    ),
    "damage within a record": (
        BEGIN + chunk(2, b"abc") + b"#######" + chunk(4, b"d") + END,
        [Damage(17, 7, "the check sum of a record is wrong"), b"end"],
    ),
    "zeros": (BEGIN + bytes(20), [Damage(7, 20, "zeros in place of records")]),
    "zeros to the end of a block": (
        BEGIN + bytes(BLOCK - 7) + END,
        [Damage(7, BLOCK - 7, "zeros in place of records"), b"end"],
    ),
    "room for no more at the end of a block": (BEGIN + chunk(1, b"a" * 44) + bytes(6) + END, [b"a" * 44, b"end"]),
    "some bytes": (BEGIN + END + b"abc", [b"end", Damage(17, 3, "the last record is not complete")]),
    "a beginning alone": (BEGIN + chunk(2, b"abc"), [Damage(17, 3, "the last record is not complete")]),
    "a record beyond the limit": (
        b"".join(
            [BEGIN, chunk(2, b"a" * 50), *[chunk(3, b"b" * 57)] * 5, chunk(4, b"c" * 3), END],
        ),
        [b"end"],
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_of_wandb_is_located(name: str) -> None:
    """What cannot be read is named by its place and length, and costs nothing that is whole."""
    data, expected = DAMAGED[name]
    assert expected == read(data)


@pytest.mark.parametrize(
    ("data", "fact"),
    [
        (b"\x0b", "wire type 3 is not known"),
        (b"\x09\0\0\0\0\0\0\0", "field 1 ends after the message"),
        (b"\x15\0\0\0", "field 2 ends after the message"),
        (b"\x2a\x02a", "field 5 ends after the message"),
        (b"\x10\x80", "an integer is not complete"),
        (b"\x10" + b"\x80" * 10 + b"\x01", "an integer is not complete"),
    ],
    ids=range(6),
)
def test_message_that_is_none_says_why(data: bytes, fact: str) -> None:
    """Where it is wrong is named by the number of the field."""
    with pytest.raises(MessageError) as caught:
        decode_event(data)
    assert fact == str(caught.value)
