"""Shows a case of the corpus in Markdown: its bytes, and what is expected of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from conformance.cases import Options

if TYPE_CHECKING:
    from conformance.cases import Case

LF = "\n"
_MOST_BYTES = 1500
_UNPRINTABLE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")


def is_shown_verbatim(case: Case) -> bool:
    """Return whether the stream of *case* can be shown without an escape: all of it is visible."""
    return bool(case.data) and len(case.data) <= _MOST_BYTES and _plain_text(case.data) is not None


def example(case: Case) -> str:
    """Return the stream of *case* as a block of Markdown; nothing where it is too long or there is none.

    A session has no state; its stream is what exists before it.
    """
    if not case.data or len(case.data) > _MOST_BYTES or case.state is None:
        return ""
    text = _plain_text(case.data)
    if text is None:
        return f"```text\n{_escaped(case.data)}\n```\n\nWhat cannot be seen is shown as an escape, each LF as `\\n`.\n"
    is_torn = not text.endswith("\n")
    block = f"{_note(case, is_torn)}```jsonl\n{text.removesuffix(LF)}\n```\n"
    return f"{block}\nNo LF ends the last line.\n" if is_torn else block


def _note(case: Case, is_torn: bool) -> str:
    """Return the comment that lets the page offer to check the stream, as on the pages of the specification."""
    findings = " ".join(f"{finding.rule}@{finding.line}:{finding.pointer}" for finding in case.findings)
    if case.options != Options() or case.scope == "bundle" or '"' in findings or "--" in findings:
        return ""
    flag = " unterminated" if is_torn else ""
    return f'<!-- example profile={case.profile or "none"} findings="{findings}"{flag} -->\n'


def expected(case: Case) -> str:
    """Return a short text of what a correct implementation reports for *case*."""
    parts = [f"state *{case.state}*"] if case.state else []
    shown = [f"`{finding.rule}` in line {finding.line}" for finding in case.findings[:3]]
    if len(case.findings) > len(shown):
        shown.append(f"{len(case.findings) - len(shown)} more findings")
    parts += shown or (["no findings"] if case.state else [])
    return ", ".join(parts)


def _plain_text(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    # Blank lines at the ends of a block are not shown.
    is_plain = not _UNPRINTABLE.search(text) and "```" not in text and text.strip("\n") == text.removesuffix(LF)
    return text if is_plain else None


def _escaped(data: bytes) -> str:
    lines = data.split(b"\n")
    ended = [_line(line) + "\\n" for line in lines[:-1]]
    return "\n".join([*ended, _line(lines[-1])] if lines[-1] else ended)


def _line(line: bytes) -> str:
    return repr(line)[2:-1].replace("\\'", "'")
