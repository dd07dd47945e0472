"""Tests of the reference pages that are made from the package."""

from __future__ import annotations

import ast
import re

import pytest

import toyspec
from codegen.api_page import _split, api_page
from codegen.cli_page import _escaped, cli_page
from toyspec.cli.commands import COMMANDS, command_parser


@pytest.fixture(scope="module")
def cli() -> str:
    """Return the page of the command line."""
    return cli_page()


@pytest.fixture(scope="module")
def python() -> str:
    """Return the page of the library."""
    return api_page()


@pytest.mark.parametrize("name", COMMANDS)
def test_command_has_its_section_with_all_options(name: str, cli: str) -> None:
    """Every command has a section, and every option of it stands there with a meaning."""
    section = cli.partition(f"\n## toyspec {name}\n")[2].partition("\n## ")[0]
    options = re.findall(r"^  (-[^ ,]+)", command_parser(name).format_help(), re.MULTILINE)
    rows = re.findall(r"^\| `(-[^ ,`]+)[^|]*` \| .+ \|$", section.replace("\\|", ""), re.MULTILINE)
    assert set(options) - {"-h"} == set(rows)


def test_library_page_has_every_public_name(python: str) -> None:
    """What can be imported is what the page lists, each with a sentence."""
    listed = re.findall(r"^### (\w+)\n\n```py\n.+?\n```\n\n(?=\w)", python, re.MULTILINE | re.DOTALL)
    assert {name for name in toyspec.__all__ if not name.startswith("_")} == set(listed)


def test_tables_are_tables(cli: str, python: str) -> None:
    """Every row has two cells: what looks like a further bar is escaped."""
    rows = [line for line in (cli + python).splitlines() if line.startswith("| ")]
    assert [] == [row for row in rows if row.replace("\\|", "").count("|") != 3]


def test_markup_is_escaped_outside_of_code() -> None:
    """Stars and underscores are shown as they are, and code is left alone."""
    assert r"run\_end, `run_end`, &lt;x>, a \| b" == _escaped("run_end, `run_end`, <x>, a | b")


def test_parameters_are_parted_at_outer_commas() -> None:
    """Commas in brackets and quotes part nothing."""
    arguments = "a: dict[str, int]=(1, 2), *, b: Literal['x, y']='x, y', c"
    expected = ["a: dict[str, int]=(1, 2)", "*", "b: Literal['x, y']='x, y'", "c"]
    assert expected == _split(arguments)
    ast.parse(f"def f({arguments}): ...")
