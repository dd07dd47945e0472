"""Families: many cases written as one stream and a rule, expanded into exact bytes and expectations.

Each rule derives what is expected from the expectations of the base stream, which is clean and complete.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from conformance.cases import Case, CaseError, Family, Finding, Profile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

LF = b"\n"


def expand(family: Family) -> Iterator[Case]:
    """Yield the members of *family* in a fixed order; raise CaseError if its parameters do not fit."""
    yield from KINDS[family.kind](family)


def truncations(family: Family) -> Iterator[Case]:
    """Yield the stream cut after each of its bytes: a crash can leave any of these, and none of them is damaged."""
    _demand_clean(family)
    for cut in range(len(family.base.data) + 1):
        yield _torn(family.base, f"cut-{cut}", family.base.data[:cut], b"")


def nul_tails(family: Family) -> Iterator[Case]:
    """Yield the stream cut after each of its bytes and filled up with NUL, as a power loss leaves it."""
    _demand_clean(family)
    for count in _parameter(family, "nul_bytes", list):
        for cut in range(len(family.base.data) + 1):
            yield _torn(family.base, f"cut-{cut}-nul-{count}", family.base.data[:cut], b"\0" * count)


def glued(family: Family) -> Iterator[Case]:
    """Yield the stream with each record but the last cut inside its line and the next appended there: both are lost."""
    _demand_clean(family)
    base = family.base
    lines = base.data.splitlines(keepends=True)
    start = 0
    for index, line in enumerate(lines[:-1]):
        for cut in range(start + 1, start + len(line)):
            yield _glued_at(base, f"cut-{cut}", cut, index)
        start += len(line)


def variants(family: Family) -> Iterator[Case]:
    """Yield the stream with one edit for each member; the edit lists the expectations that differ."""
    for index, variant in enumerate(_parameter(family, "variants", list)):
        yield _Variant(family, variant, f"parameters/variants/{index}").case()


KINDS: Mapping[str, Callable[[Family], Iterator[Case]]] = {
    "truncations": truncations,
    "nul-tails": nul_tails,
    "glued": glued,
    "variants": variants,
}
"""Every rule by its name in family.json."""


def _torn(base: Case, name: str, kept: bytes, tail: bytes) -> Case:
    """Return the case of *kept*, a prefix of the base stream, followed by *tail*."""
    count = kept.count(LF)
    fragment = kept[kept.rfind(LF) + 1 :] + tail
    is_whole = kept == base.data and not fragment
    findings: list[Finding] = []
    if fragment:
        rule = "unterminated-line" if fragment.strip(b"\0") else "nul-bytes"
        findings.append(Finding(rule=rule, line=count + 1, pointer=""))
    elif not count:
        findings.append(Finding(rule="stream-empty", line=1, pointer=""))
    elif base.profile == "toy/v1" and not is_whole:
        findings.append(Finding(rule="run-end-missing", line=count, pointer=""))
    is_complete = is_whole or (base.profile != "toy/v1" and count and not fragment)
    return _member(
        base,
        name,
        kept + tail,
        profile=base.profile if count else _profile_by_name(base),
        state="complete" if is_complete else "torn",
        records=base.records[:count],
        findings=tuple(findings),
    )


def _glued_at(base: Case, name: str, cut: int, index: int) -> Case:
    """Return the case in which the line *index*, from 0, ends at the byte *cut*, directly followed by the next line."""
    head, rest = base.data[:cut], base.data[cut:]
    data = head + rest[rest.index(LF) + 1 :]
    kept = (*base.records[:index], *base.records[index + 2 :])
    line = data.split(LF)[index]
    findings = [Finding(rule="invalid-json" if _is_utf8(line) else "invalid-utf8", line=index + 1, pointer="")]
    has_end = index + 2 < len(base.records)
    if base.profile == "toy/v1" and kept and not has_end:
        # The record before the damaged line is the last one that can be read.
        findings.append(Finding(rule="run-end-missing", line=index, pointer=""))
    profile = base.profile if kept else _profile_by_name(base)
    return _member(base, name, data, profile=profile, state="damaged", records=kept, findings=tuple(findings))


class _Variant:
    """One member of the family variants."""

    def __init__(self, family: Family, content: Any, place: str) -> None:
        self._base, self._path, self._place = family.base, family.path, place
        if not isinstance(content, dict) or not isinstance(content.get("name"), str):
            raise CaseError(family.path, place, "must be an object with a name")
        self._content: dict[str, Any] = dict(content)

    def case(self) -> Case:
        """Return the base with the edit and the expectations of this member."""
        name = self._content.pop("name")
        data, records = self._edited()
        findings = tuple(finding for item in self._content.pop("findings", []) for finding in self._findings(item))
        changes: dict[str, Any] = {
            key: self._content.pop(key) for key in ("state", "profile", "suppressed") if key in self._content
        }
        proves = self._content.pop("proves", None)
        if proves is not None:
            changes |= {key: tuple(proves.get(key, ())) for key in ("accepts", "rejects")}
        if self._content:
            raise CaseError(self._path, self._place, f"has the unknown key {min(self._content)!r}")
        return _member(self._base, name, data, records=records, findings=findings, **changes)

    def _edited(self) -> tuple[bytes, tuple[Any, ...]]:
        lines = self._base.data.splitlines(keepends=True)
        records = list(self._base.records)
        for edit in self._content.pop("edits", []):
            lines = self._edit(lines, edit)
            if "repeat_line" in edit:
                index = edit["repeat_line"] - 1
                records[index : index + 1] = [records[index]] * edit["times"]
        for change in self._content.pop("records", []):
            index = change["record"]
            if change.get("readable", True):
                records[index] = _changed(records[index], change)
            else:
                records[index] = None
        return b"".join(lines), tuple(record for record in records if record is not None)

    def _edit(self, lines: list[bytes], edit: Mapping[str, Any]) -> list[bytes]:
        if "repeat_line" in edit:
            index = edit["repeat_line"] - 1
            return [*lines[:index], *[lines[index]] * edit["times"], *lines[index + 1 :]]
        find = edit["find"].encode()
        places = [index for index, line in enumerate(lines) if find in line]
        if len(places) != 1 or lines[places[0]].count(find) != 1:
            raise CaseError(self._path, self._place, f"must find {edit['find']!r} exactly once")
        line = lines[places[0]]
        if "stretch_to" in edit:
            # White space between tokens changes the length of the line and nothing else.
            put = find + b" " * (edit["stretch_to"] - len(line.rstrip(LF)))
        else:
            put = edit["put"].encode() * edit.get("times", 1)
        lines[places[0]] = line.replace(find, put)
        return lines

    def _findings(self, item: Mapping[str, Any]) -> list[Finding]:
        first, last = item["lines"] if "lines" in item else (item["line"], item["line"])
        return [Finding(rule=item["rule"], line=line, pointer=item["pointer"]) for line in range(first, last + 1)]


def _changed(record: Any, change: Mapping[str, Any]) -> Any:
    """Return a copy of *record* with the member at the pointer set, or removed if no value is given."""
    changed = copy.deepcopy(record)
    *parents, key = change["pointer"].split("/")[1:]
    place = changed
    for parent in parents:
        place = place[parent] if isinstance(place, dict) else place[int(parent)]
    if "value" not in change:
        del place[key]
    elif isinstance(place, list):
        place[int(key)] = change["value"]
    else:
        place[key] = change["value"]
    return changed


def _member(base: Case, name: str, data: bytes, **changes: Any) -> Case:
    assert base.stream is not None
    return replace(base, name=f"{base.name}#{name}", files={**base.files, base.stream: data}, **changes)


def _demand_clean(family: Family) -> None:
    base = family.base
    if base.findings or base.state != "complete" or base.data.count(LF) != len(base.records):
        raise CaseError(family.path, "", "needs a clean stream without blank lines")


def _parameter(family: Family, name: str, kind: type) -> Any:
    value = family.parameters.get(name)
    if not isinstance(value, kind):
        raise CaseError(family.path, f"parameters/{name}", f"is {value!r}, expected {kind.__name__}")
    return value


def _profile_by_name(base: Case) -> Profile:
    return "metrics/v1" if base.stream == "metrics.jsonl" else "toy/v1"


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
