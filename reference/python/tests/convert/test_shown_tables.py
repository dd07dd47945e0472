"""Tables between CSV, JSON and other programs."""

from __future__ import annotations

import csv
import io
import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toyspec.convert import shown_tables
from toyspec.convert.shown_tables import rows_of, table_of_file
from toyspec.core.writing.media import File, Table

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "-2", "0"], [1, -2, 0]),
        (["1", "", "3"], [1, None, 3]),
        (["1", "2.5"], [1.0, 2.5]),
        (["1e5", "-0.25", "inf", "-inf"], [1e5, -0.25, math.inf, -math.inf]),
        (["", ""], [None, None]),
        (["a", "", "1"], ["a", None, "1"]),
        (["007", "008"], ["007", "008"]),
        (["1_0", "2"], ["1_0", "2"]),
        ([" 1", "2"], [" 1", "2"]),
        (["+1", "2"], ["+1", "2"]),
        (["\N{ARABIC-INDIC DIGIT ONE}", "2"], ["\N{ARABIC-INDIC DIGIT ONE}", "2"]),
        (["1.", ".5"], ["1.", ".5"]),
        (["Infinity", "1"], ["Infinity", "1"]),
        ([str(2**70), "1"], [2**70, 1]),
    ],
)
def test_column_has_numbers_only_where_every_cell_is_written_as_one(
    cells: list[str], expected: list[Any], tmp_path: Path
) -> None:
    """What is a name stays a text, with its zeros, signs and blanks; an empty cell is nothing."""
    path = tmp_path / "t.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["x", "y"], *([cell, "z"] for cell in cells)])
    found = rows_of(str(path))
    assert found is not None
    columns, rows = found
    assert ["x", "y"] == columns
    assert [[cell, "z"] for cell in expected] == rows
    assert [type(cell) for cell in expected] == [type(row[0]) for row in rows]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", None),
        (b"a,b\n", (["a", "b"], [])),
        (b"a,b\n1,2\n3\n", None),
        (b"a\n1,2\n3,4\n", None),
        (b"a,b\n1,2\n\n3,4\n", None),
        (b"a\n\xff\n", None),
    ],
)
def test_file_without_a_table_is_none(content: bytes, expected: Any, tmp_path: Path) -> None:
    """Lines of different length, other bytes than text and an empty file are none; a head alone has no rows."""
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    assert expected == rows_of(str(path))
    assert rows_of(str(tmp_path / "missing")) is None


def test_large_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of the largest size is read, one beyond it is not, of either kind."""
    csv_file, json_file = tmp_path / "t.csv", tmp_path / "t.json"
    csv_file.write_bytes(b"a\n1\n")
    json_file.write_bytes(b'{"columns":["a"],"data":[[1]]}')
    for at in (0, -1):
        monkeypatch.setattr(shown_tables, "_MOST_BYTES", csv_file.stat().st_size + at)
        assert (at == 0) == (rows_of(str(csv_file)) is not None)
        monkeypatch.setattr(shown_tables, "_MOST_BYTES", json_file.stat().st_size + at)
        assert (at == 0) == isinstance(table_of_file(str(json_file), "data"), Table)


@pytest.mark.parametrize(
    "content",
    ["[]", "{", '{"columns":["a"]}', '{"columns":"a","data":[]}', '{"columns":["a"],"data":[1]}', "[" * 100_000],
)
def test_json_without_a_table_is_kept_as_a_file(content: str, tmp_path: Path) -> None:
    """Nothing is guessed from another document."""
    path = tmp_path / "t.json"
    path.write_text(content)
    made = table_of_file(str(path), "data", caption="c")
    assert isinstance(made, File)
    assert "c" == made._caption


CELLS = st.none() | st.integers() | st.floats(allow_nan=False) | st.text("abc 01,\"'é", min_size=1)


@given(st.lists(st.lists(CELLS, min_size=2, max_size=2), min_size=1, max_size=6))
def test_rows_that_are_written_come_back(rows: list[list[Any]]) -> None:
    """Each column comes back as numbers or as the texts that were written, whatever is in it."""
    import tempfile

    text = io.StringIO()
    csv.writer(text).writerows([["x", "y"], *rows])
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="", suffix=".csv") as file:
        file.write(text.getvalue())
        file.flush()
        found = rows_of(file.name)
    assert found is not None
    for at in range(2):
        column, back = [row[at] for row in rows], [row[at] for row in found[1]]
        for cell, made in zip(column, back, strict=True):
            if isinstance(made, str) or made is None:
                assert ("" if cell is None else str(cell)) == (made or "")
            else:
                assert isinstance(cell, int | float | str)
                assert float(cell) == made or made == int(cell)
