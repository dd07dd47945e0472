"""JSON Lines: an object for each finding as it is found, then one for its file, and one summary at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from toyspec.core.command_line.objects import finding_object, inert_json, path_object, verdict_object
from toyspec.core.escaping import encodable

if TYPE_CHECKING:
    from toyspec.core.checker import Summary
    from toyspec.core.commands.formats import FormatOptions
    from toyspec.core.findings import FileReport, Finding, PathError, Skipped


class JsonLinesFormat:
    """Writes objects that name their ``type``: finding, file, error, skipped or summary."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def finding(self, path: str, finding: Finding) -> None:
        """Write one finding with the path of its stream."""
        self._write("finding", {"path": encodable(path)} | finding_object(finding))

    def file(self, report: FileReport) -> None:
        """Write the verdict on one stream, without its findings."""
        self._write("file", verdict_object(report))

    def error(self, error: PathError) -> None:
        """Write a path that could not be read."""
        self._write("error", path_object(error))

    def skipped(self, skipped: Skipped) -> None:
        """Write a file that is not a run."""
        self._write("skipped", path_object(skipped))

    def end(self, summary: Summary) -> None:
        """Write the summary."""
        self._write("summary", msgspec.structs.asdict(summary))

    def _write(self, kind: str, content: dict[str, Any]) -> None:
        self._stream.write(f"{inert_json({'type': kind} | content)}\n")


def open_format(stream: TextIO, options: FormatOptions) -> JsonLinesFormat:  # noqa: ARG001 - formats have one signature
    """Return the format, writing to *stream*."""
    return JsonLinesFormat(stream)
