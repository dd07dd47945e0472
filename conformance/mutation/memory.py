"""What earlier sweeps found, so that a sweep goes on where the last one ended, and asks only what is new."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from conformance.mutation.subjects import HERE, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from conformance.cases import Case
    from conformance.mutation.traces import Trace
    from conformance.probes.question import Question

FOLDER = os.path.join(ROOT, "build", "mutants")
_VERSION = 2
"""To be raised when the mutation itself changes what earlier findings are worth."""
_CODE = ("oracle", "probes", "schema")
_MODULES = (
    *("accounting", "cases", "comparing", "corpus", "families", "format_facts", "inside", "loading", "locking"),
    *("messages", "placing", "session_cases", "tagging", "views"),
)
"""What answers and what asks, in `conformance/`."""
_SAVED_EVERY = 100


def code_digest() -> str:
    """Return a digest of the oracle, the code that asks, and the schemas."""
    digest = hashlib.sha256(f"{_VERSION} {sys.version_info[:2]}".encode())
    for path in _code_files():
        with open(path, "rb") as file:
            digest.update(os.path.relpath(path, ROOT).encode() + b"\0" + file.read())
    return digest.hexdigest()[:16]


def question_digests(questions: Iterable[Question]) -> list[str]:
    """Return for each question a digest that changes with its case."""
    return [f"{_digest(f'{question.name} {_case_digest(question.case)}'.encode())}" for question in questions]


class Memory:
    """Findings on disk, by the key of the mutant."""

    def __init__(self, folder: str = FOLDER) -> None:
        self._folder = folder
        self._code = code_digest()
        os.makedirs(folder, exist_ok=True)
        found = self._read("findings.json") or {}
        self._is_same_code = found.get("code") == self._code
        self._mutants: dict[str, dict[str, Any]] = found.get("mutants", {})
        self._unsaved = 0

    def killer(self, key: str) -> str | None:
        """Return the digest of the question that killed the mutant *key* last time."""
        return self._mutants.get(key, {}).get("killer")

    def is_killed(self, key: str, digests: frozenset[str]) -> str | None:
        """Return why the mutant *key* is killed by one of the questions *digests*, None where that is not known."""
        found = self._mutants.get(key, {})
        return found.get("reason") if self._is_same_code and found.get("killer") in digests else None

    def answered(self, key: str, *, in_full: bool) -> frozenset[str]:
        """Return the digests of the questions that the mutant *key* is known to answer right.

        With *in_full*, a set of which it was asked only a part does not count.
        """
        found = self._mutants.get(key, {})
        if not self._is_same_code or "survived" not in found or (in_full and not found["in_full"]):
            return frozenset()
        return self._asked(found["survived"])

    def note_killed(self, key: str, killer: str, reason: str) -> None:
        """Remember which question killed the mutant *key*."""
        self._note(key, {"killer": killer, "reason": reason})

    def note_survived(self, key: str, asked: str, *, in_full: bool) -> None:
        """Remember that the mutant *key* answers all questions of the set *asked* right, or some of each sort."""
        self._note(key, {"survived": asked, "in_full": in_full})

    def save(self) -> None:
        """Write everything to disk."""
        self._write("findings.json", {"code": self._code, "mutants": self._mutants})
        self._unsaved = 0

    def keep_questions(self, digests: Sequence[str]) -> str:
        """Write the set of all questions to disk; return its name."""
        name = _digest("".join(sorted(digests)).encode())
        if not os.path.exists(os.path.join(self._folder, f"asked-{name}.json")):
            self._write(f"asked-{name}.json", sorted(digests))
        return name

    def traces(self, digests: Sequence[str]) -> list[Trace] | None:
        """Return what the oracle does with the questions *digests*, None where that is not known."""
        path = os.path.join(self._folder, "traces.pickle")
        if not os.path.exists(path):
            return None
        with open(path, "rb") as file:
            name, found = pickle.load(file)  # noqa: S301  (written by keep_traces)
        return found if name == (self._code, tuple(digests)) else None

    def keep_traces(self, digests: Sequence[str], traces: list[Trace]) -> None:
        """Write to disk what the oracle does with the questions *digests*."""
        path = os.path.join(self._folder, "traces.pickle")
        with open(f"{path}.new", "wb") as file:
            pickle.dump(((self._code, tuple(digests)), traces), file)
        os.replace(f"{path}.new", path)

    def _note(self, key: str, found: dict[str, Any]) -> None:
        if not self._is_same_code:
            # Findings about another oracle say which question to ask first, no more.
            self._mutants = {key: {"killer": old["killer"]} for key, old in self._mutants.items() if "killer" in old}
            self._is_same_code = True
        self._mutants[key] = found
        self._unsaved += 1
        if self._unsaved >= _SAVED_EVERY:
            self.save()

    @cache  # noqa: B019  (one memory for each sweep)
    def _asked(self, name: str) -> frozenset[str]:
        return frozenset(self._read(f"asked-{name}.json") or ())

    def _read(self, name: str) -> Any:
        path = os.path.join(self._folder, name)
        if not os.path.exists(path):
            return None
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def _write(self, name: str, content: Any) -> None:
        path = os.path.join(self._folder, name)
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            json.dump(content, file, indent=0)
        os.replace(f"{path}.new", path)


def _code_files() -> Iterator[str]:
    conformance, schemas = os.path.dirname(HERE), os.path.join(ROOT, "schemas")
    yield from (os.path.join(conformance, f"{name}.py") for name in _MODULES)
    yield os.path.join(schemas, "rules.json")
    for folder in (*(os.path.join(conformance, name) for name in _CODE), os.path.join(schemas, "bundled")):
        yield from (
            os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith((".py", ".json"))
        )


def _case_digest(case: Case) -> str:
    return _folder_digest(case.folder)


@cache
def _folder_digest(path: str) -> str:
    digest = hashlib.sha256()
    for folder, names, files in os.walk(path):
        names.sort()
        for name in sorted(files):
            with open(os.path.join(folder, name), "rb") as file:
                digest.update(name.encode() + b"\0" + hashlib.sha256(file.read()).digest())
    return digest.hexdigest()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
