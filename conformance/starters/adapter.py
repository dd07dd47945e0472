"""Lets `toyspec conform` ask your emitter; the protocol is conformance/PROTOCOL.md. Edit HELLO and `write`."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

HELLO = {
    "protocol": 1,
    "name": "my-emitter",
    "language": "Python",
    "version": "0.1",
    "roles": ["writer"],
    "profiles": ["toy/v1"],
    "revisions": ["1.3"],
    "lines": True,
    "capabilities": [],
}


class RefusedError(Exception):
    """Your emitter refuses a record; the text says why."""


def write(records: list[dict[str, Any]]) -> bytes:
    """Return the bytes that your emitter writes for *records*; raise RefusedError if it refuses one.

    Numbers are int and float, NaN and infinities among them. The `t` of a record is the time on the clock of the run.
    """
    raise NotImplementedError("still to do: call your emitter in `write` of adapter.py")


def untagged(value: Any) -> Any:
    """Return *value* with the numbers that its tags stand for."""
    if isinstance(value, list):
        return [untagged(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((tag, inner),) = value.items()
        if tag in {"int", "float", "f32"}:
            return int(inner) if tag == "int" else float(inner)
        value = inner if tag == "object" else value
    return {key: untagged(item) for key, item in value.items()}


def answer(records: list[Any]) -> dict[str, Any]:
    """Return the answer to a request; no error ends the program."""
    try:
        stream = write([untagged(record) for record in records])
    except RefusedError as error:
        return {"outcome": "refused", "reason": str(error)}
    except Exception as error:  # noqa: BLE001
        return {"error": f"{type(error).__name__}: {error}"}
    return {"outcome": "written", "stream": base64.b64encode(stream).decode()}


def main(arguments: list[str]) -> int:
    """Answer as the protocol says; return the exit status."""
    if arguments[:1] == ["--oneshot"]:
        found = answer([json.loads(line) for line in sys.stdin])
        sys.stderr.write(found.get("reason", found.get("error", "")))
        sys.stdout.buffer.write(base64.b64decode(found.get("stream", "")))
        return 2 if "error" in found else int(found["outcome"] == "refused")
    print(json.dumps({"hello": HELLO}), flush=True)
    for line in sys.stdin if arguments == ["--lines"] else ():
        request = json.loads(line)
        print(json.dumps({"id": request["id"], **answer(request["records"])}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
