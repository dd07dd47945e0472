"""The compiled engine behind the seam of the engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toyspec.findings import Excerpt, FileReport, Finding
from toyspec.runs.walking import STANDARD_INPUT

if TYPE_CHECKING:
    from types import ModuleType

    import toyspec_engine

    from toyspec.checker.options import CheckOptions


class NativeChecker:
    """Checks the stream at a path, or a stream without one."""

    def __init__(self, engine: ModuleType, path: str, options: CheckOptions, *, name: str | None = None) -> None:
        """Check the stream at *path*; *name* is the name of its file if it has no path, then nothing is beside it."""
        self._path = path
        has_path = name is None and path != STANDARD_INPUT
        self._checker: toyspec_engine.Checker = engine.Checker(
            native_options(engine, options), path=path if has_path else None, name=name or ""
        )
        self.fact: str | None = None
        """What a stream without a profile looks like, once it is finished; None for all others."""

    def feed(self, data: bytes) -> None:
        """Check the lines that *data* commits."""
        self._checker.feed(data)

    def take(self) -> list[Finding]:
        """Return the findings that were listed since the last call; counts in their messages may still grow."""
        return [_finding(fields) for fields in self._checker.taken()]

    @property
    def ended(self) -> bool:
        """True when the last record ends the run, and for a stream without a profile."""
        return self._checker.ended

    @property
    def is_look_settled(self) -> bool:
        """True when the stream has no profile, and more bytes would not change what it looks like."""
        return self._checker.is_look_settled

    def read_bundle_again(self) -> None:
        """Read the files beside the stream again."""
        self._checker.read_bundle_again()

    def finish(self) -> FileReport:
        """Return the report on everything fed and on the files beside it; call it once, last."""
        fields, self.fact = self._checker.finish()
        return report_of(self._path, fields)


def native_options(engine: ModuleType, options: CheckOptions) -> toyspec_engine.Options:
    """Return *options* as the compiled engine takes them."""
    wanted: toyspec_engine.Options = engine.Options(
        options.profile, list(options.select), list(options.ignore), options.max_line_bytes
    )
    return wanted


def report_of(path: str, fields: toyspec_engine.ReportFields) -> FileReport:
    """Return the report of the compiled engine on the stream at *path*."""
    return FileReport(
        path=path,
        profile=fields["profile"],
        state=fields["state"],
        valid=fields["valid"],
        records=fields["records"],
        bytes=fields["bytes"],
        findings=[_finding(finding) for finding in fields["findings"]],
        suppressed=fields["suppressed"],
    )


def _finding(fields: toyspec_engine.FindingFields) -> Finding:
    excerpt = fields["excerpt"]
    return Finding(
        rule=fields["rule"],
        severity=fields["severity"],
        line=fields["line"],
        offset=fields["offset"],
        pointer=fields["pointer"],
        message=fields["message"],
        help=fields["help"],
        sidecar=fields["sidecar"],
        excerpt=None if excerpt is None else Excerpt(*excerpt),
    )
