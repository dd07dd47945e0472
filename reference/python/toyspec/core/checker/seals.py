"""Compares the files of a bundle with its seal: see spec/rules/seal-broken.md."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

from toyspec.core.checker.collecting import Collector, Location
from toyspec.core.checker.sidecars import SidecarText, read_sidecar
from toyspec.core.escaping import shortened
from toyspec.core.format.profiles import SEAL_FILE
from toyspec.core.generated import messages, rules
from toyspec.core.generated.limits import MAX_LINE_BYTES
from toyspec.core.reading.sealed_files import FileDigest, SealLine, covered_files, digest_in, parse_seal_line, parts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.core.checker.options import CheckOptions
    from toyspec.core.findings import FileReport


_SHOWN_DIGITS = 12


def add_seal_findings(path: str, report: FileReport, options: CheckOptions) -> bool:
    """Add what differs from the seal beside the stream at *path* to the *report* on it; return whether something does.

    The stream was read; a longer seal than the limit of lines is not.
    """
    collector = Collector(options)
    directory, name = os.path.split(path)
    for place, message in _findings(directory or ".", name, options.max_line_bytes):
        collector.add(rules.SEAL_BROKEN, place, message, sidecar=SEAL_FILE)
    report.findings += collector.findings
    report.suppressed |= collector.suppressed
    report.valid = report.valid and collector.valid
    return not collector.valid


def _findings(directory: str, stream: str, max_bytes: int) -> Iterator[tuple[Location, str]]:
    seal = _read(directory, max_bytes)
    if seal.reason is not None:
        yield Location(1, 0), messages.sidecar_unreadable(name=SEAL_FILE, reason=seal.reason)
        return
    first_lines: dict[tuple[bytes, ...], int] = {}
    offset = 0
    for number, line in enumerate(io.BytesIO(seal.data), 1):
        sealed = parse_seal_line(line[:-1]) if line.endswith(b"\n") else None
        if sealed is None:
            yield (
                Location(number, offset, 0, line.removesuffix(b"\n")),
                messages.SEAL_LINE if line.endswith(b"\n") else messages.SEAL_CUT_OFF,
            )
        else:
            problem = _problem(directory, sealed, number, first_lines)
            if problem is not None:
                yield Location(number, offset), problem
        offset += len(line)
    if (os.fsencode(stream),) not in first_lines:
        yield Location(1, 0), messages.seal_without_stream(name=shortened(stream))


def _problem(directory: str, sealed: SealLine, number: int, first_lines: dict[tuple[bytes, ...], int]) -> str | None:
    """Return what is wrong with the file that a line of the seal names; None if nothing is."""
    name = shortened(sealed.name.decode("utf-8", "replace"))
    parts = parts_of(sealed.name)
    if parts is not None:
        first = first_lines.setdefault(parts, number)
        if first != number:
            return messages.sealed_twice(name=name, line=first)
    found = digest_in(directory, parts)
    if found.problem is not None:
        return _problem_message(found, name)
    if found.digest == sealed.digest:
        return None
    # A bit may have flipped in the seal itself: as many digits are shown as tell the two apart.
    pairs = enumerate(zip(found.digest, sealed.digest, strict=True), start=1)
    shown = max(_SHOWN_DIGITS, next(number for number, (one, other) in pairs if one != other))
    now, then = found.digest[:shown], sealed.digest[:shown]
    return messages.sealed_changed(name=name, found=now, expected=then, size=found.size)


def unsealed_files(directory: str) -> list[str]:
    """Return the paths, for a message, of the files of *directory* that its seal does not name."""
    seal = _read(directory, MAX_LINE_BYTES)
    lines = (parse_seal_line(line.removesuffix(b"\n")) for line in io.BytesIO(seal.data))
    sealed = {parts_of(line.name) for line in lines if line is not None}
    return [shortened(os.fsdecode(name)) for name, _ in covered_files(directory) if parts_of(name) not in sealed]


def _read(directory: str, max_bytes: int) -> SidecarText:
    seal = read_sidecar(directory, SEAL_FILE, max_bytes)
    return seal or SidecarText(SEAL_FILE, b"", messages.SIDECAR_NOT_A_FILE)


def _problem_message(found: FileDigest, name: str) -> str:
    if found.problem == "missing":
        return messages.sealed_missing(name=name)
    if found.problem == "outside":
        return messages.sealed_outside(name=name)
    if found.problem == "irregular":
        return messages.sealed_irregular(name=name)
    return messages.sealed_unreadable(name=name, reason=found.cause)
