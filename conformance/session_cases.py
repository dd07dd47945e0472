"""Sessions of writers: what programs write into a directory, and what must be in it afterwards.

They are in ``sessions/<profile>/<name>/``: ``session.json``, and ``before/`` with the files that exist before.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.cases import Case, CaseError
from conformance.revisions import CURRENT, FIRST_LISTED, is_asked
from conformance.tagging import TagError, untag

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SESSIONS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sessions")
_RUN_REQUIRED = frozenset({"exist", "end", "records", "outcome"})
_RUN_KEYS = _RUN_REQUIRED | {"error", "held_by_another", "media"}
_REQUIRED = frozenset({"why", "profile", "run_id", "proves"}) | _RUN_REQUIRED
_OUTCOME = frozenset({"expected", "beside", "files", "unchanged", "special", "fragment_bytes", "text_bytes", "copies"})
_KEYS = _REQUIRED | _RUN_KEYS | _OUTCOME | {"since", "until", "then"}
_LONG = "<long>"
EITHER = "either"
"""The outcome where a writer may refuse the records, or write what is expected."""
_FRAGMENT = b'{"kind":"note","t":9.0,"text":"'


@dataclass(frozen=True, kw_only=True)
class Session(Case):
    """One session. Its files exist before it; its records are those of the first run."""

    content: Mapping[str, Any]
    """The whole of session.json."""

    @property
    def runs(self) -> list[Mapping[str, Any]]:
        """The consecutive runs in the same directory: exist, end, records, outcome, perhaps error, held_by_another."""
        return [self.content, *self.content.get("then", [])]

    @property
    def stream_name(self) -> str:
        """Name of the stream in the directory."""
        return "metrics.jsonl" if self.profile == "metrics/v1" else "events.jsonl"

    @property
    def expected(self) -> list[Any]:
        """The records of the stream afterwards; of run_start and run_resume only the required members."""
        return list(self.content.get("expected", []))

    @property
    def beside(self) -> Mapping[str, Any]:
        """The expected content of every file named like the stream, a dot and a suffix."""
        beside: dict[str, Any] = self.content.get("beside", {})
        return beside

    @property
    def media(self) -> Mapping[str, bytes]:
        """The expected content of every file in the folder of media, by its path from the directory."""
        media: dict[str, str] = self.content.get("files", {})
        return {path: text.encode() for path, text in media.items()}

    @property
    def is_timed_by_writer(self) -> bool:
        """True when the records of the last run lack their times, which the clock of the writer gives."""
        return self.profile == "toy/v1" and all("t" not in record for record in self.runs[-1]["records"])

    @property
    def special(self) -> Mapping[str, str]:
        """What exists before that is not a regular file, by its name: ``fifo``, ``outside``, or the target of a link.

        What is outside is a link to an empty directory beside that of the run.
        """
        special: dict[str, str] = self.content.get("special", {})
        return special

    @property
    def locks(self) -> frozenset[str]:
        """The only kinds of locks that another writer takes; empty for all that the system has."""
        named = (run.get("held_by_another") for run in self.runs)
        return frozenset(kind for kind in named if isinstance(kind, str))

    @property
    def is_unchanged(self) -> bool:
        """True when the last run must not change a file."""
        return bool(self.content.get("unchanged", False))


def load(root: str = SESSIONS, revision: str = CURRENT) -> Iterator[Session]:
    """Yield every session of *revision* below *root*; raise CaseError at the first that is not well formed."""
    for folder, names, files in os.walk(root):
        names.sort()
        if "session.json" in files:
            session = load_session(folder, root)
            if is_asked(session.since, session.until, revision):
                yield session


def load_session(folder: str, root: str = SESSIONS) -> Session:
    """Return the session in *folder*; raise CaseError if it is not well formed."""
    path = os.path.join(folder, "session.json")
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    _demand_keys(path, "", content, _REQUIRED, _KEYS)
    content["records"] = _lengthened(content["records"], content.get("text_bytes", 0))
    for key in ("records", "expected"):
        content[key] = content.get(key, []) + content.get(key, [])[-1:] * (content.get("copies", 1) - 1)
    for index, run in enumerate(content.get("then", [])):
        _demand_keys(path, f"then/{index}/", run, _RUN_REQUIRED, _RUN_KEYS)
    name = "metrics.jsonl" if content["profile"] == "metrics/v1" else "events.jsonl"
    files = _files(os.path.join(folder, "before"))
    if "fragment_bytes" in content:
        files[name] = files.get(name, b"") + _FRAGMENT.ljust(content["fragment_bytes"], b"x")
    _demand_records(path, content)
    _demand_side_files(path, content, files)
    return Session(
        name=f"sessions/{os.path.relpath(folder, root).replace(os.sep, '/')}",
        folder=folder,
        why=content["why"],
        since=content.get("since", FIRST_LISTED),
        until=content.get("until"),
        files=files,
        stream=name if name in files else None,
        profile=content["profile"],
        state=None,
        records=tuple(content["records"]),
        findings=(),
        accepts=tuple(content["proves"].get("accepts", ())),
        rejects=tuple(content["proves"].get("rejects", ())),
        content=content,
    )


def _lengthened(value: Any, size: int) -> Any:
    """Return *value* with a text of *size* bytes in place of each text that stands for it."""
    if isinstance(value, dict):
        return {key: _lengthened(item, size) for key, item in value.items()}
    if isinstance(value, list):
        return [_lengthened(item, size) for item in value]
    return "x" * size if value == _LONG else value


def _demand_keys(path: str, place: str, content: Any, required: frozenset[str], known: frozenset[str]) -> None:
    for key in sorted(required - content.keys()):
        raise CaseError(path, f"{place}{key}", "is missing")
    for key in sorted(content.keys() - known):
        raise CaseError(path, f"{place}{key}", "is not a key of a session")


def _demand_records(path: str, content: Mapping[str, Any]) -> None:
    sides = [item["records"] for item in content.get("beside", {}).values() if "records" in item]
    lists = [
        content["records"],
        content.get("expected", []),
        *sides,
        *(run["records"] for run in content.get("then", [])),
    ]
    for run in (content, *content.get("then", ())):
        if not run["records"] or run["outcome"] not in {"written", "refused", EITHER}:
            raise CaseError(path, "", "has a run without a record, or with an outcome that is not known")
    for index, record in enumerate(record for records in lists for record in records):
        try:
            untag(record)
        except TagError as error:
            raise CaseError(path, f"record {index}{error.place}", str(error)) from None


def _demand_side_files(path: str, content: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    for name, item in content.get("beside", {}).items():
        known = item in ("previous", "fragment") or ("before" in item and item["before"] in files) or "records" in item
        if not known:
            raise CaseError(path, f"beside/{name}", "must be previous, fragment, records or a file of before/")


def _files(folder: str) -> dict[str, bytes]:
    if not os.path.isdir(folder):
        return {}
    found = {}
    for below, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(below, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, folder).replace(os.sep, "/")] = file.read()
    return dict(sorted(found.items()))
