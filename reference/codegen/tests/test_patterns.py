"""Patterns are parsed once, and a form that the tables cannot express stops the generator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codegen import c_tables, go_tables, ocaml_tables, rust_tables, sources
from codegen.patterns import characters

if TYPE_CHECKING:
    from collections.abc import Callable

RUN_ID = sources.documents()["urn:toyspec:shared:v1"]["$defs"]["run_id"]["pattern"]
UNKNOWN = ["^[a-z]+$", "^[^/]{1,255}$", "^[^/]+(?![\\s\\S])", "[^/]{1,2}(?![\\s\\S])", "^[^\\d]{1,2}(?![\\s\\S])", ""]


def test_run_id() -> None:
    """The pattern of a run id excludes the slash and control characters, and bounds the length."""
    assert (((0x2F, 0x2F), (0, 0x1F), (0x7F, 0x9F)), 1, 255) == characters(RUN_ID)


@pytest.mark.parametrize("pattern", UNKNOWN)
@pytest.mark.parametrize(
    "table",
    [c_tables._Tables()._field, go_tables._type, ocaml_tables._value, rust_tables._schema],
    ids=["c", "go", "ocaml", "rust"],
)
def test_unknown_pattern_stops_every_generator(pattern: str, table: Callable[..., str]) -> None:
    """A language never checks less than the schema because its table cannot express the pattern."""
    schema: dict[str, Any] = {"types": ["string"], "pattern": pattern}
    name = ["name"] if table.__qualname__.startswith("_Tables") else []
    with pytest.raises(ValueError, match="no form for the pattern"):
        table(schema, *name)
