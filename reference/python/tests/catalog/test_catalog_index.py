"""What a catalog knows of each stream: by which an update finds what has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toyspec.catalog.index import IndexComparison, read_index, record_of
from toyspec.core.errors import CatalogError
from toyspec.core.runs.discovery import Stream

if TYPE_CHECKING:
    from pathlib import Path

    from toyspec.catalog.index import Kind

streams = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(["1", "2", ""]), st.sampled_from("rloxhe")),
    unique_by=lambda each: each[0],
)

if TYPE_CHECKING:
    Listed = list[tuple[str, str, Kind]]


def compare(known: dict[bytes, str], found: Listed) -> IndexComparison:
    """Return the comparison of what is known with streams that are found."""
    records = [record_of(Stream(f"r/{name}", 1, identity=identity), 0)[:-1] for name, identity, _ in found]
    return IndexComparison(known, records, list)


@given(old=streams, new=streams)
def test_comparison_is_that_of_sets(tmp_path_factory: pytest.TempPathFactory, old: Listed, new: Listed) -> None:
    """In any order, what is read is what is new, has changed, has no identity, was live or could not be read."""
    path = str(tmp_path_factory.mktemp("index") / "index" / "1.records")
    first = compare({}, old)
    assert [f"r/{name}" for name, _, _ in old] == [stream.path for stream in first.streams(["r"])]
    for name, identity, kind in old:
        first.note(f"r/{name}", kind, identity)
    first.write(path)
    known = {name: (identity, kind) for name, identity, kind in old}
    second = compare(read_index(path), new)
    is_same = {name: identity != "" and known.get(name, ("",))[0] == identity for name, identity, _ in new}
    read = {name for name in is_same if not is_same[name] or known[name][1] in "lxe"}
    assert {f"r/{name}" for name in read} == {stream.path for stream in second.streams(["r"])}
    runs = {name for name, (_, kind) in known.items() if kind in "rl"}
    rows = {f"r/{name}" for name in runs if name in read or name not in is_same}
    assert (rows, len(runs - set(is_same))) == (second.old_rows, second.gone)
    assert len(runs & set(is_same) - read) == second.runs
    assert second.has_changes == bool(read or set(known) - set(is_same))


def test_damaged_index_is_named(tmp_path: Path) -> None:
    """A file that is cut, or is gone, is an error that says what to do."""
    path = tmp_path / "1.records"
    compare({}, [("a", "1", "r"), ("b", "1", "r")]).write(str(path))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CatalogError, match="cut within a record; build the catalog again"):
        read_index(str(path))
    path.unlink()
    with pytest.raises(CatalogError, match="cannot be read: No such file"):
        read_index(str(path))
