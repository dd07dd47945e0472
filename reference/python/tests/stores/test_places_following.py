from __future__ import annotations

from contextlib import suppress

import pytest

from loopback_store import BUCKET, Handler, Store, status, stream, web
from toyspec import (
    StreamUnreadableError,
    follow,
    read,
)
from toyspec.core.command_line.main import main
from toyspec.core.places.place import ChangedError
from toyspec.core.places.remote_files import RemoteFile
from toyspec.core.reading.live_stream import open_live

pytest.importorskip("obstore", reason="the extra remote is not installed")


def test_object_that_grows_while_it_is_read(store: Store) -> None:
    """A longer object with the same start is read on; one with other bytes is an error."""
    address = f"s3://{BUCKET}/a/events.jsonl"
    store.put("a/events.jsonl", stream(3000, end=""))
    reading = read(address)
    next(reading)
    store.put("a/events.jsonl", stream(4000))
    assert 4001 == len(list(reading))
    reading = read(address)
    next(reading)
    store.put("a/events.jsonl", stream(5000, run_id="other"))
    with pytest.raises(StreamUnreadableError, match="it changed while it was read; read it again"):
        list(reading)


def test_following_reads_only_what_is_new(store: Store) -> None:
    """A longer object is continued: of what was read before, only the last bytes are read again."""
    address = f"s3://{BUCKET}/a"
    store.put("a/events.jsonl", stream(3000, end=""))
    versions = iter([stream(3100, end=""), stream(3200)])
    marks: list[int] = []

    def grow(_: float) -> None:
        marks.append(store.sent)
        with suppress(StopIteration):
            store.put("a/events.jsonl", next(versions))

    records = list(follow(address, sleep=grow))
    assert 3203 == len(records)
    assert "ended" == getattr(records[-1], "kind", None)
    first, second = marks[1] - marks[0], store.sent - marks[1]
    assert max(first, second) <= 4096 + len(stream(3100)) - len(stream(3000)) + 200


def test_growth_that_the_identity_does_not_show_is_read(store: Store) -> None:
    """A web server without tags knows versions by the second of their time; what came within it has another size."""
    store.has_tags = False
    store.put("a/events.jsonl", stream(2, end=""))
    whole = stream(2)

    def grow(_: float) -> None:
        store.put("a/events.jsonl", whole)

    kinds = [getattr(record, "kind", None) for record in follow(web(store, "a/events.jsonl"), sleep=grow)]
    assert ["run_start", "step", "step", "run_end", "ended"] == kinds


def test_following_says_what_is_not_a_continuation(store: Store) -> None:
    """Another object, a shorter one, none, and one that comes back are events; nothing is read twice."""
    address = f"s3://{BUCKET}/a/events.jsonl"
    store.put("a/events.jsonl", stream(300, end=""))
    steps: list[bytes | None] = [stream(400, run_id="other", end=""), stream(5, end=""), None, stream(6)]

    def change(_: float) -> None:
        version = steps.pop(0)
        if version is None:
            del store.objects[f"{BUCKET}/a/events.jsonl"]
        else:
            store.put("a/events.jsonl", version)

    items = list(follow(address, sleep=change))
    events = [item.kind for item in items if not hasattr(item, "raw")]
    assert ["replaced", "truncated", "gone", "ended"] == events
    assert 301 + 401 + 6 + 2 == sum(hasattr(item, "raw") for item in items)


def test_following_waits_out_errors(store: Store) -> None:
    """A poll that fails is repeated; the follower has the error meanwhile."""
    store.put("a/events.jsonl", stream(3, end=""))
    seen: list[str] = []

    def fail(_: float) -> None:
        seen.append(str(follower.trouble))
        store.every = status(403) if len(seen) == 1 else None
        if len(seen) == 2:
            store.put("a/events.jsonl", stream(4))

    follower = follow(f"s3://{BUCKET}/a/events.jsonl", sleep=fail)
    assert 7 == len(list(follower))
    assert "None" == seen[0]
    assert "403 Forbidden" in seen[1]


@pytest.mark.parametrize("change", ["replaced", "refused"])
def test_tail_once_is_not_cut_short(store: Store, capsys: pytest.CaptureFixture[str], change: str) -> None:
    """An object that is replaced after its first bytes were read is read to its end; one that fails is an error."""
    store.put("a/events.jsonl", stream(3000, end=""))
    longer = stream(3001, end="")

    def answer(handler: Handler) -> bool:
        if handler.headers.get("Range", "bytes=0-").startswith("bytes=0-"):
            return False
        store.put("a/events.jsonl", longer)
        return change == "refused" and status(403)(handler)

    store.every = answer
    code = main(["tail", "--once", "-n", "1", f"s3://{BUCKET}/a"])
    said = capsys.readouterr()
    if change == "replaced":
        assert (0, "") == (code, said.err)
        assert "step 3001" in said.out
    else:
        assert 2 == code
        assert f"toyspec tail: s3://{BUCKET}/a/events.jsonl: 403 Forbidden" in said.err


@pytest.mark.parametrize("sought", [0, 10, 9000, 65536, 150_000])
@pytest.mark.parametrize("change", ["grows", "another", "shorter", "same"])
def test_object_that_is_replaced_is_read_on_only_behind_the_same_bytes(store: Store, change: str, sought: int) -> None:
    """What was read just before the place must be there still; behind bytes that were not read nothing goes on."""
    address = f"s3://{BUCKET}/a/events.jsonl"
    first = stream(3000, end="")
    assert len(first) > 200_000
    later = {
        "grows": stream(4000, end=""),
        "another": stream(4000, run_id="other", end="")[::-1],
        "shorter": first[:1000],
        "same": first,
    }[change]
    for is_sought in (False, True):
        store.put("a/events.jsonl", first)
        with RemoteFile(address) as file:
            if is_sought:
                file.seek(sought)
            else:
                before = b""
                while len(before) < sought:
                    before += file.read(sought - len(before)) or b""
                assert first[:sought] == before
            store.put("a/events.jsonl", later)
            expected = first[sought:]
            try:
                rest = file.read()
            except ChangedError:
                assert change != "same"
                continue
        # Never a mixture: the bytes of the first version at their place, or those of the later one that begins with it.
        assert rest is not None
        assert rest in (expected, later[sought:])
        assert change in ("grows", "same") or rest == expected


def test_any_part_of_an_object_is_read_where_it_is(store: Store) -> None:
    """Reading a part moves nothing, and gives no more than was asked for, whether or not its block is kept."""
    data = bytes(range(256)) * 1000
    store.put("a/x", data)
    live = open_live(f"s3://{BUCKET}/a/x")
    begin, end = 1 << 16, len(data)
    for start, size in [
        (5, 7),
        (0, begin),
        (begin - 3, 9),
        (begin, 4),
        (begin + 2, 3),
        (end - 5, 5),
        (end - 5, 99),
        (3, 2),
    ]:
        assert data[start : start + size] == live.read(start, size), (start, size)
        assert data[:9] == live.peek(9)
    live.take(data[:begin])
    assert (data[begin : begin + 9], begin) == (live.peek(9), live.position)
