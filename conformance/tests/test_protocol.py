"""The page, the schema and the validator of the protocol agree on a list of messages."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from conformance import messages

HERE = Path(messages.__file__).parent
SCHEMA = json.loads((HERE / "schema/protocol.json").read_text())
CASES: list[dict[str, Any]] = json.loads((HERE / "schema/protocol_cases.json").read_text())["cases"]


def validator(definition: str) -> jsonschema.Draft202012Validator:
    """Return a validator of one definition of the protocol."""
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{definition}", "$defs": SCHEMA["$defs"]})


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['definition']}: {case['why']}")
def test_schema_and_runner_decide_each_case(case: dict[str, Any]) -> None:
    """The schema, and the runner, which reads tagged values itself, accept right messages and refuse wrong ones."""
    assert case["right"] == validator(case["definition"]).is_valid(case["message"])
    # Only requests contain non-finite numbers, and the runner makes those itself.
    if '"nan"' not in json.dumps(case["message"]):
        assert case["right"] == (not messages.problems(case["definition"], case["message"]))


CHECK = {"id": 0, "profile": "toy/v1", "state": "complete", "valid": False, "suppressed": {}, "findings": []}
READ_ANSWER: dict[str, Any] = {
    "outcome": "read",
    "profile": None,
    "state": "torn",
    "records": [],
    "count": 0,
    "committed": 0,
    "fragment": 0,
    "gap_bytes": 0,
    "gaps": [],
}


@pytest.mark.parametrize(
    ("definition", "message", "texts"),
    [
        ("check_answer", {**CHECK, "id": "1"}, ["/id is '1', expected type integer"]),
        ("check_answer", {**CHECK, "id": 1.0}, ["/id is 1.0, expected type integer"]),
        ("check_answer", {**CHECK, "id": -1}, ["/id is -1, less than 0"]),
        ("check_answer", {**CHECK, "id": 2**53}, [f"/id is {2**53}, greater than {2**53 - 1}"]),
        ("check_answer", {**CHECK, "state": "fine"}, ["/state is 'fine', expected one of complete, torn, damaged"]),
        (
            "check_answer",
            {**CHECK, "\x1b[31m": 1},
            [r"the message has the member '\x1b[31m', which the protocol does not know"],
        ),
        ("check_answer", {**CHECK, "suppressed": {"\x1b[31m": 0}}, [r"/suppressed/\x1b[31m is 0, less than 1"]),
        (
            "check_answer",
            {"profile": None, "state": None, "valid": True},
            ["the message has no member findings", "the message has no member suppressed"],
        ),
        (
            "read_answer",
            {**READ_ANSWER, "error": {"line": 1, "offset": 0, "reason": "x"}},
            ["the message has the member error, which is not allowed here"],
        ),
        ("read_answer", {**READ_ANSWER, "records": [{"t": 1}]}, ["/records/0/t is the bare number 1, expected a tag"]),
        ("read_answer", {**READ_ANSWER, "records": [[]]}, ["/records/0 is [], expected an object"]),
        ("write_answer", {"outcome": "written", "stream": "e30"}, ["/stream is 'e30', expected the form ^(?:[A-Za"]),
        ("failure", {"id": 1, "error": ""}, ["/error is empty"]),
        ("failure", {"id": 1}, ["the message has no member error"]),
        ("failure", {"id": 1, "error": "x", "untestable": "x"}, ["the message has members that exclude one another"]),
        ("hello", {"roles": []}, ["/roles has no items", "the message has no member protocol"]),
        ("hello", {"roles": ["reader"] * 2}, ["/roles has a repeated item", "the message has no member protocol"]),
        ("hello", {"name": "x" * 101}, ["/name has more than 100 characters", "the message has no member protocol"]),
        (
            "write_request",
            {"id": 1, "role": "writer", "profile": "toy/v1", "records": [], "directory": "d"},
            [f"the message has directory, but no member {name}" for name in ("run_id", "exist", "end")],
        ),
    ],
)
def test_message_says_where_and_what(definition: str, message: dict[str, Any], texts: list[str]) -> None:
    """Each error has its place, the value found and what was expected; nothing in it reaches a terminal raw."""
    found = messages.problems(definition, message)
    assert texts == [text[: len(expected)] for text, expected in zip(found, texts, strict=False)]


def test_every_keyword_of_the_schema_has_a_message() -> None:
    """A keyword that checks something is either worded or made of others."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    composed = {"$defs", "$id", "$ref", "$schema", "anyOf", "description", "if", "items", "properties", "then", "title"}
    unread = {"maxProperties", "minProperties", "propertyNames"}  # of tagged values

    def keywords(schema: Any) -> set[str]:
        if not isinstance(schema, dict):
            return set()
        maps = [schema.get(key, {}) for key in ("properties", "$defs")]
        lists = [schema.get(key, []) for key in ("anyOf", "oneOf")]
        parts = [part for each in maps for part in each.values()] + [part for each in lists for part in each]
        parts += [schema.get(key) for key in ("items", "additionalProperties", "if", "then", "not")]
        return set(schema).union(*map(keywords, parts))

    assert set() == keywords(SCHEMA) - composed - unread - set(messages._PHRASES)


@pytest.mark.parametrize("nest", [lambda value: {"a": value}, lambda value: [value]])
def test_answer_nested_without_end_is_an_error(nest: Callable[[object], object]) -> None:
    """A message that is nested too deeply for this interpreter is outside the protocol, and the runner goes on."""
    nested: object = None
    for _ in range(sys.getrecursionlimit()):
        nested = nest(nested)
    message = {"profile": "toy/v1", "state": "torn", "summary": {"a": nested}}
    with pytest.raises(messages.ProtocolError, match="nested too deeply"):
        messages.demand_answer("summarizer", message)


def test_every_definition_has_cases_on_both_sides() -> None:
    """Each message has a right and a wrong example."""
    named = {"hello_line", "request", *messages._ANSWERS.values(), "failure", "record"}
    assert {(name, right) for name in named for right in (True, False)} == {
        (case["definition"], case["right"]) for case in CASES
    }


def test_page_shows_messages_that_are_right() -> None:
    """Each example on the page is a message of the protocol."""
    page = (HERE / "PROTOCOL.md").read_text()
    examples = [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```", page, re.MULTILINE | re.DOTALL)]
    assert len(examples) == 5
    assert [] == [
        error for example in examples for error in jsonschema.Draft202012Validator(SCHEMA).iter_errors(example)
    ]


def test_page_names_every_member() -> None:
    """The page mentions every member of a message."""
    page = (HERE / "PROTOCOL.md").read_text()
    members = {
        name
        for definition in SCHEMA["$defs"].values()
        for name in definition.get("properties", {})
        if name not in {"int", "float", "f32", "object", "message", "help"}
    }
    assert set() == {name for name in members if not re.search(rf"[`\"{{, (]{name}[`\"]|`{name}", page)}


def test_request_as_options() -> None:
    """In oneshot mode members become options; the bytes go to standard input."""
    request = {"id": 1, "role": "reader", "stream": b"x", "mode": "tail", "max_line_bytes": 64}
    assert ["--mode", "tail", "--max-line-bytes", "64"] == messages.as_options(request)


@pytest.mark.parametrize("line", [b"", b"[]\n", b"{\n", b"\xff{}\n", b"ready\n"])
def test_unknown_message(line: bytes) -> None:
    """A line that is not a JSON object is refused as stray output."""
    with pytest.raises(messages.ProtocolError, match=r"stray output on standard output: .* is not"):
        messages.parse(line)
