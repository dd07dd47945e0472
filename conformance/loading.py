"""Finds, reads and checks cases and families below a folder."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from conformance.accounting import MODES
from conformance.cases import PROFILES, STATES, STREAMS, Case, CaseError, Family, Finding, Options
from conformance.families import KINDS, expand
from conformance.placing import ENTRIES
from conformance.revisions import CURRENT, FIRST_LISTED, is_asked
from conformance.tagging import TagError, untag

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CASES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases")
"""The corpus, in the folder next to this module."""

KEYS = (
    "why",
    "since",
    "until",
    "family",
    "profile",
    "state",
    "options",
    "scope",
    "entries",
    "form",
    "records",
    "findings",
    "gaps",
    "suppressed",
    "summary",
    "modes",
    "parameters",
    "follow",
    "proves",
)
"""Keys of a family, in the order of the layout."""

_FAMILY_KEYS = frozenset(KEYS)
_CASE_KEYS = _FAMILY_KEYS - {"family", "parameters"}
_FINDING_KEYS = frozenset({"rule", "line", "pointer", "sidecar"})


def find(root: str = CASES) -> Iterator[str]:
    """Yield every folder below *root* that is a case or a family, sorted by path."""
    for folder, names, files in os.walk(root):
        names.sort()
        if "case.json" in files or "family.json" in files:
            yield folder


def load(root: str = CASES, revision: str = CURRENT) -> Iterator[Case]:
    """Yield the cases of *revision* below *root*, families expanded; raise CaseError at one that is not well formed."""
    for folder in find(root):
        yield from load_folder(folder, root, revision)


def load_folder(folder: str, root: str = CASES, revision: str = CURRENT) -> Iterator[Case]:
    """Yield the case in *folder*, or the members of its family, if it is one of *revision*; raise CaseError."""
    if os.path.exists(os.path.join(folder, "family.json")):
        family = load_family(folder, root)
        if is_asked(family.base.since, family.base.until, revision):
            yield from expand(family)
    else:
        case = load_case(folder, root)
        if is_asked(case.since, case.until, revision):
            yield case


def in_revision(folder: str, revision: str) -> bool:
    """Return whether the case or family in *folder* is one of *revision*; raise CaseError."""
    is_family = os.path.exists(os.path.join(folder, "family.json"))
    case = load_family(folder).base if is_family else load_case(folder)
    return is_asked(case.since, case.until, revision)


def load_case(folder: str, root: str = CASES) -> Case:
    """Return the case in *folder*; raise CaseError if it is not well formed."""
    return _Description(os.path.join(folder, "case.json"), root, _CASE_KEYS).case()


def load_family(folder: str, root: str = CASES) -> Family:
    """Return the family in *folder*, not expanded; raise CaseError if it is not well formed."""
    description = _Description(os.path.join(folder, "family.json"), root, _FAMILY_KEYS)
    kind = description.take("family", str)
    if kind not in KINDS:
        raise description.error("family", f"is {kind!r}, expected one of {', '.join(sorted(KINDS))}")
    return Family(
        kind=kind,
        base=description.case(),
        parameters=description.take("parameters", dict, {}),
        path=description.path,
    )


class _Description:
    """A file case.json or family.json that is being read."""

    def __init__(self, path: str, root: str, keys: frozenset[str]) -> None:
        self.path = path
        self._folder = os.path.dirname(path)
        self._root = root
        with open(path, "rb") as file:
            data = file.read()
        try:
            self._content = json.loads(data, object_pairs_hook=_unique)
        except (ValueError, RecursionError) as error:
            raise CaseError(path, "", f"is not JSON: {error}") from None
        if not isinstance(self._content, dict):
            raise CaseError(path, "", "must be an object")
        for key in self._content:
            if key not in keys:
                raise self.error(key, "is not a key of this file")

    def error(self, place: str, error: str) -> CaseError:
        """Return the error about *place* in this file."""
        return CaseError(self.path, place, error)

    def take(self, key: str, kind: type, default: Any = ...) -> Any:
        """Return the member *key*, which is a *kind*; raise CaseError."""
        value = self._content.get(key, default)
        if value is ...:
            raise self.error(key, "is missing")
        return self._checked(key, value, kind)

    def case(self) -> Case:
        """Return the case that is described."""
        files = self._files()
        options = self._options()
        streams = [name for name in STREAMS if name in files]
        if options.name in files:
            # A stream of a rank beside that of rank 0.
            streams = [options.name]
        if len(streams) > 1:
            raise self.error("", f"must have one stream, but has {' and '.join(streams)}")
        proves = self.take("proves", dict)
        return Case(
            name=os.path.relpath(self._folder, self._root).replace(os.sep, "/"),
            folder=self._folder,
            why=self.take("why", str),
            since=self.take("since", str, FIRST_LISTED),
            until=self.take("until", str) if "until" in self._content else None,
            files=files,
            entries=self._entries(),
            stream=streams[0] if streams else None,
            profile=self._choice("profile", self._content.get("profile", ...), (*PROFILES, None)),
            state=self._choice("state", self._content.get("state", ...), (*STATES, None)),
            records=self._records(),
            findings=self._findings("findings"),
            gaps=self._findings("gaps", []),
            suppressed=self._counts(),
            accepts=self._names(proves, "accepts"),
            rejects=self._names(proves, "rejects"),
            options=options,
            form=self._choice("form", self._content.get("form", "any"), ("any", "canonical")),
            scope=self._choice("scope", self._content.get("scope", "stream"), ("stream", "bundle")),
            summary=self._summary(),
            modes=self._modes(),
            follow=tuple(self.take("follow", list, [])),
        )

    def _files(self) -> dict[str, bytes]:
        files = {}
        for place, folders, names in os.walk(self._folder):
            folders.sort()
            below = os.path.relpath(place, self._folder)
            for name in sorted(names):
                inside = os.path.normpath(os.path.join(below, name)).replace(os.sep, "/")
                if inside not in ("case.json", "family.json"):
                    with open(os.path.join(place, name), "rb") as file:
                        files[inside] = file.read()
        return files

    def _entries(self) -> Mapping[str, Any]:
        entries: dict[str, Any] = self.take("entries", dict, {})
        for name, entry in entries.items():
            if not isinstance(entry, dict) or len(entry) != 1 or not entry.keys() <= set(ENTRIES):
                raise self.error(f"entries/{name}", f"must have one member: {', '.join(ENTRIES)}")
        return entries

    def _records(self) -> tuple[Any, ...]:
        records = self.take("records", list)
        for index, record in enumerate(records):
            try:
                value = untag(record)
            except TagError as error:
                raise self.error(f"records/{index}{error.place}", str(error)) from None
            if not isinstance(value, dict):
                raise self.error(f"records/{index}", "must be an object")
        return tuple(records)

    def _findings(self, name: str, default: Any = ...) -> tuple[Finding, ...]:
        found = []
        for index, item in enumerate(self.take(name, list, default)):
            place = f"{name}/{index}"
            self._checked(place, item, dict)
            for key in item:
                if key not in _FINDING_KEYS:
                    raise self.error(f"{place}/{key}", "is not a member of a finding")
            found.append(
                Finding(
                    rule=self._checked(f"{place}/rule", item.get("rule"), str),
                    line=self._checked(f"{place}/line", item.get("line"), int),
                    pointer=self._checked(f"{place}/pointer", item.get("pointer"), str),
                    sidecar=self._checked(f"{place}/sidecar", item["sidecar"], str) if "sidecar" in item else None,
                )
            )
        return tuple(found)

    def _counts(self) -> dict[str, int]:
        counts: dict[str, int] = self.take("suppressed", dict, {})
        for rule, count in counts.items():
            self._checked(f"suppressed/{rule}", count, int)
        return counts

    def _options(self) -> Options:
        options = dict(self.take("options", dict, {}))
        if "profile" in options:
            self._choice("options/profile", options["profile"], PROFILES)
        if "name" in options:
            self._checked("options/name", options["name"], str)
        if "max_line_bytes" in options:
            self._checked("options/max_line_bytes", options["max_line_bytes"], int)
        try:
            return Options(**options)
        except TypeError:
            raise self.error("options", "may have only the keys profile, name and max_line_bytes") from None

    def _modes(self) -> Mapping[str, Any]:
        modes: dict[str, Any] = self.take("modes", dict, {})
        for mode, report in modes.items():
            if mode not in MODES:
                raise self.error(f"modes/{mode}", "is not a mode")
            self._checked(f"modes/{mode}", report, dict)
        return modes

    def _summary(self) -> Mapping[str, Any] | None:
        if "summary" not in self._content:
            return None
        summary: dict[str, Any] = self.take("summary", dict)
        try:
            untag(summary)
        except TagError as error:
            raise self.error(f"summary{error.place}", str(error)) from None
        return summary

    def _names(self, proves: Mapping[str, Any], key: str) -> tuple[str, ...]:
        names = self._checked(f"proves/{key}", proves.get(key, []), list)
        return tuple(self._checked(f"proves/{key}/{index}", name, str) for index, name in enumerate(names))

    def _choice(self, place: str, value: Any, choices: tuple[Any, ...]) -> Any:
        if value is ...:
            raise self.error(place, "is missing")
        if value not in choices:
            raise self.error(place, f"is {value!r}, expected one of {', '.join(map(str, choices))}")
        return value

    def _checked(self, place: str, value: Any, kind: type) -> Any:
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self.error(place, f"is {value!r}, expected {kind.__name__}")
        return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} occurs twice")
    return members
