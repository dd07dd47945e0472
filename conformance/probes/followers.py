"""Questions to followers: the same records however the bytes arrive, and changes of the file."""

from __future__ import annotations

import itertools
import os
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from conformance.accounting import account
from conformance.adapters import AdapterError
from conformance.comparing import value_differences
from conformance.format_facts import MAX_LINE_BYTES
from conformance.messages import ProtocolError
from conformance.probes import changes
from conformance.probes.expected import capabilities, with_defaults
from conformance.probes.question import Needs, Question, Stage, new_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from conformance.cases import Case

_MAX_BYTES = 1 << 20
_MAX_PIECES = 40
# A follower may poll twice before it reports bytes as unreadable: a slow file system may not have filled them yet.
_LAST_POLLS = 3
_SHOWN = 5


def questions(case: Case) -> Iterator[Question]:
    """Yield what a follower is asked about *case*."""
    needs = Needs(profile=case.profile, capabilities=capabilities(case))
    if case.follow:
        yield Question(case=case, role="follower", needs=needs, play=partial(_play, case))
    if case.stream is None or case.scope == "bundle" or "#" in case.name or case.options.profile:
        return
    if len(case.data) > _MAX_BYTES:
        return
    for detail, cut in _CUTTINGS.items():
        yield Question(case=case, role="follower", detail=detail, needs=needs, play=partial(_grow, case, cut))


def whole(data: bytes) -> Iterator[bytes]:
    """Yield *data* at once."""
    yield data


def lines_and_halves(data: bytes) -> Iterator[bytes]:
    """Yield *data* cut within each line, and each LF by itself."""
    for line in data.splitlines(keepends=True):
        middle = len(line) // 2
        yield line[:middle]
        yield line[middle:]


def small_pieces(data: bytes) -> Iterator[bytes]:
    """Yield *data* in pieces of seven bytes, or larger ones if there would be more than forty."""
    size = max(7, -(-len(data) // _MAX_PIECES))
    for start in range(0, len(data), size):
        yield data[start : start + size]


_CUTTINGS: Mapping[str, Callable[[bytes], Iterator[bytes]]] = {
    "whole": whole,
    "halves": lines_and_halves,
    "pieces": small_pieces,
}


def _grow(case: Case, cut: Callable[[bytes], Iterator[bytes]], stage: Stage) -> list[str]:
    path = os.path.join(stage.new_folder(), case.options.name or case.stream or "events.jsonl")
    given: list[Any] = []
    ends = list(_record_ends(case))
    with _following(case, path, stage) as poll:
        for piece in itertools.chain([None], cut(case.data), itertools.repeat(b"", _LAST_POLLS)):
            size = changes.append(path, piece) if piece is not None else 0
            given += poll()
            early = _early(ends, size, given)
            if early:
                return [early]
    return item_differences(_expected(case), given, case.profile)


def _play(case: Case, stage: Stage) -> list[str]:
    name = "metrics.jsonl" if case.profile == "metrics/v1" else "events.jsonl"
    path = os.path.join(stage.new_folder(), name)
    with _following(case, path, stage) as poll:
        for index, step in enumerate(case.follow):
            if "look" not in step:
                changes.change(path, step)
                continue
            found = item_differences(step["look"], poll(), case.profile)
            if found:
                return [f"step {index}, {error}" for error in found]
    return []


@contextmanager
def _following(case: Case, path: str, stage: Stage) -> Iterator[Callable[[], list[Any]]]:
    """Give the function that polls *path*, and stop following at the end."""
    number = new_number()
    request: dict[str, Any] = {"role": "follower", "follower": number, "path": path}
    if case.options.max_line_bytes != MAX_LINE_BYTES:
        request["max_line_bytes"] = case.options.max_line_bytes
    stop = {"role": "follower", "follower": number, "stop": True}
    try:
        yield lambda: stage.answer(request)["items"]
    except BaseException:
        with suppress(AdapterError):
            stage.ask(stop)
        raise
    items = stage.answer(stop)["items"]
    if items:
        raise ProtocolError(f"the answer to stop has {_names(items)}, expected no items")


def _early(ends: list[int], size: int, given: list[Any]) -> str | None:
    """Return an error if more records were given than the first *size* bytes commit, which end at *ends*."""
    records = sum("record" in item for item in given)
    committed = sum(end <= size for end in ends)
    return f"{records} records after {size} bytes, which commit {committed}" if records > committed else None


def _record_ends(case: Case) -> Iterator[int]:
    gaps = {gap.offset for gap in account(case, "salvage").gaps}
    offset = 0
    for line in case.data.split(b"\n")[:-1]:
        end = offset + len(line) + 1
        if offset not in gaps and line.strip(b" \t\r"):
            yield end
        offset = end


def _expected(case: Case) -> list[Any]:
    """Return the items that following the whole stream gives."""
    found: list[Any] = []
    gaps = {gap["offset"]: gap for gap in account(case, "salvage").as_json()["gaps"]}
    records = iter(case.records)
    offset = 0
    for line in case.data.split(b"\n")[:-1]:
        if offset in gaps:
            found.append({"gap": gaps[offset]})
        elif line.strip(b" \t\r"):
            record = next(records)
            found.append({"record": record})
            if case.profile == "toy/v1" and record.get("kind") == "run_end":
                found.append({"event": "ended"})
        offset += len(line) + 1
    return found


def item_differences(expected: list[Any], given: list[Any], profile: str | None) -> list[str]:
    """Return how two lists of items differ; of the expected ones, optional ones may be absent."""
    expected = [_bare(item) for item in expected if not item.get("optional") or _bare(item) in given]
    if [sorted(item) for item in expected] != [sorted(item) for item in given]:
        return [f"gave {_names(given)}, expected {_names(expected)}"]
    found: list[str] = []
    for index, (one, other) in enumerate(zip(expected, given, strict=True)):
        if "record" in one:
            left, right = with_defaults([one["record"]], profile), with_defaults([other["record"]], profile)
            found.extend(value_differences(left[0], right[0], f"item {index}, "))
        elif one != other:
            found.append(f"item {index} is {other}, expected {one}")
    return found[:_SHOWN]


def _bare(item: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key != "optional"}


def _names(items: list[Any]) -> str:
    names = [item.get("event") or next(iter(item)) for item in items]
    counted = [f"{len(list(same))} {name}" for name, same in itertools.groupby(names)]
    return ", ".join(counted) or "nothing"
