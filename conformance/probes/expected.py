"""What the specification expects of a case beyond what case.json lists."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from conformance.format_facts import MAX_LINE_BYTES
from conformance.oracle import tables
from conformance.placing import place
from conformance.probes.question import UntestableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from conformance.cases import Case

_EXCERPT_BYTES = 40
_RANK = re.compile(r"events\.rank-([1-9][0-9]{0,8})\.jsonl(?![\s\S])", re.ASCII)

_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "toy/v1": {},
    "metrics/v1": {"extra": {}},
    "kaun/v1": {"wall_time": {"float": "0.0"}},
}


def with_defaults(records: Iterable[Any], profile: str | None) -> list[Any]:
    """Return tagged *records* with the default of each absent member that has one."""
    return [_with_defaults(record, profile) for record in records]


def _with_defaults(record: Any, profile: str | None) -> Any:
    if not isinstance(record, dict) or (profile == "kaun/v1" and not is_timed(record, profile)):
        return record
    return {**_DEFAULTS.get(profile or "", {}), **record}


def without_defaults(record: Any, profile: str | None) -> Any:
    """Return a tagged *record* without the members that a writer adds: an empty ``extra``, ``wall_time``."""
    if is_timed(record, profile):
        return {key: item for key, item in record.items() if key != "wall_time"}
    if not isinstance(record, dict) or profile != "metrics/v1":
        return record
    return {key: item for key, item in record.items() if (key, item) not in _DEFAULTS[profile].items()}


def is_timed(record: Any, profile: str | None) -> bool:
    """Return whether a tagged *record* is a scalar, to which a writer adds the time."""
    return profile == "kaun/v1" and isinstance(record, dict) and record.get("type") == "scalar"


def is_own(record: Mapping[str, Any], profile: str) -> bool:
    """Return whether a tagged record is of unknown kind, or has a key that no schema names."""
    key = tables.tag_key(profile)
    kind = "entry" if key is None else record.get(key)
    kinds = tables.kinds(profile)
    return not isinstance(kind, str) or kind not in kinds or _has_unknown_key(record, kinds[kind], profile)


def _has_unknown_key(value: Any, schema: Mapping[str, Any], profile: str) -> bool:
    schema = tables.resolved(schema, profile)
    named = schema.get("properties")
    if not isinstance(value, dict) or named is None:
        return False
    return any(key not in named or _has_unknown_key(item, named[key], profile) for key, item in value.items())


def stream_request(case: Case, role: str) -> dict[str, Any]:
    """Return a request of *role* about the stream of *case*."""
    request: dict[str, Any] = {
        "role": role,
        "stream": case.data,
        "name": case.options.name or case.stream or "events.jsonl",
    }
    return request | _options(case)


def bundle_request(case: Case, role: str, folder: str) -> dict[str, Any]:
    """Return a request of *role* about the bundle of *case*, which is written into *folder*."""
    try:
        directory = place(case, folder)
    except OSError as error:
        if case.entries:
            raise UntestableError(f"this system cannot create the entries of the case: {error.strerror}") from None
        raise
    name = {} if case.options.name is None else {"name": case.options.name}
    return {"role": role, "directory": directory, **name, **_options(case)}


def contents(directory: str) -> dict[str, bytes]:
    """Return the bytes of every file in *directory* and below it, by its path from there."""
    found = {}
    for below, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(below, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    found[os.path.relpath(path, directory).replace(os.sep, "/")] = file.read()
    return found


def file_differences(expected: Mapping[str, bytes], found: Mapping[str, bytes]) -> list[str]:
    """Return one sentence for each file that is missing, new, or has other bytes than *expected*."""
    return [
        f"the file {name!r} changed: {change(expected.get(name), found.get(name))}"
        for name in sorted({*expected, *found})
        if expected.get(name) != found.get(name)
    ]


def change(expected: bytes | None, found: bytes | None) -> str:
    """Return in words how the bytes of a file differ; None is a file that does not exist."""
    if expected is None:
        return f"it exists with {len(found or b'')} bytes, expected no such file"
    if found is None:
        return f"it is missing, expected {len(expected)} bytes"
    at = next((i for i, (one, other) in enumerate(zip(expected, found, strict=False)) if one != other), None)
    at = min(len(expected), len(found)) if at is None else at
    one, other = (ascii(data[at : at + _EXCERPT_BYTES])[1:] for data in (found, expected))
    return f"it has {len(found)} bytes, expected {len(expected)}; at byte {at} it has {one}, expected {other}"


def is_of_a_rank(case: Case) -> bool:
    """Return whether *case* is about the stream of a rank in its bundle."""
    return case.scope == "bundle" and case.options.name is not None


def has_ranks(case: Case) -> bool:
    """Return whether *case* is about which ranks have a stream: a file of its bundle is named like one."""
    return case.scope == "bundle" and any("rank-" in name for name in (*case.files, *case.entries))


def other_ranks(case: Case) -> list[int]:
    """Return the ranks from 1 on that have a stream in the bundle of *case*, in order."""
    found = (_RANK.match(name) for name in case.regular_files)
    return sorted(int(match[1]) for match in found if match)


def capabilities(case: Case) -> frozenset[str]:
    """Return the capabilities that readers and checkers need for *case*."""
    found = set()
    if case.scope == "bundle":
        found.add("bundle")
        if case.options.name is not None:
            found.add("ranks")
    if case.options.max_line_bytes != MAX_LINE_BYTES:
        found.add("line_limit")
    return frozenset(found)


def _options(case: Case) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if case.options.profile is not None:
        options["profile"] = case.options.profile
    if case.options.max_line_bytes != MAX_LINE_BYTES:
        options["max_line_bytes"] = case.options.max_line_bytes
    return options
