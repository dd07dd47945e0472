"""Shows a case of the corpus in Markdown: its bytes, and what is expected of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conformance.cases import Case

_MOST_BYTES = 1500
_UNPRINTABLE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")


def is_shown_as_it_is(case: Case) -> bool:
    """Return whether the stream of *case* can be shown without an escape: it ends in LF, and all of it is visible."""
    return bool(case.data) and len(case.data) <= _MOST_BYTES and _plain_text(case.data) is not None


def example(case: Case) -> str:
    """Return the stream of *case* as a block of Markdown; nothing where it is too long or there is none."""
    if not case.data or len(case.data) > _MOST_BYTES:
        return ""
    text = _plain_text(case.data)
    if text is not None:
        return f"```jsonl\n{text}```\n"
    return f"```text\n{_escaped(case.data)}\n```\n\nWhat cannot be seen is shown as an escape, each LF as `\\n`.\n"


def expected(case: Case) -> str:
    """Return what a right implementation says of *case*, in few words."""
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
    return text if text.endswith("\n") and not _UNPRINTABLE.search(text) and "```" not in text else None


def _escaped(data: bytes) -> str:
    lines = data.split(b"\n")
    ended = [_line(line) + "\\n" for line in lines[:-1]]
    return "\n".join([*ended, _line(lines[-1])] if lines[-1] else ended)


def _line(line: bytes) -> str:
    return repr(line)[2:-1].replace("\\'", "'")
