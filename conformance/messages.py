"""The messages of the protocol: validates them against ``schema/protocol.json``, and names the place of each error."""

from __future__ import annotations

import base64
import json
import os
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from conformance.tagging import TagError, untag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "schema", "protocol.json")
_ANSWERS = {
    "reader": "read_answer",
    "summarizer": "summary_answer",
    "checker": "check_answer",
    "writer": "write_answer",
    "canonical-writer": "write_answer",
    "follower": "follow_answer",
}
_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
}
_SHOWN = 60


class ProtocolError(Exception):
    """A message is outside the protocol; the text says where and why."""


def parse(line: bytes) -> dict[str, Any]:
    """Return the message on one line of output; raise ProtocolError."""
    try:
        message = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise _stray(line, f"is not JSON ({error})") from None
    if not isinstance(message, dict):
        raise _stray(line, "is not a JSON object")
    return message


def demand_one_line(output: bytes) -> bytes:
    """Return the only line of *output*; raise ProtocolError, which shows the lines, when there is not exactly one."""
    lines = output.splitlines()
    if len(lines) != 1:
        shown = f": {', '.join(map(_shown, lines[:3]))}. Print diagnostics to standard error" if lines else ""
        raise ProtocolError(f"printed {len(lines)} lines on standard output, expected one{shown}")
    return lines[0]


def _stray(line: bytes, fact: str) -> ProtocolError:
    return ProtocolError(f"stray output on standard output: {_shown(line)} {fact}. Print diagnostics to standard error")


def demand_hello(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hello in *message*; raise ProtocolError if it is not one."""
    _demand("hello_line", message)
    hello: dict[str, Any] = message["hello"]
    return hello


def demand_answer(role: str, message: Mapping[str, Any]) -> None:
    """Raise ProtocolError unless *message* is an answer to a request of *role*."""
    _demand("trouble" if "untestable" in message or _is_trouble(message) else _ANSWERS[role], message)


def faults(definition: str, message: Any) -> list[str]:
    """Return what is wrong with *message* as a *definition* of the schema."""
    return [
        f"{place or 'the message'} {fault}" for place, fault in _faults(message, {"$ref": f"#/$defs/{definition}"}, "")
    ]


def encoded(request: Mapping[str, Any]) -> bytes:
    """Return *request* as one line, its stream in base64."""
    message = dict(request)
    if isinstance(message.get("stream"), bytes):
        message["stream"] = base64.b64encode(message["stream"]).decode()
    return json.dumps(message).encode() + b"\n"


def as_options(request: Mapping[str, Any]) -> list[str]:
    """Return what follows the role on the command line of ``--oneshot``."""
    inside = ("id", "role", "stream", "records", "follower")
    return [
        part
        for key, value in request.items()
        if key not in inside
        for part in (f"--{key.replace('_', '-')}", str(value))
    ]


def _is_trouble(message: Mapping[str, Any]) -> bool:
    return isinstance(message.get("error"), str) and message.keys() <= {"id", "error"}


def _demand(definition: str, message: Any) -> None:
    found = faults(definition, message)
    if found:
        raise ProtocolError("; ".join(found[:3]))


@cache
def _definitions() -> dict[str, Any]:
    with open(_SCHEMA, encoding="utf-8") as file:
        return json.load(file)["$defs"]  # type: ignore[no-any-return]


def _faults(value: Any, schema: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with *value*; only the keywords that protocol.json uses are known."""
    if schema is False:
        yield place, "is not allowed"
        return
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name in {"record", "value"}:
            yield from _tag_faults(value, place, only_objects=name == "record")
            return
        yield from _faults(value, _definitions()[name], place)
    if "type" in schema and not any(_TYPES[name](value) for name in _listed(schema["type"])):
        yield place, f"is {_shown(value)}, expected type {' or '.join(_listed(schema['type']))}"
        return
    yield from _scalar_faults(value, schema, place)
    if isinstance(value, dict):
        yield from _object_faults(value, schema, place)
    if isinstance(value, list):
        yield from _array_faults(value, schema, place)
    for keyword in ("oneOf", "anyOf"):
        if keyword in schema:
            yield from _choice_faults(value, schema[keyword], place, exclusive=keyword == "oneOf")
    if "if" in schema and not list(_faults(value, schema["if"], place)):
        yield from _faults(value, schema.get("then", {}), place)


def _scalar_faults(value: Any, schema: Mapping[str, Any], place: str) -> Iterator[tuple[str, str]]:
    if "const" in schema and (value != schema["const"] or type(value) is not type(schema["const"])):
        yield place, f"is {_shown(value)}, expected {_shown(schema['const'])}"
    if "enum" in schema and value not in schema["enum"]:
        yield place, f"is {_shown(value)}, expected one of {', '.join(map(str, schema['enum']))}"
    if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
        yield place, f"is {_shown(value)}, expected the form {schema['pattern']}"
    if isinstance(value, int) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield place, f"is {_shown(value)}, out of range"
    if isinstance(value, str) and not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        yield place, f"has {len(value)} characters"


def _object_faults(value: Mapping[str, Any], schema: Mapping[str, Any], place: str) -> Iterator[tuple[str, str]]:
    named, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    for key in schema.get("required", []):
        if key not in value:
            yield place, f"has no member {key}"
    for key, needed in schema.get("dependentRequired", {}).items():
        for other in needed:
            if key in value and other not in value:
                yield place, f"has {key}, but no member {other}"
    for key, item in value.items():
        if key not in named and others is False:
            yield place, f"has the member {_shown(key)}, which the protocol does not know"
        else:
            yield from _faults(item, named.get(key, others), f"{place}/{key}")


def _array_faults(value: list[Any], schema: Mapping[str, Any], place: str) -> Iterator[tuple[str, str]]:
    if len(value) < schema.get("minItems", 0):
        yield place, "has too few items"
    if schema.get("uniqueItems") and len(set(map(str, value))) < len(value):
        yield place, "has a repeated item"
    for index, item in enumerate(value):
        yield from _faults(item, schema.get("items", {}), f"{place}/{index}")


def _choice_faults(value: Any, choices: list[Any], place: str, *, exclusive: bool) -> Iterator[tuple[str, str]]:
    # When every choice fails, the one with the fewest errors is most likely what was meant.
    found = sorted((list(_faults(value, choice, place)) for choice in choices), key=len)
    yield from found[0]
    if exclusive and len(found) > 1 and not found[1]:
        yield place, "has members that exclude one another"


def _tag_faults(value: Any, place: str, *, only_objects: bool) -> Iterator[tuple[str, str]]:
    try:
        plain = untag(value)
    except TagError as error:
        yield place + error.place, str(error)
        return
    if only_objects and not isinstance(plain, dict):
        yield place, f"is {_shown(value)}, expected an object"


def _listed(types: str | list[str]) -> list[str]:
    return [types] if isinstance(types, str) else types


def _shown(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
