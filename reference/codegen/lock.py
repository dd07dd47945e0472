"""Keeps released revisions fixed: a later revision may only add optional keys and kinds.

A key or kind that a revision added carries ``x-since``. What remains of the schemas without
everything that is newer than a revision must have the digest that ``schemas/lock.json`` holds.
A draft, which it names by profile, may still change and has none.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from codegen import sources
from codegen.bundling import bundle

_FIRST = "1.0"
_PROSE = {"title", "description", "$comment", "x-since"}
# Which metric a number belongs to is not a condition on the record.
_NAMING = "x-thing"

Schema = dict[str, Any]


def revisions(profile: str) -> list[str]:
    """Return the revisions of *profile*, oldest first."""
    found = {_FIRST} | set(_since(bundle(profile)))
    return sorted(found, key=_number)


def digest(profile: str, revision: str) -> str:
    """Return the SHA-256 of what *revision* of *profile* asserts, as hexadecimal digits."""
    projected = _projected(bundle(profile)["$defs"], _number(revision))
    rules = _projected(sources.stream(profile), _number(revision))
    text = json.dumps([projected, rules], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def lock_text() -> str:
    """Return the content of ``schemas/lock.json`` for the current schemas; its drafts stay."""
    drafts = sources.load(sources.SCHEMAS / "lock.json")["drafts"]
    digests = {
        profile: {
            revision: digest(profile, revision) for revision in revisions(profile) if revision != drafts.get(profile)
        }
        for profile in sources.PROFILES
    }
    comment = "SHA-256 of what each revision asserts; `python -m codegen --lock` writes it, once for each release."
    return json.dumps({"$comment": comment, "drafts": drafts, "digests": digests, "corpus": _corpus()}, indent=2) + "\n"


def _corpus() -> dict[str, str]:
    """Return the digest of the list of cases of each revision that has one."""
    lists = sorted((sources.ROOT / "conformance/frozen").glob("*.json"))
    return {path.stem: hashlib.sha256(path.read_bytes()).hexdigest() for path in lists}


def newer_and_required(profile: str) -> list[str]:
    """Return the keys that a later revision added as required, which is not allowed."""
    return [
        f"{kind}.{key}"
        for kind, schema in bundle(profile)["$defs"].items()
        if "x-since" not in schema
        for key in schema.get("required", [])
        if "x-since" in schema["properties"][key]
    ]


def _since(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["x-since"]] if isinstance(node.get("x-since"), str) else []
        return own + [revision for value in node.values() for revision in _since(value)]
    return [revision for value in node for revision in _since(value)] if isinstance(node, list) else []


def _projected(node: Any, revision: tuple[int, ...]) -> Any:
    if isinstance(node, list):
        return [_projected(item, revision) for item in node if not _is_newer(item, revision)]
    if not isinstance(node, dict):
        return node
    return {
        key: _projected(value, revision)
        for key, value in node.items()
        if not (key in _PROSE and isinstance(value, str)) and key != _NAMING and not _is_newer(value, revision)
    }


def _is_newer(value: Any, revision: tuple[int, ...]) -> bool:
    return isinstance(value, dict) and _number(value.get("x-since", _FIRST)) > revision


def _number(revision: str) -> tuple[int, ...]:
    return tuple(int(part) for part in revision.split("."))
