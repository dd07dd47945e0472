"""Compares the files of media with the hashes in the log, for ``toyspec check --media``."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from toyspec.core.files import open_file
from toyspec.core.findings import Finding, with_findings
from toyspec.core.generated import rules
from toyspec.core.places.addresses import is_address
from toyspec.core.reading.run_files import MEDIA_FOLDER, media_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toyspec.core.findings import FileReport
    from toyspec.core.reading.records import Record

_HELP = "restore the file from a copy; it was changed or cut after the log named it"


class MediaCheck:
    """Adds to the reports on streams what differs from the hashes of media events."""

    def __init__(self, reports: Callable[[str], bool], max_line_bytes: int) -> None:
        """Report nothing if the rule is not one that *reports* wants."""
        self._is_wanted = reports(rules.MEDIA_MISSING)
        self._max_line_bytes = max_line_bytes

    def added(self, report: FileReport) -> FileReport:
        """Return *report* with a finding for each event whose file has another content; each file is read once."""
        if report.profile != "toy/v1" or not self._is_wanted or is_address(report.path):
            return report
        return with_findings(report, self._differences(report.path))

    def _differences(self, path: str) -> Iterator[Finding]:
        from toyspec.core.errors import ToyspecError
        from toyspec.core.reading.reader import read

        directory = os.path.dirname(path)
        if os.path.islink(os.path.join(directory, MEDIA_FOLDER)):
            return
        digests: dict[str, str | None] = {}
        try:
            with read(path, mode="salvage", dialect=None, max_line_bytes=self._max_line_bytes) as reading:
                for record in reading:
                    yield from _difference(record, directory, digests)
        except (OSError, ToyspecError):
            # The check has reported why.
            return


def _difference(record: Record, directory: str, digests: dict[str, str | None]) -> Iterator[Finding]:
    sha256, media_type = record.get("sha256"), record.get("media_type")
    if record.kind != "media" or not isinstance(sha256, str) or not isinstance(media_type, str):
        return
    name = media_file(sha256, media_type)
    if name is None:
        return
    if name not in digests:
        digests[name] = _digest(os.path.join(directory, *name.split("/")))
    if digests[name] in (None, sha256):
        # What is missing is reported without reading it.
        return
    at = max(record.raw.find(f'"{sha256}"'.encode()), 0)
    yield Finding(
        rule=rules.MEDIA_MISSING,
        severity="warning",
        line=record.line,
        offset=record.offset + at,
        pointer="/sha256",
        message=f"{name} has another content: its sha256 is {digests[name]}",
        help=_HELP,
    )


def _digest(path: str) -> str | None:
    if os.path.islink(path) or not os.path.isfile(path):
        return None
    try:
        with open_file(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
