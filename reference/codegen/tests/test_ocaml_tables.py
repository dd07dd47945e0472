"""The tables of the OCaml library leave out nothing that the schemas require."""

from __future__ import annotations

from typing import Any

import pytest

from codegen import ocaml_tables


@pytest.mark.parametrize(
    "schema",
    [
        {"types": ["string"], "pattern": "^[a-z]+$"},
        {"types": ["string"], "format": "uri"},
        {"types": ["string"], "minLength": 1},
        {"types": ["array"], "items": {"types": ["integer"]}, "minItems": 1},
        {"types": ["integer"], "enum": [1, 2]},
        {"types": ["number"], "exclusiveMinimum": 0},
    ],
)
def test_what_the_library_does_not_check_fails(schema: dict[str, Any]) -> None:
    """A form that the library would not check stops the generator."""
    with pytest.raises(ValueError, match=r"OCaml library|form for the pattern"):
        ocaml_tables._value(schema)


def test_constant_number_bounds_the_value() -> None:
    """A constant that is a number is checked as a range."""
    assert ocaml_tables._value({"types": ["integer"], "const": 1}) == "(value ~least:1.0 ~greatest:1.0 Integer)"
