"""The messages of the protocol: validates them against ``schema/protocol.json``, and names the place of each error."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from functools import cache
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from conformance.escaping import printable
from conformance.tagging import TagError, untag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

_SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "schema", "protocol.json")
_ANSWERS = {
    "reader": "read_answer",
    "summarizer": "summary_answer",
    "checker": "check_answer",
    "writer": "write_answer",
    "canonical-writer": "write_answer",
    "follower": "follow_answer",
}
# Values have one home, `untag`: it is a hundred times faster than their schema, and its messages are clearer.
_TAGGED = {"record", "value"}
_SHOWN = 60
_RIGHT: set[bytes | None] = set()
"""Digests of answers that are right."""


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


def printed(output: bytes) -> str:
    """Return in words what a program has printed on standard output; nothing if it printed nothing."""
    lines = output.splitlines()
    return f": it printed {', '.join(map(_shown, lines[:3]))}" if lines else ""


def _stray(line: bytes, fact: str) -> ProtocolError:
    return ProtocolError(f"stray output on standard output: {_shown(line)} {fact}. Print diagnostics to standard error")


def demand_hello(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hello in *message*; raise ProtocolError if it is not one."""
    _demand("hello_line", message)
    hello: dict[str, Any] = message["hello"]
    return hello


def demand_answer(role: str, message: Mapping[str, Any]) -> None:
    """Raise ProtocolError unless *message* is an answer to a request of *role*."""
    definition = "failure" if "untestable" in message or _is_failure(message) else _ANSWERS[role]
    # Implementations that are right give the same answers, and to validate one takes longer than to compare it.
    known = _digest(definition, message)
    if known is None or known not in _RIGHT:
        _demand(definition, message)
        _RIGHT.add(known)


def problems(definition: str, message: Any) -> list[str]:
    """Return what is wrong with *message* as a *definition* of the schema."""
    try:
        errors = _validator(definition).iter_errors(message)
        # The library yields an error for each missing member, and names it only in prose.
        return list(dict.fromkeys(text for error in errors for text in _texts(error)))
    except RecursionError:
        return ["the message is nested too deeply to be read"]


def encoded(request: Mapping[str, Any]) -> bytes:
    """Return *request* as one line, its stream in base64."""
    message = dict(request)
    if isinstance(message.get("stream"), bytes):
        message["stream"] = base64.b64encode(message["stream"]).decode()
    if "media" in message:
        message["media"] = [base64.b64encode(content).decode() for content in message["media"]]
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


def _is_failure(message: Mapping[str, Any]) -> bool:
    return isinstance(message.get("error"), str) and message.keys() <= {"id", "error"}


def _digest(definition: str, message: Mapping[str, Any]) -> bytes | None:
    """Return what no other message as a *definition* has, but for its id; None where it is nested too deeply."""
    number = message.get("id")
    content = {**message, "id": type(number).__name__ if isinstance(number, int) and number >= 0 else number}
    try:
        return hashlib.sha256(json.dumps([definition, content], sort_keys=True).encode()).digest()
    except RecursionError:
        return None


def _demand(definition: str, message: Any) -> None:
    found = problems(definition, message)
    if found:
        raise ProtocolError("; ".join(found[:3]))


@cache
def _validator(definition: str) -> Any:
    with open(_SCHEMA, encoding="utf-8") as file:
        definitions = json.load(file)["$defs"]
    return _Validator(_with_definitions({"$ref": definition}, definitions))


def _with_definitions(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """Return *schema* with definitions in place of references, since the library resolves them for every value."""
    if isinstance(schema, list):
        return [_with_definitions(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    if name in _TAGGED:
        return {"x-tagged": name}
    if name:
        return _with_definitions(definitions[name], definitions)
    return {key: _with_definitions(part, definitions) for key, part in schema.items()}


def _tag_errors(_: Any, name: str, instance: Any, __: Any) -> Iterator[ValidationError]:
    try:
        plain = untag(instance)
    except TagError as error:
        yield ValidationError(error.problem, path=error.place.split("/")[1:])
        return
    if name == "record" and not isinstance(plain, dict):
        yield ValidationError(f"is {_shown(instance)}, expected an object")


_Validator: Any = extend(  # type: ignore[no-untyped-call]  # the library has no types
    Draft202012Validator,
    {"x-tagged": _tag_errors},
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    ),
)


def _texts(error: ValidationError) -> Iterator[str]:
    """Yield the errors in *error*, each with its place: of a choice, those of the alternative that is nearest."""
    if error.context:
        alternatives: dict[Any, list[str]] = {}
        for inner in error.context:
            alternatives.setdefault(inner.schema_path[0], []).extend(_texts(inner))
        yield from min(alternatives.values(), key=len)
        return
    place = "".join(f"/{part}" for part in error.absolute_path)
    for phrase in _PHRASES[str(error.validator)](error):
        yield f"{printable(place) or 'the message'} {phrase}"


def _unknown(error: ValidationError) -> Iterator[str]:
    named = _as_mapping(error.schema)["properties"]
    for key in _as_mapping(error.instance):
        if key not in named:
            yield f"has the member {_shown(key)}, which the protocol does not know"


def _dependent(error: ValidationError) -> Iterator[str]:
    members = _as_mapping(error.instance)
    for key, needed in _as_mapping(error.validator_value).items():
        for other in needed:
            if key in members and other not in members:
                yield f"has {key}, but no member {other}"


_PHRASES: dict[str, Callable[[ValidationError], Iterable[str]]] = {
    "not": lambda error: [
        f"has the member {', '.join(_as_mapping(error.validator_value)['required'])}, which is not allowed here"
    ],
    "type": lambda error: [f"is {_shown(error.instance)}, expected type {_alternatives(error.validator_value)}"],
    "const": lambda error: [f"is {_shown(error.instance)}, expected {_shown(error.validator_value)}"],
    "enum": lambda error: [f"is {_shown(error.instance)}, expected one of {', '.join(map(str, _listed(error)))}"],
    "pattern": lambda error: [f"is {_shown(error.instance)}, expected the form {error.validator_value}"],
    "minimum": lambda error: [f"is {_shown(error.instance)}, less than {error.validator_value}"],
    "maximum": lambda error: [f"is {_shown(error.instance)}, greater than {error.validator_value}"],
    "minLength": lambda _: ["is empty"],
    "maxLength": lambda error: [f"has more than {error.validator_value} characters"],
    "minItems": lambda _: ["has no items"],
    "uniqueItems": lambda _: ["has a repeated item"],
    "oneOf": lambda _: ["has members that exclude one another"],
    "x-tagged": lambda error: [error.message],
    "additionalProperties": _unknown,
    "dependentRequired": _dependent,
    "required": lambda error: [
        f"has no member {key}" for key in _listed(error) if key not in _as_mapping(error.instance)
    ],
}


def _alternatives(types: Any) -> str:
    return types if isinstance(types, str) else " or ".join(types)


def _listed(error: ValidationError) -> list[Any]:
    return list(error.validator_value) if isinstance(error.validator_value, list) else []


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value  # type: ignore[no-any-return]


def _shown(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
