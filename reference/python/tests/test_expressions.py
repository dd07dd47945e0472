from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toyspec.errors import ExpressionError
from toyspec.runs.columns import OWN_FIELDS, field_of, text_of
from toyspec.runs.expressions import Question, expression
from toyspec.runs.patterns import PatternError, pattern

VECTORS: dict[str, Any] = json.loads(Path(__file__).with_name("expressions.json").read_bytes())
ROW = VECTORS["run"]


def holds(text: str) -> bool:
    """Return whether the run of the vectors meets *text*."""
    return expression(text).holds(Question(lambda name: field_of(ROW, name), lambda: text_of(ROW)))


def test_a_run_that_meets_a_filter_passes() -> None:
    """What the viewer accepts is accepted here too."""
    assert [] == [text for text in VECTORS["met"] if not holds(text)]


def test_a_run_that_does_not_meet_a_filter_is_left_out() -> None:
    """What the viewer leaves out, is left out here too."""
    assert [] == [text for text in VECTORS["not_met"] if holds(text)]


@pytest.mark.parametrize(("text", "at"), VECTORS["refused"], ids=lambda value: str(value)[:12])
def test_a_filter_that_cannot_be_read_is_refused_with_the_place(text: str, at: int) -> None:
    """The place is the one that the viewer names, and the message counts it from 1."""
    with pytest.raises(ExpressionError, match=rf"\(at character {at + 1}\)$") as caught:
        expression(text)
    assert at == caught.value.at


@given(st.text(alphabet="ab .<>=!~()'\"0e-5%andort", max_size=30))
def test_any_text_is_a_filter_or_refused(text: str) -> None:
    """Nothing but ExpressionError is raised, and a filter that was read gives an answer."""
    with contextlib.suppress(ExpressionError):
        assert holds(text) in (True, False)


def test_fields_of_a_filter_are_those_it_compares() -> None:
    """Words alone are not fields; what is not known needs no reading of whole streams."""
    assert ("lr", "val/acc") == expression("llama lr < 1 and not (val/acc > .7 or lr = 2)").fields


@pytest.fixture(scope="module")
def connection() -> Any:
    """Return DuckDB with the table of runs of a catalog, which has the run of the vectors."""
    tables = pytest.importorskip("toyspec.catalog.tables")
    pytest.importorskip("duckdb", reason="the extra catalog is not installed")
    metrics = {name: {part: each for part, each in metric.items() if each is not None}
               for name, metric in ROW["metrics"].items()}  # fmt: skip
    row = {
        **{name: ROW[name] for name in ("run_id", "name", "group", "tags", "profile", "dialect", "state", "sealed")},
        **{name: ROW[name] for name in ("reason", "seconds", "bytes", "progress", "remaining")},
        **{name: ROW[name] for name in ("alerts", "open_alerts")},
        "path": ROW["id"], "run": ROW["name"], "last_step": ROW["last_step"], "started_at": ROW["started_at"],
        "said_loss": json.dumps(ROW["final_loss"]), "errors": ROW["findings"]["error"],
        "warnings": ROW["findings"]["warning"], "infos": ROW["findings"]["info"],
        "settings": json.dumps(ROW["config"], ensure_ascii=False), "metrics": json.dumps(metrics, ensure_ascii=False),
    }  # fmt: skip
    columns = ", ".join(f"${name}::{kind} AS {tables.name(name)}" for name, kind in tables.COLUMNS.items())
    with tables.library().connect() as found:
        values = {name: row.get(name) for name in tables.COLUMNS}
        found.execute(f"CREATE TABLE runs AS SELECT {columns}", values)
        yield found


def test_sql_has_every_field_that_every_run_has() -> None:
    """A fact that a list shows is one that a catalog is filtered by."""
    pytest.importorskip("duckdb", reason="the extra catalog is not installed")
    from toyspec.catalog.filter_sql import is_own

    assert [] == [field for field in sorted(OWN_FIELDS) if not is_own(field)]


def in_sql(connection: Any, text: str) -> bool:
    """Return whether the run of the vectors meets *text* in SQL."""
    from toyspec.catalog.filter_sql import condition, field_json
    from toyspec.catalog.tables import name

    read = expression(text)
    columns = {field: name(f"field.{field}") for field in read.fields}
    made = ["*", *(f"{field_json(field, has_endings=True)} AS {column}" for field, column in columns.items())]
    ((found,),) = connection.execute(
        f"SELECT {condition([read], columns)} FROM (SELECT {', '.join(made)} FROM runs)"
    ).fetchall()
    assert found in (True, False)
    return bool(found)


