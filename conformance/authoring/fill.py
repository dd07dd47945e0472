"""Fills in what follows from the bytes of a case, and formats case.json for reading.

    python -m conformance.authoring.fill conformance/cases/toy-v1/step-skipped/one-missing

Write the stream, and a case.json with ``why``, ``profile``, ``state``, ``findings`` and ``proves``; this program
adds ``records``, and the reports of those ``modes`` that are named. It uses the JSON library of Python and knows
no implementation. Without a folder it fills in the whole corpus.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from conformance.accounting import account
from conformance.format_facts import MAX_LINE_BYTES, UNREADABLE
from conformance.loading import CASES, KEYS, find, load_case
from conformance.pipes import quietly
from conformance.tagging import tag_record

if TYPE_CHECKING:
    from collections.abc import Iterator

_ONE_PER_LINE = ("records", "findings", "gaps", "summary", "modes", "follow")


def filled(folder: str, content: dict[str, Any]) -> dict[str, Any]:
    """Return *content* of the case in *folder* with its records as they follow from the stream."""
    own = content.get("options", {}).get("name")
    is_rank = own is not None and os.path.exists(os.path.join(folder, own))
    for name in (own,) if is_rank else ("events.jsonl", "metrics.jsonl"):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            with open(path, "rb") as file:
                content = filled_bytes(file.read(), content)
    return content


def filled_bytes(data: bytes, content: dict[str, Any]) -> dict[str, Any]:
    """Return *content* with the records of the stream *data*."""
    return {**content, "records": list(records(data, content))}


def records(data: bytes, content: dict[str, Any]) -> Iterator[Any]:
    """Yield the tagged records of a stream whose unreadable lines are those that *content* names."""
    listed = (*content["findings"], *content.get("gaps", ()))
    here = [finding for finding in listed if "sidecar" not in finding]
    gaps = {finding["line"] for finding in here if finding["rule"] in UNREADABLE}
    limit = content.get("options", {}).get("max_line_bytes", MAX_LINE_BYTES)
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        if number in gaps or (not line.strip(b" \t\r") and len(line) <= limit):
            continue
        try:
            yield tag_record(json.loads(line.decode()), content["profile"])
        except (ValueError, AttributeError) as error:
            raise ValueError(f"line {number} is not a record, and no finding gives the reason: {error}") from error


def laid_out(content: dict[str, Any]) -> str:
    """Return *content* as the text of case.json: keys in a fixed order, one record and one finding on a line."""
    parts = []
    for key in sorted(content, key=KEYS.index):
        value = content[key]
        if key in _ONE_PER_LINE and value:
            parts.append(f"  {_text(key)}: {_lines(value, '  ')}")
        elif key == "parameters":
            inner = ",\n".join(f"    {_text(name)}: {_lines(item, '    ')}" for name, item in value.items())
            parts.append(f"  {_text(key)}: {{\n{inner}\n  }}")
        else:
            parts.append(f"  {_text(key)}: {_text(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    """Fill and lay out the cases that are named, or with ``--check`` only list those that would change."""
    parser = argparse.ArgumentParser(description="Fill in the records of cases and lay out their case.json.")
    parser.add_argument(
        "folders", nargs="*", metavar="FOLDER", help="cases, or folders that contain cases; default: all"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail if something would change")
    arguments = parser.parse_args()
    changed = 0
    for root in arguments.folders or [CASES]:
        for folder in find(root):
            changed += _refresh(folder, write=not arguments.check)
    sys.exit(bool(changed) and arguments.check)


def refreshed(folder: str) -> tuple[str, str, str]:
    """Return the path of the description in *folder*, its text, and the text that it should have."""
    name = "family.json" if os.path.exists(os.path.join(folder, "family.json")) else "case.json"
    path = os.path.join(folder, name)
    with open(path, encoding="utf-8", newline="") as file:
        before = file.read()
    content = filled(folder, json.loads(before))
    return path, before, laid_out(content)


def _refresh(folder: str, *, write: bool) -> bool:
    path, before, after = refreshed(folder)
    if write:
        _write(path, after)
        content = json.loads(after)
        if content.get("modes"):
            case = load_case(folder, folder)
            content["modes"] = {mode: account(case, mode).as_json() for mode in content["modes"]}
            after = laid_out(content)
            _write(path, after)
    if before != after:
        sys.stdout.write(f"{path}\n")
    return before != after


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)


def _lines(value: Any, indent: str) -> str:
    if isinstance(value, dict):
        items = [f"{indent}  {_text(key)}: {_text(item)}" for key, item in value.items()]
        opened, closed = "{", "}"
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        items = [f"{indent}  {_text(item)}" for item in value]
        opened, closed = "[", "]"
    else:
        return _text(value)
    return opened + "\n" + ",\n".join(items) + f"\n{indent}{closed}"


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True)


if __name__ == "__main__":
    sys.exit(quietly(main))
