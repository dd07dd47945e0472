"""The page, the schema and the validator of the protocol agree on a list of messages."""

import json
import re
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


def test_schema_is_a_schema() -> None:
    """The schema of the protocol is a valid schema."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['definition']}: {case['why']}")
def test_schema_decides_each_case(case: dict[str, Any]) -> None:
    """The schema accepts right messages and refuses wrong ones."""
    assert case["right"] == validator(case["definition"]).is_valid(case["message"])


# Only requests contain non-finite numbers, and the runner makes those itself.
READ = [case for case in CASES if '"nan"' not in json.dumps(case["message"])]


@pytest.mark.parametrize("case", READ, ids=lambda case: f"{case['definition']}: {case['why']}")
def test_runner_decides_as_the_schema(case: dict[str, Any]) -> None:
    """The validator of the runner, which uses no library, gives the same verdict."""
    assert case["right"] == (not messages.faults(case["definition"], case["message"]))


def test_every_definition_has_cases_on_both_sides() -> None:
    """Each message has a right and a wrong example."""
    named = {"hello_line", "request", *messages._ANSWERS.values(), "trouble", "record"}
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
def test_what_is_no_message(line: bytes) -> None:
    """A line that is not a JSON object is refused as stray output."""
    with pytest.raises(messages.ProtocolError, match=r"stray output on standard output: .* is not"):
        messages.parse(line)
