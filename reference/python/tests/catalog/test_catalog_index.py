"""What a catalog knows of each stream: by which an update finds what has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toyspec.catalog.index import Files, IndexComparison
from toyspec.catalog.records import record_of
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


def compare(known: Files | None, work: str, found: Listed, size: int) -> IndexComparison:
    """Return the comparison with streams that are found so many at a time."""
    records = [record_of(Stream(f"r/{name}", 1, identity=identity), 0)[:-1] for name, identity, _ in found]
    comparison = IndexComparison(known, work)
    comparison.take((records[start : start + size] for start in range(0, len(records), size)), list)
    return comparison


@given(old=streams, new=streams, size=st.integers(1, 4))
def test_comparison_is_that_of_sets(
    tmp_path_factory: pytest.TempPathFactory,
    old: list[tuple[str, str, Kind]],
    new: list[tuple[str, str, Kind]],
    size: int,
) -> None:
    """In any order, what is read is what is new, has changed, has no identity, was live or could not be read."""
    work = tmp_path_factory.mktemp("index")
    first = compare(None, str(work), old, size)
    places: dict[str, int] = {}
    assert [f"r/{name}" for name, _, _ in old] == [stream.path for stream in first.streams(["r"], places)]
    for name, identity, kind in old:
        first.note(places[f"r/{name}"], kind, identity)
    files = Files(str(work / "index" / "1.records"), str(work / "index" / "1.kinds"))
    first.write(files)
    known = {name: (identity, kind) for name, identity, kind in old}
    second = compare(files, str(work), new, size)
    is_same = {name: identity != "" and known.get(name, ("",))[0] == identity for name, identity, _ in new}
    read = {name for name in is_same if not is_same[name] or known[name][1] in "lxe"}
    assert {f"r/{name}" for name in read} == {stream.path for stream in second.streams(["r"], {})}
    runs = {name for name, (_, kind) in known.items() if kind in "rl"}
    rows, gone = second.old_rows()
    assert ({f"r/{name}" for name in runs if name in read or name not in is_same}, len(runs - set(is_same))) == (
        rows,
        gone,
    )
    assert len(runs & set(is_same) - read) == second.runs
    assert second.has_changes == bool(read or set(known) - set(is_same))


@pytest.mark.parametrize("damage", ["records", "kinds"])
def test_damaged_index_is_named(tmp_path: Path, damage: str) -> None:
    """Files that do not belong together, or are gone, are an error that says what to do."""
    found: Listed = [("a", "1", "r"), ("b", "1", "r")]
    compare(None, str(tmp_path), found, 2).write(Files(str(tmp_path / "1.records"), str(tmp_path / "1.kinds")))
    files = Files(str(tmp_path / "1.records"), str(tmp_path / "1.kinds"))
    path = tmp_path / f"1.{damage}"
    path.write_bytes(path.read_bytes()[:1])
    with pytest.raises(CatalogError, match="build the catalog again"):
        compare(files, str(tmp_path), found, 2)
    path.unlink()
    with pytest.raises(CatalogError, match="cannot be read: No such file"):
        compare(files, str(tmp_path), found, 2)
