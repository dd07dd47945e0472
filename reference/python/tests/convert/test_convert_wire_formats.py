"""Binary records of other programs, one by one: what each message is, and what damage costs."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toyspec.convert import wandb_files
from toyspec.convert.protobuf import MessageError, double_field, field, float_field, integer_field
from toyspec.convert.run_items import Bins
from toyspec.convert.tensorboard_files import Damage, Event, Value, decode_event
from toyspec.convert.wandb_files import FILE_HEADER, read_records

BLOCK = 64


@pytest.fixture(autouse=True, scope="module")
def _small_blocks() -> Iterator[None]:
    """Let a few records fill several blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wandb_files, "BLOCK_BYTES", BLOCK)
        patch.setattr(wandb_files, "MAX_RECORD_BYTES", 4 * BLOCK)
        yield


def chunk(kind: int, data: bytes) -> bytes:
    """Return one chunk of a record."""
    body = bytes([kind]) + data
    return struct.pack("<IH", zlib.crc32(body), len(data)) + body


def written(records: list[bytes]) -> tuple[bytes, list[int]]:
    """Return a run file of W&B with *records*, and where each ends."""
    out, ends = bytearray(FILE_HEADER), []
    for record in records:
        rest, is_first = record, True
        while is_first or rest:
            left = BLOCK - len(out) % BLOCK
            if left < 7:
                out += bytes(left)
                left = BLOCK
            part, rest = rest[: left - 7], rest[left - 7 :]
            kind = (1 if is_first else 4) if not rest else 2 if is_first else 3
            out += chunk(kind, part)
            is_first = False
        ends.append(len(out))
    return bytes(out), ends


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
    whole, ends = written(records)
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


def doubles(number: int, *values: float) -> bytes:
    """Return a packed field of numbers."""
    return field(number, struct.pack(f"<{len(values)}d", *values))


def tensor(dtype: int, *parts: bytes, shape: list[int] | None = None) -> bytes:
    """Return the tensor of a value."""
    sizes = b"".join(field(2, integer_field(1, size)) for size in shape or ())
    return field(8, integer_field(1, dtype) + (b"" if shape is None else field(2, sizes)) + b"".join(parts))


def plugin(name: str, content: bytes | None = None) -> bytes:
    """Return the metadata of a value."""
    return field(9, field(1, field(1, name) + (b"" if content is None else field(2, content))))


def strings(*parts: bytes, shape: list[int] | None = None) -> bytes:
    """Return a tensor of strings."""
    return tensor(7, *(field(8, part) for part in parts), shape=shape)


def old_bins(least: float, most: float, limits: list[float], counts: list[float]) -> bytes:
    """Return a histogram of the first version."""
    return field(5, double_field(1, least) + double_field(2, most) + doubles(6, *limits) + doubles(7, *counts))


