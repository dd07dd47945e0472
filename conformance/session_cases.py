"""Sessions of writers: what a program writes into a directory, and what has to be there afterwards.

They lie in ``sessions/<profile>/<name>/``: ``session.json``, and in ``before/`` the files that are there at first.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.cases import Case, CaseError
from conformance.tagging import TagError, untag

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SESSIONS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sessions")
_REQUIRED = frozenset({"why", "profile", "run_id", "exist", "end", "records", "outcome", "proves"})
_KEYS = _REQUIRED | {"error", "expected", "beside", "unchanged"}


@dataclass(frozen=True, kw_only=True)
class Session(Case):
    """One session. Its files are those that are there at first, its records those that are written."""

    content: Mapping[str, Any]
    """The whole of session.json."""

    @property
    def expected(self) -> list[Any]:
        """The records of the stream afterwards; of run_start, run_resume and run_end only what has to be in them."""
        return list(self.content.get("expected", []))

    @property
    def beside(self) -> list[str]:
        """What is kept beside the stream: ``previous``, the old one, or ``fragment``, what was behind its last LF."""
        return list(self.content.get("beside", []))

    @property
    def is_unchanged(self) -> bool:
        """True when no file may differ afterwards."""
        return bool(self.content.get("unchanged", False))


def load(root: str = SESSIONS) -> Iterator[Session]:
    """Yield every session below *root*; raise CaseError at the first that is not well formed."""
    for folder, names, files in os.walk(root):
        names.sort()
        if "session.json" in files:
            yield load_session(folder, root)


def load_session(folder: str, root: str = SESSIONS) -> Session:
    """Return the session in *folder*; raise CaseError where it is not well formed."""
    path = os.path.join(folder, "session.json")
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    for key in _REQUIRED - content.keys():
        raise CaseError(path, key, "is missing")
    for key in content.keys() - _KEYS:
        raise CaseError(path, key, "is no key of a session")
    for index, record in enumerate([*content["records"], *content.get("expected", [])]):
        try:
            untag(record)
        except TagError as error:
            raise CaseError(path, f"record {index}{error.place}", str(error)) from None
    name = "metrics.jsonl" if content["profile"] == "metrics/v1" else "events.jsonl"
    files = _files(os.path.join(folder, "before"))
    return Session(
        name=f"sessions/{os.path.relpath(folder, root).replace(os.sep, '/')}",
        folder=folder,
        why=content["why"],
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


def _files(folder: str) -> dict[str, bytes]:
    if not os.path.isdir(folder):
        return {}
    found = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            found[name] = file.read()
    return found
