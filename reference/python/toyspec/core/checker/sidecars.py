"""Checks the files beside a stream: run.json, flow.json, and the seal of a bundle. See spec/bundle.md."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.core.checker.collecting import CheckOptions, Collector, Location, RecordFinding, by_place, offset_at
from toyspec.core.checker.record_rules import RecordValidator, UnknownKey, whole_float_message
from toyspec.core.errors import StreamError
from toyspec.core.escaping import shortened
from toyspec.core.format.decoding import take_integers_of_manifest
from toyspec.core.format.flattening import pointer_to
from toyspec.core.format.line_validation import spans, validate
from toyspec.core.format.profiles import MANIFEST_FILE, SEAL_FILE
from toyspec.core.generated import messages, rules
from toyspec.core.generated.limits import MAX_LINE_BYTES
from toyspec.core.places.addresses import is_address, path_in
from toyspec.core.reading.stream_files import read_small, read_start
from toyspec.core.runs.discovery import SIDECARS
from toyspec.core.system_calls import cause_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toyspec.core.findings import FileReport, Profile
    from toyspec.core.reading.sealed_files import SealLine

_SHOWN_DIGITS = 12
_PROBLEMS = {
    "missing": messages.sealed_missing,
    "outside": messages.sealed_outside,
    "irregular": messages.sealed_irregular,
}


class SidecarText(msgspec.Struct, frozen=True):
    """A file beside a stream: its bytes, or why they could not be read."""

    name: str
    data: bytes
    reason: str | None = None


def read_sidecars(directory: str, max_bytes: int) -> list[SidecarText]:
    """Return the sidecars in *directory* that exist; a longer one than *max_bytes* is not read."""
    found = (_read(directory, name, max_bytes) for name in SIDECARS)
    return [sidecar for sidecar in found if sidecar is not None]


def _read(directory: str, name: str, max_bytes: int) -> SidecarText | None:
    """Return the file *name* in *directory*, None if there is none; a longer one than *max_bytes* is not read."""
    path = path_in(directory, name)
    data: bytes | None = b""
    reason = None
    try:
        if is_address(path):
            data = read_small(path, max_bytes + 1)
        elif os.path.isfile(path):
            data = read_start(path, max_bytes + 1)
        elif os.path.lexists(path):
            reason = messages.SIDECAR_NOT_A_FILE
        else:
            data = None
    except (OSError, StreamError) as error:
        reason = cause_of(error)
    if data is None:
        return None
    if len(data) > max_bytes:
        data, reason = b"", messages.sidecar_too_long(limit=max_bytes)
    return SidecarText(name, data, reason)


def check_sidecars(
    sidecars: Sequence[SidecarText], profile: Profile | None, directory: str | None, collector: Collector
) -> None:
    """Report unreadable sidecars, and the findings in a kaun manifest."""
    for sidecar in sidecars:
        offset, reason = 0, sidecar.reason
        if reason is None:
            validated = validate(sidecar.data, first=True)
            if validated.value is not None:
                if sidecar.name == MANIFEST_FILE and profile == "kaun/v1":
                    _check_manifest(sidecar, validated.value, directory, collector)
                continue
            reason = messages.SIDECAR_EMPTY
            for finding in validated.findings[::-1]:
                if finding.rule != rules.DUPLICATE_KEY:
                    offset, reason = finding.offset, finding.message
        message = messages.sidecar_unreadable(name=sidecar.name, reason=reason)
        _report(collector, sidecar, RecordFinding(rules.SIDECAR_UNREADABLE, "", message), offset)


def _check_manifest(sidecar: SidecarText, value: dict[str, Any], directory: str | None, collector: Collector) -> None:
    places = spans(sidecar.data)
    whole_floats = [pointer_to(path) for path in take_integers_of_manifest(value)]
    findings = [
        RecordFinding(each.rule, each.pointer, messages.unknown_key_of_manifest(key=shortened(each.path)))
        if isinstance(each, UnknownKey)
        else each
        for each in RecordValidator("kaun/v1").findings("run", value, exact_elsewhere=whole_floats)
    ]
    if whole_floats:
        pointer = min(whole_floats, key=places.__getitem__)
        message = whole_float_message(pointer, sidecar.data, places[pointer])
        findings.append(RecordFinding(rules.INTEGER_AS_FLOAT, pointer, message))
    run_id = value.get("run_id")
    wrong = any(finding.pointer == "/run_id" for finding in findings)
    findings.sort(key=lambda finding: by_place(finding, places))
    if directory is not None and not wrong and run_id != directory:
        message = messages.run_id_mismatch(found=shortened(str(run_id)), directory=shortened(directory))
        findings.append(RecordFinding(rules.RUN_ID_MISMATCH, "/run_id", message))
    for finding in findings:
        _report(collector, sidecar, finding, offset_at(finding.pointer, places))


def _report(collector: Collector, sidecar: SidecarText, finding: RecordFinding, offset: int) -> None:
    line_start = sidecar.data.rfind(b"\n", 0, offset) + 1
    line_end = sidecar.data.find(b"\n", offset)
    line = sidecar.data[line_start : line_end if line_end >= 0 else None]
    place = Location(sidecar.data.count(b"\n", 0, offset) + 1, line_start, offset - line_start, line)
    collector.add(finding.rule, place, finding.message, pointer=finding.pointer, sidecar=sidecar.name)


def add_seal_findings(path: str, report: FileReport, options: CheckOptions) -> bool:
    """Add what differs from the seal beside the stream at *path* to the *report* on it; return whether something does.

    The stream was read; a longer seal than the limit of lines is not. See spec/rules/seal-broken.md.
    """
    collector = Collector(options)
    directory, name = os.path.split(path)
    for place, message in _seal_findings(directory or ".", name, options.max_line_bytes):
        collector.add(rules.SEAL_BROKEN, place, message, sidecar=SEAL_FILE)
    report.findings += collector.findings
    report.suppressed |= collector.suppressed
    report.valid = report.valid and collector.valid
    return not collector.valid


def _seal_findings(directory: str, stream: str, max_bytes: int) -> Iterator[tuple[Location, str]]:
    seal = read_seal(directory, max_bytes)
    if seal.reason is not None:
        yield Location(1, 0), messages.sidecar_unreadable(name=SEAL_FILE, reason=seal.reason)
        return
    first_lines: dict[tuple[bytes, ...], int] = {}
    offset = 0
    for number, (line, sealed) in enumerate(seal_lines(seal.data), 1):
        if sealed is None:
            message = messages.SEAL_LINE if line.endswith(b"\n") else messages.SEAL_CUT_OFF
            yield Location(number, offset, 0, line.removesuffix(b"\n")), message
        elif problem := _problem(directory, sealed, number, first_lines):
            yield Location(number, offset), problem
        offset += len(line)
    if (os.fsencode(stream),) not in first_lines:
        yield Location(1, 0), messages.seal_without_stream(name=shortened(stream))


def _problem(directory: str, sealed: SealLine, number: int, first_lines: dict[tuple[bytes, ...], int]) -> str | None:
    """Return what is wrong with the file that a line of the seal names; None if nothing is."""
    from toyspec.core.reading.sealed_files import digest_in, parts_of

    name = shortened(sealed.name.decode("utf-8", "replace"))
    parts = parts_of(sealed.name)
    if parts is not None:
        first = first_lines.setdefault(parts, number)
        if first != number:
            return messages.sealed_twice(name=name, line=first)
    found = digest_in(directory, parts)
    if found.problem in _PROBLEMS:
        return _PROBLEMS[found.problem](name=name)
    if found.problem is not None:
        return messages.sealed_unreadable(name=name, reason=found.cause)
    if found.digest == sealed.digest:
        return None
    shown = _SHOWN_DIGITS
    while found.digest[:shown] == sealed.digest[:shown]:
        # A bit may have flipped in the seal itself: as many digits are shown as tell the two apart.
        shown += 1
    now, then = found.digest[:shown], sealed.digest[:shown]
    return messages.sealed_changed(name=name, found=now, expected=then, size=found.size)


def unsealed_files(directory: str) -> list[str]:
    """Return the paths, for a message, of the files of *directory* that its seal does not name."""
    from toyspec.core.reading.sealed_files import covered_files, parts_of

    sealed = {parts_of(line.name) for _, line in seal_lines(read_seal(directory).data) if line is not None}
    return [shortened(os.fsdecode(name)) for name, _ in covered_files(directory) if parts_of(name) not in sealed]


def read_seal(directory: str, max_bytes: int = MAX_LINE_BYTES) -> SidecarText:
    """Return the seal in *directory*, or why it could not be read; a longer one than *max_bytes* is not."""
    return _read(directory, SEAL_FILE, max_bytes) or SidecarText(SEAL_FILE, b"", messages.SIDECAR_NOT_A_FILE)


def seal_lines(data: bytes) -> Iterator[tuple[bytes, SealLine | None]]:
    """Yield each line of a seal, and what it says; None if it is not a line of sha256sum, or has no LF."""
    # Imported here and above: few bundles have a seal, and loading the digest costs start-up time.
    from toyspec.core.reading.sealed_files import parse_seal_line

    for line in io.BytesIO(data):
        yield line, parse_seal_line(line[:-1]) if line.endswith(b"\n") else None