def rows(*numbers: float, count: int | None = None, dtype: int = 2, columns: int = 3) -> bytes:
    """Return the tensor of a histogram, whose rows are left, right and count."""
    packed = struct.pack(f"<{len(numbers)}{'d' if dtype == 2 else 'f'}", *numbers)
    return tensor(dtype, field(4, packed), shape=[len(numbers) // 3 if count is None else count, columns])


def start_of_session(*parts: bytes) -> bytes:
    """Return hyperparameters."""
    return field(1, "_hparams_/session_start_info") + plugin("hparams", field(3, b"".join(parts)))


def end_of_session(status: int) -> bytes:
    """Return the end of a session."""
    return field(1, "_hparams_/session_end_info") + plugin("hparams", field(4, integer_field(1, status)))


def setting(name: str, value: bytes) -> bytes:
    """Return one hyperparameter."""
    return field(1, field(1, name) + field(2, value))


OTHER_TENSOR = Value("", "other", "tensor")
OLD, MOMENTS = "histogram", "sum and sum of squares"
HPARAMS = "hyperparameter data"
VALUES: dict[str, tuple[bytes, Value]] = {
    "nothing": (b"", Value("", "other", "empty value")),
    "a number": (field(1, "a") + float_field(2, 0.5), Value("a", "scalar", 0.5)),
    "a tag that is not text": (field(1, b"\xff") + float_field(2, 0.5), Value("\\xff", "scalar", 0.5, is_utf8=False)),
    "an old picture": (
        field(4, integer_field(1, 3) + integer_field(2, 4) + field(4, b"png")),
        Value("", "other", "image"),
    ),
    "a picture that is a number": (integer_field(4, 3), Value("", "other", "image")),
    "an old sound": (field(6, integer_field(1, 8) + field(4, b"wav")), Value("", "other", "audio")),
    "a histogram before that": (field(3, b"x"), Value("", "other", "old histogram")),
    "an old histogram": (
        old_bins(1.0, 5.0, [0.0, 2.0, 4.0, 9.0], [0.0, 3.0, 1.0, 2.0]),
        Value("", "histogram", Bins([1.0, 2.0, 4.0, 5.0], [3.0, 1.0, 2.0]), left_out=MOMENTS),
    ),
    "an old histogram whose limits reach to infinity": (
        old_bins(1.0, 3.0, [-1e308, 2.0, 4.0, float("inf")], [0.0, 3.0, 1.0, 0.0]),
        Value("", "histogram", Bins([1.0, 2.0, 3.0], [3.0, 1.0]), left_out=MOMENTS),
    ),
    "an old histogram of one value": (
        old_bins(2.0, 2.0, [1.0, 3.0], [0.0, 5.0]),
        Value("", "histogram", Bins([2.0, 2.0], [5.0]), left_out=MOMENTS),
    ),
    "an old histogram with counts outside": (
        old_bins(3.0, 3.5, [1.0, 2.0, 4.0], [1.0, 0.0, 2.0]),
        Value("", "histogram", Bins([1.0, 1.0, 2.0, 3.5], [1.0, 0.0, 2.0]), left_out=MOMENTS),
    ),
    "an old histogram with its numbers one by one": (
        field(5, double_field(1, 0.0) + double_field(2, 1.0) + double_field(6, 1.0) + double_field(7, 4.0)),
        Value("", "histogram", Bins([0.0, 1.0], [4.0]), left_out=MOMENTS),
    ),
    "an old histogram without limits": (old_bins(0.0, 1.0, [], []), Value("", "other", OLD)),
    "an old histogram with too few counts": (old_bins(0.0, 1.0, [1.0, 2.0], [1.0]), Value("", "other", OLD)),
    "an old histogram with a count below zero": (old_bins(0.0, 1.0, [1.0], [-1.0]), Value("", "other", OLD)),
    "an old histogram that is a number": (integer_field(5, 1), Value("", "other", OLD)),
    "pictures": (strings(b"4", b"3", b"one", b"two") + plugin("images"), OTHER_TENSOR),
    "sounds": (strings(b"one", b"1st", shape=[1, 2]) + plugin("audio"), OTHER_TENSOR),
    "a sound": (strings(b"one", shape=[1]) + plugin("audio"), Value("", "other", "audio data")),
    "texts": (strings(b"one", b"\xff") + plugin("text"), Value("", "texts", ["one", "\\xff"])),
    "a text": (strings(b"one") + plugin("text"), Value("", "text", "one")),
    "a text of no plugin": (strings(b"one"), Value("", "text", "one")),
    "a text of another plugin": (strings(b"one") + plugin("pr"), Value("", "other", "pr data")),
    "texts of another plugin": (strings(b"one", b"two") + plugin("pr"), OTHER_TENSOR),
    "metadata without a plugin": (float_field(2, 0.5) + field(9, field(2, b"x")), Value("", "scalar", 0.5)),
    "a plugin without content": (float_field(2, 0.5) + field(9, field(1, b"")), Value("", "scalar", 0.5)),
    "a tensor of one number": (tensor(1, field(4, struct.pack("<f", 0.5))), Value("", "scalar", 0.5)),
    "a tensor of one number in a row": (tensor(2, doubles(6, -1e300), shape=[1]), Value("", "scalar", -1e300)),
    "a tensor of one number that is listed": (tensor(1, float_field(5, 0.5)), Value("", "scalar", 0.5)),
    "a tensor of two numbers": (tensor(2, field(4, bytes(16))), OTHER_TENSOR),
    "a tensor of a part of a number": (tensor(2, field(4, bytes(7))), OTHER_TENSOR),
    "a tensor of one number in the shape of two": (tensor(2, field(4, bytes(8)), shape=[2]), OTHER_TENSOR),
    "a tensor of nothing": (tensor(1), OTHER_TENSOR),
    "a histogram": (
        rows(0.0, 1.0, 2.0, 1.0, 3.0, 4.0) + plugin("histograms"),
        Value("", "histogram", Bins([0.0, 1.0, 3.0], [2.0, 4.0])),
    ),
    "a histogram of binary32": (
        rows(0.0, 0.5, 2.0, dtype=1) + plugin("histograms"),
        Value("", "histogram", Bins([0.0, 0.5], [2.0])),
    ),
    "a histogram whose numbers are listed": (
        tensor(2, doubles(6, 0.0, 0.5, 2.0), shape=[1, 3]) + plugin("histograms"),
        Value("", "histogram", Bins([0.0, 0.5], [2.0])),
    ),
    "a histogram with a gap": (
        rows(0.0, 1.0, 2.0, 2.0, 3.0, 4.0) + plugin("histograms"),
        Value("", "histogram", Bins([0.0, 1.0, 2.0, 3.0], [2.0, 0.0, 4.0])),
    ),
    "a histogram whose bins overlap": (rows(0.0, 1.0, 2.0, 0.5, 3.0, 4.0) + plugin("histograms"), OTHER_TENSOR),
    "a histogram that falls": (rows(1.0, 0.0, 2.0) + plugin("histograms"), OTHER_TENSOR),
    "a histogram that is not finite": (rows(0.0, float("inf"), 2.0) + plugin("histograms"), OTHER_TENSOR),
    "a histogram with a negative count": (rows(0.0, 1.0, -2.0) + plugin("histograms"), OTHER_TENSOR),
    "a histogram of two columns": (rows(0.0, 1.0, 2.0, columns=2) + plugin("histograms"), OTHER_TENSOR),
    "a histogram with too few rows": (rows(0.0, 1.0, 2.0, count=2) + plugin("histograms"), OTHER_TENSOR),
    "a histogram of nothing": (rows(count=0) + plugin("histograms"), OTHER_TENSOR),
    "a histogram of integers": (tensor(3, field(4, bytes(24)), shape=[1, 3]) + plugin("histograms"), OTHER_TENSOR),
    "settings": (
        start_of_session(
            setting("lr", double_field(2, 0.5)),
            setting("net", field(3, "mlp")),
            setting("fast", integer_field(4, 1)),
            setting("none", b""),
            setting("list", field(6, b"x")),
            field(2, "s3://model"),
            field(3, "http://monitor"),
            field(4, "group"),
            double_field(5, 1.0),
        ),
        Value(
            "_hparams_/session_start_info",
            "hparams",
            {"lr": 0.5, "net": "mlp", "fast": True, "none": None, "list": None},
            "group",
            "model_uri, monitor_url, start_time_secs",
        ),
    ),
    "settings alone": (
        start_of_session(setting("lr", double_field(2, 0.5))),
        Value("_hparams_/session_start_info", "hparams", {"lr": 0.5}),
    ),
    "a session that succeeded": (end_of_session(1), Value("_hparams_/session_end_info", "ending", "completed")),
    "a session that failed": (end_of_session(2), Value("_hparams_/session_end_info", "ending", "errored")),
    "a session that goes on": (end_of_session(3), Value("_hparams_/session_end_info", "other", HPARAMS)),
    "an experiment": (
        field(1, "_hparams_/experiment") + plugin("hparams", field(2, b"")),
        Value("_hparams_/experiment", "other", HPARAMS),
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_value_of_tensorboard_is_what_its_plugin_shows(name: str) -> None:
    """Whatever an event holds is a value with its parts, or is named as what cannot be carried."""
    data, expected = VALUES[name]
    event = double_field(1, 9.5) + integer_field(2, 3) + field(5, field(1, data))
    assert Event(9.5, 3, [expected], session_starts=False, others=[]) == decode_event(event)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", Event(0.0, 0, [], session_starts=False, others=[])),
        (field(3, "brain.Event:2"), Event(0.0, 0, [], session_starts=False, others=[])),
        (integer_field(2, -1), Event(0.0, -1, [], session_starts=False, others=[])),
        (field(7, integer_field(1, 1)), Event(0.0, 0, [], session_starts=True, others=[])),
        (field(7, integer_field(1, 2)), Event(0.0, 0, [], session_starts=False, others=["session log"])),
        (
            field(4, b"") + field(6, b"") + field(8, b"") + field(9, b"") + field(99, b""),
            Event(0.0, 0, [], False, ["graph", "log message", "run metadata", "meta graph"]),
        ),
        (field(5, field(2, b"x") + integer_field(1, 4)), Event(0.0, 0, [], session_starts=False, others=[])),
    ],
    ids=range(7),
)
def test_event_of_tensorboard_is_what_it_holds(data: bytes, expected: Event) -> None:
    """What is not a value is named; fields that no version has are passed over."""
    assert expected == decode_event(data)


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