def test_sql_has_the_same_meaning(connection: Any) -> None:
    """The evaluator in SQL passes the vectors too."""
    assert [] == [text for text in VECTORS["met"] if not in_sql(connection, text)]
    assert [] == [text for text in VECTORS["not_met"] if in_sql(connection, text)]


FIELDS = st.sampled_from(
    [*ROW["config"], *ROW["metrics"], "missing", "tags", "reason", "took", "state", "sealed", "progress", "lr", "b.c"]
).map(lambda name: f"'{name}'" if '"' in name else f'"{name}"')
NUMBERS = ["3", "4", "1e21", "'4'", "0", "e+21", "-0", "7.2k", "0.0000001", "1.5e-7"]
OPERANDS = st.sampled_from([*NUMBERS, "null", "true", "''", "İΣ", "'so'", "torn", "long", "\\", "%", "_", "deep", "İ"])
SIGNS = st.sampled_from(["<", "<=", ">", ">=", "=", "!=", "~", "!~", "=~"])
PIECES = [*"ab1|.^$", "(", ")", "(?:", "*", "+?", "?", "{1,2}", "{2}", "[ab]", "[^a-b]", r"\d", r"\W", r"\.", "[-a]"]
PATTERNS = st.lists(st.sampled_from(PIECES), max_size=9).map("".join)


@given(PATTERNS, st.text(alphabet="ab1.-\n", max_size=8))
def test_patterns_match_as_those_of_python(text: str, value: str) -> None:
    """What is accepted has a match where the same pattern of Python has one."""
    try:
        found = pattern(text)
    except PatternError:
        return
    assert (re.search(text.replace("$", r"\Z"), value, re.DOTALL | re.ASCII) is not None) == found.is_in(value)


@pytest.mark.parametrize(("text", "fact"), [
    ("a)", "a ) without its ("), ("(a", "a ( is not closed"), ("(?=a)", "(? is not supported; write ( or (?:"),
    ("(" * 50 + ")" * 50, "more than 50 levels of parentheses"), ("^*", "* after ^ or $"), ("a+*", "* after +"),
    ("a{x}", "{ without numbers; write \\{ for the character"),
    ("a{2", "{ without numbers; write \\{ for the character"),
    ("a{3,2}", "{3,2}: the numbers must ascend, up to 200"),
    ("a{201,}", "{201,}: the numbers must ascend, up to 200"),
    ("?", "? repeats nothing; write \\? for the character"), ("\\q", "\\q is not supported"),
    ("\\", "\\ is not supported"),
    ("[]", "[] is empty"), ("[b-a]", "b-a is not a range"), ("[a-\\d]", "a- is not a range"),
    ("[a", "a [ is not closed; within it, write \\[ for the character"),
    ("[\\D]", "\\D, \\W and \\S are not supported within [ ]"),
    ("(a{200}){200}", "it is too long, or repeats too much"),
])  # fmt: skip
def test_pattern_that_cannot_be_read_is_explained(text: str, fact: str) -> None:
    """The message names the first part that is wrong."""
    with pytest.raises(PatternError) as raised:
        pattern(text)
    assert fact == str(raised.value)


def test_pattern_takes_linear_time() -> None:
    """What makes other engines try for years is answered in steps that grow with the text alone."""
    assert not pattern("(a|a)*(a+)+b{1,9}").is_in("a" * 5000)


WORDS = st.sampled_from(["and", "or", "", "and not", "or not"])
COMPARISONS = st.tuples(FIELDS, SIGNS, OPERANDS).map("".join)


def joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return filters of two *parts*."""
    return st.builds("({} {} {})".format, parts, WORDS, parts)


@given(st.recursive(COMPARISONS | OPERANDS, joined, max_leaves=4))
def test_evaluators_agree(connection: Any, text: str) -> None:
    """Whatever is compared with whatever, memory and SQL give one answer."""
    try:
        expected = holds(text)
    except ExpressionError:
        return
    assert expected == in_sql(connection, text)
