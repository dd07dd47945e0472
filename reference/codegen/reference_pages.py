"""Makes the indexes of rules, and of schemas and kinds."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from codegen import sources
from codegen.docs_stubs import RULES_INDEX
from codegen.site.addresses import address_of
from codegen.spec_tables import described, help_text, profiles_text, sentence, severity_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Schema = dict[str, Any]

_MADE = "<!-- Made by `make generate` from schemas/; do not edit. -->"

_SEVERITY = re.compile(r"\b(error|warning|info)\b")

_RULES = f"""\
---
description: "Every problem that a checker reports, by the name of its rule: what it means and how to fix it."
---

# Rules

{_MADE}

What a checker looks for, from the bytes to the bundle. A finding in a terminal, in a report or in an annotation
begins with the name of its rule; the page of that name says what it checks, why, and what to do. `toyspec explain
NAME` prints the same page without a network.

| rule | severity | since | problem and fix |
|---|---|---|---|
{{rows}}

*Since* names the [revision](../versioning.md#revisions) that added the rule; without it, the rule is in revision 1.2.
The severity is that of the rule in every profile that it is for: `error` makes a stream invalid, `warning` and `info`
do not. Each name leads to the page of the rule, *statement* to its [requirement](../../requirements.md), with
the cases that prove it. The table is data as well: [`rules.json`](../../schemas/rules.json).
"""

_SCHEMAS = f"""\
---
description: Every kind of record with its keys, and the JSON Schemas that define them.
---
# Schemas and kinds

{_MADE}

Each line of a log is an *event* of some kind: a step, an evaluation, the end of the run. One JSON Schema (draft
2020-12) describes each kind: its keys, their types and their limits. The code, the tables and the pages about kinds
are generated from the schemas. All of them are [downloads](../downloads.md), and `toyspec schema` prints them.

## Kinds

A key in **bold** is required, all others are optional. *Since* names the revision that added it. The page of a kind
has the type, unit and meaning of each key.

{{kinds}}
## Use a schema

A bundle is a whole profile in one document, without references to other files: the form that validators and code
generators take.

```console
$ toyspec schema toy/v1 > toy-v1.json
```

```python
import json
from pathlib import Path

import jsonschema

bundle = json.loads(Path("toy-v1.json").read_bytes())
step = {{{{"$ref": "#/$defs/step", "$defs": bundle["$defs"]}}}}
validator = jsonschema.Draft202012Validator(step)

assert validator.is_valid({{{{"kind": "step", "t": 1.0, "step": 1, "loss": 2.5}}}})
assert not validator.is_valid({{{{"kind": "step", "t": 1.0}}}})
```

Validate by the kind that the record names, as here, and not by the `oneOf` of the whole bundle: then an error is
about the key that is wrong, and not about all the kinds that the record is not.

## What a schema cannot say

A schema sees one record, after parsing. `toyspec check` says what is beyond that: whether the line is JSON at all,
whether a key occurs twice, whether an integer is written `1.0`, and everything [between
records](../spec/stream.md).

## Keywords of our own

Validators pass over them; generators read them.

| keyword | meaning |
|---|---|
| `x-since` | the revision that brought the kind or key; absent means 1.0 |
| `x-thing` | lists of the keys that name the thing that a record is about, for the names of its metrics |
| `x-width` | 32: the number is held as binary32, which decides its range and its canonical text |
| `x-always-written` | a writer writes the key also when it has its default |

## Files

| file | `$id` | what it describes |
|---|---|---|
{{rows}}
"""


def reference_pages() -> dict[str, str]:
    """Return the text of each page by its path from the root."""
    return {
        "docs/reference/schemas.md": _SCHEMAS.format(
            kinds="\n".join(map(_kinds_of, sources.PROFILES)), rows="\n".join(_schema_rows())
        ),
    }


def rules_page() -> dict[str, str]:
    """Return the list of rules by its path from the root; only the site has it, among the pages of the rules."""
    return {f"docs/{RULES_INDEX}": _RULES.format(rows="\n".join(map(_rule_row, sources.rules())))}


def _rule_row(rule: Mapping[str, Any]) -> str:
    name = rule["id"]
    is_general = len(rule["profiles"]) == len(sources.PROFILES) or isinstance(rule["severity"], dict)
    profiles = "" if is_general else f" in {profiles_text(rule)}"
    statement = f"[statement](../../{address_of(f'rules/{name}')})"
    problem = f"{sentence(rule['summary'])}<br>*{help_text(rule)}* · {statement}"
    severity = _SEVERITY.sub(r'<span class="severity-\1">\1</span>', severity_text(rule))
    return f"| [{name}]({name}.md) | {severity}{profiles} | {_added().get(f'rules/{name}', '')} | {problem} |"


@cache
def _added() -> dict[str, str]:
    """Return the revision that added each statement that is not of the earliest ones, by the id of the statement."""
    entries = sources.load(sources.ROOT / "spec" / "requirements.json")["requirements"]
    return {entry["id"]: entry["since"] for entry in entries if "since" in entry}


def _kinds_of(profile: str) -> str:
    rows = []
    for kind, schema in sources.kinds(profile).items():
        keys = ", ".join(_key(key, key in schema.get("required", [])) for key in schema["properties"])
        link = f"[`{kind}`](../spec/{profile}/{kind}.md)"
        file = f"[schema](../schemas/{profile}/{kind}.json)"
        rows.append(f"| {link}<br>{file} | {schema['description']} | {keys} | {schema.get('x-since', '')} |")
    head = "| kind | what it says | keys | since |\n|---|---|---|---|"
    return f"### {profile}\n\n{head}\n" + "\n".join(rows) + "\n"


def _key(name: str, is_required: bool) -> str:
    return f"**`{name}`**" if is_required else f"`{name}`"


def _schema_rows() -> Iterator[str]:
    for path in sorted(sources.SCHEMAS.rglob("*.json")):
        document = sources.load(path)
        if "$id" in document:
            name = path.relative_to(sources.SCHEMAS).as_posix()
            yield f"| [`{name}`](../schemas/{name}) | `{document['$id']}` | {_about(document)} |"


def _about(document: Schema) -> str:
    return described(document, document) or str(document["title"])
