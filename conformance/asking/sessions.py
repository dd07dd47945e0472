"""Questions to writers that own a directory: what is in it after a session."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from conformance.asking.expected import contents, with_defaults
from conformance.asking.question import Needs, Question, Stage
from conformance.comparing import record_differences
from conformance.miniature.adapter import Miniature
from conformance.miniature.bundles import is_safe_run_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.session_cases import Session

# A writer may tell more of these than the program has told it: the machine, the time of the day.
_OPEN_KINDS = frozenset({"run_start", "run_resume", "run_end"})
_SHOWN = 5


def questions(session: Session) -> Iterator[Question]:
    """Yield what a writer is asked about *session*."""
    needs = Needs(profile=session.profile, capabilities=frozenset({"session"}))
    yield Question(case=session, role="writer", needs=needs, play=partial(_play, session))


def _play(session: Session, stage: Stage) -> list[str]:
    content = session.content
    name = content["run_id"] if is_safe_run_id(content["run_id"]) else "run"
    directory = os.path.join(stage.new_folder(), name)
    if session.files:
        os.mkdir(directory)
    for file_name, data in session.files.items():
        with open(os.path.join(directory, file_name), "wb") as file:
            file.write(data)
    request = {key: content[key] for key in ("profile", "records", "run_id", "exist", "end", "error") if key in content}
    answer = stage.answer({"role": "writer", "directory": directory, **request})
    if answer["outcome"] != content["outcome"]:
        reason = f": {answer['reason']!a}" if "reason" in answer else ""
        return [f"outcome is {answer['outcome']}, expected {content['outcome']}{reason}"]
    after = contents(directory) if os.path.isdir(directory) else {}
    return list(_differences(session, after))[:_SHOWN]


def _differences(session: Session, after: dict[str, bytes]) -> Iterator[str]:
    name = "metrics.jsonl" if session.profile == "metrics/v1" else "events.jsonl"
    before, stream = session.data, after.get(name, b"")
    if session.is_unchanged:
        if after != dict(session.files):
            yield f"the files are not what they were: {', '.join(sorted(after))}"
        return
    committed = before[: before.rfind(b"\n") + 1]
    if session.content["exist"] in {"resume", "append"} and not stream.startswith(committed):
        yield "a committed record is not there any more, or is another one"
    if session.content["outcome"] == "written":
        if name not in after:
            yield f"there is no {name}"
        yield from _stream_differences(session, stream)
    for kept in session.beside:
        wanted = before if kept == "previous" else before[len(committed) :]
        if wanted not in [data for other, data in after.items() if other != name]:
            yield f"no file beside the stream holds the {kept}"


def _stream_differences(session: Session, stream: bytes) -> Iterator[str]:
    request: dict[str, Any] = {"stream": stream, "name": "events.jsonl", "profile": session.profile}
    report = Miniature().read({"role": "reader", "mode": "salvage", **request})
    if report["gaps"] or report["fragment"]:
        yield f"the stream has {len(report['gaps'])} unreadable lines and {report['fragment']} bytes behind the last LF"
    for finding in Miniature().check({"role": "checker", **request})["findings"]:
        if finding["severity"] == "error":
            yield f"wrote {finding['rule']} at line {finding['line']}, {finding['pointer'] or 'the whole line'}"
    expected = with_defaults(session.expected, session.profile)
    actual = with_defaults(report["records"], session.profile)
    trimmed = [_trimmed(one, other) for one, other in zip(expected, actual, strict=False)]
    yield from record_differences(expected, [*trimmed, *actual[len(trimmed) :]])


def _trimmed(expected: Any, actual: Any) -> Any:
    """Return *actual* without what a writer may add, and with the expected ending of a longer error text."""
    if expected.get("kind") not in _OPEN_KINDS:
        return actual if "t" in expected else {key: item for key, item in actual.items() if key != "t"}
    kept = {key: item for key, item in actual.items() if key in expected}
    error = expected.get("error")
    if isinstance(error, str) and error in str(kept.get("error")):
        kept["error"] = error
    return kept
