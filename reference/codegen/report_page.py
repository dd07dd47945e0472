"""Makes the page on the report of the checker, from its schema and from a report."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codegen import sources
from codegen.spec_tables import described

if TYPE_CHECKING:
    from collections.abc import Iterator

Schema = dict[str, Any]

_STREAM = """\
{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run"}
{"kind":"step","t":1.0,"step":1,"loss":NaN}
{"kind":"run_end","t":2.0,"reason":"completed"}
"""

_HEAD = """\
---
description: "What `toyspec check --format json` prints, key by key, with an example."
---
# The JSON report

<!-- Made by `make generate` from schemas/report/; do not edit. -->

What `toyspec check --format json` prints, as its schema [`report.json`](../../schemas/report/v1/report.json) describes
it. In Python, `toyspec.check` gives the same as [objects](../python.md#check).

## Example

A run in which the second line is

```text
LINE
```

gives, laid out here for reading:

```json
REPORT
```
"""

_PARTS = {"The document": "", "An entry of `files`": "file", "A finding": "finding"}


def report_page() -> str:
    """Return the page: an example report from the current checker, and the meaning of every key."""
    head = _HEAD.replace("LINE", _STREAM.splitlines()[1]).replace("REPORT", _example())
    return "\n".join([head, *_sections()])


def _example() -> str:
    with tempfile.TemporaryDirectory() as folder:
        stream = Path(folder, "run/events.jsonl")
        stream.parent.mkdir()
        stream.write_bytes(_STREAM.encode())
        command = [sys.executable, "-m", "toyspec", "check", "--format", "json", "run"]
        printed = subprocess.run(command, cwd=folder, capture_output=True, check=False).stdout
    return json.dumps(json.loads(printed), indent=2)


def _sections() -> Iterator[str]:
    document = sources.load(sources.SCHEMAS / "report/v1/report.json")
    for title, name in _PARTS.items():
        schema = document["$defs"][name] if name else document
        yield f"## {title}\n\n{_fields(schema, document)}"
        for key, value in schema["properties"].items():
            for inner in (value, value.get("items", {})):
                if "properties" in inner:
                    yield f"`{key}`:\n\n{_fields(inner, document)}"


def _fields(schema: Schema, document: Schema) -> str:
    required = schema.get("required", [])
    rows = [
        f"| `{key}` | {_type(value)}{'' if key in required else ', optional'} | {described(value, document)} |"
        for key, value in schema["properties"].items()
    ]
    return "| key | type | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def _type(schema: Schema) -> str:
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if "$ref" in schema:
        return "string" if schema["$ref"].endswith("/rule") else "object"
    if schema["type"] == "array":
        return "array of objects"
    return str(schema["type"])
