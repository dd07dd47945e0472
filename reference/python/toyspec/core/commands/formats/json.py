"""The report as one JSON object, described by ``schemas/report/v1/report.json``; written file by file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO

from toyspec.core.command_line.objects import file_object, inert_json, path_object
from toyspec.version import __version__

if TYPE_CHECKING:
    from toyspec.core.checker import Summary
    from toyspec.core.commands.formats import FormatOptions
    from toyspec.core.findings import FileReport, Finding, PathError, Skipped


class JsonFormat:
    """Writes a report so that memory does not grow with the number of files."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._errors: list[dict[str, Any]] = []
        self._skipped: list[dict[str, Any]] = []
        self._separator = "\n"
        stream.write(f'{{"toyspec":{inert_json(__version__)},"files":[')

    def finding(self, path: str, finding: Finding) -> None:
        """Do nothing: findings are written with their file."""

    def file(self, report: FileReport) -> None:
        """Write one file's report on a line of its own."""
        self._stream.write(f"{self._separator}{inert_json(file_object(report))}")
        self._separator = ",\n"

    def error(self, error: PathError) -> None:
        """Keep a path that could not be read for the end."""
        self._errors.append(path_object(error))

    def skipped(self, skipped: Skipped) -> None:
        """Keep a file that is not a run for the end."""
        self._skipped.append(path_object(skipped))

    def end(self, summary: Summary) -> None:
        """Complete the object."""
        others = f'"errors":{inert_json(self._errors)},\n"skipped":{inert_json(self._skipped)}'
        self._stream.write(f'],\n{others},\n"summary":{inert_json(summary)}}}\n')


def open_format(stream: TextIO, options: FormatOptions) -> JsonFormat:  # noqa: ARG001 - formats have one signature
    """Return the format, writing to *stream*."""
    return JsonFormat(stream)
