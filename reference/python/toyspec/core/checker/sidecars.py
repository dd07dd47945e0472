"""Checks the files beside a stream, run.json and flow.json: see spec/bundle.md."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.core.checker.collecting import Collector, Location, RecordFinding, offset_at
from toyspec.core.checker.record_rules import RecordValidator, unknown_keys, whole_float_message
from toyspec.core.errors import StreamError
from toyspec.core.escaping import shortened
from toyspec.core.files import open_file
from toyspec.core.format.decoding import take_integers_of_manifest
from toyspec.core.format.flattening import pointer_to
from toyspec.core.format.line_validation import spans, validate
from toyspec.core.format.profiles import MANIFEST_FILE
from toyspec.core.generated import messages, rules
from toyspec.core.generated.fields import FIELDS
from toyspec.core.places.addresses import is_address, path_in
from toyspec.core.reading.stream_files import read_small
from toyspec.core.runs.discovery import SIDECARS
from toyspec.core.system_calls import cause_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.core.findings import Profile


class SidecarText(msgspec.Struct, frozen=True):
    """A file beside a stream: its bytes, or why they could not be read."""

    name: str
    data: bytes
    reason: str | None = None


def read_sidecars(directory: str, max_bytes: int) -> list[SidecarText]:
    """Return the sidecars in *directory* that exist; a longer one than *max_bytes* is not read."""
    found = (read_sidecar(directory, name, max_bytes) for name in SIDECARS)
    return [sidecar for sidecar in found if sidecar is not None]


def read_sidecar(directory: str, name: str, max_bytes: int) -> SidecarText | None:
    """Return the file *name* in *directory*, None if there is none; a longer one than *max_bytes* is not read."""
    path = path_in(directory, name)
    try:
        if is_address(path):
            data = read_small(path, max_bytes + 1)
            if data is None:
                return None
        elif os.path.isfile(path):
            with open_file(path) as file:
                # At most as much as there is, since a buffer of the limit would be made at once.
                data = file.read(min(os.fstat(file.fileno()).st_size, max_bytes) + 1)
        else:
            return SidecarText(name, b"", messages.SIDECAR_NOT_A_FILE) if os.path.lexists(path) else None
    except StreamError as error:
        return SidecarText(name, b"", error.fact)
    except OSError as error:
        return SidecarText(name, b"", cause_of(error))
    if len(data) > max_bytes:
        return SidecarText(name, b"", messages.sidecar_too_long(limit=max_bytes))
    return SidecarText(name, data)


def check_sidecars(
    sidecars: Sequence[SidecarText], profile: Profile | None, directory: str | None, collector: Collector
) -> None:
    """Report unreadable sidecars, and the findings in a kaun manifest."""
    for sidecar in sidecars:
        value = _check_text(sidecar, collector)
        if value is not None and sidecar.name == MANIFEST_FILE and profile == "kaun/v1":
            _check_manifest(sidecar, value, directory, collector)


def _check_text(sidecar: SidecarText, collector: Collector) -> dict[str, Any] | None:
    if sidecar.reason is not None:
        _report(collector, sidecar, _unreadable(sidecar, sidecar.reason), 0)
        return None
    validated = validate(sidecar.data, first=True)
    if validated.status == "readable":
        return validated.value
    finding = next((finding for finding in validated.findings if finding.rule != rules.DUPLICATE_KEY), None)
    offset, reason = (finding.offset, finding.message) if finding else (0, messages.SIDECAR_EMPTY)
    _report(collector, sidecar, _unreadable(sidecar, reason), offset)
    return None


def _unreadable(sidecar: SidecarText, reason: str) -> RecordFinding:
    return RecordFinding(rules.SIDECAR_UNREADABLE, "", messages.sidecar_unreadable(name=sidecar.name, reason=reason))


def _check_manifest(sidecar: SidecarText, value: dict[str, Any], directory: str | None, collector: Collector) -> None:
    places = spans(sidecar.data)
    validator = RecordValidator("kaun/v1")
    whole_floats = [pointer_to(path) for path in take_integers_of_manifest(value)]
    findings = validator.findings("run", value, exact_elsewhere=whole_floats)
    findings.extend(
        RecordFinding(key.rule, key.pointer, messages.unknown_key_of_manifest(key=shortened(key.path)))
        for key in unknown_keys(value, FIELDS["kaun/v1"]["run"])
    )

    def offset_of(finding: RecordFinding) -> int:
        return offset_at(finding.pointer, places)

    if whole_floats:
        pointer = min(whole_floats, key=lambda pointer: places[pointer])
        message = whole_float_message(pointer, sidecar.data, places[pointer])
        findings.append(RecordFinding(rules.INTEGER_AS_FLOAT, pointer, message))
    for finding in sorted(findings, key=lambda finding: (offset_of(finding), rules.ORDER[finding.rule])):
        _report(collector, sidecar, finding, offset_of(finding))
    run_id = value.get("run_id")
    wrong = any(finding.pointer == "/run_id" for finding in findings)
    if directory is not None and not wrong and run_id != directory:
        message = messages.run_id_mismatch(found=shortened(str(run_id)), directory=shortened(directory))
        _report(collector, sidecar, RecordFinding(rules.RUN_ID_MISMATCH, "/run_id", message), places["/run_id"])


def _report(collector: Collector, sidecar: SidecarText, finding: RecordFinding, offset: int) -> None:
    line_start = sidecar.data.rfind(b"\n", 0, offset) + 1
    line_end = sidecar.data.find(b"\n", offset)
    line = sidecar.data[line_start : line_end if line_end >= 0 else None]
    place = Location(sidecar.data.count(b"\n", 0, offset) + 1, line_start, offset - line_start, line)
    collector.add(finding.rule, place, finding.message, pointer=finding.pointer, sidecar=sidecar.name)
