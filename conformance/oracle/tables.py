"""The schemas and rules, as the files of ``schemas/`` have them."""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any

from conformance.format_facts import SCHEMAS, TAG_KEYS
from conformance.revisions import CURRENT, as_numbers


@cache
def _loaded(*parts: str) -> Any:
    with open(os.path.join(SCHEMAS, *parts), "rb") as file:
        return json.load(file)


RULES: dict[str, Any] = {rule["id"]: rule for rule in _loaded("rules.json")["rules"]}
"""Every rule by its id."""

RULE_ORDER = {rule: index for index, rule in enumerate(RULES)}
"""The order in which findings at one place are listed."""


def severity(rule: str, profile: str, *, at_end: bool = False) -> str:
    """Return the severity of a finding of *rule*; *at_end* is true if it is about the fragment."""
    entry = RULES[rule]
    value = entry.get("severity_at_end", entry["severity"]) if at_end else entry["severity"]
    return str(value[profile] if isinstance(value, dict) else value)


def takes_whole_floats(profile: str | None) -> bool:
    """Return whether a whole number with a fraction or an exponent is an integer in *profile*."""
    return profile in RULES["integer-as-float"]["profiles"]


def extension(media_type: str) -> str:
    """Return the extension of a media file."""
    document = _loaded("media.json")
    found: str = document["extensions"].get(media_type.partition(";")[0].strip(" \t").lower(), document["other"])
    return found


def tag_key(profile: str) -> str | None:
    """Return the key that names the kind of a record, None if there is none."""
    return TAG_KEYS[profile]


_followed = [CURRENT]


def follow(revision: str) -> None:
    """Let all tables be those of *revision*, in this process."""
    _followed[0] = revision


def has(revision: str) -> bool:
    """Return whether what *revision* added or changed holds in the revision that is followed."""
    return as_numbers(revision) <= as_numbers(_followed[0])


def definitions(profile: str) -> dict[str, Any]:
    """Return the schemas of *profile* by the names in ``$ref``."""
    return _definitions(profile, _followed[0])


@cache
def _definitions(profile: str, revision: str) -> dict[str, Any]:
    found: dict[str, Any] = _known(_bundle(profile)["$defs"], as_numbers(revision))
    return found


def _known(node: Any, revision: tuple[int, ...]) -> Any:
    """Return the part of a schema that *revision* has."""
    if isinstance(node, list):
        return [_known(item, revision) for item in node]
    if not isinstance(node, dict):
        return node
    return {key: _known(value, revision) for key, value in node.items() if not _is_newer(value, revision)}


def _is_newer(value: Any, revision: tuple[int, ...]) -> bool:
    return isinstance(value, dict) and as_numbers(value.get("x-since", "1.0")) > revision


def kinds(profile: str | None) -> dict[Any, Any]:
    """Return the schema of every kind of record in *profile*; a stream without profile has no kinds."""
    if profile is None:
        return {}
    found = definitions(profile)
    if tag_key(profile) is None:
        return {"entry": found["entry"]}
    return {kind: found[kind] for kind in _bundle(profile)["discriminator"]["mapping"] if kind in found}


def _bundle(profile: str) -> Any:
    return _loaded("bundled", f"{profile.replace('/', '-')}.json")


def resolved(schema: Any, profile: str | None) -> dict[str, Any]:
    """Return *schema* with its ``$ref`` followed."""
    found: dict[str, Any] = schema
    while "$ref" in found:
        assert profile is not None
        found = definitions(profile)[found["$ref"].rpartition("/")[2]]
    return found
